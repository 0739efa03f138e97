"""One artifact for any number of images: the kernels are those of one image, Winograd's among them."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import relay_layout

CHANNELS, IMAGE = 32, (17, 22)


@pytest.fixture
def network() -> onnx.ModelProto:
    """Two 3x3 convolutions, the second one with uneven padding, of a batch called "n"."""
    rng = np.random.default_rng(0)
    weights = {}
    for name in ("first", "second"):
        weight = rng.standard_normal((CHANNELS, CHANNELS, 3, 3)) / np.sqrt(9 * CHANNELS)
        weights[name] = weight.astype("float32")
        weights[f"{name}_bias"] = rng.standard_normal(CHANNELS).astype("float32")
    nodes = [
        helper.make_node("Conv", ["x", "first", "first_bias"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "second", "second_bias"], ["c"], pads=[1, 0, 0, 1]),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "two",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", CHANNELS, *IMAGE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", CHANNELS, None, None])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_winograd_of_any_batch(network: onnx.ModelProto, tmp_path: Path) -> None:
    path = tmp_path / "network.onnx"
    onnx.save(network, path)
    compiled = relay_layout.compile(str(path), desired_layout="NCHW8c", threads=2, shipped_records=False)
    (build,) = compiled.manifest.builds
    functions = [call["function"] for call in build.report["calls"] if call["operator"] == "conv2d"]
    assert len(functions) == 2 and all("winograd" in name for name in functions)
    compiled.save(tmp_path / "network.rla")
    session = relay_layout.load(tmp_path / "network.rla", threads=2)
    reference = onnxruntime.InferenceSession(network.SerializeToString(), providers=["CPUExecutionProvider"])
    for batch in (1, 3, 5):
        data = np.random.default_rng(batch).standard_normal((batch, CHANNELS, *IMAGE)).astype("float32")
        (expected,) = reference.run(None, {"x": data})
        (found,) = session.run({"x": data}).values()
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-4)
