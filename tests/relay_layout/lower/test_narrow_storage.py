"""Networks in bfloat16: what is stored and multiplied in it, and how far their numbers are from float32."""

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tvm
from tvm import relax

import relay_layout
from relay_layout import models
from relay_layout.environment.host import cpu_features
from relay_layout.errors import TargetError
from relay_layout.lower.legalize.convolutions import stored_weight
from relay_layout.lower.narrow_storage import narrow_intermediates
from relay_layout.targets import resolve_target
from relay_layout.targets.matrix_products import product_workload
from tests.legalizing import legalized
from tests.relax_modules import main_of
from topi_ext.compute.boxes import suppress_every_class

TARGET = {
    "kind": "llvm",
    "mtriple": "x86_64-linux-gnu",
    "mcpu": "sapphirerapids",
    "num-cores": 2,
}
VECTORS = {**TARGET, "mcpu": "znver4"}
"""What has no registers of matrices."""

RUNNABLE = {
    "matrices": (TARGET, {"amx_bf16"}),
    "vectors": (VECTORS, {"avx512bf16"}),
}
"""Targets and what a machine needs to run their code."""


def network() -> models.Network:
    """A residual block, a depthwise convolution, pooling and a classifier whose outputs fill no vector."""
    builder = models.NetworkBuilder("small")
    image = builder.input("input", (1, 3, 40, 40))
    first = builder.relu(builder.convolution(image, "first", 32, 3, strides=2, padding=1, bias=True), "r0")
    second = builder.relu(builder.convolution(first, "second", 32, 3, padding=1, bias=True), "r1")
    joined = builder.add(first, second, "joined")
    depthwise = builder.convolution(joined, "depthwise", 32, 3, padding=1, groups=32, bias=True)
    wide = builder.convolution(builder.relu(depthwise, "r2"), "wide", 96, 1, bias=True)
    pooled = builder.flatten(builder.global_average_pool(wide, "pooled"), "flat")
    return builder.build({"output": builder.dense(pooled, "classifier", 100)})


@pytest.mark.parametrize(("target", "first"), [(TARGET, "float32"), (VECTORS, "bfloat16")])
def test_convolutions_multiply_bfloat16(target: dict[str, Any], first: str, tmp_path: Path) -> None:
    """Vectors also those of the first layer, along rows of its window."""
    report = tmp_path / "report.json"
    relay_layout.compile(
        models.to_relax(network()), target=target, precision="bf16", shipped_records=False, report=report
    )
    (found,) = json.loads(report.read_text())["targets"]
    workloads = [call["workload"] for call in found["calls"] if "groups" in (call["workload"] or {})]
    multiplied = [(each["in_channels"], each["groups"], each["dtype"]) for each in workloads]
    assert multiplied == [
        (3, 1, first),
        (32, 1, "bfloat16"),
        (32, 32, "float32"),
        (32, 1, "bfloat16"),
        (96, 1, "bfloat16"),
    ]


def test_weights_are_stored_as_bits_of_bfloat16() -> None:
    target = resolve_target("znver4", precision="bf16", shipped_records=False)
    form = target.kernel_form(product_workload((1, 8), 20, "float32"))
    weight = np.random.default_rng(0).standard_normal((20, 8, 1, 1)).astype("float32")
    stored = stored_weight(weight, form)
    assert (stored.shape, stored.dtype) == ((2, 4, 16, 2), np.dtype("uint16"))
    # Outputs by words of inputs; behind the last output zeros.
    values = stored.view(ml_dtypes.bfloat16).transpose(0, 2, 1, 3).reshape(32, 8)
    np.testing.assert_array_equal(values[:20], weight[:, :, 0, 0].astype(ml_dtypes.bfloat16))
    assert not values[20:].any()


@pytest.mark.parametrize("kind", RUNNABLE)
def test_results_are_those_of_float32_but_for_rounding(kind: str, tmp_path: Path) -> None:
    target, needed = RUNNABLE[kind]
    if not needed <= (cpu_features() or set()):
        pytest.skip(f"this machine does not multiply bfloat16 by {kind}")
    image = np.random.default_rng(0).standard_normal((1, 3, 40, 40)).astype("float32")
    results = []
    for precision in ("bf16", "fp32"):
        path = tmp_path / f"{precision}.rla"
        relay_layout.compile(
            models.to_relax(network()), target=target, precision=precision, shipped_records=False
        ).save(path)
        (found,) = relay_layout.load(path).run({"input": image}).values()
        results.append(found)
    narrow, expected = results
    assert narrow.dtype == np.dtype("float32")
    error = np.abs(narrow - expected).max() / np.abs(expected).max()
    # Numbers have 8 bits of mantissa: equal ones were not rounded at all.
    assert 1e-5 < error < 2e-2


def sequence() -> tvm.IRModule:
    """Two 1-D convolutions of 32 channels."""
    rng = np.random.default_rng(0)
    data = relax.Var("input", relax.TensorType((1, 32, 45), "float32"))
    with main_of(data) as builder:
        value: relax.Expr = data
        for _ in range(2):
            weight = rng.standard_normal((32, 32, 3)).astype("float32") / 10
            value = builder.emit(relax.op.nn.conv1d(value, relax.const(weight), padding=1))
        builder.result = value
    return builder.finalize()


@pytest.mark.parametrize("kind", RUNNABLE)
def test_sequences_multiply_bfloat16(kind: str, tmp_path: Path) -> None:
    target, needed = RUNNABLE[kind]
    report, path = tmp_path / "report.json", tmp_path / "network.rla"
    layout: dict[str, Any] = {"desired_layout": "NWC", "shipped_records": False}
    compiled = relay_layout.compile(sequence(), target=target, precision="bf16", report=report, **layout)
    (found,) = json.loads(report.read_text())["targets"]
    workloads = [call["workload"] for call in found["calls"] if "groups" in (call["workload"] or {})]
    assert [each["dtype"] for each in workloads] == ["bfloat16"] * 2
    if not needed <= (cpu_features() or set()):
        pytest.skip(f"this machine does not multiply bfloat16 by {kind}")
    data = np.random.default_rng(1).standard_normal((1, 32, 45)).astype("float32")
    compiled.save(path)
    (narrow,) = relay_layout.load(path).run({"input": data}).values()
    relay_layout.compile(sequence(), target=target, **layout).save(path)
    (expected,) = relay_layout.load(path).run({"input": data}).values()
    assert 1e-5 < np.abs(narrow - expected).max() / np.abs(expected).max() < 2e-2


def test_an_input_that_is_read_in_another_order_stays_float32() -> None:
    """One channel lies in memory alike in both layouts, so that the input is only looked at otherwise."""
    builder = models.NetworkBuilder("view")
    image = builder.input("input", (2, 1, 9, 8))
    network = builder.build({"output": builder.convolution(image, "conv", 16, 3, padding=1)})
    compiled = relay_layout.compile(
        models.to_relax(network), target=VECTORS, precision="bf16", desired_layout="NHWC"
    )
    assert [spec.dtype for spec in compiled.manifest.inputs] == ["float32"]


def test_of_several_targets_those_without_it_compute_in_float32() -> None:
    older = {**TARGET, "mcpu": "x86-64-v3"}
    network = models.NetworkBuilder("tiny")
    image = network.input("input", (1, 16, 4, 4))
    module = models.to_relax(network.build({"output": network.convolution(image, "conv", 16, 1)}))
    found = relay_layout.compile(module, target=["x86-64-v3", "sapphirerapids"], precision="bf16")
    assert [build.target["precision"] for build in found.manifest.builds] == ["fp32", "bf16"]
    with pytest.raises(TargetError, match="precision bf16 needs a processor that multiplies bfloat16"):
        relay_layout.compile(module, target=[older], precision="bf16")


def test_what_statements_read_stays_float32() -> None:
    """Boxes are compared as float32: there is no telling what a rounded pixel means."""
    shapes = {"boxes": (1, 9, 4), "scores": (1, 2, 9)}
    data = [relax.Var(name, relax.TensorType(shape, "float32")) for name, shape in shapes.items()]
    scalars = [relax.const(5, "int64"), relax.const(0.5, "float32"), relax.const(0.0, "float32")]
    with main_of(*data) as builder:
        doubled = [builder.emit(relax.op.add(one, one)) for one in data]
        found = builder.emit(builder.call_te(suppress_every_class, *doubled, *scalars))
        number = builder.emit(relax.TupleGetItem(found, 1))
        again = builder.emit(relax.op.exp(builder.emit(relax.op.multiply(data[0], data[0]))))
        builder.result = relax.Tuple([number, again])
    module = narrow_intermediates(relax.transform.LegalizeOps()(builder.finalize()), "float16")
    bindings = [binding for block in module["main"].body.blocks for binding in block.bindings]
    kinds = [
        str(binding.var.ty.dtype) for binding in bindings if isinstance(binding.var.ty, relax.TensorType)
    ]
    assert kinds == ["float32", "float32", "int64", "float16", "float32"]


def test_coordinates_stay_float32() -> None:
    """Where to sample an image, of 56 columns by thousandths: halves of them are tenths of a pixel off."""
    image = relax.Var("image", relax.TensorType((1, 16, 56, 56), "float32"))
    offset = relax.Var("offset", relax.TensorType((1, 56, 2, 56), "float32"))
    with main_of(image, offset) as builder:
        grid = builder.emit(relax.op.permute_dims(offset, [0, 2, 1, 3]))
        doubled = builder.emit(relax.op.multiply(image, image))
        sampled = builder.emit(relax.op.image.grid_sample(doubled, grid))
        builder.result = relax.op.exp(sampled)
    lowered = legalized(builder.finalize())
    module = narrow_intermediates(lowered, "float16")
    bindings = [binding for block in module["main"].body.blocks for binding in block.bindings]
    # The grid, then the image, its pixels, what is sampled, and that with channels first.
    assert [str(binding.var.ty.dtype) for binding in bindings] == ["float32", *["float16"] * 4, "float32"]


@pytest.mark.parametrize("batch", [1, "n"])
def test_views_of_constants_stay_as_they_are(batch: Any) -> None:
    """Scales of an instance norm are reshaped; the images are narrow."""
    extent = tvm.tirx.Var(batch, "int64") if isinstance(batch, str) else batch
    image = relax.Var("x", relax.TensorType((extent, 4, 8, 8), "float32"))
    scale, shift = (relax.const(np.arange(4, dtype="float32")) for _ in range(2))
    with main_of(image) as builder:
        norm = builder.emit(relax.op.nn.instance_norm(image, scale, shift, 1, [2, 3]))
        builder.result = relax.op.nn.relu(norm)
    compiled = relay_layout.compile(builder.finalize(), target=TARGET, precision="bf16")
    assert compiled.manifest.builds[0].target["precision"] == "bf16"
