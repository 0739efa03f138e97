"""Networks of any depth, and files that only look like one, take little time and no stack."""

import json
from collections.abc import Callable

import pytest

from relay_layout.errors import ModelError
from relay_layout.relay.syntax import (
    Call,
    Expression,
    Function,
    If,
    Let,
    Module,
    Tuple,
    TupleGetItem,
    Var,
    post_order,
    print_text,
    read_json,
    read_text,
    structurally_equal,
)

DEPTH = 10_000
X = Var("x")


def test_chain_of_bindings() -> None:
    lines = "".join(
        f"  %{index} = nn.relu({f'%{index - 1}' if index else '%x'});\n" for index in range(DEPTH)
    )
    module = read_text(f"def @main(%x) {{\n{lines}  %{DEPTH - 1}.0\n}}\n")
    assert sum(1 for _ in post_order(module.functions["main"])) == DEPTH + 3
    assert structurally_equal(module, read_text(print_text(module)))


def test_chain_of_lets() -> None:
    lines = "".join(f"  let %v{index} = {f'%v{index - 1}' if index else '%x'};\n" for index in range(DEPTH))
    text = f'#[version = "0.0.5"]\ndef @main(%x) {{\n{lines}  %v{DEPTH - 1}\n}}\n'
    assert print_text(read_text(text)) == text


@pytest.mark.parametrize(
    "deeper",
    [
        lambda inner: Call("nn.relu", (inner,)),
        lambda inner: Call(inner, ()),
        lambda inner: Tuple((inner, inner)),
        lambda inner: TupleGetItem(inner, 0),
        lambda inner: Let(Var("v"), X, inner),
    ],
)
def test_deep_trees(deeper: Callable[[Expression], Expression]) -> None:
    body: Expression = X
    for _ in range(DEPTH):
        body = deeper(body)
    module = Module({"main": Function((X,), body)})
    assert structurally_equal(module, read_text(print_text(module)))


@pytest.mark.parametrize(
    "deeper",
    [
        lambda inner: Function((), inner),
        lambda inner: If(X, X, inner),
        lambda inner: Let(Var("v"), inner, X),
        lambda inner: Call("f", (If(Call("f", (X,)), Tuple((X, inner)), X),)),
    ],
)
def test_deep_blocks(deeper: Callable[[Expression], Expression]) -> None:
    body: Expression = X
    for _ in range(195):
        body = deeper(body)
    module = Module({"main": Function((X,), body)})
    assert structurally_equal(module, read_text(print_text(module)))
    for _ in range(DEPTH):
        body = deeper(body)
    with pytest.raises(ModelError, match="nest more than 196 deep"):
        print_text(Module({"main": Function((X,), body)}))


def test_deep_json() -> None:
    nodes: list[dict[str, object]] = [
        {"type_key": ""},
        {"type_key": "runtime.String", "repr_str": "x"},
        {"type_key": "relay.Id", "attrs": {"name_hint": "1"}},
        {"type_key": "relay.Var", "attrs": {"vid": "2", "type_annotation": "0"}},
        {"type_key": "Op", "repr_str": "nn.relu"},
    ]
    last = 3
    for _ in range(DEPTH):
        nodes.append({"type_key": "Array", "data": [last]})
        nodes.append({"type_key": "relay.Call", "attrs": {"op": "4", "args": str(len(nodes) - 1)}})
        last = len(nodes) - 1
    module = read_json(json.dumps({"root": last, "nodes": nodes}))
    assert structurally_equal(module, read_text(print_text(module)))


@pytest.mark.parametrize(
    "text",
    [
        "(" * 200_000,
        "def @main() { f(" + "g(" * 200_000,
        "def @main(%x) { %x" + ".0" * 100_000 + " }",
        "/*" * 100_000,
        "def @main() { f(a=" + "[" * 200_000,
        "def @main(%x: " + "fn () -> " * 100_000,
        "def @main() {" + "let %a = " * 100_000,
        "def @main() {" + "1" * 200_000,
        "def @main() {" + "if (" * 100_000,
        'def @main() { f(a="' + "x" * 200_000,
        "def @main(%x: Tensor[(" + "9999999, " * 100_000,
        "#[metadata]" + "[" * 200_000,
        "#" * 200_000,
        "%" * 200_000,
    ],
    ids=lambda text: text[:24],
)
def test_large_nonsense(text: str) -> None:
    with pytest.raises(ModelError) as caught:
        read_text(text)
    assert len(str(caught.value)) < 300
