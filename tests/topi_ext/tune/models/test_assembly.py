"""Loops of AArch64 assembly, found in fixed texts."""

import pytest

from topi_ext.tune.models.assembly import Loop, hot_loop, innermost_loops

NEST = """
main:
	stp	x29, x30, [sp, #-16]!
	movi	v0.2d, #0000000000000000
.LBB0_1:                                // =>This Loop Header: Depth=1
	mov	x8, xzr
.LBB0_2:                                // =>  This Inner Loop Header: Depth=2
	ldp	q4, q5, [x1], #32
	ldr	s6, [x2, x8]                    // 4-byte Folded Reload
	fmla	v0.4s, v4.4s, v6.s[0]
	fmla	v1.4s, v5.4s, v6.s[0]
	add	x8, x8, #4
	cmp	x8, #64
	b.ne	.LBB0_2
	subs	w9, w9, #1
	b.ne	.LBB0_1
	cbz	w3, .LBB0_4
.LBB0_3:
	ldr	q2, [sp, #32]
	fmul	v3.4s, v2.4s, v2.4s
	fmla	v3.4s, v2.4s, v4.4s
	fmla	v3.4s, v2.4s, v5.4s
	fmla	v3.4s, v2.4s, v6.4s
	stp	q3, q2, [x4], #32
	str	q3, [sp, #48]
	cbnz	w5, .LBB0_3
.LBB0_4:
	ret
"""


def test_only_loops_without_a_loop_in_them() -> None:
    assert [loop.label for loop in innermost_loops(NEST)] == [".LBB0_2", ".LBB0_3"]


def test_instructions_without_labels_and_comments() -> None:
    first = innermost_loops(NEST)[0]
    assert first.instructions[1] == "ldr\ts6, [x2, x8]"
    assert len(first.instructions) == 7


def test_what_is_in_a_loop() -> None:
    products, other = innermost_loops(NEST)
    assert (products.multiply_adds, products.lane_indexed, products.accumulating) == (2, 2, 2)
    assert (products.loads, products.spills) == (2, 0)
    assert (products.vector_operations, other.vector_operations) == (2, 4)
    assert (other.multiply_adds, other.lane_indexed, other.accumulating) == (3, 0, 0)
    assert (other.loads, other.spills, other.vector_stores) == (1, 2, 2)


def test_products_of_bytes_multiply_and_their_sums_accumulate() -> None:
    (loop,) = innermost_loops("""
.LBB0_1:
	ld1r	{ v2.4h }, [x0]
	smull	v1.8h, v2.8b, v3.8b
	smlal	v1.8h, v4.8b, v5.8b
	sadalp	v0.4s, v1.8h
	b.ne	.LBB0_1
""")
    assert (loop.multiply_adds, loop.accumulating, loop.vector_operations) == (2, 1, 3)


@pytest.mark.parametrize(("prologue", "spills"), [("mov\tx29, sp", 1), ("add\tx29, sp, #16", 1), ("nop", 0)])
def test_the_register_of_the_frame_may_hold_anything_else(prologue: str, spills: int) -> None:
    text = f"""
first:
	mov	x29, sp
	ret
second:
	{prologue}
.LBB1_1:
	ldr	q1, [x29, #16]
	fmla	v0.4s, v1.4s, v2.s[0]
	b.ne	.LBB1_1
"""
    (loop,) = innermost_loops(text)
    assert loop.spills == spills


@pytest.mark.parametrize(
    ("use", "store", "starts"),
    [
        ("fmla v1.4s, v2.4s, v3.4s", "str q1, [x0]", 1),
        ("fmla v2.4s, v1.4s, v3.4s", "str q1, [x0]", 0),
        ("fmla v1.4s, v1.4s, v3.4s", "str q1, [x0]", 0),
        ("fmax v1.4s, v1.4s, v3.4s", "str q1, [x0]", 0),
        ("fmla v1.4s, v2.4s, v3.4s", "str q1, [sp, #32]", 0),
    ],
    ids=["a sum", "a factor", "both", "no product", "stored again"],
)
def test_what_a_sum_starts_from_is_no_spill(use: str, store: str, starts: int) -> None:
    loop = Loop("loop", ("ldr q1, [sp, #32]", "ldr q2, [x1]", use, "fmla v1.4s, v2.4s, v3.4s", store))
    assert loop.starts == starts
    assert loop.spills == (1 - starts) + ("sp" in store)


def test_sums_of_many_iterations_come_before_more_multiply_adds() -> None:
    hot = hot_loop(NEST)
    assert hot is not None and hot.label == ".LBB0_2"


def test_a_loop_that_branches_forward_is_one_loop() -> None:
    text = ".LBB0_1:\n\tcbz x3, .LBB0_2\n\tfmla v0.4s, v1.4s, v2.s[1]\n.LBB0_2:\n\tb.ne .LBB0_1\n\tret\n"
    (loop,) = innermost_loops(text)
    assert loop.instructions == ("cbz x3, .LBB0_2", "fmla v0.4s, v1.4s, v2.s[1]", "b.ne .LBB0_1")


@pytest.mark.parametrize("text", ["", "main:\n\tret\n", ".LBB0_1:\n\tadd x1, x1, #1\n\tb .LBB0_1\n"])
def test_no_loop_multiplies(text: str) -> None:
    assert hot_loop(text) is None


@pytest.mark.parametrize(
    ("instruction", "spills"),
    [
        ("ldr q0, [sp, #16]", 1),
        ("stur x8, [x29, #-24]", 1),
        ("ldp q0, q1, [sp]", 1),
        ("ldr q0, [x0, #16]", 0),
        ("add x8, sp, #16", 0),
    ],
)
def test_a_spill_is_a_load_or_store_of_the_stack_frame(instruction: str, spills: int) -> None:
    assert Loop("loop", (instruction,)).spills == spills
