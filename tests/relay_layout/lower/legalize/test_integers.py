"""Kernels whose dot products read data with signs give the numbers of the convolution, on any processor."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import relax, tirx
from tvm.target import Target

import relay_layout
from relay_layout.lower.legalize.cpu_integers import lower_integers
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


def lowered(weight: np.ndarray, shape: tuple[int, ...], target: Any) -> str:
    """A convolution of bytes in NHWC by an HWIO weight, as kernels of a target."""
    builder = relax.BlockBuilder()
    data = relax.Var("data", relax.TensorType(shape, "uint8"))
    with builder.function("main", [data]):
        with builder.dataflow():
            options = {"data_layout": "NHWC", "kernel_layout": "HWIO", "out_dtype": "int32"}
            result = builder.emit_output(relax.op.nn.conv2d(data, relax.const(weight), **options))
        builder.emit_func_output(result)
    resolved = require_cpu(resolve_target(target, threads=1))
    return str(lower_integers(builder.finalize(), resolved).script())


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
    target = Target({"kind": "llvm", "mcpu": cpu})
    text = lowered(np.full((1, 1, 8, 16), most, "int8"), (1, 5, 5, 8), target)
    assert "topi_ext.dot" in text
    assert found in text
    kinds = ("dot_of_fitting_pairs", "int16")
    assert [kind in text for kind in kinds] == [kind == found for kind in kinds]


@pytest.mark.parametrize(
    ("target", "images", "expected"),
    [
        ("x86-64-v3", 64, True),
        ("aarch64-cortex-a53", 64, True),
        ("aarch64-cortex-a76", 64, False),
        ("znver4", 64, False),
        ("x86-64-v3", tirx.Var("extent", "int64"), True),
    ],
    ids=str,
)
def test_winograd_is_for_processors_without_dot_products(target: str, images: Any, expected: bool) -> None:
    weight = np.random.default_rng(0).integers(-20, 20, (3, 3, 64, 64)).astype("int8")
    assert ("conv2d_int8_winograd" in lowered(weight, (1, images, images, 64), target)) == expected
