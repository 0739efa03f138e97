"""Kernels whose dot products read data with signs give the numbers of the convolution, on any processor."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import relay_layout
from relay_layout.targets import resolve_target
from tests.board.networks import integers_module, random_convolution

SEEDS = range(12)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW8c"])
def test_data_are_shifted_and_sums_brought_back(tmp_path: Path, layout: str) -> None:
    module, inputs, expected = integers_module(SEEDS)
    target = resolve_target("native", threads=1, shipped_records=False)
    kernels = target.kernels
    signed = replace(kernels, processor=replace(kernels.processor, signed_words=True))
    path = tmp_path / "integers.rla"
    compiled = relay_layout.compile(module, target=replace(target, kernels=signed), desired_layout=layout)
    compiled.save(path)
    outputs = relay_layout.load(path).run(inputs)
    for seed, found, wanted in zip(SEEDS, outputs.values(), expected, strict=True):
        np.testing.assert_array_equal(
            found, wanted, f"random_convolution({seed}) = {random_convolution(seed)}"
        )
