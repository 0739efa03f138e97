"""Building expressions, and TVM taking them as Relax functions."""

import numpy as np
import pytest
import tvm
import tvm_ffi

from relay_layout import relay
from relay_layout.errors import ModelError
from relay_layout.relay.syntax import read_text, structurally_equal, tree
from relay_layout.relay.syntax.relay_types import FuncType, TensorType, TupleType


def type_of(expression: tree.Expression) -> tuple[tuple[int | None, ...], str]:
    kind = expression.checked_type
    assert isinstance(kind, TensorType)
    return kind.shape, kind.dtype


def same_as_text(function: relay.Function, text: str) -> bool:
    return structurally_equal(tree.Module({"main": function}), read_text(text, "test"))


@pytest.mark.parametrize(
    ("build", "body"),
    [
        (lambda x, y: x + y, "add(%x, %y)"),
        (lambda x, y: x - y, "subtract(%x, %y)"),
        (lambda x, y: x * y, "multiply(%x, %y)"),
        (lambda x, y: x / y, "divide(%x, %y)"),
        (lambda x, y: -x, "negative(%x)"),
        (lambda x, y: x < y, "less(%x, %y)"),
        (lambda x, y: x > y, "greater(%x, %y)"),
        (lambda x, y: x <= y, "less_equal(%x, %y)"),
        (lambda x, y: x >= y, "greater_equal(%x, %y)"),
        (lambda x, y: 2 + x, "add(2f16, %x)"),
        (lambda x, y: 2 - x, "subtract(2f16, %x)"),
        (lambda x, y: x * 2.5, "multiply(%x, 2.5f16)"),
        (lambda x, y: np.float64(2.5) * x, "multiply(2.5f16, %x)"),
        (lambda x, y: np.array(1.0) / x, "divide(1f16, %x)"),
        (lambda x, y: x > 1, "greater(%x, 1f16)"),
        (lambda x, y: x.astype("int8") + 1, 'add(cast(%x, dtype="int8"), 1i8)'),
    ],
)
def test_operators_make_calls(build, body):
    x, y = relay.var("x", shape=(3,), dtype="float16"), relay.var("y", shape=(3,), dtype="float16")
    function = relay.Function([x, y], build(x, y))
    assert same_as_text(
        function, f"def @main(%x: Tensor[(3), float16], %y: Tensor[(3), float16]) {{ {body} }}"
    )


def test_a_fraction_beside_integers_stays_a_fraction():
    x = relay.var("x", shape=(3,), dtype="int32")
    assert (x * 0.5).args[1].data.dtype == np.float32


def test_numbers_beside_what_has_no_type_are_as_const_makes_them():
    weight = relay.var("weight")
    assert [(weight + value).args[1].data.dtype for value in (1, 1.0)] == [np.int32, np.float32]


def test_operators_refuse_what_is_no_expression():
    x = relay.var("x", shape=(3,))
    with pytest.raises(TypeError, match="unsupported operand"):
        x + "one"


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (1, None, "int32"),
        (1.5, None, "float32"),
        (True, None, "bool"),
        ([1.0, 2.0], None, "float32"),
        (np.arange(3), None, "int32"),
        (np.arange(3, dtype="uint8"), None, "uint8"),
        (np.float16(1), None, "float16"),
        (1, "int64", "int64"),
        (1, np.float64, "float64"),
        (1, "float", "float64"),
    ],
)
def test_const_dtypes(value, dtype, expected):
    assert str(relay.const(value, dtype).data.dtype) == expected


def test_attributes_take_dtypes_without_bits():
    cast = relay.cast(relay.var("x", shape=(2,)), "int")
    assert cast.checked_type == TensorType((2,), "int32")


def test_const_keeps_the_dtype_of_a_tensor_and_copies_it():
    array = np.zeros(3, "int64")
    constant = relay.const(tvm.runtime.tensor(array))
    array[0] = 1
    assert constant.data.dtype == np.int64
    assert not constant.data.any()


def test_values_are_read_as_arrays_and_as_tensors():
    constant = relay.const([1.0, 2.0])
    assert type(constant.data.numpy()) is np.ndarray
    assert constant.data.asnumpy().tolist() == constant.data.tolist() == [1, 2]
    assert type(constant.data * 2) is np.ndarray
    assert type(1 / relay.const(4.0).data) is np.float32


def test_const_refuses_text():
    with pytest.raises(ValueError, match=r"relay.const takes a number or an array, not str"):
        relay.const("one")


@pytest.mark.parametrize(
    ("variable", "kind"),
    [
        (
            relay.var("x", shape=(1, relay.Any(), np.int64(3))),
            TensorType((1, None, 3), "float32"),
        ),
        (relay.var("x", relay.TensorType([2], "int8")), TensorType((2,), "int8")),
        (relay.var("x", "int32"), TensorType((), "int32")),
        (relay.var("x", "uint"), TensorType((), "uint32")),
        (relay.var("x", shape=(2,), dtype="float"), TensorType((2,), "float32")),
        (relay.var("x", shape=(tvm.tirx.Var("n", "int64"), tvm.tirx.IntImm("int64", 4))), None),
        (relay.var("x"), None),
    ],
    ids=["shape", "type", "scalar", "scalar without bits", "without bits", "symbolic", "untyped"],
)
def test_var(variable, kind):
    if variable.type is not None and kind is None:
        kind = TensorType((None, 4), "float32")
    assert variable.type_annotation == kind
    assert variable.name_hint == "x"


def test_var_refuses_type_and_shape():
    with pytest.raises(ValueError, match="a type_annotation or a shape, not both"):
        relay.var("x", relay.TensorType((1,)), shape=(1,))


def test_classes_tell_the_kind_of_an_expression():
    x = relay.var("x", shape=(2,))
    call = relay.Call(relay.op.get("nn.relu"), [x])
    kinds = {
        relay.Var: x,
        relay.Call: call,
        relay.Tuple: relay.Tuple([x, call]),
        relay.TupleGetItem: relay.TupleGetItem(relay.Tuple([x]), 0),
        relay.Constant: relay.const(1),
        relay.Function: relay.Function([x], call),
        relay.If: relay.If(relay.const(True), x, call),
        relay.Let: relay.Let(relay.var("v"), x, call),
        relay.GlobalVar: relay.GlobalVar("main"),
    }
    for kind in kinds:
        assert [isinstance(other, kind) for other in kinds.values()] == [other is kind for other in kinds]
    assert all(isinstance(expression, relay.Expr) for expression in kinds.values())


def test_a_call_tells_its_operator_and_attributes():
    call = relay.nn.conv2d(relay.var("x"), relay.var("w"), groups=2, channels=4, kernel_size=(3, 3))
    assert call.op.name == "nn.conv2d"
    assert isinstance(call.op, tvm.ir.Op)
    assert (call.attrs.groups, call.attrs["groups"], call.attrs.get_int("groups")) == (2, 2, 2)
    assert (call.attrs.data_layout, call.attrs.get_str("data_layout")) == ("NCHW", "NCHW")
    assert call.attrs.get_int_tuple("strides") == (1, 1)
    assert call.attrs == {"groups": 2, "channels": 4, "kernel_size": (3, 3), "padding": (0, 0, 0, 0)}
    again = {**call.attrs, "data_layout": "NHWC", "kernel_layout": "HWIO"}
    assert list(again)[:3] == ["strides", "padding", "dilation"] and again["dilation"] == (1, 1)
    assert dict(relay.nn.conv2d(*call.args, **again).attrs) == again
    assert "dilation" not in relay.astext(relay.Call(call.op, call.args, call.attrs))
    with pytest.raises(AttributeError, match=r"nn.conv2d has no attribute 'stride'"):
        _ = call.attrs.stride


def test_a_call_is_made_again_of_its_parts():
    x = relay.var("x", shape=(2,))
    call = relay.clip(x, 0, 6)
    again = relay.Call(call.op, [relay.nn.relu(x)], call.attrs, call.type_args, call.span)
    assert structurally_equal(again, relay.clip(relay.nn.relu(x), 0, 6))


def test_functions_of_modules_and_of_trees_are_functions():
    x = relay.var("x", shape=(2,))
    module = tvm.IRModule.from_expr(relay.nn.relu(x))
    visited: list[object] = []
    relay.analysis.post_order_visit(module["main"], visited.append)
    assert [isinstance(part, relay.Function) for part in visited] == [False, False, True]
    assert all(isinstance(function, relay.Function) for function in module.functions.values())
    assert not isinstance(module["main"].body, relay.Function)


def test_untyped_weights_learn_their_types():
    data, weight = relay.var("data", shape=(1, 3, 8, 8)), relay.var("weight")
    net = relay.nn.conv2d(data, weight, channels=4, kernel_size=(3, 3))
    assert type_of(net) == ((1, 4, 6, 6), "float32")
    assert type_of(weight) == ((4, 3, 3, 3), "float32")


def test_a_variable_that_nothing_types_has_no_type():
    with pytest.raises(ModelError, match="%x is declared without a type, and nothing tells one"):
        _ = relay.var("x").checked_type


def test_types_of_tuples_functions_branches_and_unknown_extents():
    x = relay.var("x", shape=(relay.Any(), 4))
    assert type_of(relay.reshape(x * x, (-1, 2))) == ((None, 2), "float32")
    assert relay.Function([x], relay.Tuple([x, x])).checked_type == FuncType(
        (x.type,), TupleType((x.type, x.type))
    )
    assert type_of(relay.If(relay.var("c", "bool"), x, -x)) == ((None, 4), "float32")


def test_types_print_as_in_text():
    tensor = relay.TensorType((relay.Any(), 3), "int8")
    nested = relay.FuncType([relay.TupleType([tensor]), relay.scalar_type("bool")], relay.TupleType([]))
    assert str(nested) == "fn ((Tensor[(?, 3), int8],), bool) -> ()"


def test_types_of_a_long_chain():
    net = relay.var("x", shape=(2,))
    for _ in range(2000):
        net = net + 1
    assert type_of(net) == ((2,), "float32")


def test_wrapped_tuples_are_sequences():
    x = relay.var("x", shape=(2, 6))
    parts = relay.split(x, 3, axis=1)
    first, *_, last = parts
    assert (len(parts), type_of(first), type_of(last)) == (3, ((2, 2), "float32"), ((2, 2), "float32"))
    assert parts[-1].index == 2
    with pytest.raises(IndexError, match="field 3 of a tuple of 3"):
        parts[3]
    with pytest.raises(TypeError, match="a tuple has no data type"):
        parts.astype("int8")
    assert parts.astuple() is relay.concatenate(parts, 1).args[0]


def test_a_function_is_a_function_of_tvm():
    x = relay.var("x", shape=(2, 3))
    function = relay.Function([x], x + 1)
    assert isinstance(function, tvm.ir.BaseFunc)
    assert isinstance(function, relay.Function)
    expected = tvm.IRModule.from_expr(function)
    assigned = tvm.IRModule()
    assigned["main"] = function
    for module in (assigned, tvm.IRModule({"main": function}), tvm.IRModule.from_expr(x + 1)):
        assert tvm_ffi.structural_equal(module, expected)
    assert [str(parameter.name) for parameter in expected["main"].params] == ["x"]
    assert function.attrs == {}
    assert str(function.ret_ty) == 'R.Tensor((2, 3), dtype="float32")'


def test_a_module_holds_functions_by_variables():
    name, x = relay.GlobalVar("main"), relay.var("x", shape=(2,))
    assert name == relay.GlobalVar("main") != relay.GlobalVar("other")
    module = tvm.IRModule()
    module[name] = relay.Function([x], x + x)
    tvm.ir.assert_structural_equal(module[name], module["main"])
    made = tvm.IRModule({name: relay.Function([x], x + x)})
    assert [variable.name_hint for variable in made.get_global_vars()] == ["main"]


def test_expressions_become_functions_of_their_free_variables_in_order():
    a, b = relay.var("a", shape=(2,)), relay.var("b", shape=(2,))
    module = tvm.IRModule.from_expr(relay.split(b * a, 2))
    assert [str(parameter.name) for parameter in module["main"].params] == ["b", "a"]


def test_a_function_that_cannot_be_imported():
    x = relay.var("x", shape=(2, 3))
    function = relay.Function([x], relay.Call("nn.nothing", [x]))
    with pytest.raises(ModelError, match=r"expression: there is no operator 'nn.nothing'"):
        tvm.IRModule.from_expr(function)


def test_a_function_cannot_be_changed():
    function = relay.Function([], relay.const(1))
    with pytest.raises(AttributeError, match="a function cannot be changed: body"):
        function.body = relay.const(2)


def test_functions_are_called():
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    assert type_of(relay.Function([x], x + 1)(y)) == ((2,), "float32")


def test_a_variable_of_incomplete_type_gets_its_type_from_operators():
    x, w = relay.var("x", shape=(1, 3, 8, 8)), relay.var("w", relay.IncompleteType())
    net = relay.nn.conv2d(x, w, channels=4, kernel_size=(3, 3))
    assert type_of(net) == ((1, 4, 6, 6), "float32")
    assert isinstance(w.type_annotation, relay.IncompleteType)


def test_text_of_expressions_and_modules():
    x = relay.var("x", shape=(2,))
    function = relay.Function([x], x + relay.const(np.arange(2.0)))
    assert "add(%x, meta[relay.Constant][0])" in str(function)
    assert "#[metadata]" not in str(function)
    assert "#[metadata]" in function.astext()
    module = relay.parse(relay.astext(tvm.IRModule.from_expr(function)))
    assert tvm_ffi.structural_equal(module, tvm.IRModule.from_expr(function))
    assert "add(%x" in relay.astext(module["main"])


def test_the_body_of_a_modules_function_is_an_expression() -> None:
    x, weight = relay.var("x", shape=(2, 3)), relay.var("fc.weight", shape=(5, 3))
    unused = relay.var("unused", shape=(7,))
    module = tvm.IRModule.from_expr(relay.Function([x, unused, weight], relay.nn.dense(x, weight)))
    main = module["main"]
    grown = relay.Function(main.params, relay.nn.softmax(main.body), None, [], main.attrs)
    assert [parameter.name for parameter in grown.params] == ["x", "unused", "fc.weight"]
    data, held = (np.random.default_rng(0).standard_normal(shape) for shape in ((2, 3), (5, 3)))
    values = {"fc.weight": held.astype("float32"), "unused": np.zeros(7, "float32")}
    result = relay.create_executor("graph", tvm.IRModule.from_expr(grown), params=values).evaluate()(data)
    powers = np.exp(data @ held.T)
    np.testing.assert_allclose(result.numpy(), powers / powers.sum(1, keepdims=True), rtol=1e-5)


def test_parts_of_two_readings_of_a_function_have_its_parameters() -> None:
    x = relay.var("x", shape=(2, 3))
    main = tvm.IRModule.from_expr(relay.nn.relu(relay.tanh(x)))["main"]
    found: list[relay.Expr] = []
    relay.analysis.post_order_visit(main, found.append)
    (inner,) = (each for each in found if isinstance(each, relay.Call) and each.op == relay.op.get("tanh"))
    both = relay.Function(main.params, relay.Tuple([main.body, inner]))
    assert [parameter.name for parameter in both.params] == ["x"]
    given = np.array([[-1, 0, 1], [2, 3, 4]], "float32")
    outer, result = relay.create_executor("graph", tvm.IRModule.from_expr(both)).evaluate()(given)
    np.testing.assert_allclose(result.numpy(), np.tanh(given), atol=1e-6)
    np.testing.assert_allclose(outer.numpy(), np.maximum(np.tanh(given), 0), atol=1e-6)


def test_a_body_with_two_variables_of_a_name() -> None:
    x, other = relay.var("x", shape=(2,)), relay.var("x", shape=(2,))
    main = tvm.IRModule.from_expr(relay.nn.relu(x))["main"]
    with pytest.raises(ModelError, match="the function's body has two variables 'x'; rename one"):
        relay.Function(main.params, relay.add(x, other))


def test_expressions_print_as_text() -> None:
    x = relay.var("x", shape=(2, 3))
    assert str(relay.nn.relu(x)) == "free_var %x: Tensor[(2, 3), float32];\nnn.relu(%x)"
    assert (f"{relay.GlobalVar('f')}", repr([x])) == ("@f", "[<Var x>]")
