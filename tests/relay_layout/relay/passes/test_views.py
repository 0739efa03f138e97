"""Transposes and reshapes that follow one another."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

from relay_layout import relay
from relay_layout.relay.syntax import tree

SHAPE = (2, 3, 4, 5)


def transposed(*orders: list[int] | None) -> tree.Expression:
    """The input and another reader, transposed in turn."""
    net = relay.nn.relu(relay.var("x", shape=SHAPE))
    for order in orders:
        net = relay.transpose(net, order)
    return net


@pytest.mark.parametrize(
    ("net", "left"),
    [
        (transposed([0, 2, 3, 1], [0, 3, 1, 2]), 0),
        (transposed([0, 2, 3, 1], [1, 2, 3, 0], [3, 0, 1, 2]), 1),
        (transposed(None, None, [0, 2, -1, 1], None, None), 1),
        (transposed([0, 1, 2, 3]), 0),
        (relay.layout_transform(transposed([0, 2, 3, 1]), "NHWC", "NCHW"), 0),
        (relay.transpose(relay.nn.relu(transposed([0, 2, 3, 1])), [0, 3, 1, 2]), 2),
    ],
)
def test_transposes_are_merged(net: tree.Expression, left: int) -> None:
    module = tvm.IRModule.from_expr(net)
    simple = relay.transform.SimplifyExpr()(module)
    assert relay.analysis.list_op_freqs(simple).get("transpose", 0) == left
    data = np.random.default_rng(0).standard_normal(SHAPE).astype("float32")
    before, after = (relay.create_executor("graph", one).evaluate()(data) for one in (module, simple))
    np.testing.assert_array_equal(after.numpy(), before.numpy())


def test_a_transpose_that_others_read_stays() -> None:
    there = transposed([0, 2, 3, 1])
    net = relay.Tuple([there, relay.transpose(there, [0, 3, 1, 2])])
    simple = relay.transform.SimplifyExpr()(tvm.IRModule.from_expr(net))
    assert relay.analysis.list_op_freqs(simple) == {"nn.relu": 1, "transpose": 1}


@pytest.mark.parametrize(
    ("shapes", "left"), [([(6, 20), (120,)], 1), ([(6, -1), (0, 4, 5), SHAPE], 0), ([SHAPE], 0)]
)
def test_reshapes_are_merged(shapes: list[tuple[int, ...]], left: int) -> None:
    net = relay.nn.relu(relay.var("x", shape=SHAPE))
    for shape in shapes:
        net = relay.reshape(net, shape)
    module = tvm.IRModule.from_expr(net)
    simple = relay.transform.SimplifyExpr()(module)
    assert relay.analysis.list_op_freqs(simple).get("reshape", 0) == left
    assert relay.analysis.list_op_freqs(module).get("reshape", 0) == len(shapes)
    assert simple["main"].ty == module["main"].ty


def test_equal_calls_become_one_without_second_names() -> None:
    x = relay.var("x", shape=SHAPE)
    twice = [relay.nn.relu(x) + relay.const(1.0) for _ in range(2)]
    shared = relay.transform.EliminateCommonSubexpr()(tvm.IRModule.from_expr(twice[0] * twice[1]))
    tvm.ir.assert_structural_equal(shared, tvm.IRModule.from_expr(twice[0] * twice[0]))
