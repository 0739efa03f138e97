"""Convolutions of volumes by constant kernels: Winograd's within planes, and groups taken for one."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import relay_layout

LAYOUTS = ["auto", "NDHWC", "NCDHW16c", "NCDHW8c", "none"]
IMAGE = (5, 9, 12)


def network(channels: int, outputs: int, kernel: Sequence[int], **attributes: object) -> onnx.ModelProto:
    """A convolution of volumes of a batch called "n", with bias and ReLU."""
    rng = np.random.default_rng(0)
    groups = int(str(attributes.get("group", 1)))
    weight = rng.standard_normal((outputs, channels // groups, *kernel)).astype("float32")
    weight /= np.sqrt(weight[0].size)
    arrays = {"weight": weight, "bias": rng.standard_normal(outputs).astype("float32")}
    nodes = [
        helper.make_node("Conv", ["x", "weight", "bias"], ["a"], **attributes),
        helper.make_node("Relu", ["a"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", channels, *IMAGE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", outputs, None, None, None])],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def functions_of(model: onnx.ModelProto, layout: str, tmp_path: Path) -> list[str]:
    """The kernels that compute the convolution, after its numbers were compared with ONNX Runtime's."""
    onnx.save(model, tmp_path / "network.onnx")
    compiled = relay_layout.compile(
        str(tmp_path / "network.onnx"), desired_layout=layout, threads=2, shipped_records=False
    )
    compiled.save(tmp_path / "network.rla")
    session = relay_layout.load(tmp_path / "network.rla", threads=2)
    reference = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    channels = model.graph.input[0].type.tensor_type.shape.dim[1].dim_value
    for batch in (1, 2):
        data = np.random.default_rng(batch).standard_normal((batch, channels, *IMAGE)).astype("float32")
        (expected,) = reference.run(None, {"x": data})
        (found,) = session.run({"x": data}).values()
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-4)
    (build,) = compiled.manifest.builds
    return [call["function"] for call in build.report["calls"] if call["operator"] == "conv3d"]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("kernel", "attributes"),
    [
        ((3, 3, 3), {"pads": [1] * 6}),
        ((1, 3, 3), {"pads": [0, 1, 1, 0, 1, 1]}),
        ((2, 3, 3), {"pads": [1, 0, 1, 0, 1, 0], "strides": [2, 1, 1]}),
        ((3, 3, 3), {"pads": [2, 1, 1, 2, 1, 1], "dilations": [2, 1, 1]}),
    ],
    ids=["cube", "plane", "every other plane", "planes apart"],
)
def test_winograd_within_planes(
    kernel: Sequence[int], attributes: dict[str, object], layout: str, tmp_path: Path
) -> None:
    functions = functions_of(network(64, 64, kernel, **attributes), layout, tmp_path)
    if layout != "none":
        assert ["winograd" in name for name in functions] == [True]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("channels", "outputs", "groups", "kernel"),
    [(64, 64, 16, (3, 3, 3)), (21, 42, 3, (3, 1, 3)), (16, 48, 8, (1, 1, 1)), (32, 32, 32, (3, 3, 3))],
)
def test_groups(
    channels: int, outputs: int, groups: int, kernel: Sequence[int], layout: str, tmp_path: Path
) -> None:
    functions_of(network(channels, outputs, kernel, group=groups), layout, tmp_path)


def test_volumes_of_any_number_of_planes(tmp_path: Path) -> None:
    model = network(8, 16, (3, 3, 3), pads=[1] * 6)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "planes"
    relay_layout.compile(model, threads=2, shipped_records=False).save(tmp_path / "network.rla")
    session = relay_layout.load(tmp_path / "network.rla", threads=2)
    reference = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for planes in (1, 5):
        data = np.random.default_rng(0).standard_normal((1, 8, planes, *IMAGE[1:])).astype("float32")
        (wanted,) = reference.run(None, {"x": data})
        np.testing.assert_allclose(session.run({"x": data})["y"], wanted, rtol=1e-4, atol=1e-5)
