"""Calls of one tensor become one where they are alike, compute what they did, and others stay."""

from collections.abc import Callable
from typing import Any

import pytest
from pass_harness import assert_same, function
from tvm import relax

from relay_layout import relay
from relay_layout.relay import transform
from tests.module_operators import operators

op = relax.op
X = (1, 4, 6, 6)
Shapes = list[tuple[int, ...]]


def emit(value: Any) -> Any:
    return relax.BlockBuilder.current().emit(value)


def ends(*results: Any) -> Any:
    """One result of all."""
    return op.concat(list(results), -1)


def conv(x: Any, w: Any, **attributes: Any) -> Any:
    return emit(op.nn.conv2d(x, w, **attributes))


def dense(x: Any, w: Any) -> Any:
    return emit(op.matmul(x, emit(op.permute_dims(w, [*range(len(w.ty.shape) - 2), -1, -2]))))


def convolutions(x: Any, *weights: Any) -> Any:
    return op.concat([conv(x, weight) for weight in weights], 1)


def with_bias_and_relu(x: Any, v: Any, w: Any, b: Any, c: Any) -> Any:
    first = emit(op.nn.relu(emit(op.add(conv(x, v), b))))
    return op.concat([first, emit(op.nn.relu(emit(op.add(conv(x, w), c))))], 1)


def until_they_differ(x: Any, v: Any, w: Any) -> Any:
    first = emit(op.tanh(emit(op.nn.relu(conv(x, v)))))
    return op.concat([first, emit(op.exp(emit(op.nn.relu(conv(x, w)))))], 1)


def with_another_reader(x: Any, v: Any, w: Any) -> Any:
    first = conv(x, v)
    return op.concat([emit(op.nn.relu(first)), emit(op.nn.relu(conv(x, w))), first], 1)


def channels_last(x: Any, v: Any, w: Any) -> Any:
    layouts = {"data_layout": "NHWC", "kernel_layout": "HWIO"}
    return ends(conv(x, v, **layouts), conv(x, w, **layouts))


def one_from_the_other(x: Any, v: Any, w: Any) -> Any:
    first = conv(x, v)
    scaled = emit(op.multiply(w, emit(op.mean(first))))
    return op.concat([first, conv(x, scaled)], 1)


def other_strides(x: Any, v: Any, w: Any) -> Any:
    second = emit(op.reshape(conv(x, w, strides=(2, 2)), (1, 4, 3, 3)))
    return op.concat([emit(op.reshape(conv(x, v), (1, 16, 3, 3))), second], 1)


def added(x: Any, v: Any, w: Any, b: Any, c: Any) -> Any:
    return ends(*(emit(op.tanh(emit(op.add(emit(dense(x, m)), a)))) for m, a in ((v, b), (w, c))))


def products(x: Any, *matrices: Any) -> Any:
    return ends(*(dense(x, matrix) for matrix in matrices))


CONV, DENSE = transform.CombineParallelConv2D, transform.CombineParallelDense
FLAT = lambda least: DENSE(least, to_batch=False)  # noqa: E731
BATCH = transform.CombineParallelBatchMatmul
ONE: Shapes = [X, (4, 4, 1, 1), (4, 4, 1, 1)]

JOINED: dict[str, tuple[Any, Callable[..., Any], Shapes, dict[str, int]]] = {
    "convolutions": (CONV, convolutions, [X, (4, 4, 1, 1), (8, 4, 1, 1), (7, 4, 1, 1)], {"nn.conv2d": 1}),
    "with what follows": (
        CONV,
        with_bias_and_relu,
        [X, (4, 4, 3, 3), (2, 4, 3, 3), (4, 1, 1), (2, 1, 1)],
        {"nn.conv2d": 1, "add": 1, "nn.relu": 1},
    ),
    "other biases": (
        CONV,
        with_bias_and_relu,
        [X, (4, 4, 3, 3), (4, 4, 3, 3), (4, 1, 1), (1, 1, 1)],
        {"nn.conv2d": 1, "add": 2, "nn.relu": 2},
    ),
    "until they differ": (CONV, until_they_differ, ONE, {"nn.conv2d": 1, "nn.relu": 1, "tanh": 1}),
    "another reader": (CONV, with_another_reader, ONE, {"nn.conv2d": 1, "nn.relu": 2}),
    "channels last": (CONV, channels_last, [(1, 6, 6, 4), (1, 1, 4, 5), (1, 1, 4, 3)], {"nn.conv2d": 1}),
    "other windows": (CONV, other_strides, ONE, {"nn.conv2d": 2}),
    "one of the other": (CONV, one_from_the_other, ONE, {"nn.conv2d": 2}),
    "dense, as a batch": (
        DENSE,
        added,
        [(3, 4), (5, 4), (5, 4), (5,), (5,)],
        {"matmul": 1, "add": 1, "tanh": 1, "stack": 3},
    ),
    "dense, as a batch, other units": (
        DENSE,
        added,
        [(3, 4), (5, 4), (6, 4), (5,), (6,)],
        {"matmul": 2},
    ),
    "dense, flat": (
        FLAT,
        added,
        [(3, 4), (5, 4), (6, 4), (5,), (6,)],
        {"matmul": 1, "add": 1, "tanh": 1, "concat": 3},
    ),
    "batches": (BATCH, products, [(2, 3, 4), (2, 5, 4), (2, 6, 4)], {"matmul": 1}),
    "batches are no dense": (FLAT, products, [(2, 3, 4), (2, 5, 4), (2, 6, 4)], {"matmul": 2}),
}


@pytest.mark.parametrize("name", JOINED)
def test_joined(name: str) -> None:
    combine, build, shapes, counts = JOINED[name]
    before = function(build, *shapes)
    after = combine(2)(before)
    found = operators(after)
    assert {operator: found.count(operator) for operator in counts} == counts
    assert_same(before, after)


def test_fewer_than_asked_for_stay() -> None:
    before = function(convolutions, *ONE)
    assert operators(CONV()(before)) == operators(before)


def test_in_branches_and_of_any_batch() -> None:
    module = relay.fromtext(
        """#[version = "0.0.5"]
        def @main(%c: bool, %x: Tensor[(?, 4), float32], %v: Tensor[(5, 4), float32],
                  %w: Tensor[(6, 4), float32]) {
          if (%c) { (nn.dense(%x, %v, units=5), nn.dense(%x, %w, units=6)) }
          else { (nn.dense(%x, %v, units=5), nn.dense(%x, %w, units=6)) }
        }"""
    )
    text = relay.astext(FLAT(2)(module))
    assert text.count("nn.dense") == text.count("units=11") == 2
