"""Tensor intrinsics: what importing them costs, and where mma.sync keeps its elements."""

import subprocess
import sys

import pytest

from topi_ext.cuda.intrinsics import lane_of


def test_compilers_start_without_tvms_intrinsics() -> None:
    """TVM parses them for half a minute on import: only kernels on tensor cores may ask for them."""
    program = "import sys, relay_layout.compiler; print('tvm.s_tir.tensor_intrin' in sys.modules)"
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
