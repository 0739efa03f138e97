"""Convolutions in bfloat16 on an emulated board that multiplies it."""

from pathlib import Path

import numpy as np
import pytest

from tests.board.networks import (
    TARGET,
    convolutions_by_definition,
    convolutions_module,
    on_board,
    random_convolution,
    seeds_of_matrices,
)
from tests.board.servers import Boards

SEEDS = sorted({*seeds_of_matrices(10, inputs=4), *range(6)})
TOLERANCE = 2e-2
"""Of the largest result; data and weights have 8 bits of mantissa."""

EXACT = 1e-5
"""What is closer to float32 was not rounded."""


@pytest.mark.parametrize("layout", ["NHWC", pytest.param("NCHW8c", marks=pytest.mark.slow)])
def test_random_convolutions(newest: Boards, tmp_path: Path, layout: str) -> None:
    module, inputs = convolutions_module(SEEDS)
    target = f"{TARGET}+bf16"
    outputs = list(on_board(module, layout, inputs, newest.remote, tmp_path, target, "bf16").values())
    errors = {}
    for seed, found, expected in zip(SEEDS, outputs, convolutions_by_definition(SEEDS, inputs), strict=True):
        errors[seed] = float(np.abs(found - expected).max() / max(1.0, np.abs(expected).max()))
        assert errors[seed] < TOLERANCE, f"random_convolution({seed}) = {random_convolution(seed)}"
    assert sum(error > EXACT for error in errors.values()) >= len(SEEDS) // 4, errors
