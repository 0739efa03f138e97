"""What small networks for CUDA compute, on a GPU that numpy simulates."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from qdq_graphs import QdqGraph
from simulated_network import SimulatedNetwork

from relay_layout import models
from relay_layout.frontend import load_model
from tests.onnx_reference import reference_session
from topi_ext.cuda.compute.implicit_gemm import rounded_to_tf32
from topi_ext.cuda.gemm_knobs import GemmKnobs
from topi_ext.cuda.winograd_knobs import WinogradGemmKnobs
from topi_ext.cuda.workload import GemmConvolution
from topi_ext.tune.records.log import append
from topi_ext.tune.records.record import TuningRecord

STEP = 0.05


def quantized(zero_point: int) -> QdqGraph:
    """A convolution with a border, one by one pixel with a residual, groups, a classifier."""
    graph = QdqGraph()
    data = graph.input("x", (2, 16, 7, 6), zero_point=zero_point)
    first = graph.convolution(data, (24, 16, 3, 3), pads=[1, 1, 1, 1])
    one = graph.requantize(graph.node("Relu", [first]), STEP, 0)
    two = graph.requantize(graph.convolution(one, (24, 24, 1, 1), scale=STEP), STEP)
    summed = graph.requantize(graph.node("Add", [one, two]), STEP)
    grouped = graph.requantize(graph.convolution(summed, (16, 12, 3, 3), scale=STEP, group=2), STEP)
    graph.result = grouped
    return graph


@pytest.mark.parametrize("zero_point", [0, 117])
def test_quantized_networks_give_onnx_runtimes_integers(zero_point: int) -> None:
    graph = quantized(zero_point)
    model = graph.model(graph.result)
    feed = (1.5 * np.random.default_rng(0).standard_normal((2, 16, 7, 6))).astype("float32")
    reference = reference_session(model.SerializeToString())
    (expected,) = reference.run(None, {"x": feed})
    network = SimulatedNetwork(load_model(model), "cuda-sm_80")
    (found,) = network.run(feed)
    assert len(np.unique(expected)) > 40
    np.testing.assert_array_equal(np.rint(found / STEP), np.rint(expected / STEP))
    assert network.operators.count("gemm_conv2d") == 1
    assert not [kernel.name for kernel in network.kernels.values() if kernel.source == "fallback"]


@pytest.mark.parametrize(
    ("layout", "target"),
    [("NCHW4c", "cuda-sm_80"), pytest.param("NHWC", "cuda-sm_75", marks=pytest.mark.slow)],
)
def test_other_layouts_and_architectures_give_the_same_integers(layout: str, target: str) -> None:
    graph = quantized(117)
    model = graph.model(graph.result)
    feed = (1.5 * np.random.default_rng(0).standard_normal((2, 16, 7, 6))).astype("float32")
    reference = reference_session(model.SerializeToString())
    (expected,) = reference.run(None, {"x": feed})
    network = SimulatedNetwork(load_model(model), target, layout=layout)
    (found,) = network.run(feed)
    np.testing.assert_array_equal(np.rint(found / STEP), np.rint(expected / STEP))
    assert "gemm_conv2d" in network.operators


def residual_network() -> models.Network:
    builder = models.NetworkBuilder("residual")
    image = builder.input("input", (1, 32, 7, 7))
    first = builder.convolution(image, "first", 32, 3, bias=True)
    return builder.build({"output": first})


@pytest.mark.parametrize(("precision", "tolerance"), [("fp16", 2e-3), ("tf32", 2e-3), ("fp32", 2e-6)])
def test_networks_are_as_exact_as_their_precision(precision: str, tolerance: float) -> None:
    network = residual_network()
    image = np.random.default_rng(0).standard_normal((1, 32, 7, 7)).astype("float32")
    reference = onnxruntime.InferenceSession(
        models.to_onnx(network).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (expected,) = reference.run(None, {"input": image})
    simulated = SimulatedNetwork(models.to_relax(network), "cuda-sm_80", precision)
    (found,) = simulated.run(image)
    error = float(np.abs(found - expected).max() / np.abs(expected).max())
    assert error < tolerance
    assert (error > 1e-5) == (precision != "fp32")
    assert "gemm_conv2d" in simulated.operators


@pytest.mark.parametrize(("layout", "precision"), [("NCHW4c", "fp16"), ("NCHW32c", "fp32")])
def test_channels_in_blocks_are_multiplied_in_nhwc(layout: str, precision: str) -> None:
    network = residual_network()
    image = np.random.default_rng(0).standard_normal((1, 32, 7, 7)).astype("float32")
    reference = onnxruntime.InferenceSession(
        models.to_onnx(network).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (expected,) = reference.run(None, {"input": image})
    simulated = SimulatedNetwork(models.to_relax(network), "cuda-sm_80", precision, layout)
    (found,) = simulated.run(image)
    assert "gemm_conv2d" in simulated.operators
    error = float(np.abs(found - expected).max() / np.abs(expected).max())
    assert error < (2e-3 if precision == "fp16" else 2e-6)


TWICE = {
    "async": (40, GemmKnobs("wgmma", 64, 64, 32, 4, 1, 3), GemmKnobs("wgmma", 128, 48, 32, 8, 1, 2)),
    "bulk": (
        64,
        GemmKnobs("wgmma", 64, 64, 32, 4, 1, 3, 2, copies="bulk"),
        GemmKnobs("wgmma", 128, 48, 32, 8, 1, 2, copies="bulk"),
    ),
}
"""Channels between two convolutions, and their knobs."""


@pytest.mark.parametrize(
    ("precision", "dtype", "copies"),
    [
        ("fp16", "float16", "async"),
        ("tf32", "tf32", "async"),
        ("fp16", "float16", "bulk"),
        ("tf32", "tf32", "bulk"),
    ],
)
def test_a_network_of_products_by_wgmma(precision: str, dtype: str, copies: str, tmp_path: Path) -> None:
    """Two convolutions with bias, activation and residual, by knobs on record."""
    between, *chosen = TWICE[copies]
    builder = models.NetworkBuilder("grouped")
    image = builder.input("input", (2, 32, 9, 7))
    first = builder.relu(builder.convolution(image, "first", between, 3, padding=1, bias=True), "relu")
    second = builder.convolution(first, "second", between, 3, padding=1, bias=True)
    network = builder.build({"output": builder.relu(builder.add(first, second, "sum"), "result")})
    records = tmp_path / "records.jsonl"
    for channels, knobs in zip((32, between), chosen, strict=True):
        work = GemmConvolution(2, 9, 7, channels, between, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1, dtype)
        append(records, TuningRecord(work, "sm_90", 1, knobs.to_dict(), (1e-6,) * 3, cpu="H100"))
    data = np.random.default_rng(0).standard_normal((2, 32, 9, 7)).astype("float32")
    reference = onnxruntime.InferenceSession(
        models.to_onnx(network).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (expected,) = reference.run(None, {"input": data})
    simulated = SimulatedNetwork(models.to_relax(network), "cuda-sm_90", precision, records=[records])
    (found,) = simulated.run(data)
    products = [kernel for kernel in simulated.kernels.values() if kernel.operator == "gemm_conv2d"]
    assert [kernel.source for kernel in products] == ["tuned", "tuned"]
    text = simulated.scheduled.script()
    assert text.count("topi_ext_bulk_copy_windows") == 2 * (copies == "bulk") * 2
    assert float(np.abs(found - expected).max() / np.abs(expected).max()) < 2e-3


def winograd_network() -> models.Network:
    """Two convolutions with bias and activation, and a residual behind the second."""
    builder = models.NetworkBuilder("winograd")
    image = builder.input("input", (2, 20, 9, 7))
    first = builder.relu(builder.convolution(image, "first", 38, 3, padding=1, bias=True), "relu")
    second = builder.convolution(first, "second", 38, 3, padding=1, bias=True)
    return builder.build({"output": builder.relu(builder.add(first, second, "sum"), "result")})


@pytest.mark.parametrize("layout", ["NHWC", pytest.param("NCHW4c", marks=pytest.mark.slow)])
def test_a_network_by_winograd(layout: str, tmp_path: Path) -> None:
    """By knobs on record, a tile of either size; the second convolution reads 40 channels, two of zeros."""
    network, records = winograd_network(), tmp_path / "records.jsonl"
    for channels, tile in ((20, 4), (40, 2)):
        knobs = WinogradGemmKnobs(tile, GemmKnobs("fma", 32, 32, 16, 1, 2, 3))
        work = GemmConvolution(2, 9, 7, channels, 38, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1, "float32")
        append(records, TuningRecord(work, "sm_80", 1, knobs.to_dict(), (1e-6,) * 3, cpu="A100"))
    data = np.random.default_rng(0).standard_normal((2, 20, 9, 7)).astype("float32")
    reference = onnxruntime.InferenceSession(
        models.to_onnx(network).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (expected,) = reference.run(None, {"input": data})
    simulated = SimulatedNetwork(models.to_relax(network), "cuda-sm_80", layout=layout, records=[records])
    (found,) = simulated.run(data)
    kernels = [kernel for kernel in simulated.kernels.values() if kernel.operator == "gemm_conv2d"]
    assert sorted(kernel.choice.knobs.tile for kernel in kernels if kernel.choice) == [2, 4]
    assert {kernel.source for kernel in simulated.kernels.values()} == {"tuned", "loops"}
    assert float(np.abs(found - expected).max() / np.abs(expected).max()) < 5e-6
    transforms = [name for name in simulated.kernels if "winograd" in name and "products" not in name]
    # Bias, residual and activations are no kernels of their own.
    if layout == "NHWC":
        assert len(transforms) == 4
        assert not [name for name in simulated.kernels if name.startswith(("add", "relu", "fused_add"))]


@pytest.mark.parametrize(("precision", "tolerance"), [("fp16", 2e-3), ("fp32", 2e-6)])
def test_depthwise_networks_are_as_exact_as_their_precision(precision: str, tolerance: float) -> None:
    builder = models.NetworkBuilder("depthwise")
    found = builder.convolution(builder.input("input", (2, 20, 9, 7)), "first", 20, 5, padding=2, groups=20)
    found = builder.convolution(builder.relu(found, "relu"), "second", 20, 3, strides=2, groups=20, bias=True)
    network = builder.build({"output": found})
    image = np.random.default_rng(0).standard_normal((2, 20, 9, 7)).astype("float32")
    reference = onnxruntime.InferenceSession(
        models.to_onnx(network).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (expected,) = reference.run(None, {"input": image})
    simulated = SimulatedNetwork(models.to_relax(network), "cuda-sm_80", precision)
    (result,) = simulated.run(image)
    assert "depthwise_conv2d_nhwc" in simulated.operators
    assert np.abs(result - expected).max() / np.abs(expected).max() < tolerance


@pytest.mark.parametrize("target", ["cuda-sm_70", "cuda-sm_90"])
def test_quantized_depthwise_layers_give_onnx_runtimes_integers(target: str) -> None:
    graph = QdqGraph()
    data = graph.input("x", (2, 16, 7, 6), zero_point=117)
    first = graph.requantize(graph.convolution(data, (16, 1, 3, 3), pads=[1, 1, 1, 1], group=16), STEP)
    model = graph.model(graph.requantize(graph.convolution(first, (16, 1, 3, 3), scale=STEP, group=16), STEP))
    feed = (1.5 * np.random.default_rng(0).standard_normal((2, 16, 7, 6))).astype("float32")
    reference = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = reference.run(None, {"x": feed})
    network = SimulatedNetwork(load_model(model), target)
    (found,) = network.run(feed)
    assert network.operators.count("depthwise_conv2d_nhwc") == 1
    np.testing.assert_array_equal(np.rint(found / STEP), np.rint(expected / STEP))


def test_tf32_is_to_nearest() -> None:
    values = np.array([1 + 2**-11, 1 + 2**-11 - 2**-23, -1 - 2**-11, np.inf, 3.0], "float32")
    expected = np.array([1 + 2**-10, 1, -1 - 2**-10, np.inf, 3.0], "float32")
    np.testing.assert_array_equal(rounded_to_tf32(values), expected)
    assert np.isnan(rounded_to_tf32(np.array([np.nan], "float32"))).all()
