"""Callbacks that put other expressions in the place of operators, and faster operators."""

from typing import Any

import numpy as np
import pytest
import tvm

from relay_layout import relay
from relay_layout.errors import ModelError
from relay_layout.relay.testing import TempOpAttr

_DATA = np.random.default_rng(0).uniform(-2, 2, (2, 3)).astype("float32")


def _module() -> tvm.IRModule:
    x = relay.var("x", shape=(2, 3))
    parts = relay.concatenate([relay.nn.relu(x), x], axis=1)
    return tvm.IRModule.from_expr(relay.Function([x], relay.tanh(parts)))


def _value(module: tvm.IRModule) -> np.ndarray:
    result: np.ndarray = relay.create_executor("graph", mod=module).evaluate()(_DATA).numpy()
    return result


def test_legalized() -> None:
    """A callback sees operands after those before it, and the types of operands and of the result."""
    seen: list[Any] = []

    def as_maximum(attrs: Any, inputs: Any, types: Any) -> Any:
        return relay.maximum(inputs[0], relay.const(0.5))

    def reversed_parts(attrs: Any, inputs: Any, types: Any) -> Any:
        seen.extend(types)
        return relay.concatenate(list(reversed(inputs[0].fields)), axis=attrs.axis)

    with (
        TempOpAttr("nn.relu", "FTVMLegalize", as_maximum),
        TempOpAttr("concatenate", "FTVMLegalize", reversed_parts),
    ):
        legal = relay.transform.Legalize()(_module())
    tensor = relay.TensorType((2, 3))
    assert seen == [relay.TupleType([tensor, tensor]), relay.TensorType((2, 6))]
    expected = np.tanh(np.concatenate([_DATA, np.maximum(_DATA, 0.5)], 1))
    np.testing.assert_allclose(_value(legal), expected, rtol=1e-5)


def test_none_leaves_a_call_alone() -> None:
    """As does an operator that has no callback."""
    before = _module()
    with TempOpAttr("nn.relu", "FTVMLegalize", lambda attrs, inputs, types: None):
        after = relay.transform.Legalize()(before)
    assert relay.astext(after) == relay.astext(before)


@pytest.mark.parametrize(("level", "expected"), [(0, 0.0), (1, 2.0)])
def test_in_a_build(level: int, expected: float) -> None:
    """Callbacks hold in ``relay.build`` from level 1 on, as in Relay."""
    x = relay.var("x", shape=(1,))
    function = relay.Function([x], relay.nn.relu(x))
    with (
        TempOpAttr("nn.relu", "FTVMLegalize", lambda attrs, inputs, types: inputs[0] * relay.const(-2.0)),
        tvm.transform.PassContext(opt_level=level),
    ):
        library = relay.build(function, target="llvm")
    module = relay.graph_executor.GraphModule(library["default"](tvm.cpu()))
    module.run(x=np.array([-1], "float32"))
    assert module.get_output(0).numpy() == expected


def test_no_expression() -> None:
    """What a callback returns is told where it cannot take a call's place."""
    with (
        TempOpAttr("nn.relu", "FTVMLegalize", lambda attrs, inputs, types: "relu"),
        pytest.raises(ModelError, match=r"the legalize callback for nn\.relu returned str, no expression"),
    ):
        relay.transform.Legalize()(_module())


def test_unknown_attribute() -> None:
    """Only attributes that have callbacks here can be asked for."""
    with pytest.raises(ValueError, match="'FTVMOther' is none of FTVMLegalize, FTVMQnnLegalize"):
        relay.transform.Legalize("FTVMOther")


@pytest.mark.parametrize(
    ("attribute", "pass_of"),
    [("FTVMQnnLegalize", "Legalize"), ("FTVMQnnCanonicalize", "CanonicalizeOps")],
)
def test_quantized(attribute: str, pass_of: str) -> None:
    """Callbacks of quantized operators are asked before these become others."""
    x = relay.var("x", shape=(2,))
    net = relay.qnn.op.quantize(x, relay.const(0.5), relay.const(1), out_dtype="int8")
    module = tvm.IRModule.from_expr(relay.Function([x], net))
    with TempOpAttr(
        "qnn.quantize", attribute, lambda attrs, inputs, types: relay.cast(inputs[0], attrs.out_dtype)
    ):
        text = relay.astext(getattr(relay.qnn.transform, pass_of)()(module))
    assert 'cast(%x, dtype="int8")' in text


def test_fast_math() -> None:
    """exp, tanh, erf and softmax are approximated, with all attributes."""
    x = relay.var("x", shape=(2, 3))
    net = relay.nn.softmax(relay.exp(relay.tanh(relay.erf(x))), axis=0)
    before = tvm.IRModule.from_expr(relay.Function([x], net))
    after = relay.transform.FastMath()(before)
    text = relay.astext(after)
    assert all(name in text for name in ("fast_exp", "fast_tanh", "fast_erf", "nn.fast_softmax"))
    np.testing.assert_allclose(_value(after), _value(before), rtol=1e-5)


def test_fast_math_of_halves() -> None:
    """The approximations are of float32 alone."""
    x = relay.var("x", shape=(2, 3), dtype="float16")
    before = tvm.IRModule.from_expr(relay.Function([x], relay.exp(x)))
    assert "fast" not in relay.astext(relay.transform.FastMath()(before))
