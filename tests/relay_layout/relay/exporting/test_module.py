"""Text of modules has the operators that Relay had, whatever was folded."""

import numpy as np
import tvm

from relay_layout import relay

WEIGHT = relay.const(np.arange(9, dtype="float32").reshape(3, 3))


def test_products_with_constant_matrices_are_dense() -> None:
    x = relay.var("x", shape=(2, 3))
    dense = relay.nn.relu(relay.nn.dense(x, WEIGHT))
    folded = relay.transform.FoldConstant()(tvm.IRModule.from_expr(dense))
    assert relay.analysis.list_op_freqs(folded) == {"nn.dense": 1, "nn.relu": 1}
    again = relay.fromtext(relay.astext(folded))
    given = np.random.default_rng(0).standard_normal((2, 3)).astype("float32")
    ours = relay.create_executor("graph", again, tvm.cpu(), "llvm").evaluate()(given)
    np.testing.assert_allclose(ours.numpy(), np.maximum(given @ WEIGHT.data.T, 0), rtol=1e-5)


def test_a_matrix_that_is_read_twice_is_one_constant() -> None:
    x = relay.var("x", shape=(2, 3))
    module = tvm.IRModule.from_expr(relay.nn.matmul(relay.nn.matmul(x, WEIGHT), WEIGHT))
    text = relay.astext(module)
    assert text.count("nn.dense(") == 2 and "Constant][1]" not in text


def test_products_of_two_tensors_are_as_they_were() -> None:
    x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(3, 4))
    text = relay.astext(tvm.IRModule.from_expr(relay.nn.matmul(x, y)))
    assert "nn.matmul(%x, %y" in text and "nn.dense" not in text
