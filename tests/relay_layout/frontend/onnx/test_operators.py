"""Operators that programs register."""

from collections.abc import Iterator

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

import relay_layout
from relay_layout.errors import ModelError
from relay_layout.frontend.onnx import Node, operators, register_converter

SHAPE = [1, 8, 6, 6]


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(operators, "_REGISTERED", {})
    yield


def model() -> onnx.ModelProto:
    """A convolution that keeps every number, and Swish."""
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["c"]),
            helper.make_node("Swish", ["c"], ["y"], name="acme", domain="com.acme", beta=1.5),
        ],
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, SHAPE)],
        [numpy_helper.from_array(np.eye(8, dtype="float32").reshape(8, 8, 1, 1), "w")],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.acme", 1)]
    return helper.make_model(graph, opset_imports=opsets)


def swish(node: Node) -> relax.Expr:
    data = node.tensor(0)
    scaled = node.emit(relax.op.multiply(data, node.like(node.attributes["beta"], data)))
    return relax.op.multiply(data, node.emit(relax.op.sigmoid(scaled)))


def test_a_registered_operator_is_computed_in_the_layout_around_it() -> None:
    register_converter("com.acme", "Swish")(swish)
    converted = relay_layout.convert(model(), desired_layout="NHWC")
    assert converted.report["layout_transforms"] == 2
    session = relay_layout.compile(model(), desired_layout="NHWC", threads=1).session(threads=1)
    x = np.random.default_rng(0).standard_normal(SHAPE, dtype="float32")
    np.testing.assert_allclose(session.run({"x": x})["y"], x / (1 + np.exp(-1.5 * x)), rtol=1e-5)


def test_what_is_not_registered_is_told_how_to_be() -> None:
    with pytest.raises(ModelError) as raised:
        relay_layout.convert(model())
    assert str(raised.value).endswith(
        "these operators are not supported: com.acme.Swish (node 'acme'): export the model without them, "
        "or say what they are with relay_layout.frontend.onnx.register_converter"
    )


def test_what_a_converter_raises_names_the_node() -> None:
    @register_converter("com.acme", "Swish")
    def broken(node: Node) -> relax.Expr:
        raise KeyError("gamma")

    with pytest.raises(ModelError, match=r"'acme'.* cannot be imported: .*gamma"):
        relay_layout.convert(model())


def test_operators_of_the_package_stay() -> None:
    with pytest.raises(ModelError, match="the operator Relu of the domain '' has a converter"):
        register_converter("", "Relu")
