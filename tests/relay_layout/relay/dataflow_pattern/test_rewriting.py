"""Matches replaced, and put apart as functions."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm

from relay_layout import relay
from relay_layout.errors import ModelError
from relay_layout.relay.dataflow_pattern import (
    DFPatternCallback,
    dominates,
    has_attr,
    is_constant,
    is_expr,
    is_op,
    is_tuple_get_item,
    is_var,
    rewrite,
    rewriting,
    wildcard,
)
from relay_layout.relay.syntax import structurally_equal

X, Y = relay.var("x", shape=(2, 4)), relay.var("y", shape=(2, 4))
RELU, ADD, CONV = is_op("nn.relu"), is_op("add"), is_op("nn.conv2d")


class AddToSubtract(DFPatternCallback):
    """a + b is a - b."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.a, self.b = wildcard(), wildcard()
        self.pattern = ADD(self.a, self.b)

    def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
        return node_map[self.a][0] - node_map[self.b][0]


class WithoutZero(DFPatternCallback):
    """x + 0 is x."""

    def __init__(self) -> None:
        super().__init__()
        self.x = wildcard()
        self.pattern = self.x + is_expr(relay.const(0.0))

    def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
        return node_map[self.x][0]


class Returning(DFPatternCallback):
    """What a test says."""

    def __init__(self, pattern: Any, result: Callable[..., Any], **options: Any) -> None:
        super().__init__(**options)
        self.pattern = pattern
        self.result = result

    def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
        return self.result(pre, post, node_map)


class BatchNorm(DFPatternCallback):
    """A batch norm that is written out, put together again."""

    def __init__(self) -> None:
        super().__init__()
        self.x, self.mean, self.var = wildcard(), wildcard(), wildcard()
        self.beta, self.gamma, self.eps = wildcard(), wildcard(), is_constant()
        scaled = self.gamma * (self.x - self.mean) / is_op("sqrt")(self.var + self.eps)
        self.pattern = scaled + self.beta

    def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
        parts = [node_map[part][0] for part in (self.x, self.gamma, self.beta, self.mean, self.var)]
        epsilon = float(node_map[self.eps][0].data)
        return relay.nn.batch_norm(*parts, epsilon=epsilon)[0]


def test_a_call_is_replaced() -> None:
    assert structurally_equal(rewrite(AddToSubtract(), X + Y), X - Y)


def test_every_match_is_replaced_and_all_else_stays() -> None:
    kept = relay.exp(X)
    result = rewrite(AddToSubtract(), relay.Tuple([kept + Y, relay.tanh(kept + X), kept]))
    expected = relay.exp(X)
    assert structurally_equal(result, relay.Tuple([expected - Y, relay.tanh(expected - X), expected]))
    assert result.fields[2] is kept


def test_matches_within_matches_come_in_later_rounds() -> None:
    net = ((X + relay.const(0.0)) + relay.const(0.0)) + relay.const(0.0)
    assert rewrite(WithoutZero(), net) is X


def test_several_callbacks_and_both_ways_to_call() -> None:
    net = relay.nn.relu(X + relay.const(0.0)) + Y
    both = rewrite([WithoutZero(), AddToSubtract()], net)
    assert structurally_equal(both, relay.nn.relu(X) - Y)
    assert structurally_equal(WithoutZero().rewrite(net), relay.nn.relu(X) + Y)


def test_what_does_not_match_is_the_same_object() -> None:
    net = relay.nn.relu(X)
    assert rewrite(AddToSubtract(), net) is net


def test_a_chain_of_thousands_is_rewritten() -> None:
    net: Any = X
    for _ in range(3000):
        net = relay.nn.relu(net)
    result = rewrite(Returning(RELU(wildcard()), lambda pre, post, found: relay.tanh(post.args[0])), net)
    assert relay.analysis.list_op_freqs(tvm.IRModule.from_expr(result)) == {"tanh": 3000}


def test_batch_norm_is_put_together_again() -> None:
    values = [relay.var(name, shape=(4,)) for name in ("gamma", "beta", "mean", "var")]
    gamma, beta, mean, var = values
    net = gamma * (X - mean) / relay.sqrt(var + relay.const(1e-3)) + beta
    found = rewrite(BatchNorm(), relay.Function([X, *values], net))
    norm = relay.nn.batch_norm(X, gamma, beta, mean, var, epsilon=float(np.float32(1e-3)))[0]
    assert structurally_equal(found, relay.Function([X, *values], norm))


def test_a_function_of_a_module_is_rewritten_in_place() -> None:
    data, weight = relay.var("data", shape=(1, 3, 7, 5)), relay.var("weight", shape=(4, 3, 3, 3))
    bias = relay.var("bias", shape=(4,))
    net = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(data, weight), bias))
    module = tvm.IRModule.from_expr(net)
    conv, shift = CONV(wildcard(), wildcard()), wildcard()
    doubled = Returning(
        is_op("nn.bias_add")(conv, shift),
        lambda pre, post, found: found[conv][0] * relay.const(2.0) + relay.expand_dims(found[shift][0], 1, 2),
        rewrite_once=True,
    )
    module["main"] = rewrite(doubled, module["main"])
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(shape).astype("float32") for shape in ((1, 3, 7, 5), (4, 3, 3, 3), (4,))]
    found = relay.create_executor("graph", module).evaluate()(*arrays).numpy()
    twice = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(data, weight) * relay.const(2.0), bias))
    expected = relay.create_executor("graph", tvm.IRModule.from_expr(twice)).evaluate()(*arrays).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_once_is_once() -> None:
    grown = rewrite(
        Returning(RELU(wildcard()), lambda pre, post, found: relay.nn.relu(post), rewrite_once=True),
        relay.nn.relu(X),
    )
    assert structurally_equal(grown, relay.nn.relu(relay.nn.relu(X)))


@pytest.mark.parametrize(
    ("callback", "message"),
    [
        (Returning(RELU(is_var()), lambda pre, post, found: relay.nn.relu(post)), "after 100 rounds"),
        (
            Returning(RELU(wildcard()), lambda pre, post, found: None),
            "of Returning returned None",
        ),
        (
            Returning(RELU(wildcard()), lambda pre, post, found: 1 // 0),
            "of Returning raised Zero",
        ),
        (DFPatternCallback(), "DFPatternCallback has no pattern; set self.pattern"),
    ],
)
def test_callbacks_that_go_wrong(callback: DFPatternCallback, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        rewrite(callback, relay.nn.relu(X))


def test_an_expression_cannot_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, "MOST_PARTS", 500)
    doubling = Returning(RELU(None), lambda pre, post, found: relay.nn.relu(post))
    with pytest.raises(ModelError, match="grown beyond 500 parts; give rewrite_once=True"):
        rewrite(doubling, relay.nn.relu(X))


def convolved(shared: bool) -> Any:
    """relu(bias(conv)), whose convolution something else may read as well."""
    data, weight = relay.var("data", shape=(1, 3, 7, 5)), relay.const(np.ones((4, 3, 3, 3), "float32"))
    conv = relay.nn.conv2d(data, weight)
    net = relay.nn.relu(relay.nn.bias_add(conv, relay.var("bias", shape=(4,))))
    return relay.Tuple([net, conv]) if shared else net


FUSED = RELU(is_op("nn.bias_add")(CONV(wildcard(), is_constant()), wildcard()))


def test_what_is_read_from_outside_is_not_replaced() -> None:
    shared = convolved(shared=True)
    assert FUSED.match(shared.fields[0])
    assert rewrite(Returning(FUSED, lambda pre, post, found: X), shared) is shared
    assert FUSED.partition(shared) is shared


def test_partition_makes_functions_of_what_the_pattern_leaves_open() -> None:
    result = FUSED.partition(convolved(shared=False), {"Composite": "fused"})
    function = result.op
    assert dict(function.attrs) == {
        "PartitionedFromPattern": "nn.conv2d_nn.bias_add_nn.relu_",
        "Composite": "fused",
    }
    # The constant of the pattern is in the function.
    assert [parameter.name for parameter in function.params] == ["FunctionVar_0_0", "FunctionVar_0_1"]
    assert [argument.name for argument in result.args] == ["data", "bias"]
    assert [parameter.type.shape for parameter in function.params] == [(1, 3, 7, 5), (4,)]


def test_what_is_partitioned_computes_the_same() -> None:
    net = convolved(shared=False)
    twice = relay.nn.relu(net + relay.exp(net))
    found = RELU(wildcard()).partition(relay.Function(relay.analysis.free_vars(twice), twice))
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(shape).astype("float32") for shape in ((1, 3, 7, 5), (4,))]
    results = [
        relay.create_executor("graph", tvm.IRModule.from_expr(form)).evaluate()(*arrays).numpy()
        for form in (twice, found)
    ]
    np.testing.assert_allclose(results[0], results[1], rtol=1e-6, atol=1e-6)


def test_a_check_decides() -> None:
    net = relay.Tuple([relay.nn.relu(X), relay.nn.relu(Y)])
    found = RELU(wildcard()).partition(net, check=lambda last: last.args[0].name == "y")
    assert isinstance(found.fields[0].op, str) and not isinstance(found.fields[1].op, str)
    with pytest.raises(ModelError, match="the check of partition raised KeyError"):
        RELU(wildcard()).partition(net, check=lambda last: {}["x"])


def test_a_dominated_part_is_partitioned_whole() -> None:
    data, weight = relay.var("data", shape=(1, 3, 7, 5)), relay.var("weight", shape=(4, 3, 3, 3))
    other = relay.var("other", shape=(1, 4, 5, 3))
    conv = relay.nn.conv2d(data, weight)
    net = relay.nn.relu(conv * other) + relay.tanh(conv)
    path = has_attr({"TOpPattern": 0})(wildcard()) | has_attr({"TOpPattern": 1})(wildcard(), wildcard())
    found = dominates(CONV(is_var(), is_var()), path, ADD(wildcard(), wildcard())).partition(net)
    assert found.op.attrs["PartitionedFromPattern"] == "nn.conv2d_multiply_nn.relu_tanh_add_"
    assert [argument.name for argument in found.args] == ["data", "weight", "other"]


def test_fields_of_tuples_are_within_a_part() -> None:
    values = [relay.var(name, shape=(4,)) for name in "gbmv"]
    net = relay.nn.relu(relay.nn.batch_norm(X, *values)[0])
    norm = is_op("nn.batch_norm")(*[wildcard() for _ in range(5)])
    found = RELU(is_tuple_get_item(norm, 0)).partition(net)
    assert found.op.attrs["PartitionedFromPattern"] == "nn.batch_norm_nn.relu_"
    assert len(found.args) == 5
