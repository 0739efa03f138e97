"""Modules with a transpose around every convolution, as TensorFlow's exporters write them."""

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

import relay_layout
from relay_layout.frontend import from_onnx
from relay_layout.ir import operator_name
from relay_layout.layout_request import LayoutRequest
from relay_layout.rewrite.canonicalize import canonicalize
from relay_layout.rewrite.convert_layout import convert_layout
from relay_layout.targets import resolve_target
from tests.layout_graphs import execute

TARGET = resolve_target("native", threads=2)


def exported(blocks: int, channels: int, pooled: bool) -> onnx.ModelProto:
    """An NHWC network in ONNX: residual blocks of Transpose, Conv, Transpose, bias, Relu; some join."""
    rng = np.random.default_rng(0)
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []

    def weight(*shape: int) -> str:
        name = f"w{len(weights)}"
        values = (rng.standard_normal(shape) * 0.1).astype("float32")
        weights.append(numpy_helper.from_array(values, name))
        return name

    def node(operator: str, *inputs: str, **attributes: object) -> str:
        name = f"v{len(nodes)}"
        nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def convolution(value: str, outputs: int, inputs: int) -> str:
        value = node("Transpose", value, perm=[0, 3, 1, 2])
        value = node("Conv", value, weight(outputs, inputs, 3, 3), pads=[1, 1, 1, 1])
        return node("Transpose", value, perm=[0, 2, 3, 1])

    value = "image"
    for block in range(blocks):
        inner = node("Relu", node("Add", convolution(value, channels, channels), weight(channels)))
        if block % 2:
            joined = node("Concat", inner, node("Sigmoid", inner), axis=3)
            inner = convolution(joined, channels, 2 * channels)
        value = node("Add", value, inner)
    if pooled:
        value = node("GlobalAveragePool", node("Transpose", value, perm=[0, 3, 1, 2]))
    shape = [1, 8, 6, channels]
    graph = helper.make_graph(
        nodes,
        "exported",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(value, TensorProto.FLOAT, None)],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def moves(module: tvm.IRModule) -> int:
    """Operators of main that only move elements."""
    names = [
        operator_name(binding.value)
        for block in module["main"].body.blocks
        for binding in block.bindings
        if isinstance(binding.value, relax.Call)
    ]
    return names.count("permute_dims") + names.count("layout_transform")


@pytest.mark.parametrize("layout", ["auto", "NHWC", "NCHW", "NCHW4c"])
@pytest.mark.parametrize("pooled", [True, False])
def test_at_most_the_transposes_at_the_ends_are_left(layout: str, pooled: bool) -> None:
    module = canonicalize(from_onnx(exported(5, 8, pooled)))
    converted, _ = convert_layout(module, LayoutRequest.parse(layout), TARGET)
    assert moves(module) >= 14
    assert moves(converted) <= (1 if pooled else 2)


@pytest.mark.parametrize("layout", ["auto", "NCHW", "NCHW4c"])
def test_numbers_stay(layout: str) -> None:
    module = canonicalize(from_onnx(exported(3, 6, pooled=False)))
    converted, _ = convert_layout(module, LayoutRequest.parse(layout), TARGET)
    image = np.random.default_rng(1).standard_normal((1, 8, 6, 6)).astype("float32")
    (want,), (have,) = execute(_tupled(module), image), execute(_tupled(converted), image)
    np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-4)


def test_the_command_line_counts_them_as_gone() -> None:
    report = relay_layout.convert(exported(4, 8, pooled=True), desired_layout="auto").report
    assert report["layout_transforms"] == 0


def _tupled(module: tvm.IRModule) -> tvm.IRModule:
    """The module with its result in a tuple."""
    function = module["main"]
    builder = relax.BlockBuilder()
    body = builder.normalize(relax.SeqExpr(function.body.blocks, relax.Tuple([function.body.body])))
    return tvm.IRModule({"main": relax.Function(list(function.params), body)})
