"""The operator table: one row for each operator that takes part in layouts.

Solver, rewriter and verifier read operators from here only. An operator without a row, and a case
that its row cannot carry, keeps its original layouts, which is always correct.
"""

from relay_layout.ops import axis_rules as axis
from relay_layout.ops.axis_rules import AxisRule
from relay_layout.ops.convolution_rule import ConvolutionRule
from relay_layout.ops.quantized_rules import quantized, quantized_attributes, quantized_concatenation
from relay_layout.ops.signature import Rule

_ELEMENTWISE = AxisRule(axis.elementwise)
_ALONG_AXIS = AxisRule(axis.along_axis, axis.axis_attribute)
_REDUCTION = AxisRule(axis.reduced, axis.reduced_attributes)
_SPATIAL = AxisRule(axis.spatial, axis.spatial_attributes)
_PER_AXIS = AxisRule(quantized(1, "axis"), quantized_attributes("axis"))
_QUANTIZED_UNARY = AxisRule(quantized(1))
_QUANTIZED_BINARY = AxisRule(
    quantized(2, "lhs_axis", "rhs_axis"), quantized_attributes("lhs_axis", "rhs_axis")
)

TABLE: dict[str, Rule] = {
    "nn.conv2d": ConvolutionRule(),
    "nn.batch_norm": AxisRule(axis.normalized, axis.axis_attribute),
    "nn.max_pool2d": _SPATIAL,
    "nn.avg_pool2d": _SPATIAL,
    "nn.adaptive_avg_pool2d": _SPATIAL,
    "concat": AxisRule(axis.concatenated, axis.axis_attribute),
    "permute_dims": AxisRule(axis.permuted, alias=True),
    "nn.softmax": _ALONG_AXIS,
    "nn.log_softmax": _ALONG_AXIS,
    "sum": _REDUCTION,
    "mean": _REDUCTION,
    "max": _REDUCTION,
    "min": _REDUCTION,
    "prod": _REDUCTION,
    "variance": _REDUCTION,
    "std": _REDUCTION,
    "abs": _ELEMENTWISE,
    "acos": _ELEMENTWISE,
    "acosh": _ELEMENTWISE,
    "add": _ELEMENTWISE,
    "asin": _ELEMENTWISE,
    "asinh": _ELEMENTWISE,
    "astype": _ELEMENTWISE,
    "atan": _ELEMENTWISE,
    "atan2": _ELEMENTWISE,
    "atanh": _ELEMENTWISE,
    "bitwise_and": _ELEMENTWISE,
    "bitwise_not": _ELEMENTWISE,
    "bitwise_or": _ELEMENTWISE,
    "bitwise_xor": _ELEMENTWISE,
    "ceil": _ELEMENTWISE,
    "clip": _ELEMENTWISE,
    "cos": _ELEMENTWISE,
    "cosh": _ELEMENTWISE,
    "divide": _ELEMENTWISE,
    "equal": _ELEMENTWISE,
    "erf": _ELEMENTWISE,
    "exp": _ELEMENTWISE,
    "floor": _ELEMENTWISE,
    "floor_divide": _ELEMENTWISE,
    "floor_mod": _ELEMENTWISE,
    "greater": _ELEMENTWISE,
    "greater_equal": _ELEMENTWISE,
    "isfinite": _ELEMENTWISE,
    "isinf": _ELEMENTWISE,
    "isnan": _ELEMENTWISE,
    "left_shift": _ELEMENTWISE,
    "less": _ELEMENTWISE,
    "less_equal": _ELEMENTWISE,
    "log": _ELEMENTWISE,
    "log_add_exp": _ELEMENTWISE,
    "logical_and": _ELEMENTWISE,
    "logical_not": _ELEMENTWISE,
    "logical_or": _ELEMENTWISE,
    "logical_xor": _ELEMENTWISE,
    "maximum": _ELEMENTWISE,
    "minimum": _ELEMENTWISE,
    "mod": _ELEMENTWISE,
    "multiply": _ELEMENTWISE,
    "negative": _ELEMENTWISE,
    "nn.dropout": _ELEMENTWISE,
    "nn.gelu": _ELEMENTWISE,
    "nn.gelu_tanh": _ELEMENTWISE,
    "nn.leakyrelu": _ELEMENTWISE,
    "nn.relu": _ELEMENTWISE,
    "nn.selu": _ELEMENTWISE,
    "nn.silu": _ELEMENTWISE,
    "nn.softplus": _ELEMENTWISE,
    "not_equal": _ELEMENTWISE,
    "power": _ELEMENTWISE,
    "right_shift": _ELEMENTWISE,
    "round": _ELEMENTWISE,
    "rsqrt": _ELEMENTWISE,
    "sigmoid": _ELEMENTWISE,
    "sign": _ELEMENTWISE,
    "sin": _ELEMENTWISE,
    "sinh": _ELEMENTWISE,
    "sqrt": _ELEMENTWISE,
    "square": _ELEMENTWISE,
    "subtract": _ELEMENTWISE,
    "tan": _ELEMENTWISE,
    "tanh": _ELEMENTWISE,
    "trunc": _ELEMENTWISE,
    "where": _ELEMENTWISE,
    "relay.qnn.abs": _QUANTIZED_UNARY,
    "relay.qnn.add": _QUANTIZED_BINARY,
    "relay.qnn.concatenate": AxisRule(quantized_concatenation, quantized_attributes("axis")),
    "relay.qnn.dequantize": _PER_AXIS,
    "relay.qnn.erf": _QUANTIZED_UNARY,
    "relay.qnn.exp": _QUANTIZED_UNARY,
    "relay.qnn.hardswish": _QUANTIZED_UNARY,
    "relay.qnn.leaky_relu": _QUANTIZED_UNARY,
    "relay.qnn.log": _QUANTIZED_UNARY,
    "relay.qnn.mul": _QUANTIZED_BINARY,
    "relay.qnn.quantize": _PER_AXIS,
    "relay.qnn.requantize": _PER_AXIS,
    "relay.qnn.rsqrt": _QUANTIZED_UNARY,
    "relay.qnn.sigmoid": _QUANTIZED_UNARY,
    "relay.qnn.sqrt": _QUANTIZED_UNARY,
    "relay.qnn.subtract": _QUANTIZED_BINARY,
    "relay.qnn.tanh": _QUANTIZED_UNARY,
    "relay.relay.op.annotation.simulated_quantize": _QUANTIZED_UNARY,
}
"""Relax operator name, without ``relax.``, to its rule; Relay's own operators begin with ``relay.``."""
