"""Operators of the caller's: what is known of them, their layouts, and what they compute."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te

from relay_layout import relay
from relay_layout.errors import LayoutError, ModelError
from relay_layout.relay import callbacks
from relay_layout.relay.functions.operator_functions import operator_function
from relay_layout.relay.functions.registration import RegisteredOperator
from relay_layout.relay.operators import TABLE

NAME = "test.scaled"

NHWC = {"nn.conv2d": ["NHWC", "default"]}


@pytest.fixture
def scaled() -> Iterator[RegisteredOperator]:
    """``factor`` times a tensor, so far without what computes it."""
    operator = relay.op.register(NAME, "factor times data")
    operator.add_argument("data", "Tensor", "any tensor")
    yield operator
    callbacks.reset(NAME)
    del TABLE[NAME]


def compute(attrs: Any, inputs: Any, out_type: Any) -> list[te.Tensor]:
    (data,) = inputs
    return [te.compute(data.shape, lambda *places: data(*places) * attrs.factor)]


def call(operand: Any, **attributes: Any) -> Any:
    return relay.Call(relay.op.get(NAME), [operand], attributes)


def between_convolutions() -> tvm.IRModule:
    data, weight = relay.var("data", shape=(1, 4, 6, 6)), relay.var("weight", shape=(4, 4, 3, 3))
    net = call(relay.nn.conv2d(data, weight, padding=1), factor=3.0)
    return tvm.IRModule.from_expr(relay.Function([data, weight], relay.nn.conv2d(net, weight, padding=1)))


def evaluated(expression: Any, *arrays: np.ndarray) -> np.ndarray:
    result: np.ndarray = relay.create_executor("graph").evaluate(expression)(*arrays).numpy()
    return result


def test_it_computes_at_any_batch(scaled: RegisteredOperator) -> None:
    relay.op.register_compute(NAME, compute)
    data = relay.var("data", shape=(relay.Any(), 3))
    function = relay.Function([data], call(relay.nn.relu(data), factor=0.5))
    for batch in (1, 5):
        array = np.random.default_rng(batch).standard_normal((batch, 3)).astype("float32")
        np.testing.assert_array_equal(evaluated(function, array), np.maximum(array, 0) / 2)


def test_it_may_give_several_tensors(scaled: RegisteredOperator) -> None:
    @relay.op.register_compute(NAME)
    def both(attrs: Any, inputs: Any, out_type: Any) -> list[te.Tensor]:
        (data,) = inputs
        return [te.compute(data.shape, lambda i: data(i) + attrs.factor), te.compute((1,), lambda i: data(i))]

    data = relay.var("data", shape=(3,))
    first = relay.Function([data], relay.TupleGetItem(call(data, factor=1.0), 0))
    np.testing.assert_array_equal(evaluated(first, np.zeros(3, "float32")), np.ones(3))


def test_it_keeps_its_layout_without_a_callback(scaled: RegisteredOperator) -> None:
    scaled.add_type_rel("Identity")
    text = relay.astext(relay.transform.ConvertLayout(NHWC)(between_convolutions()))
    assert f"%4 = {NAME}(%3, factor=3f)" in text
    assert '%3 = layout_transform(%2, src_layout="NHWC", dst_layout="NCHW")' in text


def test_it_carries_layouts_as_its_callback_says(scaled: RegisteredOperator) -> None:
    relay.op.register_compute(NAME, compute)

    @relay.op.register_infer_correct_layout(NAME)
    def infer(attrs: Any, new: Any, old: Any, types: Any) -> Any:
        layout = (new or old)[0]
        return relay.op.InferCorrectLayoutOutput([layout], [layout], attrs)

    module = between_convolutions()
    converted = relay.transform.ConvertLayout(NHWC)(module)
    assert f"{NAME}(%2, factor=3f)" in relay.astext(converted)
    generator = np.random.default_rng(2)
    arrays = [generator.standard_normal(shape).astype("float32") for shape in ((1, 4, 6, 6), (4, 4, 3, 3))]
    np.testing.assert_allclose(
        evaluated(converted, *arrays), evaluated(module, *arrays), rtol=1e-4, atol=1e-4
    )


def test_a_convert_callback_may_replace_it(scaled: RegisteredOperator) -> None:
    scaled.add_type_rel("Identity")

    @relay.op.register_convert_op_layout(NAME)
    def convert(attrs: Any, inputs: Any, tinfos: Any, desired: Any) -> Any:
        return relay.Call(relay.op.get(NAME), inputs, {**attrs, "layout": desired[0]})

    data = relay.var("data", shape=(1, 4, 6, 6))
    module = tvm.IRModule.from_expr(relay.Function([data], call(data, layout="NCHW")))
    text = relay.astext(relay.transform.ConvertLayout({NAME: ["NHWC"]})(module))
    assert f'{NAME}(%0, layout="NHWC")' in text


def test_its_text_is_read_again(scaled: RegisteredOperator) -> None:
    scaled.add_type_rel("Identity")
    data = relay.var("data", shape=(2,))
    attributes = {"count": 2, "flag": True, "name": "x", "axes": [1, 2], "ratio": 0.5}
    text = relay.astext(tvm.IRModule.from_expr(relay.Function([data], call(data, **attributes))))
    assert all(f"{name}=" in text for name in attributes) and "ratio=0.5f" in text
    assert relay.astext(relay.fromtext(text)) == text


def test_attributes_of_tvms_are_taken(scaled: RegisteredOperator) -> None:
    scaled.add_type_rel("Identity")
    attributes = tvm.ir.make_node("ir.DictAttrs", axes=[1, 2])
    data = relay.var("data", shape=(2,))
    module = tvm.IRModule.from_expr(relay.Function([data], relay.Call(scaled, [data], attributes)))
    assert f"{NAME}(%data, axes=[1, 2])" in relay.astext(module)


def test_its_function_takes_attributes(scaled: RegisteredOperator) -> None:
    relay.op.register_compute(NAME, compute)
    data = relay.var("data", shape=(2,))
    doubled = relay.Function([data], operator_function(NAME)(data, factor=2.0))
    np.testing.assert_array_equal(evaluated(doubled, np.ones(2, "float32")), [2, 2])


@pytest.mark.parametrize(
    ("shapes", "result"),
    [(((2, 1), (3,)), "(2, 3)"), (((4, 1, 5), (2, 1)), "(4, 2, 5)"), (((1,), (7,)), "(7)")],
)
def test_the_relation_broadcast_is_numpys(shapes: Any, result: str, scaled: RegisteredOperator) -> None:
    scaled.add_argument("other")
    scaled.add_type_rel("Broadcast")
    operands = [relay.var(name, shape=shape) for name, shape in zip("ab", shapes, strict=True)]
    module = tvm.IRModule.from_expr(relay.Function(operands, relay.Call(scaled, operands)))
    assert f"-> Tensor[{result}, float32]" in relay.astext(module)


def test_operands_may_only_be_counted(scaled: RegisteredOperator) -> None:
    scaled.set_num_inputs(2)
    assert TABLE[NAME].operands == ("data", "input1")


def test_registering_again_starts_over(scaled: RegisteredOperator) -> None:
    relay.op.register(NAME)
    assert TABLE[NAME].operands == ()


def test_the_highest_level_computes(scaled: RegisteredOperator) -> None:
    relay.op.register_compute(NAME, compute, level=11)
    relay.op.register_compute(NAME, lambda attrs, inputs, out_type: inputs, level=10)
    data = relay.var("data", shape=(2,))
    result = evaluated(relay.Function([data], call(data, factor=4.0)), np.ones(2, "float32"))
    np.testing.assert_array_equal(result, [4, 4])


def unary(**attributes: Any) -> tvm.IRModule:
    data = relay.var("data", shape=(2,))
    return tvm.IRModule.from_expr(relay.Function([data], call(data, **attributes)))


def test_a_result_of_unknown_type_is_refused(scaled: RegisteredOperator) -> None:
    with pytest.raises(ModelError, match=f"the type of what {NAME} gives is not known; add_type_rel or"):
        unary()


def test_a_relation_cannot_tell_open_extents_apart(scaled: RegisteredOperator) -> None:
    scaled.add_type_rel("pair", lambda types, attrs: relay.TensorType((types[0].shape[0], 2), "float32"))
    data = relay.var("data", shape=(relay.Any(), 3))
    with pytest.raises(ModelError, match="the result depends on dimensions that are unknown"):
        tvm.IRModule.from_expr(relay.Function([data], call(data)))


def test_building_needs_a_compute(scaled: RegisteredOperator) -> None:
    scaled.add_type_rel("Identity")
    with pytest.raises(ModelError, match=f"{NAME} has nothing that computes it; relay.op.register_compute"):
        relay.build(unary(), "llvm")


def test_what_a_compute_raises_names_it(scaled: RegisteredOperator) -> None:
    relay.op.register_compute(NAME, compute)
    with pytest.raises(ModelError, match=f"the compute of {NAME} raised AttributeError: no attribute"):
        unary()


def test_a_compute_that_returns_no_tensors_is_refused(scaled: RegisteredOperator) -> None:
    relay.op.register_compute(NAME, lambda attrs, inputs, out_type: None)
    with pytest.raises(ModelError, match=f"the compute of {NAME} returned None, not tensors of tvm.te"):
        unary()


def test_a_compute_that_contradicts_the_relation_is_refused(scaled: RegisteredOperator) -> None:
    scaled.add_type_rel("wrong", lambda types, attrs: relay.TensorType((3,), "float32"))
    relay.op.register_compute(NAME, compute)
    with pytest.raises(ModelError, match=r"gives \(2\) float32 where its type relation tells \(3\) float32"):
        unary(factor=1.0)


def test_a_relation_that_raises_is_named(scaled: RegisteredOperator) -> None:
    scaled.add_type_rel("wrong", lambda types, attrs: types[5])
    with pytest.raises(ModelError, match=f"the type relation of {NAME} raised IndexError"):
        unary()


def test_a_relation_without_a_function_is_one_that_is_known(scaled: RegisteredOperator) -> None:
    with pytest.raises(ModelError, match="there is no type relation 'Conv2D'; give a function of"):
        scaled.add_type_rel("Conv2D")


def test_names_of_relays_operators_are_taken() -> None:
    with pytest.raises(ModelError, match=r"'nn.conv2d' is an operator of Relay's; give yours another name"):
        relay.op.register("nn.conv2d")


def test_a_name_must_fit_relays_text() -> None:
    with pytest.raises(ModelError, match="'my op' cannot name an operator: it takes letters, digits"):
        relay.op.register("my op")


@pytest.mark.parametrize(
    ("name", "why"),
    [("nn.conv2d", "has its kernels here"), ("my.none", "is not registered; relay.op.register does")],
)
def test_only_registered_operators_take_a_compute(name: str, why: str) -> None:
    with pytest.raises(ModelError, match=f"compute for '{name}': this operator {why}"):
        relay.op.register_compute(name, compute)


def test_a_callback_whose_call_fails_is_named(scaled: RegisteredOperator) -> None:
    scaled.add_type_rel("Identity")
    relay.op.register_convert_op_layout(NAME, lambda *given: relay.Call(NAME, []))
    with pytest.raises(
        LayoutError,
        match=f"the callback for {NAME} returned what fails: {NAME} takes data; it is given 0 operands",
    ):
        relay.transform.ConvertLayout({NAME: ["NHWC"]})(unary())
