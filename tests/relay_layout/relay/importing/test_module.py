"""Relay modules as Relax: what becomes of functions, bindings and parameters."""

import numpy as np
import pytest
import tvm
import tvm_ffi

from relay_layout.errors import ModelError
from relay_layout.relay.exporting.module import to_tree
from relay_layout.relay.importing import from_tree
from relay_layout.relay.syntax import (
    Call,
    Constant,
    Function,
    Let,
    Module,
    TensorType,
    Tuple,
    Var,
    print_text,
    read_text,
)

X = "%x: Tensor[(1, 3, 4, 4), float32]"


def load(text: str, **params: np.ndarray) -> tvm.IRModule:
    return from_tree(read_text(text, "net.relay"), params, name="net.relay")


def same(left: str, right: str) -> bool:
    """Whether two texts are one Relax module."""
    return bool(tvm_ffi.structural_equal(load(left), load(right)))


def bindings(module: tvm.IRModule) -> list[str]:
    """The operators of main, in order."""
    return [str(binding.value.op.name) for block in module["main"].body.blocks for binding in block.bindings]


STRAIGHT = f"def @main({X}) {{ %0 = nn.relu(%x); add(%0, %x) }}"


@pytest.mark.parametrize(
    "text",
    [
        f"def @main({X}) {{ let %t = nn.relu(%x); add(%t, %x) }}",
        f"def @f(%a: Tensor[(1, 3, 4, 4), float32]) {{ nn.relu(%a) }}\n"
        f"def @main({X}) {{ %0 = @f(%x); add(%0, %x) }}",
        f"def @main({X}) {{ let %f = fn (%a) {{ nn.relu(%a) }}; %0 = %f(%x); add(%0, %x) }}",
        f"def @main({X}) {{ %0 = fn (%a) {{ let %b = nn.relu(%a); add(%b, %x) }}; %0(%x) }}",
        f"def @main({X}) {{ %0 = (nn.relu(%x), %x); add(%0.0, %0.1) }}",
        f"def @main({X}) {{ let %f = fn (%a, %b) {{ (add(%a, %b),) }}; %0 = %f(nn.relu(%x), %x); %0.0 }}",
        f"def @main({X}) {{ let %f = fn (%g, %a) {{ %g(%a) }}; let %h = fn (%b) {{ nn.relu(%b) }};"
        f" %0 = %f(%h, %x); add(%0, %x) }}",
    ],
    ids=["let", "global", "closure", "capture", "tuple", "tuple-result", "function-argument"],
)
def test_functions_and_bindings_are_one_graph(text: str) -> None:
    assert same(text, STRAIGHT)


def test_a_value_that_is_used_twice_is_computed_once() -> None:
    module = load(f"def @main({X}) {{ %0 = nn.relu(%x); %1 = add(%0, %0); add(%1, %0) }}")
    assert bindings(module) == ["relax.nn.relu", "relax.add", "relax.add"]


def test_what_nothing_needs_is_left_out() -> None:
    assert bindings(load(f"def @main({X}) {{ let %t = add(%x, %x); nn.relu(%x) }}")) == ["relax.nn.relu"]


def test_params_become_constants() -> None:
    text = "def @main(%x: Tensor[(2,), float32], %w.a: Tensor[(2,), float32]) { add(%x, %w.a) }"
    module = load(text, **{"w.a": np.ones(2, "float32")})
    assert [parameter.name for parameter in module["main"].params] == ["x"]


def test_names_with_dots_stay() -> None:
    module = load("def @main(%conv1.in: Tensor[(2,), float32]) { nn.relu(%conv1.in) }")
    assert [parameter.name for parameter in module["main"].params] == ["conv1.in"]


def test_unknown_dimensions_are_symbols() -> None:
    module = load("def @main(%x: Tensor[(?, 3), float32]) { nn.relu(%x) }")
    batch, features = module["main"].ret_ty.shape.values
    assert isinstance(batch, tvm.tirx.Var)
    assert int(features) == 3


def test_a_branch_keeps_both_sides() -> None:
    text = f"def @main({X}, %c: bool) {{ if (%c) {{ nn.relu(%x) }} else {{ add(%x, 1f) }} }}"
    module = load(text)
    printed = print_text(to_tree(module))
    assert "if (%c)" in printed
    assert tvm_ffi.structural_equal(module, load(printed))


def test_types_of_parameters_come_from_their_operators() -> None:
    text = """def @main(%x: Tensor[(1, 3, 8, 8), float32], %w) {
      nn.conv2d(%x, %w, channels=4, kernel_size=[3, 3])
    }"""
    weight = load(text)["main"].params[1]
    assert [int(extent) for extent in weight.ty.shape.values] == [4, 3, 3, 3]


def test_a_chain_of_ten_thousand_bindings_imports() -> None:
    x = Var("x", TensorType((2,), "float32"))
    body: Var | Call = x
    for _ in range(10_000):
        body = Call("nn.relu", (body,))
    assert len(bindings(from_tree(Function((x,), body)))) == 10_000


def test_a_chain_of_ten_thousand_lets_imports() -> None:
    x = Var("x", TensorType((2,), "float32"))
    variables = [Var(f"t{position}") for position in range(10_000)]
    body: Var | Let = variables[-1]
    for position in reversed(range(10_000)):
        operand = variables[position - 1] if position else x
        body = Let(variables[position], Call("nn.relu", (operand,)), body)
    assert len(bindings(from_tree(Function((x,), body)))) == 10_000


ERRORS = {
    f"def @main({X}) {{ nn.rellu(%x) }}": (
        "net.relay:1:{at}: there is no operator 'nn.rellu'; did you mean nn.relu?"
    ),
    f"def @main({X}) {{ nn.relu(%x, %x) }}": "net.relay:1:{at}: nn.relu takes data; it is given 2 operands",
    f"def @main({X}) {{ nn.relu(%x, axis=1) }}": (
        "net.relay:1:{at}: nn.relu has no attribute 'axis'; it has none"
    ),
    f'def @main({X}) {{ nn.softmax(%x, axis="a") }}': (
        "net.relay:1:{at}: nn.softmax: attribute 'axis' is of kind integer, not 'a'"
    ),
    f"def @main({X}) {{ nn.softmax(%x, axis=9) }}": (
        "net.relay:1:{at}: nn.softmax of (1, 3, 4, 4) float32: the input axis 9 is out of range. "
        "The input tensor has 4 dimensions, so axis should be in range [-4, 4)."
    ),
    f"def @main({X}) {{ nn.relu((%x,)) }}": (
        "net.relay:1:{at}: nn.relu: operand 'data' is a tensor, not a tuple of 1"
    ),
    f"def @main({X}) {{ %x(%x) }}": "net.relay:1:{at}: what is called here is not a function",
    f"def @main({X}) {{ @main(%x) }}": (
        "net.relay:1:{at}: calls nest deeper than 1000; a function cannot call itself"
    ),
    f"def @f(%a) {{ %a }} def @main({X}) {{ @f(%x, %x) }}": (
        "net.relay:1:{at}: the function takes 1 arguments, but is called with 2"
    ),
    f"def @main({X}) {{ fn (%a) {{ %a }} }}": (
        "net.relay: a function is used as a value; functions can only be called"
    ),
    f"def @main({X}) {{ %x.0 }}": "net.relay: field 0 is taken of what is not a tuple",
    f"def @main({X}) {{ (%x,).1 }}": "net.relay: field 1 is taken of a tuple of 1",
    f"def @main({X}) {{ if (%x) {{ %x }} else {{ %x }} }}": (
        "net.relay: the condition of an if is a scalar of bool, not (1, 3, 4, 4) float32"
    ),
    f"def @main({X}, %c: bool) {{ if (%c) {{ %x }} else {{ 1f }} }}": (
        "net.relay: the branches of an if give (1, 3, 4, 4) float32 and () float32, not the same"
    ),
    "def @main(%w) { nn.relu(%w) }": (
        "net.relay:1:{at}: %w is declared without a type, and nn.relu does not tell one"
    ),
    f"def @main({X}, %w) {{ %x }}": "net.relay: %w is declared without a type, and nothing tells one",
    "def @main(%x: Tensor[(9999999999, 9999999), int8]) { %x }": (
        "net.relay: %x of shape (9999999999, 9999999) int8 is larger than any memory"
    ),
    "def @f() { 1 }": "net.relay has no function @main; its functions are @f",
}


@pytest.mark.parametrize("text", ERRORS)
def test_errors_say_what_and_where(text: str) -> None:
    with pytest.raises(ModelError) as raised:
        load(text)
    column = text.index("{", max(0, text.find("def @main"))) + 3
    assert str(raised.value) == ERRORS[text].replace("{at}", str(column))


def test_params_must_exist() -> None:
    with pytest.raises(
        ModelError, match=r"^net.relay: there is no parameter '%q' for the value of that name$"
    ):
        load(f"def @main({X}) {{ %x }}", q=np.zeros(1))


def test_params_must_fit() -> None:
    with pytest.raises(
        ModelError, match=r"^net.relay: the value of %x is float64\[1\], but the parameter is float32"
    ):
        load(f"def @main({X}) {{ %x }}", x=np.zeros(1))


def test_doubling_calls_end_in_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relay_layout.relay.importing.function.MOST_OPERATORS", 2000)
    functions = ["def @f0(%a: float32) { add(%a, %a) }"]
    functions += [f"def @f{n}(%a: float32) {{ %0 = @f{n - 1}(%a); @f{n - 1}(%0) }}" for n in range(1, 40)]
    text = "\n".join([*functions, "def @main(%x: float32) { @f39(%x) }"])
    with pytest.raises(
        ModelError, match="there are over 2000 operators with functions taken in where called"
    ):
        load(text)


def test_constants_are_shared() -> None:
    weight = Constant(np.ones((2, 2), "float32"))
    x = Var("x", TensorType((2, 2), "float32"))
    function = Function((x,), Call("add", (Call("add", (x, weight)), weight)))
    module = from_tree(Module({"main": function}))
    calls = [binding.value for block in module["main"].body.blocks for binding in block.bindings]
    assert calls[0].args[1].same_as(calls[1].args[1])


def test_inputs_of_one_name_are_told_apart() -> None:
    kinds = [TensorType((2, size), "float32") for size in (1, 2, 3, 4)]
    inputs = [Var(name, kind) for name, kind in zip(("x", "x", "x_1", "x"), kinds, strict=True)]
    joined = Call("concatenate", (Tuple(tuple(inputs)),), {"axis": 1})
    main = from_tree(Function(tuple(inputs), joined))["main"]
    names = [str(parameter.name) for parameter in main.params]
    assert names == ["x", "x_2", "x_1", "x_3"]
    assert [int(parameter.ty.shape.values[1]) for parameter in main.params] == [1, 2, 3, 4]


def test_inputs_of_one_name_without_a_type() -> None:
    data = Var("x", TensorType((2, 3), "float32"))
    weight = Var("x")
    main = from_tree(Function((data, weight), Call("nn.dense", (data, weight), {"units": 4})))["main"]
    assert [str(parameter.name) for parameter in main.params] == ["x", "x_1"]
