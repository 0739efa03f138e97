"""The operator table: one row for each operator that takes part in layouts.

Solver, rewriter and verifier read operators from here only. An operator without a row, and a case
that its row cannot carry, keeps its original layouts, which is always correct.
"""

from relay_layout.ops import axis_rules as axis
from relay_layout.ops.axis_rules import AxisRule
from relay_layout.ops.convolution_rule import ConvolutionRule
from relay_layout.ops.signature import Rule

_ELEMENTWISE = AxisRule(axis.elementwise)
_ALONG_AXIS = AxisRule(axis.along_axis, axis.axis_attribute)
_REDUCTION = AxisRule(axis.reduced, axis.reduced_attributes)
_SPATIAL = AxisRule(axis.spatial, axis.spatial_attributes)

_ONE_OPERAND = """
    abs acos acosh asin asinh atan atanh astype bitwise_not ceil clip cos cosh erf exp floor isfinite isinf isnan
    log logical_not negative nn.dropout nn.gelu nn.gelu_tanh nn.leakyrelu nn.relu nn.selu nn.silu nn.softplus
    round rsqrt sigmoid sign sin sinh sqrt square tan tanh trunc
""".split()

_BROADCAST = """
    add atan2 bitwise_and bitwise_or bitwise_xor divide equal floor_divide floor_mod greater greater_equal
    left_shift less less_equal log_add_exp logical_and logical_or logical_xor maximum minimum mod multiply
    not_equal power right_shift subtract where
""".split()

TABLE: dict[str, Rule] = {
    "nn.conv2d": ConvolutionRule(),
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
    **dict.fromkeys(_ONE_OPERAND, _ELEMENTWISE),
    **dict.fromkeys(_BROADCAST, _ELEMENTWISE),
}
"""Relax operator name, without ``relax.``, to its rule."""
