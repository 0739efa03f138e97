"""Operators between dequantize and quantize, beside ONNX Runtime's integer kernels."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qdq_graphs import QdqGraph, run_both, steps_apart
from tvm import relax

from relay_layout.artifact import check_runnable
from relay_layout.errors import ArtifactError
from relay_layout.frontend import from_onnx
from relay_layout.ir import bindings_of, dtype_of, operator_name
from relay_layout.quantization.conversion import to_integers
from relay_layout.targets import resolve_target
from tests.relax_modules import main_of

STEP = 0.05

# Image channels and extents, weight, attributes.
CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "3x3": ((2, 16, 9, 11), (32, 16, 3, 3), {"pads": [1, 1, 1, 1]}),
    "1x1": ((1, 32, 7, 5), (48, 32, 1, 1), {}),
    "1x1, stride 2": ((1, 32, 9, 9), (16, 32, 1, 1), {"strides": [2, 2]}),
    "dilated, uneven border": ((1, 16, 13, 12), (24, 16, 3, 3), {"dilations": [2, 2], "pads": [2, 1, 0, 3]}),
    "three channels, 7x7, stride 2": (
        (1, 3, 31, 30),
        (32, 3, 7, 7),
        {"strides": [2, 2], "pads": [3, 3, 3, 3]},
    ),
    "one channel, 5x5": ((1, 1, 12, 12), (20, 1, 5, 5), {"pads": [2, 2, 2, 2]}),
    "channels that divide nothing": ((1, 13, 8, 8), (11, 13, 3, 3), {"pads": [1, 1, 1, 1]}),
    "channels of words, not of blocks": ((1, 12, 8, 8), (20, 12, 3, 3), {"pads": [1, 0, 1, 0]}),
    "depthwise, stride 2": (
        (1, 32, 11, 11),
        (32, 1, 3, 3),
        {"strides": [2, 2], "pads": [1, 1, 1, 1], "group": 32},
    ),
    "depthwise, 7 channels": ((1, 7, 9, 9), (7, 1, 5, 5), {"pads": [2, 2, 2, 2], "group": 7}),
    "groups": ((1, 32, 8, 8), (64, 8, 3, 3), {"pads": [1, 1, 1, 1], "group": 4}),
    "groups of three channels": ((1, 12, 8, 8), (16, 3, 3, 3), {"group": 4}),
    "long sums": ((1, 70, 6, 6), (8, 70, 3, 3), {"pads": [1, 1, 1, 1]}),
}


@pytest.fixture(scope="module", params=["uint8 int8", "int8 int8", "uint8 uint8"])
def convolutions(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Ours and ONNX Runtime's results of all of them, compiled together; per channel for data of uint8.

    Weights of uint8 less their zero point are beyond int8.
    """
    activations, weights = request.param.split()
    graph = QdqGraph(activations)
    outputs = []
    for place, (image, weight, attributes) in enumerate(CONVOLUTIONS.values()):
        data = graph.input(f"x{place}", image)
        value = graph.convolution(
            data, weight, per_channel=activations == "uint8", dtype=weights, **attributes
        )
        outputs.append(graph.requantize(value, STEP))
    ours, reference, _ = run_both(graph.model(*outputs), tmp_path_factory.mktemp("convolutions"))
    return {name: pair for name, *pair in zip(CONVOLUTIONS, ours, reference, strict=True)}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_are_onnx_runtimes(convolutions: dict[str, Any], name: str) -> None:
    """To the last bit: one multiplication by the same number, and the same rounding."""
    ours, reference = convolutions[name]
    assert len(np.unique(reference)) > 40
    assert steps_apart(ours, reference, STEP) == (0.0, 0.0)


@pytest.mark.parametrize("groups", [1, 4, 16])
def test_weights_beyond_int8_are_multiplied_as_bytes(groups: int) -> None:
    """The rest multiplies sums of windows: of all channels, or where there are groups by a kernel of ones."""
    graph = QdqGraph()
    data = graph.input("x", (1, 16, 9, 9))
    value = graph.convolution(data, (16, 16 // groups, 3, 3), dtype="uint8", group=groups, pads=[1, 1, 1, 1])
    module = to_integers(from_onnx(graph.model(graph.requantize(value))))
    found = [
        [dtype_of(operand) for operand in binding.value.args]
        for binding in bindings_of(module["main"])
        if operator_name(binding.value) == "nn.conv2d"
    ]
    of_sums = ["int32", "int32"] if groups == 1 else ["uint8", "int8"]
    assert sorted(found) == sorted([["uint8", "int8"], of_sums])


def test_rows_by_a_matrix_beyond_int8(tmp_path: Path) -> None:
    graph = QdqGraph()
    data = graph.requantize(graph.node("Flatten", [graph.input("x", (3, 40, 1, 1))]), 0.02)
    product = graph.node("MatMul", [data, graph.weight((40, 24), axis=1, dtype="uint8")])
    (ours,), (reference,), report = run_both(graph.model(graph.requantize(product)), tmp_path)
    assert steps_apart(ours, reference, STEP) == (0.0, 0.0)
    assert _reads_floats_once(report)


@pytest.mark.parametrize("activations", ["uint8", "int8"])
@pytest.mark.parametrize("points", [(0, 0), (128, 128), (3, 128), (128, 9), (7, 200)])
def test_products_of_activations(activations: str, points: tuple[int, int], tmp_path: Path) -> None:
    """Sums of either operand are added where the other one has a zero point."""
    graph = QdqGraph(activations)
    less = 128 if activations == "int8" else 0
    left, right = (
        graph.input(name, shape, zero_point=point - less)
        for name, shape, point in zip("ab", [(2, 3, 9, 21), (3, 21, 18)], points, strict=True)
    )
    scaled = graph.node("MatMul", [left, right])
    model = graph.model(graph.requantize(scaled, STEP))
    (found,), (wanted,), _ = run_both(model, tmp_path)
    assert steps_apart(found, wanted, STEP) == (0.0, 0.0)
    assert len(np.unique(wanted)) > 20


@pytest.mark.parametrize("layout", ["none", "NHWC", "NCHW8c"])
def test_every_layout_gives_the_same_integers(tmp_path: Path, layout: str) -> None:
    """Scales and zero points follow the channels, also into blocks."""
    graph = QdqGraph()
    data = graph.input("x", (1, 8, 9, 9))
    first = graph.requantize(graph.convolution(data, (24, 8, 3, 3), pads=[1, 1, 1, 1]), STEP)
    wide = graph.requantize(
        graph.convolution(first, (24, 1, 3, 3), scale=STEP, pads=[1, 1, 1, 1], group=24), 0.4
    )
    last = graph.requantize(graph.convolution(wide, (32, 24, 1, 1), scale=0.4), 1.0)
    (ours,), (reference,), _ = run_both(graph.model(last), tmp_path, desired_layout=layout)
    assert steps_apart(ours, reference, 1.0) == (0.0, 0.0)


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_without_vnni(tmp_path: Path, target: str) -> None:
    try:
        check_runnable(resolve_target(target).manifest(), name=target)
    except ArtifactError as error:
        pytest.skip(str(error))
    graph = QdqGraph()
    data = graph.input("x", (1, 16, 9, 9))
    first = graph.requantize(graph.convolution(data, (32, 16, 3, 3), pads=[1, 1, 1, 1]), STEP)
    last = graph.requantize(graph.convolution(first, (32, 1, 3, 3), scale=STEP, group=32), 0.4)
    (ours,), (reference,), _ = run_both(graph.model(last), tmp_path, target)
    assert steps_apart(ours, reference, 0.4) == (0.0, 0.0)


def test_relu_and_clip_become_bounds_of_the_integers(tmp_path: Path) -> None:
    graph = QdqGraph()
    data = graph.input("x", (1, 16, 8, 8))
    rectified = graph.node("Relu", [graph.convolution(data, (16, 16, 3, 3), pads=[1, 1, 1, 1])])
    # A zero point in the middle, so that saturation does not do it.
    first = graph.requantize(rectified, STEP, 90)
    bounds = [graph.constant(np.array(bound, "float32")) for bound in (-1.0, 2.0)]
    clipped = graph.node("Clip", [graph.convolution(first, (16, 16, 1, 1), scale=STEP), *bounds])
    (ours,), (reference,), report = run_both(graph.model(graph.requantize(clipped, 0.02)), tmp_path)
    assert steps_apart(ours, reference, 0.02) == (0.0, 0.0)
    assert reference.min() >= -1.0 and reference.max() <= 2.0 and len(np.unique(reference)) > 50
    assert _reads_floats_once(report)


def test_residual_sums_pooling_and_a_classifier(tmp_path: Path) -> None:
    graph = QdqGraph()
    data = graph.input("x", (2, 16, 12, 12))
    pooled = graph.requantize(
        graph.node("MaxPool", [data], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]), 0.02
    )
    branch = graph.requantize(graph.convolution(pooled, (16, 16, 3, 3), pads=[1, 1, 1, 1]), STEP, 100)
    total = graph.requantize(graph.node("Relu", [graph.node("Add", [branch, pooled])]), STEP, 0)
    mean = graph.requantize(graph.node("GlobalAveragePool", [total]), 0.03, 0)
    flat = graph.requantize(graph.node("Flatten", [mean]), 0.03, 0)
    weight = graph.weight((10, 16))
    bias = graph.bias(10, 0.03)
    logits = graph.requantize(graph.node("Gemm", [flat, weight, bias], transB=1), 0.02)
    (ours,), (reference,), report = run_both(graph.model(logits), tmp_path)
    # ONNX Runtime rounds the scales of a sum in its own way.
    largest, share = steps_apart(ours, reference, 0.02)
    assert largest <= 1.0 and share <= 0.1, (largest, share)
    assert _reads_floats_once(report)


def test_a_mean_of_more_bytes_than_int32_adds_up_is_one_of_floats() -> None:
    side = 2902
    assert side**2 * 255 > np.iinfo("int32").max
    image = relax.Var("x", relax.TensorType([1, 1, side, side], "uint8"))
    scale, zero_point = relax.const(np.float32(0.1)), relax.const(np.uint8(0))
    with main_of(image) as builder:
        real = builder.emit(relax.op.dequantize(image, scale, zero_point))
        mean = builder.emit(relax.op.mean(real, [2, 3]))
        builder.result = relax.op.quantize(mean, scale, zero_point, out_dtype="uint8")
    text = to_integers(builder.finalize()).script()
    assert "R.mean(" in text and "R.sum(" not in text


def test_joined_and_moved_tensors_stay_integers(tmp_path: Path) -> None:
    graph = QdqGraph()
    left, right = graph.input("x", (1, 16, 6, 6)), graph.input("y", (1, 8, 6, 6), scale=0.03, zero_point=10)
    joined = graph.requantize(graph.node("Concat", [left, right], axis=1), 0.03)
    turned = graph.node("Transpose", [joined], perm=[0, 2, 3, 1])
    shape = graph.constant(np.array([1, 36, 24]))
    (ours,), (reference,), _report = run_both(
        graph.model(graph.requantize(graph.node("Reshape", [turned, shape]), 0.03)), tmp_path
    )
    assert steps_apart(ours, reference, 0.03) == (0.0, 0.0)


def test_weights_with_a_zero_point_that_leaves_no_byte(tmp_path: Path) -> None:
    """Such a convolution stays in float32, which rounds seldom to another integer."""
    graph = QdqGraph()
    data = graph.input("x", (1, 16, 8, 8))
    value = graph.convolution(data, (16, 16, 3, 3), per_channel=False, bias=False, dtype="uint8")
    (ours,), (reference,), _ = run_both(graph.model(graph.requantize(value, STEP)), tmp_path)
    largest, share = steps_apart(ours, reference, STEP)
    assert largest <= 1.0 and share <= 0.001, (largest, share)


def _reads_floats_once(report: dict[str, Any]) -> bool:
    """Whether nothing but the input is quantized by a division."""
    return sum("divide" in function["name"] for function in report["functions"]) == 1
