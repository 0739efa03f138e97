"""What counts as the same module, and what does not."""

import numpy as np
import pytest

from relay_layout.relay.syntax import Call, Constant, Module, read_text, structurally_equal


def module(body: str, parameters: str = "%x: float32, %y") -> Module:
    return read_text(f"def @main({parameters}) -> int8 {{ {body} }}")


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("let %a = %x; %a", "let %b = %x; %b"),
        ("fn (%a) { %a }", "fn (%b) { %b }"),
        ("%0 = f(%x); %0", "f(%x)"),
        ("%0 = f(%x); (%0, %0)", "%7 = f(%x); (%7, %7)"),
        ("f(1, 1)", "f(1, 1)"),
        ("f(a=nanf, b=1)", "f(b=1, a=nanf)"),
        ("free_var %z; %z", "free_var %z; %z"),
    ],
)
def test_equal(left: str, right: str) -> None:
    assert structurally_equal(module(left), module(right))
    assert structurally_equal(module(right), module(left))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("%x", "%y"),
        ("f(%x)", "g(%x)"),
        ("f(%x)", "f(%x, %y)"),
        ("f(%x)", "(%x)"),
        ("(%x,)", "f(%x)"),
        ("%x.0", "%x.1"),
        ("1", "1i64"),
        ("1", "2"),
        ("0f", "-0f"),
        ("f(a=1)", "f(a=1f)"),
        ("f(a=1)", "f(a=True)"),
        ("f(a=1)", "f(b=1)"),
        ("f(a=[1])", "f(a=[1, 1])"),
        ("f(a=None)", "f()"),
        ("fn (%a) { %a }", "fn (%a: int8) { %a }"),
        ("fn (%a) { %a }", "fn (%a, %b) { %a }"),
        ("fn (%a, %b) { %a }", "fn (%a, %b) { %b }"),
        ("fn (%a) -> int8 { %a }", "fn (%a) { %a }"),
        ("fn (%a, Inline=1) { %a }", "fn (%a) { %a }"),
        ("let %a = %x; %a", "let %a = %x; %x"),
        ("let %a: int8 = %x; %a", "let %a = %x; %a"),
        ("if (%x) { 1 } else { 2 }", "if (%x) { 1 } else { 3 }"),
        ("if (%x) { 1 } else { 2 }", "if (%y) { 1 } else { 2 }"),
        ("%0 = f(%x); (%0, %0)", "(f(%x), f(%x))"),
        ("free_var %z; %z", "free_var %w; %w"),
        ("@main(%x)", "%x(%x)"),
    ],
)
def test_different(left: str, right: str) -> None:
    assert not structurally_equal(module(left), module(right))
    assert not structurally_equal(module(right), module(left))


def test_functions_and_parameters_count() -> None:
    assert not structurally_equal(module("1"), module("1", "%x: float32"))
    assert not structurally_equal(module("1"), module("1", "%x: float16, %y"))
    assert not structurally_equal(module("1"), read_text("def @other() { 1 }"))
    assert not structurally_equal(module("1"), Constant(np.array(1, "int32")))


def test_expressions() -> None:
    left, right = (Call("f", (Constant(np.zeros((2, 3), "int8")),)) for _ in range(2))
    assert structurally_equal(left, right)
    assert not structurally_equal(left, Call("f", (Constant(np.zeros((3, 2), "int8")),)))
