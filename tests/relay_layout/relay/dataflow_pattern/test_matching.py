"""What patterns match, and what they do not."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm

from relay_layout import relay
from relay_layout.errors import ModelError
from relay_layout.relay.dataflow_pattern import (
    DFPattern,
    FunctionPattern,
    dominates,
    has_attr,
    has_dtype,
    has_shape,
    has_type,
    is_constant,
    is_expr,
    is_if,
    is_let,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    match,
    wildcard,
)

X, Y = relay.var("x", shape=(1, 3, 8, 8)), relay.var("y", shape=(1, 3, 8, 8))
W = relay.var("w", shape=(4, 3, 3, 3))
ONE = relay.const(np.ones((4, 3, 3, 3), "float32"))
RELU, ADD, CONV, BIAS = is_op("nn.relu"), is_op("add"), is_op("nn.conv2d"), is_op("nn.bias_add")
ELEMENTWISE = has_attr({"TOpPattern": 0})


def conv(data: Any = X, weight: Any = W, **attributes: Any) -> Any:
    return relay.nn.conv2d(data, weight, **attributes)


def same_twice() -> DFPattern:
    any_one = wildcard()
    return ADD(any_one, any_one)


def diamond(path: DFPattern) -> DFPattern:
    return dominates(CONV(is_var(), is_var()), path, ADD(wildcard(), wildcard()))


def branches(first: Callable[[Any], Any], second: Callable[[Any], Any]) -> Any:
    start = conv()
    return first(start) + second(start)


def leaking() -> Any:
    start = relay.nn.relu(conv())
    return relay.Tuple([relay.exp(start) + relay.tanh(start), start])


BIASED = relay.nn.bias_add(conv(), relay.var("b", shape=(4,)))
NORMED = relay.nn.batch_norm(X, *[relay.var(name, shape=(3,)) for name in "gbmv"])
OPTIONAL = BIAS(CONV(wildcard(), wildcard()), wildcard()).optional(lambda before: RELU(before))

MATCHES: dict[str, tuple[DFPattern, Any]] = {
    "anything": (wildcard(), X),
    "an operator itself": (RELU, relay.op.get("nn.relu")),
    "one of two operators": (ADD | is_op("subtract"), relay.op.get("subtract")),
    "a call of one of two": ((ADD | is_op("subtract"))(wildcard(), wildcard()), X - Y),
    "a variable": (is_var(), X),
    "a variable by name": (is_var("x"), X),
    "a constant": (CONV(wildcard(), is_constant()), conv(weight=ONE)),
    "a sum in the other order": (ADD(is_var("y"), is_var("x")), X + Y),
    "python's operators": (is_var("x") * is_var("y") / is_var("x") - is_var("y"), X * Y / X - Y),
    "the same twice": (same_twice(), X + X),
    "what is written alike": (wildcard() + is_expr(relay.const(1.0)), X + relay.const(1.0)),
    "any arguments": (CONV(None), conv()),
    "an attribute": (CONV(None).has_attr({"kernel_size": [3, 3]}), conv(kernel_size=(3, 3))),
    "an attribute by default": (CONV(None).has_attr({"data_layout": "NCHW", "groups": 1}), conv()),
    "an attribute of a kind of operator": (ELEMENTWISE(wildcard()), relay.exp(X)),
    "a tuple": (is_tuple([is_var("x"), is_var("y")]), relay.Tuple([X, Y])),
    "any tuple": (is_op("concatenate")(is_tuple(None)), relay.concatenate([X, Y], 1)),
    "a field": (RELU(is_tuple_get_item(is_op("nn.batch_norm")(None), 0)), relay.nn.relu(NORMED[0])),
    "any field": (is_tuple_get_item(is_op("nn.batch_norm")(None)), NORMED[1]),
    "a field of a tuple pattern": (
        is_tuple([is_var("x"), wildcard()])[0],
        relay.TupleGetItem(relay.Tuple([X, Y]), 0),
    ),
    "with the optional part": (OPTIONAL, relay.nn.relu(BIASED)),
    "without it": (OPTIONAL, BIASED),
    "a data type": (has_dtype("float32"), X),
    "a shape": (RELU(CONV(None)).has_shape((1, 4, 6, 6)), relay.nn.relu(conv())),
    "a type": (has_type(relay.TensorType((1, 3, 8, 8), "float32"), is_var()), X),
    "a function": (
        FunctionPattern([is_var("x"), is_var("y")], wildcard() + wildcard()),
        relay.Function([X, Y], X + Y),
    ),
    "any parameters": (FunctionPattern(None, wildcard() + wildcard()), relay.Function([X, Y], X + Y)),
    "a function's attribute": (
        wildcard().has_attr({"Composite": "sum"}),
        relay.Function([X, Y], X + Y, attrs={"Composite": "sum"}),
    ),
    "a branch": (
        is_if(is_var("c"), is_var("x"), is_var("y")),
        relay.If(relay.var("c", shape=(), dtype="bool"), X, Y),
    ),
    "a let": (is_let(is_var("z"), is_var("x"), is_var("z")), relay.Let(z := relay.var("z"), X, z)),
    "a diamond": (diamond(ELEMENTWISE(wildcard())), branches(relay.exp, relay.tanh)),
    "a longer diamond": (
        diamond(ELEMENTWISE(wildcard())),
        branches(relay.exp, lambda start: relay.tanh(relay.exp(start))),
    ),
    "a chain that dominates": (
        RELU(wildcard()).dominates(CONV(None), ELEMENTWISE(wildcard())),
        relay.nn.relu(relay.exp(conv())),
    ),
}

DIFFERS: dict[str, tuple[DFPattern, Any]] = {
    "another operator": (RELU(wildcard()), relay.exp(X)),
    "no call": (RELU(wildcard()), X),
    "another name": (is_var("y"), X),
    "a difference in the other order": (is_op("subtract")(is_var("y"), is_var("x")), X - Y),
    "two where one is meant": (same_twice(), X + Y),
    "a variable for a constant": (CONV(wildcard(), is_constant()), conv()),
    "another constant": (wildcard() + is_expr(relay.const(1.0)), X + relay.const(2.0)),
    "another attribute": (CONV(None).has_attr({"data_layout": "NHWC"}), conv()),
    "no such attribute": (CONV(None).has_attr({"units": 3}), conv()),
    "another kind of operator": (ELEMENTWISE(wildcard()), relay.nn.softmax(X)),
    "another kind of the operator": (
        is_op("nn.dense").has_attr({"TOpPattern": 0})(wildcard(), wildcard()),
        relay.nn.dense(X, Y),
    ),
    "fewer fields": (is_tuple([wildcard()]), relay.Tuple([X, Y])),
    "another field": (is_tuple_get_item(wildcard(), 0), NORMED[1]),
    "another data type": (has_dtype("float16"), X),
    "another shape": (has_shape((1, 3, 8, 9)), X),
    "no type at all": (has_shape((1,)), relay.var("untyped")),
    "a diamond with something else in it": (
        diamond(ELEMENTWISE(wildcard())),
        branches(relay.exp, lambda start: relay.nn.softmax(start)),
    ),
    "a sum of others": (diamond(wildcard()), X + Y),
    "another start on the other side": (
        diamond(ELEMENTWISE(wildcard())),
        relay.exp(conv()) + relay.tanh(conv()),
    ),
    "another input on the other side": (
        diamond(ELEMENTWISE(wildcard())),
        relay.exp(conv()) + relay.tanh(X),
    ),
    "a start that is read elsewhere": (
        is_tuple(
            [dominates(RELU(wildcard()), ELEMENTWISE(wildcard()), ADD(wildcard(), wildcard())), wildcard()]
        ),
        leaking(),
    ),
}


@pytest.mark.parametrize("case", MATCHES)
def test_matches(case: str) -> None:
    pattern, expression = MATCHES[case]
    assert pattern.match(expression) and match(pattern, expression)


@pytest.mark.parametrize("case", DIFFERS)
def test_does_not_match(case: str) -> None:
    pattern, expression = DIFFERS[case]
    assert not pattern.match(expression)


def test_functions_of_modules_match_as_relay() -> None:
    module = tvm.IRModule.from_expr(relay.nn.relu(BIASED))
    pattern = FunctionPattern(None, RELU(BIAS(CONV(wildcard(), wildcard()), wildcard())))
    assert pattern.match(module["main"])
    assert pattern.body.match(module["main"].body)


def test_attributes_of_functions() -> None:
    named = relay.Function([X], relay.nn.relu(X)).with_attr("Composite", "net.relu")
    pattern = FunctionPattern([wildcard()], RELU(wildcard())).has_attr({"Composite": "net.relu"})
    assert pattern.match(named)
    assert not pattern.match(named.without_attr("Composite"))
    assert pattern.match(named.without_attr("Composite").with_attr({"Composite": "net.relu", "other": 1}))


@pytest.mark.parametrize(("axis", "rank"), [(1, 4), (3, 4), (1, 2), (-1, 3), (0, 3)])
def test_biases_along_any_axis_are_seen_in_modules(axis: int, rank: int) -> None:
    data = relay.var("data", shape=(5,) * rank)
    module = tvm.IRModule.from_expr(relay.nn.bias_add(data, relay.var("b", shape=(5,)), axis=axis))
    # Along the last axis it is a plain sum.
    is_last = axis % rank == rank - 1
    pattern = ADD(wildcard(), wildcard()) if is_last else BIAS(None).has_attr({"axis": axis})
    assert FunctionPattern(None, pattern).match(module["main"])


@pytest.mark.parametrize("name", ["nn.dense", "nn.conv2d"])
@pytest.mark.parametrize("bias", [(4,), (1,), (2, 1)])
def test_biases_of_channels_that_come_last_are_seen_in_modules(name: str, bias: tuple[int, ...]) -> None:
    """A sum with anything but a vector of the channels stays one."""
    if name == "nn.dense":
        product, axis = relay.nn.dense(relay.var("x", shape=(2, 3)), relay.var("w", shape=(4, 3))), 1
    else:
        layouts = {"data_layout": "NHWC", "kernel_layout": "HWIO"}
        weight = relay.var("w", shape=(1, 1, 3, 4))
        product, axis = relay.nn.conv2d(relay.var("x", shape=(1, 2, 2, 3)), weight, **layouts), 3
    module = tvm.IRModule.from_expr(relay.add(product, relay.var("b", shape=bias)))
    seen = BIAS(is_op(name)(None), wildcard()).has_attr({"axis": axis}) if bias == (4,) else ADD(None)
    assert FunctionPattern(None, seen).match(module["main"])


def test_mistakes() -> None:
    with pytest.raises(
        ModelError, match=r"is_op\('nn.konv2d'\): Relay has no such operator; did you mean nn.conv2d"
    ):
        is_op("nn.konv2d")
    with pytest.raises(TypeError, match="an argument of a pattern is a pattern, not Var"):
        RELU(X)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="an expression is needed, not dict"):
        wildcard().match({})
    with pytest.raises(IndexError, match="field 2 of a tuple of 1"):
        is_tuple([wildcard()])[2]
