"""What Relay text may look like."""

import numpy as np
import pytest

from relay_layout.relay.syntax import (
    Call,
    Constant,
    Expression,
    Function,
    FuncType,
    GlobalVar,
    If,
    Let,
    TensorType,
    Tuple,
    TupleGetItem,
    TupleType,
    Var,
    print_text,
    read_text,
)


def body(text: str, parameters: str = "%x, %y") -> Expression:
    return read_text(f"def @main({parameters}) {{ {text} }}").functions["main"].body


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("1", np.int32(1)),
        ("-7", np.int32(-7)),
        ("3000000000", np.int64(3000000000)),
        ("1i64", np.int64(1)),
        ("-2i16", np.int16(-2)),
        ("2i8", np.int8(2)),
        ("3f", np.float32(3)),
        ("2.5", np.float32(2.5)),
        ("0.25f", np.float32(0.25)),
        ("-1e-05f", np.float32(-1e-05)),
        ("3f64", np.float64(3)),
        ("1.5f16", np.float16(1.5)),
        ("inff", np.float32(np.inf)),
        ("-inff64", np.float64(-np.inf)),
        ("True", np.bool_(True)),
        ("False", np.bool_(False)),
    ],
)
def test_literals(literal: str, value: np.generic) -> None:
    constant = body(literal)
    assert isinstance(constant, Constant)
    assert constant.data.dtype == value.dtype and constant.data.shape == ()
    assert constant.data == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-1", -1),
        ("3i64", 3),
        ("1e-05f", 1e-05),
        ("1.79769e+308f", 1.79769e308),
        ("2f", 2.0),
        ("True", True),
        ("None", None),
        ("nullptr", None),
        ('"NCHW"', "NCHW"),
        ('"C:\\dir"', "C:\\dir"),
        ('""', ""),
        ("[1, 2]", (1, 2)),
        ("[[0, 1], [2, 3]]", ((0, 1), (2, 3))),
        ("[]", ()),
        ("(1, 2)", (1, 2)),
        ("(1,)", (1,)),
        ("(1)", 1),
        ("[0f, None, ?]", (0.0, None, None)),
    ],
)
def test_values_of_attributes(text: str, value: object) -> None:
    call = body(f"op(%x, first={text}, last=1)")
    assert isinstance(call, Call)
    assert call.attrs == {"first": value, "last": 1}
    assert type(call.attrs["first"]) is type(value)


@pytest.mark.parametrize(
    ("text", "relay_type"),
    [
        ("float32", TensorType((), "float32")),
        ("bool", TensorType((), "bool")),
        ("Tensor[(), int8]", TensorType((), "int8")),
        ("Tensor[(1, 3i64, ?), bfloat16]", TensorType((1, 3, None), "bfloat16")),
        ("Tensor[(meta[tir.Add][0], 2), int4]", TensorType((None, 2), "int4")),
        ("Tensor[(4,), uint8]", TensorType((4,), "uint8")),
        ("()", TupleType(())),
        ("(float32,)", TupleType((TensorType((), "float32"),))),
        (
            "(int32, (float16, Tensor[(2), float64]))",
            TupleType(
                (
                    TensorType((), "int32"),
                    TupleType((TensorType((), "float16"), TensorType((2,), "float64"))),
                )
            ),
        ),
        ("fn (bool) -> ()", FuncType((TensorType((), "bool"),), TupleType(()))),
    ],
)
def test_types(text: str, relay_type: object) -> None:
    function = read_text(f"def @main(%x: {text}) -> {text} {{ %x }}").functions["main"]
    assert function.params[0].type == relay_type
    assert function.ret_type == relay_type


def test_bindings_share_their_value() -> None:
    result = body("%0 = nn.relu(%x); %1 = add(%0, %0); %2 = unused(%0); (%0, %1,)")
    assert isinstance(result, Tuple)
    relu, add = result.fields
    assert isinstance(add, Call)
    assert add.args[0] is relu and add.args[1] is relu


def test_names_with_dots_and_fields() -> None:
    module = read_text("def @main(%input.1: float32, %p) { (%input.1, %p.0, %p.1.2, (%p).0) }")
    function = module.functions["main"]
    result = function.body
    assert isinstance(result, Tuple)
    assert [param.name for param in function.params] == ["input.1", "p"]
    assert result.fields[0] is function.params[0]
    nested = result.fields[2]
    assert isinstance(nested, TupleGetItem) and nested.index == 2
    assert isinstance(nested.tuple_value, TupleGetItem) and nested.tuple_value.index == 1
    assert nested.tuple_value.tuple_value is function.params[1]


@pytest.mark.parametrize("name", ["x", "conv1/weight:0", "stage1-unit1", "a$b", "a.b.c", "x1", "é"])
def test_names(name: str) -> None:
    function = read_text(f"def @main(%{name}:float32){{%{name}}}").functions["main"]
    assert function.params[0].name == name
    assert function.params[0].type == TensorType((), "float32")
    assert function.body is function.params[0]


def test_functions_branches_and_calls() -> None:
    text = """
    def @main(%x: float32, Primitive=1, Compiler="dnnl") {
      let %f: fn (float32) -> float32 = fn (%v: float32, Inline=1) -> float32 { %f(%v) };
      %0 = if (@test(%x)) { %1 = %f(%x); %1 } else { let %y = %x; %y };
      fn (%z) { (%0, %z) }(%x)
    }
    def @test(%c) { %c }
    """
    module = read_text(text)
    main = module.functions["main"]
    assert main.attrs == {"Primitive": 1, "Compiler": "dnnl"}
    assert isinstance(main.body, Let)
    recursive = main.body.value
    assert isinstance(recursive, Function) and recursive.attrs == {"Inline": 1}
    assert isinstance(recursive.body, Call) and recursive.body.op is main.body.var
    applied = main.body.body
    assert isinstance(applied, Call) and isinstance(applied.op, Function)
    branch = applied.op.body
    assert isinstance(branch, Tuple) and isinstance(branch.fields[0], If)
    condition = branch.fields[0].condition
    assert isinstance(condition, Call) and condition.op == GlobalVar("test")


def test_inner_variable_hides_the_outer_one() -> None:
    result = body("let %x = nn.relu(%x); let %x: int8 = add(%x, %y); %x")
    assert isinstance(result, Let) and isinstance(result.body, Let)
    assert isinstance(result.body.value, Call)
    assert result.body.value.args[0] is result.var
    assert result.body.body is result.body.var
    assert isinstance(result.value, Call) and result.value.args[0] is not result.var


def test_binding_of_an_inner_block_is_visible_outside() -> None:
    # So Relay prints an expression that a branch and what follows it share.
    result = body("%1 = if (%x) { %0 = nn.relu(%y); %0 } else { %0 }; (%1, %0)")
    assert isinstance(result, Tuple)
    branch, relu = result.fields
    assert isinstance(branch, If)
    assert branch.true_branch is relu and branch.false_branch is relu


def test_let_within_a_value() -> None:
    result = body("let %a = let %b = %x; %b; (let %c = %a; %c, %y)")
    assert isinstance(result, Let) and isinstance(result.value, Let)
    assert isinstance(result.body, Tuple) and isinstance(result.body.fields[0], Let)


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("%x + %y * %x", "add(%x, multiply(%y, %x))"),
        ("%x - %y - %x / %y", "subtract(subtract(%x, %y), divide(%x, %y))"),
        ("(%x - %y) * 2f", "multiply(subtract(%x, %y), 2f)"),
        ("%x < %y == (%x >= %y)", "equal(less(%x, %y), greater_equal(%x, %y))"),
        ("%x == %y > %x + %y", "equal(%x, greater(%y, add(%x, %y)))"),
        ("%x != %y <= %x", "not_equal(%x, less_equal(%y, %x))"),
        ("%x -1f + -2f", "add(subtract(%x, 1f), -2f)"),
        ("nn.relu(%x + %y, axis=-1) -1f", "subtract(nn.relu(add(%x, %y), axis=-1), 1f)"),
        ("let %z = %x * %y; (%z, %z).0 -%z", "let %z = multiply(%x, %y); subtract((%z, %z).0, %z)"),
    ],
)
def test_operators_between_their_operands(text: str, calls: str) -> None:
    found, expected = (print_text(read_text(f"def @main(%x, %y) {{ {one} }}")) for one in (text, calls))
    assert found == expected


def test_a_long_chain_of_operators() -> None:
    chain = body(" + ".join(["%x"] * 5000))
    assert isinstance(chain, Call) and chain.op == "add" and isinstance(chain.args[1], Var)


def test_comments() -> None:
    text = "def @main(%x /* ty=int8 /* nested */ */) // to the end {\n{ /**/ %x//\n}"
    assert isinstance(read_text(text).functions["main"].body, Var)


def test_text_in_bytes_with_marks_of_windows() -> None:
    text = "\ufeffdef @main(%x) {\r\n  %x\r\n}\r\n"
    assert read_text(text.encode()).functions.keys() == {"main"}
    assert read_text(text).functions.keys() == {"main"}


def test_expression_becomes_main() -> None:
    module = read_text('#[version = "0.0.5"]\nfree_var %b: int8; free_var %a; %0 = add(%a, %b); add(%0, %a)')
    assert [param.name for param in module.functions["main"].params] == ["a", "b"]
    assert module.metadata == {"version": "0.0.5"}
    function = read_text("fn (%a) { %a }").functions["main"]
    assert function.body is function.params[0]


def test_devices_are_left_to_the_target() -> None:
    text = (
        "def @main(%x {virtual_device=meta[VirtualDevice][0]}: int8, virtual_device=meta[VirtualDevice][1])"
        " -> int8 { %x }"
    )
    assert read_text(text).functions["main"].attrs == {}


def test_operator_may_be_named_like_a_number() -> None:
    assert print_text(read_text("def @main(%x) { inff(%x, nanf=inff) }")).splitlines()[2] == (
        "  inff(%x, nanf=inff)"
    )


def test_empty_module() -> None:
    module = read_text('#[version = "0.0.5"]\n')
    assert module.functions == {}
    assert read_text(print_text(module)).functions == {}
