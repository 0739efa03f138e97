"""How modules are printed, and which cannot be."""

import numpy as np
import pytest

from relay_layout.errors import ModelError
from relay_layout.relay.syntax import (
    Call,
    Constant,
    Expression,
    Function,
    FuncType,
    If,
    Let,
    Module,
    TensorType,
    Tuple,
    TupleGetItem,
    TupleType,
    Var,
    print_expression,
    print_text,
    read_text,
    structurally_equal,
)

FLOAT = TensorType((), "float32")


def main(body: Expression, *params: Var) -> str:
    """The lines within @main, after checking that they read back."""
    module = Module({"main": Function(params, body)})
    text = print_text(module)
    assert structurally_equal(read_text(text), module), text
    return "\n".join(text.split("#[metadata]")[0].rstrip().splitlines()[2:-1])


def test_whole_module() -> None:
    x = Var("x", TensorType((1, None), "float32"))
    relu = Call("nn.relu", (x,))
    body = Call("add", (relu, relu), {"axis": -1, "mode": "a", "sizes": (1, (2.5, True)), "none": None})
    weight = Constant(np.ones((2,), "float16"))
    second = Function((), Tuple((weight, weight)), TupleType((FLOAT,)), {"Inline": 1})
    text = print_text(Module({"main": Function((x,), body, FuncType((FLOAT,), FLOAT)), "second": second}))
    head, _, metadata = text.partition("#[metadata]")
    assert head == (
        '#[version = "0.0.5"]\n'
        "def @main(%x: Tensor[(1, ?), float32]) -> fn (float32) -> float32 {\n"
        "  %0 = nn.relu(%x);\n"
        '  add(%0, %0, axis=-1, mode="a", sizes=[1, [2.5f, True]], none=None)\n'
        "}\n"
        "\n"
        "def @second(Inline=1) -> (float32,) {\n"
        "  (meta[relay.Constant][0], meta[relay.Constant][0])\n"
        "}\n"
        "\n"
    )
    assert metadata.count("relay.Constant") == 2


def test_function_and_expression_alone() -> None:
    x = Var("x", TensorType((2,), "float32"))
    relu = Call("nn.relu", (x,))
    body = Call("add", (relu, relu))
    head = '#[version = "0.0.5"]\n'
    assert print_expression(Function((x,), body)) == (
        f"{head}fn (%x: Tensor[(2), float32]) {{\n  %0 = nn.relu(%x);\n  add(%0, %0)\n}}\n"
    )
    assert print_expression(body) == (
        f"{head}free_var %x: Tensor[(2), float32];\n%0 = nn.relu(%x);\nadd(%0, %0)\n"
    )
    with pytest.raises(ModelError, match=r"^the expression binds variable %x twice, or uses it before"):
        print_expression(Let(x, relu, x))


def test_blocks() -> None:
    x, y, z = Var("x"), Var("y", FLOAT), Var("z")
    shared = Call("nn.relu", (x,))
    branch = If(x, Let(y, shared, Tuple((y,))), Tuple((shared, shared)))
    assert main(Let(z, Function((), branch), Call(z, ())), x) == (
        "  let %z = fn () {\n"
        "    if (%x) {\n"
        "      %0 = nn.relu(%x);\n"
        "      let %y: float32 = %0;\n"
        "      (%y,)\n"
        "    } else {\n"
        "      (%0, %0)\n"
        "    }\n"
        "  };\n"
        "  %z()"
    )


def test_let_within_an_expression() -> None:
    x, y = Var("x"), Var("y")
    assert main(Call("nn.relu", (Let(y, Tuple((x,)), y),)), x) == (
        "  %0 = (\n    let %y = (%x,);\n    %y\n  );\n  nn.relu(%0)"
    )


def test_names_are_made_distinct() -> None:
    x, again, third, empty, strange = Var("x"), Var("x"), Var("x_1"), Var(""), Var("1/2 %")
    body = Let(again, x, Let(third, again, Tuple((x, again, third))))
    assert main(body, x, empty, strange).endswith("(%x, %x_1, %x_1_1)")
    assert print_text(Module({"main": Function((empty, strange), empty)})).splitlines()[1] == (
        "def @main(%v, %v1_2__) {"
    )


def test_fields_of_variables_beside_names_with_dots() -> None:
    p, dotted = Var("p"), Var("p.0")
    assert main(TupleGetItem(p, 0), p, dotted) == "  (%p).0"
    assert main(TupleGetItem(p, 0), p) == "  %p.0"
    assert main(TupleGetItem(Constant(np.array(1, "int32")), 0)) == "  (1).0"


def test_free_variables() -> None:
    x, y = Var("x", FLOAT), Var("y")
    assert main(Call("add", (x, Call("nn.relu", (x,)))), y) == (
        "  free_var %x: float32;\n  %0 = nn.relu(%x);\n  add(%x, %0)"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float32(0.1), "0.1f"),
        (np.float32(-0.0), "-0f"),
        (np.float32(1e-45), "1e-45f"),
        (np.float32(3.4028235e38), "3.4028235e+38f"),
        (np.float64(0.1), "0.1f64"),
        (np.float16(0.1), "0.1f16"),
        (np.float32(np.inf), "inff"),
        (np.int64(2), "2i64"),
        (np.int16(-2), "-2i16"),
        (np.int32(-2), "-2"),
        (np.bool_(True), "True"),
        (np.int8(2), "meta[relay.Constant][0]"),
        (np.float32(np.nan), "meta[relay.Constant][0]"),
    ],
)
def test_scalars(value: np.generic, text: str) -> None:
    assert main(Constant(np.array(value))) == f"  {text}"


def test_text_with_quotation_marks_goes_to_the_metadata_section() -> None:
    assert main(Call("op", (), {"a": 'x"y', "b": {"k": (1, None)}})) == (
        "  op(a=meta[runtime.String][0], b=meta[Map][0])"
    )


def nested(count: int) -> Function:
    function = Function((), Constant(np.array(1, "int32")))
    for _ in range(count):
        function = Function((), function)
    return function


X = Var("x")
LONELY = Function((X,), X)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (nested(300), "function @main has functions or branches that nest more than 196 deep"),
        (Function((), Tuple((LONELY, X))), "function @main uses variable %x outside of where it is bound"),
        (Function((X,), LONELY), "function @main binds variable %x twice, or uses it before it is bound"),
        (
            Function((), Call("f", (Call("g", (X,)), LONELY))),
            "function @main binds variable %x twice, or uses it before it is bound",
        ),
        (
            Function((), Call("if", ())),
            "function @main calls an operator named 'if', which Relay text reserves",
        ),
    ],
)
def test_what_text_cannot_say(function: Function, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        print_text(Module({"main": function}))
    assert str(caught.value) == f"{message}, so it cannot be printed as Relay text"


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (Module({"a b": LONELY}), "'a b' is no name of a function that Relay text can hold"),
        (
            Module({"f": Function((), Call("a b", ()))}),
            "'a b' is no name of an operator that Relay text can hold",
        ),
        (
            Module({"f": Function((), Call("op", (), {"1": 1}))}),
            "'1' is no name of an attribute that Relay text can hold",
        ),
    ],
)
def test_names_that_text_cannot_hold(module: Module, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        print_text(module)
    assert str(caught.value) == message
