"""Operators on constants alone, on quantized ones as well."""

from __future__ import annotations

import numpy as np
import tvm

from relay_layout import relay


def test_quantized_operators_on_constants_are_folded_when_asked() -> None:
    x = relay.var("x", shape=(2, 3))
    scale, zero = relay.const(0.5), relay.const(0)
    weight = relay.const(np.array([[1.0, -2.0, 0.3], [0.0, 4.0, 1.1]], "float32"))
    again = relay.qnn.dequantize(relay.qnn.quantize(weight, scale, zero, out_dtype="int8"), scale, zero)
    rounded = relay.qnn.quantize(x, scale, zero, out_dtype="int8")
    net = relay.qnn.dequantize(rounded, scale, zero) * again
    module = tvm.IRModule.from_expr(relay.Function([x], net))
    kept = {"qnn.quantize": 2, "qnn.dequantize": 2, "multiply": 1}
    assert relay.analysis.list_op_freqs(relay.transform.FoldConstant()(module)) == kept
    folded = relay.transform.FoldConstant(fold_qnn=True)(module)
    assert relay.analysis.list_op_freqs(folded) == {"qnn.quantize": 1, "qnn.dequantize": 1, "multiply": 1}
    data = np.full((2, 3), 0.5, "float32")
    result = relay.create_executor("graph", folded).evaluate()(data).numpy()
    np.testing.assert_array_equal(result, np.array([[0.5, -1, 0.25], [0, 2, 0.5]], "float32"))
