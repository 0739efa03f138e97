"""The operator table: one row for each operator that takes part in layouts.

Solver, rewriter and verifier read operators from here only. An operator without a row, and a case
that its row cannot carry, keeps its original layouts, which is always correct.
"""

from relay_layout.ops import axis_rules as axis
from relay_layout.ops import carried_rules as carried
from relay_layout.ops import movement_rules as movement
from relay_layout.ops import parameter_rules as parameter
from relay_layout.ops.axis_rules import AxisRule
from relay_layout.ops.convolution_rule import ConvolutionRule
from relay_layout.ops.reshape_rule import ReshapeRule
from relay_layout.ops.signature import Rule

_ELEMENTWISE = AxisRule(axis.elementwise)
_ALONG_AXIS = AxisRule(axis.along_axis, axis.axis_attribute)
_REDUCTION = AxisRule(axis.reduced, axis.reduced_attributes)
_SPATIAL = AxisRule(axis.spatial, axis.spatial_attributes)
_SAMPLED = AxisRule(axis.first_spatial, axis.layout_attribute)
_GIVEN_AXIS = AxisRule(movement.along_given_axis, axis.axis_attribute)
_OVER_AXES = AxisRule(parameter.over_axes, parameter.over_axes_attributes)
_PER_CHANNEL = AxisRule(parameter.per_channel, parameter.per_channel_attributes)
_VECTOR = AxisRule(parameter.vector_along_axis, axis.axis_attribute)
_PER_AXIS = AxisRule(carried.quantized(1, "axis"), carried.quantized_attributes("axis"))
_EXTREME = AxisRule(carried.extreme, carried.extreme_attributes, accepts=carried.keeps_counting_order)
_QUANTIZED_UNARY = AxisRule(carried.quantized(1))
_QUANTIZED_BINARY = AxisRule(
    carried.quantized(2, "lhs_axis", "rhs_axis"), carried.quantized_attributes("lhs_axis", "rhs_axis")
)

TABLE: dict[str, Rule] = {
    "nn.conv2d": ConvolutionRule(),
    "nn.batch_norm": AxisRule(axis.normalized, axis.axis_attribute),
    "nn.max_pool1d": _SPATIAL,
    "nn.max_pool2d": _SPATIAL,
    "nn.max_pool3d": _SPATIAL,
    "nn.avg_pool1d": _SPATIAL,
    "nn.avg_pool2d": _SPATIAL,
    "nn.avg_pool3d": _SPATIAL,
    "nn.adaptive_avg_pool1d": _SPATIAL,
    "nn.adaptive_avg_pool2d": _SPATIAL,
    "nn.adaptive_avg_pool3d": _SPATIAL,
    "image.resize2d": _SAMPLED,
    "image.resize3d": _SAMPLED,
    "vision.roi_align": _SAMPLED,
    "vision.roi_pool": _SAMPLED,
    "nn.layer_norm": _OVER_AXES,
    "nn.rms_norm": AxisRule(
        parameter.over_axes, parameter.over_axes_attributes, accepts=parameter.over_last_axes
    ),
    "nn.instance_norm": _PER_CHANNEL,
    "nn.group_norm": _PER_CHANNEL,
    "nn.prelu": _VECTOR,
    "quantize": _VECTOR,
    "dequantize": _VECTOR,
    "nn.pad": AxisRule(movement.padded, movement.padded_attributes),
    "split": AxisRule(movement.split, movement.split_attributes),
    "stack": AxisRule(movement.stacked, movement.stacked_attributes, completes=True),
    "expand_dims": AxisRule(movement.expanded_dims, movement.expanded_attributes, completes=True),
    "squeeze": AxisRule(movement.squeezed, movement.squeezed_attributes, completes=True),
    "tile": AxisRule(movement.tiled, movement.tiled_attributes),
    "strided_slice": AxisRule(
        movement.sliced, arguments=movement.sliced_arguments, accepts=movement.cuts_slices_cleanly
    ),
    "take": AxisRule(movement.taken, axis.axis_attribute),
    "repeat": _GIVEN_AXIS,
    "flip": _GIVEN_AXIS,
    "sort": _GIVEN_AXIS,
    "argsort": _GIVEN_AXIS,
    "topk": _GIVEN_AXIS,
    "cumsum": _GIVEN_AXIS,
    "cumprod": _GIVEN_AXIS,
    "gather_elements": _GIVEN_AXIS,
    "scatter_elements": _GIVEN_AXIS,
    "reshape": ReshapeRule(),
    "flatten": ReshapeRule(),
    "nn.batch_flatten": ReshapeRule(),
    "argmax": AxisRule(axis.reduced_one, axis.reduced_one_attributes),
    "argmin": AxisRule(axis.reduced_one, axis.reduced_one_attributes),
    "median": AxisRule(axis.reduced, axis.reduced_attributes),
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
    "relay.argmax": _EXTREME,
    "relay.argmin": _EXTREME,
    "relay.fast_erf": _ELEMENTWISE,
    "relay.fast_exp": _ELEMENTWISE,
    "relay.fast_tanh": _ELEMENTWISE,
    "relay.fixed_point_multiply": _ELEMENTWISE,
    "relay.image.resize1d": _SAMPLED,
    "relay.log10": _ELEMENTWISE,
    "relay.log2": _ELEMENTWISE,
    "relay.nn.fast_softmax": _ALONG_AXIS,
    "relay.nn.lrn": _ALONG_AXIS,
    "relay.reinterpret": _ELEMENTWISE,
    "relay.round": _ELEMENTWISE,
    "relay.qnn.abs": _QUANTIZED_UNARY,
    "relay.qnn.add": _QUANTIZED_BINARY,
    "relay.qnn.concatenate": AxisRule(carried.quantized_concatenation, carried.quantized_attributes("axis")),
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
