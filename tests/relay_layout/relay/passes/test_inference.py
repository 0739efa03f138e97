"""Batch norm and dropout at inference."""

import pytest
from pass_harness import assert_same, function
from tvm import relax

from relay_layout.relay.passes.inference import simplify_inference
from tests.module_operators import operators


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize(("center", "scale"), [(True, True), (False, True), (True, False)])
def test_batch_norm_is_a_product_and_a_sum(axis: int, center: bool, scale: bool) -> None:
    shape = (2, 3, 4)

    def build(x: relax.Var, *statistics: relax.Var) -> relax.Expr:
        norm = relax.op.nn.batch_norm(
            x, *statistics, axis=axis, epsilon=1e-3, center=center, scale=scale, training=False
        )
        return relax.TupleGetItem(norm, 0)

    before = function(build, shape, *[(shape[axis],)] * 4)
    after = simplify_inference(before)
    assert "nn.batch_norm" not in operators(after)
    assert_same(before, after)


def test_dropout_is_gone() -> None:
    before = function(lambda x: relax.op.abs(relax.TupleGetItem(relax.op.nn.dropout(x, 0.5), 0)), (2, 3))
    assert operators(simplify_inference(before)) == ["abs"]
