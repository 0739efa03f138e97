"""Tensor intrinsics: what they cost, and where mma.sync keeps its elements."""

import subprocess
import sys
from itertools import product

import numpy as np
import pytest
from gpu_instructions import fragment_places

from topi_ext.cuda.codegen.intrinsics import intrinsics
from topi_ext.cuda.multiplication import (
    MULTIPLICATIONS,
    extents,
    lane_of,
    multiplication,
    right_lane_of,
    sum_map,
)
from topi_ext.errors import CudaError

PROGRAM = """
import sys
import relay_layout.compiler
from topi_ext.cuda.codegen.intrinsics import intrinsics
for kind in (("wmma", "float16"), ("mma", "float16"), ("mma", "tf32"), ("mma", "uint8")):
    intrinsics(*kind)
print('tvm.s_tir.tensor_intrin' in sys.modules)
"""


def test_nothing_asks_for_tvms_intrinsics() -> None:
    """TVM parses them for half a minute on import."""
    program = PROGRAM
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout == "False\n"


@pytest.mark.parametrize(
    ("row", "column", "lane", "place"),
    [(0, 0, 0, 0), (0, 1, 0, 1), (0, 2, 1, 0), (1, 0, 4, 0), (7, 7, 31, 1), (8, 0, 0, 2), (0, 8, 0, 4)],
)
def test_lanes_are_those_of_the_instruction(row: int, column: int, lane: int, place: int) -> None:
    assert lane_of(row, column) == (lane, place)


def test_every_element_has_a_place_of_its_own() -> None:
    places = {lane_of(row, column) for row in range(16) for column in range(16)}
    assert places == {(lane, place) for lane in range(32) for place in range(8)}


@pytest.mark.parametrize("dtype", MULTIPLICATIONS)
def test_operands_fill_their_lanes(dtype: str) -> None:
    kind = multiplication(dtype)
    everything = {(lane, place) for lane in range(32) for place in range(kind.owned)}
    for place_of in (lane_of, right_lane_of):
        places = {place_of(row, k, kind.run) for row in range(16) for k in range(kind.depth)}
        assert places == everything


@pytest.mark.parametrize(
    ("dtype", "row", "k", "left", "right"),
    [
        # PTX ISA: a0 to a3 of m16n8k8 are (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4); b0, b1 (t, g), (t +
        # 4, g).
        ("tf32", 9, 2, (6, 1), (6, 2)),
        ("tf32", 1, 6, (6, 2), (6, 1)),
        # Those of m16n8k32 hold four bytes in a row: the columns are 4 t and 4 t + 16.
        ("uint8", 9, 9, (6, 5), (6, 9)),
        ("int8", 1, 25, (6, 9), (6, 5)),
        ("float16", 9, 5, (6, 3), (6, 5)),
        ("float16", 1, 13, (6, 5), (6, 3)),
    ],
)
def test_elements_are_where_the_instruction_wants_them(
    dtype: str, row: int, k: int, left: tuple[int, int], right: tuple[int, int]
) -> None:
    run = multiplication(dtype).run
    assert lane_of(row, k, run) == left
    assert right_lane_of(row, k, run) == right


@pytest.mark.parametrize("dtype", [dtype for dtype, kind in MULTIPLICATIONS.items() if kind.older_shape])
def test_smaller_instructions_take_the_registers_of_a_larger_one(dtype: str) -> None:
    """By the tables of both: each of the larger one's products is in one of the smaller, none twice."""
    kind = multiplication(dtype)
    rows, columns, depth = extents(kind.older_shape)
    larger = fragment_places(extents(kind.shape), kind.bytes)
    smaller = fragment_places((rows, columns, depth), kind.bytes)
    down, deep = 16 // rows, kind.depth // depth
    for step, below in product(range(deep), range(down)):
        corners = (below * rows, step * depth), (step * depth, 0), (below * rows, 0)
        pieces = step * down + below, step, below
        for whole, part, corner, piece in zip(larger, smaller, corners, pieces, strict=True):
            owned = part[0].shape[1]
            for places, own, begin in zip(whole, part, corner, strict=True):
                own_places = places[:, piece * owned : (piece + 1) * owned]
                np.testing.assert_array_equal(own_places, own + begin)


def test_instructions_are_those_of_the_architecture() -> None:
    shapes = {
        dtype: [kind.shape_on(arch) for arch in (70, 75, 80, 90)] for dtype, kind in MULTIPLICATIONS.items()
    }
    assert shapes == {
        "float16": ["", "m16n8k8", "m16n8k16", "m16n8k16"],
        "tf32": ["", "", "m16n8k8", "m16n8k8"],
        "uint8": ["", "m8n8k16", "m16n8k32", "m16n8k32"],
        "int8": ["", "m8n8k16", "m16n8k32", "m16n8k32"],
    }


def test_sums_are_pieces_of_two_instructions() -> None:
    assert sum_map(0, 17, 34) == (0, 1, 2, 5, 0)


def test_what_tensor_cores_do_not_multiply_is_refused() -> None:
    with pytest.raises(CudaError, match=r"^tensor cores do not multiply float32; use one of float16, tf32, "):
        intrinsics("mma", "float32")
