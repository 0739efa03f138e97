"""Layouts that are the same memory, by the definition and by example."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from relay_layout.layout import Layout
from relay_layout.layout.transform import equivalent_memory
from tests.relay_layout.layout.layout_reference import Symbol, cases, numbered, place, quick


def same_buffer(src: Layout, dst: Layout, shape: Sequence[int], order: str) -> bool:
    """The definition: the same bytes, the padding being told from the elements."""
    first, second = (place(numbered(shape), order, layout).ravel() for layout in (src, dst))
    return np.array_equal(first, second)


@pytest.mark.parametrize(
    ("src", "dst", "shape", "expected"),
    [
        ("NHWC", "NCHW", (2, 48, 1, 1), True),
        ("NHWC", "NCHW16c", (2, 48, 1, 1), True),
        ("NCHW", "NCHW16c", (2, 48, 1, 1), True),
        ("NCHW", "NCHW16c", (2, 47, 1, 1), False),
        ("NHWC", "NCHW16c", (2, 16, 5, 7), True),
        ("NHWC", "NCHW16c", (2, 32, 5, 7), False),
        ("NCHW", "NHWC", (1, 3, 1, 5), False),
        ("NCHW", "NHWC", (9, 1, 3, 5), True),
        ("NCHW4c4c", "NCHW16c", (1, 5, 3, 5), True),
        ("NC[a=32]HW", "NCHW32c", (1, 3, 1, 1), True),
        ("NC[a=32]HW", "NCHW32c", (1, 3, 2, 1), False),
        ("NC[a=32]HW", "NC[a=16]HW", (1, 3, 1, 1), False),
        ("NC[a=32]HW", "NC[a=16]HW", (1, 20, 5, 5), True),
        ("NC[a=4]HW", "NCHW", (1, 8, 5, 5), True),
        ("N[a=4]CHW", "NC[a=16]HW", (1, 4, 1, 1), True),
        ("NCHW", "NHWC8c", (0, 3, 4, 5), True),
        ("NC1cHW", "NCHW", (2, 3, 4, 5), True),
        ("NCHW6c", "NCHW4c", (1, 12, 1, 1), True),
        ("NCHW6c", "NCHW4c", (1, 12, 2, 1), False),
        ("NCHW16c", "NCHW16c", (1, 3, 5, 5), True),
    ],
)
def test_equivalent_memory_by_example(src: str, dst: str, shape: tuple[int, ...], expected: bool) -> None:
    assert equivalent_memory(src, dst, shape, "NCHW") is expected
    assert equivalent_memory(dst, src, shape, "NCHW") is expected
    assert same_buffer(Layout.parse(src), Layout.parse(dst), shape, "NCHW") is expected


def test_equivalent_memory_agrees_with_the_definition_on_all_small_cases() -> None:
    texts = ["NC", "CN", "NC2c", "NC4c", "NC2c2c", "CN4c", "C2cN", "4cNC", "NC3c", "NC6c", "NC1c", "N2nC"]
    texts += ["N2nC2c", "NC[a=2]", "NC[a=4]", "N[a=2]C", "C[a=4]N", "C4cN[a=4]", "N2c2nC", "CN2n2c"]
    all_layouts = [Layout.parse(text) for text in texts]
    agreed = {True: 0, False: 0}
    for shape in itertools.product(range(6), (0, 1, 2, 3, 4, 6, 8, 12)):
        buffers = {layout: place(numbered(shape), "NC", layout).ravel() for layout in all_layouts}
        for src, dst in itertools.combinations_with_replacement(all_layouts, 2):
            expected = np.array_equal(buffers[src], buffers[dst])
            assert equivalent_memory(src, dst, shape, "NC") is expected, (src, dst, shape)
            agreed[expected] += 1
    assert min(agreed.values()) > 1000


@settings(quick, max_examples=300)
@given(cases(2, largest=8))
def test_equivalent_memory_agrees_with_the_definition(case: tuple[list[Layout], str, list[int]]) -> None:
    (src, dst), order, shape = case
    # Unit extents are where layouts coincide; the plain draw rarely has enough of them.
    shapes = [
        shape,
        *([1 if i != kept else extent for i, extent in enumerate(shape)] for kept in range(len(shape))),
    ]
    for extents in shapes:
        assert equivalent_memory(src, dst, extents, order) is same_buffer(src, dst, extents, order)
    assert equivalent_memory(src, src, shape, order)


@quick
@given(cases(2, smallest=1), st.data())
def test_equivalent_memory_of_symbolic_extents_holds_for_their_values(
    case: tuple[list[Layout], str, list[int]], data: st.DataObject
) -> None:
    (src, dst), order, shape = case
    free = [n for n in order if all(max(side.block(n), side.alignment(n)) == 1 for side in (src, dst))]
    assume(free)
    symbolic = [Symbol(name) if name in free else extent for name, extent in zip(order, shape, strict=True)]
    if equivalent_memory(src, dst, symbolic, order):
        values = [
            data.draw(st.integers(0, 5)) if name in free else e for name, e in zip(order, shape, strict=True)
        ]
        assert same_buffer(src, dst, values, order)


def test_equivalent_memory_of_a_symbolic_batch() -> None:
    assert equivalent_memory("NCHW", "NHWC", (Symbol("n"), 8, 1, 1), "NCHW")
    assert equivalent_memory("NCHW", "NHWC4c", (Symbol("n"), 8, 1, 1), "NCHW")
    assert not equivalent_memory("NCHW", "CNHW", (Symbol("n"), 8, 1, 1), "NCHW")
    assert equivalent_memory("NCHW", "CNHW", (Symbol("n"), 1, 2, Symbol("w")), "NCHW")
