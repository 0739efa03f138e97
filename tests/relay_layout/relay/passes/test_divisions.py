"""Divisions by constants."""

import numpy as np
import pytest
import tvm

from relay_layout import relay


@pytest.mark.parametrize(
    ("divisor", "operator"),
    [
        (np.array([2, 4], "float32"), "multiply"),
        (np.array([2, 0], "float32"), "divide"),
        (np.array([2, 4], "int32"), "divide"),
    ],
    ids=["floats", "zero", "integers"],
)
def test_divisions(divisor: np.ndarray, operator: str) -> None:
    """Of floats are products, unless a divisor is 0."""
    x = relay.var("x", shape=(3, 2), dtype=str(divisor.dtype))
    module = tvm.IRModule.from_expr(relay.Function([x], x / relay.const(divisor, str(divisor.dtype))))
    changed = relay.transform.DivToMul()(module)
    assert relay.analysis.list_op_freqs(changed) == {operator: 1}


def test_products() -> None:
    """Are what the divisions were."""
    x = relay.var("x", shape=(3, 2))
    function = relay.Function([x], x / relay.const([[3.0, 7.0]]))
    changed = relay.transform.DivToMul()(tvm.IRModule.from_expr(function))
    data = np.array([[1, 2], [6, 12], [-4, 8]], "float32")
    result = relay.create_executor("graph", changed).evaluate()(data).numpy()
    np.testing.assert_allclose(result, data / [[3, 7]], rtol=1e-6)
