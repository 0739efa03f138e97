"""The Python functions of operators: their parameters, how arguments are taken, and what is refused."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm

from relay_layout import relay
from relay_layout.errors import ModelError
from relay_layout.relay.functions.operator_functions import operator_function
from relay_layout.relay.operators import TABLE, Operator, declared
from relay_layout.relay.syntax import tree

X = np.arange(24, dtype="float32").reshape(2, 3, 4) / 3
INDICES = np.array([2, 0, 1], "int64")


@pytest.mark.parametrize("name", TABLE)
def test_every_operator_has_a_function(name):
    row, function = TABLE[name], operator_function(name)
    parameters = inspect.signature(function).parameters
    assert function.__name__ == name.rsplit(".", 1)[-1]
    assert f"operator {name}." in (function.__doc__ or "")
    if row.prepare is None:
        known = {operand.strip("*?") for operand in row.operands} | set(declared(row.attributes))
        assert set(parameters) <= known


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        (
            "nn.conv2d",
            "(data, weight, strides=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1, channels=None, "
            "kernel_size=None, data_layout='NCHW', kernel_layout='OIHW', out_layout='', out_dtype='')",
        ),
        ("nn.leaky_relu", "(data, alpha=0.01)"),
        ("add", "(lhs, rhs)"),
        ("concatenate", "(data, axis)"),
        ("clip", "(a, a_min, a_max)"),
    ],
)
def test_signatures(name, parameters):
    assert str(inspect.signature(operator_function(name))) == parameters


def test_documentation_tells_operands_attributes_and_defaults():
    text = operator_function("nn.batch_norm").__doc__ or ""
    assert "    gamma\n" in text
    assert "    epsilon (double): 1e-05\n" in text
    assert text.endswith("Gives a tuple, which can be indexed and unpacked.")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, r"nn\.conv2d\(\) missing 2 required positional arguments: 'data' and 'weight'"),
        (
            {"data": 1, "weight": 1, "stride": 2},
            r"nn\.conv2d\(\) got an unexpected keyword argument 'stride'",
        ),
        ({"data": [relay.var("x")], "weight": 1}, r"nn\.conv2d\(\) operand 'data' is one tensor, not a list"),
        ({"data": None, "weight": 1}, r"nn\.conv2d\(\) operand 'data' is missing"),
        ({"data": "x", "weight": 1}, r"nn\.conv2d\(\) operand 'data': an expression is needed, not str"),
    ],
)
def test_arguments_that_do_not_fit(arguments, message):
    with pytest.raises(TypeError, match=message):
        operator_function("nn.conv2d")(**arguments)


def test_too_many_arguments_name_the_operator():
    with pytest.raises(TypeError, match=r"nn\.relu\(\) takes 1 positional argument but 2 were given"):
        relay.nn.relu(relay.var("x"), 1)


def test_an_attribute_of_the_wrong_kind():
    with pytest.raises(ModelError, match=r"nn\.lrn: attribute 'size' is of kind integer, not 'five'"):
        relay.nn.lrn(relay.var("x"), size="five")


@pytest.mark.parametrize(
    ("given", "attributes"),
    [
        ({"pool_size": 3}, {"pool_size": (3, 3)}),
        ({"pool_size": [np.int64(3), 2], "strides": 2}, {"pool_size": (3, 2), "strides": (2, 2)}),
        ({"pool_size": (tvm.tirx.IntImm("int32", 3), 2)}, {"pool_size": (3, 2)}),
        ({"pool_size": np.array([3, 2]), "layout": None}, {"pool_size": (3, 2)}),
        ({"pool_size": (3, 2), "ceil_mode": np.bool_(True)}, {"pool_size": (3, 2), "ceil_mode": True}),
    ],
)
def test_attributes_as_scripts_write_them(given, attributes):
    call = relay.nn.max_pool2d(relay.var("x"), **given)
    assert {name: call.attrs[name] for name in attributes} == attributes
    assert all(type(entry) is int for entry in call.attrs.pool_size)


@pytest.mark.parametrize("dtype", ["int8", np.int8, np.dtype("int8"), tvm.DataType("int8")])
def test_dtypes_as_scripts_write_them(dtype):
    assert relay.cast(relay.var("x"), dtype).attrs.dtype == "int8"


def test_a_list_of_tensors_is_one_tuple():
    x = relay.var("x", shape=(2,))
    call = relay.concatenate([x, x], axis=0)
    assert isinstance(call.args[0], tree.Tuple)
    assert call.args[0].fields == (x, x)


def test_numbers_beside_a_tensor_take_its_dtype():
    x = relay.var("x", shape=(2,), dtype="float16")
    dtypes = [
        relay.add(x, 1).args[1].data.dtype,
        relay.maximum(1.5, x).args[0].data.dtype,
        relay.where(x < 1, x, 0).args[2].data.dtype,
        relay.take(x, 1).args[1].data.dtype,
    ]
    assert dtypes == ["float16", "float16", "float16", "int32"]


def test_operators_with_several_results_give_wrapped_tuples():
    x = relay.var("x", shape=(2, 6))
    lengths = [
        len(relay.split(x, 3, axis=1)),
        len(relay.split(x, (1, 2, 4), axis=1)),
        len(relay.nn.batch_norm(x, *(relay.var(name) for name in "abcd"))),
        len(relay.topk(x, k=2)),
    ]
    assert lengths == [3, 4, 3, 2]
    assert isinstance(relay.topk(x, k=2, ret_type="values"), relay.Call)


def test_an_operator_added_to_the_table_is_there(monkeypatch):
    row = Operator("nn.doubled", ("data",), lambda scope, operands, attributes: operands[0])
    monkeypatch.setitem(TABLE, "nn.doubled", row)
    assert relay.nn.doubled(relay.var("x")).op == "nn.doubled"
    assert "doubled" in dir(relay.op.nn)


Build = Callable[[Any, Any], Any]
CASES: dict[str, tuple[Build, np.ndarray]] = {
    "pad": (lambda x, i: relay.nn.pad(x, ((0, 0), (1, 1), (0, 2))), np.pad(X, ((0, 0), (1, 1), (0, 2)))),
    "full": (lambda x, i: relay.full(2, (2, 3), "float32"), np.full((2, 3), 2.0)),
    "where": (lambda x, i: relay.where(x < 2.0, x, 0), np.where(X < 2, X, 0)),
    "clip": (lambda x, i: relay.clip(x, 1, 3), X.clip(1, 3)),
    "arange": (
        lambda x, i: relay.arange(relay.const(1), relay.const(9), relay.const(3), dtype="int32"),
        np.arange(1, 9, 3),
    ),
    "take": (lambda x, i: relay.take(x, i, axis=1), X[:, INDICES]),
    "reshape": (lambda x, i: relay.reshape(x, [0, -1]), X.reshape(2, 12)),
    "strided_slice": (lambda x, i: relay.strided_slice(x, [0, 1], [2, 3]), X[0:2, 1:3]),
    "one_hot": (
        lambda x, i: relay.one_hot(i, relay.const(1.0), relay.const(0.0), 4, -1, "float32"),
        np.eye(4)[INDICES],
    ),
    "mean": (lambda x, i: relay.mean(x, axis=1, keepdims=True), X.mean(1, keepdims=True)),
    "std": (lambda x, i: relay.std(x, axis=1), X.std(1)),
    "mean_std": (lambda x, i: relay.mean_std(x, axis=1)[1], X.std(1)),
    "fifo_buffer": (
        lambda x, i: relay.nn.fifo_buffer(x, relay.const(np.repeat(X, 2, 2)), axis=-1),
        np.concatenate([np.repeat(X, 2, 2)[..., 4:], X], 2),
    ),
    "mean_variance": (lambda x, i: relay.mean_variance(x, axis=1)[0], X.mean(1)),
    "logsumexp": (lambda x, i: relay.logsumexp(x, axis=1), np.log(np.exp(X).sum(1))),
    "global_avg_pool1d": (lambda x, i: relay.nn.global_avg_pool1d(x), X.mean(2, keepdims=True)),
    "global_max_pool3d": (
        lambda x, i: relay.nn.global_max_pool3d(relay.expand_dims(x, 0, 2)),
        X.max().reshape(1, 1, 1, 1, 1),
    ),
    "dropout": (lambda x, i: relay.nn.dropout(x), X),
    "transpose": (lambda x, i: relay.transpose(x), X.transpose()),
    "squeeze": (lambda x, i: relay.squeeze(relay.expand_dims(x, axis=0)), X),
    "reverse_reshape": (lambda x, i: relay.reverse_reshape(x, (-1, 0)), X.reshape(6, 4)),
    "quantize": (
        lambda x, i: relay.qnn.op.dequantize(
            relay.qnn.op.quantize(x, relay.const(0.1), relay.const(0)), relay.const(0.1), relay.const(0)
        ),
        np.round(X / 0.1) * 0.1,
    ),
    "resize2d": (
        lambda x, i: relay.image.resize2d(
            relay.reshape(x, (1, 2, 3, 4)), (6, 8), None, "NCHW", "nearest_neighbor", "asymmetric"
        ),
        X.reshape(1, 2, 3, 4).repeat(2, 2).repeat(2, 3),
    ),
}


def test_calls_as_scripts_write_them_compute_what_numpy_does():
    x, i = relay.var("x", shape=X.shape), relay.var("i", shape=INDICES.shape, dtype="int64")
    expressions = [build(x, i) for build, _ in CASES.values()]
    function = relay.Function([x, i], relay.Tuple(expressions))
    results = relay.create_executor("graph").evaluate(function)(X, INDICES)
    for name, result, (_, expected) in zip(CASES, results, CASES.values(), strict=True):
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-4, atol=1e-5, err_msg=name)
