"""Expressions read from text."""

import pytest
import tvm

from relay_layout import relay
from relay_layout.errors import ModelError


def test_a_function_is_one_of_tvm_too() -> None:
    function = relay.parse_expr("fn (%x: Tensor[(2, 3), float32]) { nn.relu(add(%x, 1f)) }")
    x = relay.var("x", shape=(2, 3))
    module = tvm.IRModule()
    module["main"] = function
    tvm.ir.assert_structural_equal(module, tvm.IRModule.from_expr(relay.nn.relu(x + relay.const(1.0))))


def test_an_expression_is_no_function() -> None:
    expression = relay.parse_expr('#[version = "0.0.5"]\nfree_var %x: Tensor[(2), float32];\nnegative(%x)')
    assert isinstance(expression, relay.Call) and [part.name for part in expression.args] == ["x"]
    assert expression.checked_type == relay.TensorType((2,))


def test_its_own_text_reads_back() -> None:
    x = relay.var("x", shape=(2, 3))
    text = relay.astext(tvm.IRModule.from_expr(relay.exp(x)))
    assert relay.astext(relay.fromtext(text)) == text


def test_text_of_an_expression_reads_back() -> None:
    x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(3,))
    net = relay.nn.relu(x + y)
    function = relay.Function([y, x], net)
    module = tvm.IRModule.from_expr(function)
    for expression in (function, net, relay.split(net, 3, axis=1), module["main"], module["main"].body):
        text = relay.astext(expression)
        assert relay.astext(relay.parse_expr(text)) == text
        assert "@" not in text
    assert relay.astext(net).splitlines()[1:] == [
        "free_var %x: Tensor[(2, 3), float32];",
        "free_var %y: Tensor[(3), float32];",
        "%0 = add(%x, %y);",
        "nn.relu(%0)",
    ]
    # Parameters keep their order where text of a function is read as a module.
    tvm.ir.assert_structural_equal(relay.fromtext(function.astext()), module)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("negative(%x)", r"^from_string:1:10: .*%x"),
        ("def @main() { 1 }", r"^from_string:1:1: "),
        ("1 2", r"^from_string:1:3: expected the end of the expression, found"),
        ("", r"^from_string:1:1: "),
    ],
)
def test_what_is_no_expression(text: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        relay.parse_expr(text)
