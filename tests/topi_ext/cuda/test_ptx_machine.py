"""The machine that runs PTX: programs of a few lines, and what it refuses."""

import numpy as np
import pytest
from gpu_memory import SimulationError
from ptx_machine import ORDERS, Launch, Order, Program
from ptx_module import parse_kernels

LATE, EARLY = ORDERS


def module(body: str, parameters: int = 1, shared: int = 0) -> str:
    words = ", ".join(f".param .u64 p{place}" for place in range(parameters))
    array = f".shared .align 16 .b8 tile[{shared}];" if shared else ""
    loads = "\n".join(f"ld.param.u64 %rd{place}, [p{place}];" for place in range(parameters))
    return f"""
.version 8.0
.target sm_80
.visible .entry k({words})
{{
 .reg .pred %p<9>; .reg .b16 %rs<9>; .reg .f32 %f<9>; .reg .b32 %r<30>; .reg .b64 %rd<30>;
 {array}
 {loads}
 mov.u32 %r0, %tid.x;
 mul.wide.u32 %rd9, %r0, 4;
 add.s64 %rd8, %rd0, %rd9; // where the thread's result is
 {body}
 ret;
}}
"""


def launched(text: str, *arrays: np.ndarray, threads: int = 32, order: Order = LATE) -> np.ndarray:
    (kernel,) = parse_kernels(text).values()
    Launch(Program(kernel), list(arrays), (1, 1, 1), (threads, 1, 1), 0, order).run()
    return arrays[0]


def result(
    body: str, *arrays: np.ndarray, threads: int = 32, order: Order = LATE, shared: int = 0
) -> np.ndarray:
    """What each thread leaves in %r1."""
    out = np.full(threads, 0xDEAD, np.uint32)
    text = module(f"{body}\nst.global.u32 [%rd8], %r1;", 1 + len(arrays), shared)
    return launched(text, out, *arrays, threads=threads, order=order)


THREAD = np.arange(32)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("add.s32 %r1, %r0, 3;", THREAD + 3),
        ("mad.lo.s32 %r1, %r0, %r0, -1;", (THREAD**2 - 1).astype(np.uint32)),
        ("mul.hi.s32 %r1, %r0, 1431655766;", THREAD // 3),
        ("sub.s32 %r2, 5, %r0; shr.s32 %r1, %r2, 40;", np.where(THREAD > 5, 0xFFFFFFFF, 0)),
        ("shl.b32 %r1, %r0, 32;", 0 * THREAD),
        ("prmt.b32 %r1, %r0, 0x01020304, 0x7604;", 0x01020004 | THREAD << 8 | 0 * THREAD),
        ("bfi.b32 %r1, %r0, 0xFF, 4, 8;", 0xF | (THREAD << 4)),
        ("mov.b32 %r2, 0x01FF0203; dp4a.s32.u32 %r1, %r2, %r0, 7;", 3 * THREAD + 7),
        ("mov.b32 %r2, 0xFFFE0003; dp2a.lo.s32.u32 %r1, %r2, %r0, 7;", 3 * THREAD + 7),
        ("mov.b32 %r2, 0xFFFE0003; dp2a.hi.s32.s32 %r1, %r2, 0xFF020000, %r0;", THREAD + 8),
        ("setp.lt.u32 %p1|%p2, %r0, 9; selp.u32 %r1, 1, 2, %p2;", np.where(THREAD < 9, 2, 1)),
        ("cvt.rn.f32.u32 %f1, %r0; fma.rn.f32 %f2, %f1, 0f3F000000, 0f3F000000; cvt.rni.s32.f32 %r1, %f2;",
         np.rint(THREAD / 2 + 0.5)),
        ("mov.f32 %f1, 0fBF800000; cvt.rzi.u32.f32 %r1, %f1;", 0 * THREAD),
        ("mov.b32 %f1, 0x3F801000; cvt.rna.tf32.f32 %r1, %f1;", 0 * THREAD + 0x3F802000),
        ("shfl.sync.down.b32 %r1|%p1, %r0, 4, 31, -1;", np.where(THREAD < 28, THREAD + 4, THREAD)),
        ("shfl.sync.bfly.b32 %r1, %r0, 3, 31, -1;", THREAD ^ 3),
        ("mov.b32 %r1, 0; setp.lt.u32 %p1, %r0, 2; @%p1 shfl.sync.down.b32 %r1, %r0, 1, 31, 3;",
         np.where(THREAD == 0, 1, np.where(THREAD == 1, 0xFFFFFFFF, 0))),
        ("shfl.sync.idx.b32 %r1, %r0, 2, 0x181F, -1;", THREAD // 8 * 8 + 2),
        ("{ .reg .b32 a; mov.b32 a, 5; { .reg .b32 a; mov.b32 a, 6; } mov.b32 %r1, a; }", 0 * THREAD + 5),
    ],
)  # fmt: skip
def test_arithmetic(body: str, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(result(body), expected.astype(np.uint32))


def test_a_loop_of_as_many_turns_as_the_thread() -> None:
    body = """
 mov.u32 %r1, 0;
 mov.u32 %r2, 0;
LOOP:
 setp.ge.u32 %p1, %r2, %r0;
 @%p1 bra DONE;
 add.u32 %r1, %r1, %r2;
 add.u32 %r2, %r2, 1;
 bra LOOP;
DONE:"""
    np.testing.assert_array_equal(result(body), THREAD * (THREAD - 1) // 2)


def test_lanes_that_part_meet_where_a_block_printed_last_comes_back() -> None:
    body = """
 setp.lt.u32 %p1, %r0, 9;
 @%p1 bra BEHIND;
 mov.u32 %r2, 1;
MEET:
 bar.sync 0;
 shfl.sync.idx.b32 %r1, %r2, 8, 31, -1;
 st.global.u32 [%rd8], %r1;
 ret;
BEHIND:
 mov.u32 %r2, 7;
 bra MEET;"""
    np.testing.assert_array_equal(result(body), 7)


REVERSED = """
 mov.u32 %r3, tile;
 shl.b32 %r4, %r0, 2;
 add.u32 %r5, %r3, %r4;
 st.shared.u32 [%r5], %r0;
 {barrier}
 sub.u32 %r6, %r3, %r4;
 ld.shared.u32 %r1, [%r6+252];"""


@pytest.mark.parametrize("order", ORDERS)
def test_a_barrier_lets_warps_see_what_others_wrote(order: Order) -> None:
    found = result(REVERSED.format(barrier="bar.sync 0;"), threads=64, order=order, shared=256)
    np.testing.assert_array_equal(found, np.arange(64)[::-1])


@pytest.mark.parametrize("order", ORDERS)
def test_warps_that_meet_without_a_barrier_are_refused(order: Order) -> None:
    with pytest.raises(SimulationError, match=r"writes what thread \d+ read, without a barrier"):
        result(REVERSED.format(barrier=""), threads=64, order=order, shared=256)


@pytest.mark.parametrize("barrier", ["", "bar.warp.sync -1;"])
def test_lanes_of_a_warp_meet_behind_a_barrier_of_theirs(barrier: str) -> None:
    body = REVERSED.replace("+252", "+124").format(barrier=barrier)
    if barrier:
        np.testing.assert_array_equal(result(body, shared=128), THREAD[::-1])
        return
    with pytest.raises(SimulationError, match="reads what thread 31 wrote, without a barrier"):
        result(body, shared=128)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("ld.shared.u32 %r1, [tile+4]; st.shared.u32 [%r5], %r0;", "writes what other threads read"),
        ("bar.sync 0; ld.shared.u32 %r1, [%r5]; st.shared.u32 [%r5], %r0;", None),
        ("ld.shared.u32 %r1, [tile]; bar.sync 0; st.shared.u32 [%r5], %r0;", None),
        ("st.shared.u32 [tile], %r0;", "writes what another one writes"),
        ("st.global.u32 [%rd0], %r0;", "writes what another one writes"),
        ("st.global.u32 [%rd8], %r0; ld.global.u32 %r1, [%rd0+128];", "writes what other threads read"),
        ("st.shared.u16 [%r5+2], %rs1; st.shared.u16 [%r5], %rs1;", None),
    ],
)  # fmt: skip
def test_accesses_are_in_an_order(body: str, problem: str | None) -> None:
    prologue = "mov.u32 %r3, tile; mad.lo.u32 %r5, %r0, 4, %r3; mov.u32 %r1, 0; mov.b16 %rs1, 5;"
    if problem is None:
        result(prologue + body, threads=64, shared=256)
        return
    with pytest.raises(SimulationError, match=f"{problem}, without a barrier$"):
        result(prologue + body, threads=64, shared=256)


def test_a_vector_may_end_where_an_array_of_its_alignment_would() -> None:
    body = "mov.b32 %r2, 0; st.shared.u32 [tile+16], %r2; ld.shared.v4.u32 {%r1, %r3, %r4, %r5}, [tile+16];"
    np.testing.assert_array_equal(result(body, threads=1, shared=20), 0)
    with pytest.raises(SimulationError, match="shared memory of 32 bytes: access at 32"):
        result(body.replace("+16", "+32"), threads=1, shared=20)


COPY = """
 add.s64 %rd7, %rd1, %rd9;
 mov.u32 %r3, tile;
 mad.lo.u32 %r3, %r0, 4, %r3;
 cp.async.ca.shared.global [%r3], [%rd7], 4;
 cp.async.commit_group;
 cp.async.ca.shared.global [%r3+128], [%rd7+128], 4;
 cp.async.commit_group;
 cp.async.wait_group {count};
 ld.shared.u32 %r1, [%r3+{offset}];"""


@pytest.mark.parametrize(
    ("count", "offset", "arrives"), [(1, 0, True), (1, 128, False), (0, 128, True), (2, 0, False)]
)
def test_copies_arrive_when_they_are_waited_for(count: int, offset: int, arrives: bool) -> None:
    data = np.arange(100, 164, dtype=np.uint32)
    body, expected = COPY.format(count=count, offset=offset), data[offset // 4 : offset // 4 + 32]
    np.testing.assert_array_equal(result(body, data, shared=256, order=EARLY), expected)
    if arrives:
        np.testing.assert_array_equal(result(body, data, shared=256), expected)
        return
    with pytest.raises(SimulationError, match="reads what is being copied, without a barrier"):
        result(body, data, shared=256)


def test_copies_of_others_need_a_barrier_behind_the_wait() -> None:
    data, body = np.arange(100, 164, dtype=np.uint32), COPY.format(count=0, offset=0)
    other = body.replace("[%r3+0]", "[tile+4]")
    with pytest.raises(SimulationError, match="reads what thread 1 wrote, without a barrier"):
        result(other, data, shared=256)
    found = result(other.replace("ld.shared", "bar.sync 0; ld.shared"), data, shared=256)
    np.testing.assert_array_equal(found, 101)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("madc.lo.s32 %r1, %r0, 1, 2;", r"unknown instruction: madc\.lo\.s32 %r1, %r0, 1, 2"),
        ("add.sat.s32 %r1, %r0, 1;", r"unknown instruction: add\.sat\.s32 %r1, %r0, 1"),
        ("mov.u32 %r1, %clock;", "unknown special register %clock"),
        ("add.s64 %rd5, %r0, %rd6;", "%r0 has no value of type s64"),
        ("bra NOWHERE;", "no label NOWHERE: bra NOWHERE"),
        ("ld.global.u32 %r1, [%rd8+4];", "global memory: access of 4 bytes at 128 of p0, which has 128"),
        ("ld.global.u32 %r1, [%rd0+2];", r"global memory: 4 bytes at \d+ are not aligned"),
        ("mov.u32 %r2, tile; ld.shared.u32 %r1, [%r2+64];", "shared memory of 64 bytes: access at 64"),
        ("mov.u32 %r2, tile; ld.shared.v2.u32 {%r1, %r3}, [%r2+4];",
         "shared memory: 8 bytes at 4 are not aligned"),
        ("ld.global.nc.u32 %r1, [%rd8];", r"p0 is written and read by ld\.global\.nc"),
        ("setp.lt.u32 %p1, %r0, 9; @%p1 bra L; bar.sync 0; L: bar.sync 0;",
         r"not all lanes of a warp come to bar\.sync"),
        ("setp.lt.u32 %p1, %r0, 9; @%p1 shfl.sync.idx.b32 %r1, %r0, 0, 31, -1;",
         r"shfl\.sync without all the lanes that its mask names"),
        ("L: bra L;", "a loop without an end"),
        ("{ .reg .pred d; mov.u32 %r2, tile; mbarrier.try_wait.parity.shared::cta.b64 d, [%r2], 0; }",
         "a barrier is used before it is made"),
        ("{ .reg .pred d; mov.u32 %r2, tile; setp.eq.u32 %p1, %r0, 0;"
         " @%p1 mbarrier.init.shared::cta.b64 [%r2], 1;"
         " L: mbarrier.try_wait.parity.shared::cta.b64 d, [%r2], 0; @!d bra L; }",
         "threads wait for what never comes"),
        ("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3}, {%r4},"
         " {%f1, %f2, %f3, %f4};",
         r"not as many registers as mma\.sync\.aligned\.m16n8k8\.row\.col\.f32\.f16\.f16\.f32 takes"),
        ("mov.b32 %r2, 1; mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1, %f2, %f3, %f4},"
         " {%r2, %r2, %r2, %r2}, {%r2, %r2}, {%f1, %f2, %f3, %f4};",
         "a product takes a float32 that is not rounded to tf32"),
    ],
)  # fmt: skip
def test_what_is_undefined_or_unknown_is_refused(
    body: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ptx_machine._MOST_STEPS", 1000)
    with pytest.raises(SimulationError, match=f"^{problem}$"):
        result(body, shared=64)
