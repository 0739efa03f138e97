"""Integer convolutions on emulated boards: ARM's instruction sets give the same numbers to the bit."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tests.board.networks import TARGET, integers_module, on_board, random_convolution, seeds_of_matrices
from tests.board.servers import Boards

SEEDS = range(16)
OF_MATRICES = sorted({*seeds_of_matrices(12, inputs=8), *range(4)})
"""Where the target multiplies matrices."""


IN_ORDER = "aarch64-cortex-a55"
TARGETS = ("aarch64-cortex-a72", TARGET, f"{TARGET}+i8mm", IN_ORDER)
QUICK = [("aarch64-cortex-a72", "NHWC"), (TARGET, "NHWC"), (f"{TARGET}+i8mm", "NHWC"), (IN_ORDER, "NCHW8c")]


@pytest.mark.parametrize(
    ("target", "layout"),
    [
        pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow)
        for case in product(TARGETS, ("NHWC", "NCHW8c"))
    ],
)
def test_random_convolutions(newest: Boards, tmp_path: Path, target: str, layout: str) -> None:
    seeds = OF_MATRICES if target.endswith("+i8mm") else SEEDS
    module, inputs, expected = integers_module(seeds)
    outputs = on_board(module, layout, inputs, newest.remote, tmp_path, target)
    for seed, found, wanted in zip(seeds, outputs.values(), expected, strict=True):
        np.testing.assert_array_equal(
            found, wanted, f"random_convolution({seed}) = {random_convolution(seed)}"
        )
