"""Kernels whose dot products read data with signs give the numbers of the convolution, on any processor."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tvm import relax
from tvm.target import Target

import relay_layout
from relay_layout.lower.integers import lower_integers
from relay_layout.targets import require_cpu, resolve_target
from tests.board.networks import integers_module, random_convolution

SEEDS = range(12)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW8c"])
def test_data_are_shifted_and_sums_brought_back(tmp_path: Path, layout: str) -> None:
    module, inputs, expected = integers_module(SEEDS)
    target = require_cpu(resolve_target("native", threads=1, shipped_records=False))
    processor = replace(target.processor, signed_words=True)
    signed = replace(target, processor=processor, kernels=replace(target.kernels, processor=processor))
    path = tmp_path / "integers.rla"
    compiled = relay_layout.compile(module, target=signed, desired_layout=layout)
    compiled.save(path)
    outputs = relay_layout.load(path).run(inputs)
    for seed, found, wanted in zip(SEEDS, outputs.values(), expected, strict=True):
        np.testing.assert_array_equal(
            found, wanted, f"random_convolution({seed}) = {random_convolution(seed)}"
        )


@pytest.mark.parametrize(
    ("cpu", "most", "found"),
    [
        ("x86-64-v3", 64, "dot_of_fitting_pairs"),
        ("x86-64-v3", 65, "int16"),
        ("znver4", 64, "topi_ext.dot"),
        ("x86-64", 64, "int16"),
    ],
)
def test_weights_whose_products_fit_16_bits_in_pairs(cpu: str, most: int, found: str) -> None:
    """They stay bytes where an instruction adds such pairs; others are widened without one for words."""
    weight = np.full((1, 1, 8, 16), most, "int8")
    builder = relax.BlockBuilder()
    data = relax.Var("data", relax.TensorType((1, 5, 5, 8), "uint8"))
    with builder.function("main", [data]):
        with builder.dataflow():
            options = {"data_layout": "NHWC", "kernel_layout": "HWIO", "out_dtype": "int32"}
            result = builder.emit_output(relax.op.nn.conv2d(data, relax.const(weight), **options))
        builder.emit_func_output(result)
    target = require_cpu(resolve_target(Target({"kind": "llvm", "mcpu": cpu}), threads=1))
    text = lower_integers(builder.finalize(), target).script()
    assert "topi_ext.dot" in text
    assert found in text
    kinds = ("dot_of_fitting_pairs", "int16")
    assert [kind in text for kind in kinds] == [kind == found for kind in kinds]
