"""Kernels whose dot products read data with signs give the numbers of the convolution, on any processor."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tvm import relax

import relay_layout
from relay_layout.lower.integers import lower_integers
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


@pytest.mark.parametrize(
    ("most", "halves", "found"), [(64, True, True), (65, True, False), (64, False, False)]
)
def test_weights_whose_products_fit_16_bits_in_pairs(most: int, halves: bool, found: bool) -> None:
    """Looked for where words are taken apart into halves, which that saves."""
    weight = np.full((1, 1, 8, 16), most, "int8")
    builder = relax.BlockBuilder()
    data = relax.Var("data", relax.TensorType((1, 5, 5, 8), "uint8"))
    with builder.function("main", [data]):
        with builder.dataflow():
            options = {"data_layout": "NHWC", "kernel_layout": "HWIO", "out_dtype": "int32"}
            result = builder.emit_output(relax.op.nn.conv2d(data, relax.const(weight), **options))
        builder.emit_func_output(result)
    text = lower_integers(builder.finalize(), halves_words=halves).script()
    assert "topi_ext.dot" in text
    assert ("topi_ext.dot_of_fitting_pairs" in text) == found
