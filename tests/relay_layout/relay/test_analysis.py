"""Questions about expressions, and changed copies of them."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_layout import relay
from relay_layout.errors import ModelError
from relay_layout.relay.trees.rebuilding import rebuilt


@pytest.fixture
def a():
    return relay.var("a", shape=(2,))


@pytest.fixture
def b():
    return relay.var("b", shape=(2,))


def test_variables(a, b):
    v = relay.var("v")
    net = relay.Let(v, b + a, relay.Function([a], a * v))
    free = relay.var("free", shape=(2,))
    function = relay.Function([a, b], free + b)
    assert relay.analysis.free_vars(b * a + b) == [b, a]
    assert relay.analysis.free_vars(relay.split(b, 2)) == [b]
    assert relay.analysis.bound_vars(net) == [a, v]
    assert relay.analysis.free_vars(function) == [free]
    assert relay.analysis.all_vars(function) == [a, b, free]


def test_data_types(a):
    pair = relay.Tuple([relay.cast(a, "int8"), relay.split(a, 2).astuple()])
    assert relay.analysis.all_dtypes(pair) == {"float32", "int8"}


def test_constants(a):
    one = relay.const(1.0)
    assert relay.analysis.check_constant(relay.Tuple([one, one]))
    assert not relay.analysis.check_constant(one + one)
    assert not relay.analysis.check_constant(relay.Tuple([one, a]))


def test_visits_in_post_order(a, b):
    net = relay.nn.relu(a + b)
    names = []

    def visit(part):
        names.append(part.op.name if isinstance(part, relay.Call) else type(part).__name__)

    relay.analysis.post_order_visit(relay.Function([a, b], relay.Tuple([net, net])), visit)
    assert names == ["Var", "Var", "add", "nn.relu", "Tuple", "Function"]


def test_relax_modules_are_visited_as_relay(a):
    module = tvm.IRModule.from_expr(relay.nn.relu(a))
    calls = []

    def visit(part):
        if isinstance(part, relay.Call):
            calls.append(part.op.name)

    relay.analysis.post_order_visit(module["main"], visit)
    relay.analysis.post_order_visit(module, visit)
    assert calls == ["nn.relu", "nn.relu"]


def test_operators_are_counted(a):
    module = tvm.IRModule.from_expr(relay.nn.relu(relay.nn.relu(a)) + a)
    assert relay.analysis.list_op_freqs(module) == {"nn.relu": 2, "add": 1}


def test_layers_are_counted_along_the_longest_way(a):
    short = relay.nn.relu(a)
    long = relay.nn.relu(relay.exp(relay.nn.relu(short)))
    module = tvm.IRModule.from_expr(long + short)
    assert relay.analysis.count_layers(module["main"], valid_ops=["nn.relu"]) == 3
    assert relay.analysis.count_layers(long, ["exp", "nn.relu"]) == 4
    assert relay.analysis.count_layers(a, ["nn.relu"]) == 0


def test_well_formed(a, b):
    assert relay.analysis.well_formed(relay.Function([a], a + a))
    assert not relay.analysis.well_formed(relay.Function([a], b))
    assert not relay.analysis.well_formed(relay.Let(a, b, relay.Let(a, b, a)))


def test_what_can_be_imported(a):
    assert relay.analysis.check_basic_block_normal_form(a + a)
    assert not relay.analysis.check_basic_block_normal_form(relay.Call("nothing", [a]))


def test_what_is_no_expression():
    with pytest.raises(TypeError, match="an expression is needed, not int"):
        relay.analysis.free_vars(1)


def test_bind_in_expressions_and_functions(a, b):
    constant = relay.const([1.0, 2.0])
    bound = relay.bind(a + b, {a: constant})
    assert bound.args == (constant, b)
    function = relay.bind(relay.Function([a, b], a * b), {a: constant})
    assert (function.params, function.body.args) == ((b,), (constant, b))
    brought = relay.bind(relay.Function([a], a * a), {a: b + 1})
    assert brought.params == (b,)
    assert isinstance(brought, tvm.ir.BaseFunc)


def test_what_does_not_change_is_not_copied(a, b):
    kept = relay.nn.relu(b)
    net = kept + a
    assert rebuilt(net, lambda part: None) is net
    changed = rebuilt(net, lambda part: b if part is a else None)
    assert changed.args[0] is kept


def test_every_kind_of_expression_is_rebuilt(a, b):
    v, w, condition = relay.var("v"), relay.var("w"), relay.var("c", "bool")
    inner = relay.Function([w], relay.If(condition, w, a))
    net = relay.Let(v, relay.TupleGetItem(relay.Tuple([a, b]), 0), inner(relay.GlobalVar("f")(v)))
    text = relay.astext(relay.Function([a, b, condition], net))
    x = relay.var("x", shape=(2,))
    changed = rebuilt(net, lambda part: x if part is a else None)
    assert relay.astext(relay.Function([x, b, condition], changed)) == text.replace("%a", "%x")


def test_mutators_and_visitors(a, b):
    class Doubled(relay.ExprMutator):
        def visit_call(self, call):
            copy = super().visit_call(call)
            return relay.add(copy, copy) if call.op.name == "nn.relu" else copy

    class Counted(relay.ExprVisitor):
        count = 0

        def visit_call(self, call):
            self.count += 1
            super().visit_call(call)

    shared = relay.nn.relu(a)
    function = relay.Function([a, b], relay.Let(relay.var("v"), shared, relay.Tuple([shared + b, shared])))
    result = Doubled().visit(function)
    counted = Counted()
    counted.visit(result)
    assert counted.count == 3
    relays = relay.create_executor().evaluate(relay.Function(result.params, result.body))
    values = relays(np.array([-1.0, 1.0]), np.zeros(2))
    assert [value.numpy().tolist() for value in values] == [[0, 2], [0, 2]]
    with pytest.raises(TypeError, match="an expression is needed, not int"):
        Counted().visit(1)


def test_operators_of_calls_are_visited(a):
    """Rewriters of scripts visit all that they make a call of."""

    class Copied(relay.ExprMutator):
        def visit_call(self, call):
            operator = self.visit(call.op)
            return relay.Call(operator, [self.visit(operand) for operand in call.args], call.attrs)

    class Named(relay.ExprVisitor):
        def __init__(self):
            super().__init__()
            self.names = []

        def visit_op(self, op):
            self.names.append(op.name)

    named = Named()
    named.visit(Copied().visit(relay.nn.relu(relay.exp(relay.nn.relu(a)))))
    assert named.names == ["nn.relu", "exp"]


def test_scope_builder(a):
    builder = relay.ScopeBuilder()
    x = builder.let("x", a + 1)
    y = builder.let(("y", relay.TensorType((2,))), x * x)
    with builder.if_scope(relay.const(True)):
        builder.ret(y)
    with builder.else_scope():
        builder.ret(x)
    function = relay.Function([a], builder.get())
    assert isinstance(function.body, relay.Let)
    assert relay.create_executor().evaluate(function)(np.ones(2)).numpy().tolist() == [4, 4]


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda builder: builder.get(), "a block needs ret"),
        (lambda builder: (builder.ret(1), builder.ret(1)), "ret is called twice"),
        (lambda builder: builder.else_scope().__enter__(), "else_scope needs an if_scope"),
    ],
)
def test_scope_builder_mistakes(act, message):
    with pytest.raises(ValueError, match=message):
        act(relay.ScopeBuilder())


def test_reading_text_and_json():
    text = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(2), float32]) {\n  nn.relu(%x)\n}'
    for read in (relay.parse, relay.fromtext):
        module = read(text)
        assert isinstance(module["main"], relax.Function)
        assert "nn.relu(%x)" in relay.astext(module)


def test_errors_in_text_name_the_source():
    with pytest.raises(ModelError, match="script:1:"):
        relay.parse("def @main( {", "script")


def test_reading_json():
    path = Path(__file__).parents[2] / "data" / "relay_cases" / "json" / "convert_conv_roi_align.json"
    counts = relay.analysis.list_op_freqs(relay.load_json(path.read_text()))
    assert counts == {"nn.conv2d": 1, "vision.roi_align": 1}


def test_biases_of_modules_are_visited_as_biases():
    x, b = relay.var("x", shape=(1, 3, 4, 4)), relay.var("b", shape=(3,))
    module = tvm.IRModule.from_expr(relay.nn.bias_add(x, b))
    for visited in (module, module["main"], module["main"].body):
        found = []
        relay.analysis.post_order_visit(visited, found.append)
        assert [part.op.name for part in found if isinstance(part, relay.Call)] == ["nn.bias_add"]


def test_functors_have_methods_of_their_own(a):
    class Depth(relay.ExprFunctor):
        def visit_var(self, var):
            return 0

        def visit_call(self, call):
            return 1 + max(map(self.visit, call.args))

    assert Depth().visit(relay.nn.relu(a + a)) == 2
    with pytest.raises(NotImplementedError, match="Depth has no visit_tuple"):
        Depth().visit(relay.Tuple([a]))


def test_visitors_take_functions_of_modules():
    class Clipped(relay.ExprMutator):
        def visit_call(self, call):
            new = super().visit_call(call)
            return relay.clip(new.args[0], 0.0, 6.0) if new.op.name == "nn.relu" else new

    x = relay.var("x", shape=(1, 3, 4, 4))
    module = tvm.IRModule.from_expr(relay.nn.relu(relay.nn.bias_add(x, relay.const(np.ones(3, "float32")))))
    module["main"] = Clipped().visit(module["main"])
    assert relay.analysis.list_op_freqs(module) == {"expand_dims": 1, "add": 1, "clip": 1}


def test_deep_networks_are_visited():
    class Counted(relay.ExprVisitor):
        count = 0

        def visit_call(self, call):
            super().visit_call(call)
            self.count += 1

    net = relay.var("x", shape=(2,))
    for _ in range(1500):
        net = relay.nn.relu(net)
    allowed = sys.getrecursionlimit()
    counted = Counted()
    counted.visit(net)
    assert (counted.count, sys.getrecursionlimit()) == (1500, allowed)


def convolution(shape: tuple[object, ...], weight: tuple[int, ...], **attributes: object) -> Any:
    data, kernel = relay.var("data", shape=shape), relay.var("kernel", shape=weight)
    return relay.Function([data, kernel], relay.nn.conv2d(data, kernel, **attributes))


def test_multiply_adds_of_a_convolution() -> None:
    """Of each result as many as its window has channels of its group."""
    grouped = convolution(
        (2, 6, 8, 8), (4, 3, 3, 3), groups=2, channels=4, kernel_size=(3, 3), padding=(1, 1)
    )
    assert relay.analysis.get_total_mac_number(grouped) == 2 * 4 * 8 * 8 * 3 * 3 * 3


def test_multiply_adds_are_the_same_in_every_layout() -> None:
    module, _ = relay.testing.resnet.get_workload(num_layers=18)
    total = relay.analysis.get_total_mac_number(module["main"])
    assert total == 1826918400
    for layout in ("NHWC", "NCHW16c"):
        converted = relay.transform.ConvertLayout({"nn.conv2d": [layout, "default"]})(module)
        assert relay.analysis.get_total_mac_number(converted["main"]) == total


def test_multiply_adds_of_products_and_transposed_convolutions() -> None:
    left, right = relay.var("left", shape=(2, 3, 4)), relay.var("right", shape=(2, 5, 4))
    product = relay.nn.batch_matmul(left, right)
    assert relay.analysis.get_total_mac_number(product) == 2 * 3 * 5 * 4
    turned = relay.nn.batch_matmul(left, relay.var("turned", shape=(2, 4, 5)), transpose_b=False)
    assert relay.analysis.get_total_mac_number(turned) == 2 * 3 * 5 * 4
    matrix, columns = relay.var("matrix", shape=(3, 4)), relay.var("columns", shape=(4, 7))
    assert relay.analysis.get_total_mac_number(relay.nn.matmul(matrix, columns)) == 3 * 4 * 7
    rows = relay.var("rows", shape=(7, 4))
    assert relay.analysis.get_total_mac_number(relay.nn.matmul(matrix, rows, transpose_b=True)) == 3 * 4 * 7
    image, kernel = relay.var("image", shape=(1, 6, 8, 8)), relay.var("kernel", shape=(6, 4, 3, 3))
    transposed = relay.nn.conv2d_transpose(image, kernel, channels=4, kernel_size=(3, 3))
    assert relay.analysis.get_total_mac_number(transposed) == 10 * 10 * 4 * 6 * 3 * 3


def test_multiply_adds_of_open_extents_are_not_known() -> None:
    open_batch = convolution((relay.Any(), 6, 8, 8), (4, 6, 3, 3), channels=4, kernel_size=(3, 3))
    with pytest.raises(ModelError) as raised:
        relay.analysis.get_total_mac_number(open_batch)
    assert str(raised.value) == "nn.conv2d: shape [None, 4, 6, 6] is open, multiply-adds cannot be counted"


def test_bodies_of_functions_are_looked_at_as_well():
    x = relay.var("x", shape=(2, 3))
    body = tvm.IRModule.from_expr(relay.nn.relu(x) + relay.exp(x))["main"].body
    assert [variable.name_hint for variable in relay.analysis.free_vars(body)] == ["x"]
    found = []
    relay.analysis.post_order_visit(body, lambda part: found.append(getattr(part, "op", None)))
    assert [operator for operator in found if operator] == ["nn.relu", "exp", "add"]
