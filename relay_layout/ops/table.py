"""The operator table: one row for each operator that takes part in layouts.

Solver and rewriter read operators from here only; what the verifier knows of them is in
:mod:`relay_layout.verify.meanings`, apart. An operator without a row, and a case
that its row cannot carry, keeps its original layouts, which is always correct.
"""

from collections.abc import Callable

from relay_layout.graph import Node
from relay_layout.ops import axis_rules as axis
from relay_layout.ops import carried_rules as carried
from relay_layout.ops import channel_norms as norms
from relay_layout.ops import creation_rules as creation
from relay_layout.ops import movement_rules as movement
from relay_layout.ops import parameter_rules as parameter
from relay_layout.ops import slice_rules as slices
from relay_layout.ops import window_rules as window
from relay_layout.ops.axis_rules import AxisRule, with_arguments
from relay_layout.ops.convolution_rule import ConvolutionRule
from relay_layout.ops.index_rules import TailRule, TakeRule, gathered_prefixes, scattered_prefixes
from relay_layout.ops.matmul_rule import MatmulRule
from relay_layout.ops.reshape_rule import ReshapeRule
from relay_layout.ops.shuffle_rule import PixelShuffleRule
from relay_layout.ops.signature import Rule

_CONVOLUTION = ConvolutionRule()
_ELEMENTWISE = AxisRule(axis.elementwise)
_ALONG_AXIS = AxisRule(axis.along_axis, axis.axis_attribute)
_REDUCTION = AxisRule(axis.reduced, axis.reduced_attributes)
_EXTREME_ALONG = AxisRule(axis.reduced_one, axis.reduced_one_attributes)
_POOLING = AxisRule(window.pooled, window.pooled_attributes, accepts=window.lowers_pooling)
_RESIZING = AxisRule(window.sampled, window.sampled_attributes, accepts=window.lowers_resize)
_GIVEN_AXIS = AxisRule(movement.along_given_axis, axis.axis_attribute)
_OVER_AXES = AxisRule(parameter.over_axes, parameter.over_axes_attributes)
_CHANNEL_NORM = AxisRule(
    norms.channel_norm,
    norms.channel_norm_attributes,
    expansion=norms.channel_norm_expansion,
    accepts=norms.keeps_groups,
)
_VECTOR = AxisRule(parameter.vector_along_axis, axis.axis_attribute)
_TRIANGLE = AxisRule(movement.triangle, accepts=movement.keeps_last_two)
_FILLED = AxisRule(creation.filled, expansion=with_arguments(creation.filled_arguments))
_PER_AXIS = AxisRule(carried.quantized(1, "axis"), carried.quantized_attributes("axis"))
_EXTREME = AxisRule(carried.extreme, carried.extreme_attributes, accepts=carried.keeps_counting_order)
_QUANTIZED_UNARY = AxisRule(carried.quantized(1))
_QUANTIZED_BINARY = AxisRule(
    carried.quantized(2, "lhs_axis", "rhs_axis"), carried.quantized_attributes("lhs_axis", "rhs_axis")
)

TABLE: dict[str, Rule] = {
    "nn.conv1d": _CONVOLUTION,
    "nn.conv2d": _CONVOLUTION,
    "nn.conv3d": _CONVOLUTION,
    "nn.conv1d_transpose": _CONVOLUTION,
    "nn.conv2d_transpose": _CONVOLUTION,
    "nn.conv3d_transpose": _CONVOLUTION,
    "matmul": MatmulRule(),
    "einsum": AxisRule(creation.contracted, creation.contracted_attributes, completes=True),
    "nn.batch_norm": AxisRule(
        parameter.normalized, axis.axis_attribute, expansion=parameter.normalized_expansion
    ),
    "nn.max_pool1d": _POOLING,
    "nn.max_pool2d": _POOLING,
    "nn.max_pool3d": _POOLING,
    "nn.avg_pool1d": _POOLING,
    "nn.avg_pool2d": _POOLING,
    "nn.avg_pool3d": _POOLING,
    "nn.adaptive_avg_pool1d": _POOLING,
    "nn.adaptive_avg_pool2d": _POOLING,
    "nn.adaptive_avg_pool3d": _POOLING,
    "image.resize2d": _RESIZING,
    "image.resize3d": _RESIZING,
    "vision.roi_align": AxisRule(window.sampled, window.sampled_attributes, accepts=window.lowers_roi_align),
    "nn.layer_norm": _OVER_AXES,
    "nn.rms_norm": AxisRule(
        parameter.over_axes, parameter.over_axes_attributes, expansion=parameter.root_mean_square_expansion
    ),
    "nn.instance_norm": _CHANNEL_NORM,
    "nn.group_norm": _CHANNEL_NORM,
    "nn.prelu": AxisRule(parameter.rectified, axis.axis_attribute, expansion=parameter.rectified_expansion),
    "quantize": _VECTOR,
    "dequantize": _VECTOR,
    "nn.pad": AxisRule(movement.padded, movement.padded_attributes, accepts=movement.pads_whole_blocks),
    "split": AxisRule(movement.split, movement.split_attributes),
    "stack": AxisRule(movement.stacked, movement.stacked_attributes, completes=True),
    "expand_dims": AxisRule(movement.expanded_dims, movement.expanded_attributes, completes=True),
    "squeeze": AxisRule(movement.squeezed, movement.squeezed_attributes, completes=True),
    "tile": AxisRule(
        movement.tiled, movement.tiled_attributes, completes=True, accepts=movement.tiles_in_order
    ),
    "strided_slice": AxisRule(
        slices.sliced, expansion=with_arguments(slices.sliced_arguments), accepts=slices.cuts_slices_cleanly
    ),
    "take": TakeRule(),
    "gather_nd": TailRule(gathered_prefixes),
    "scatter_nd": TailRule(scattered_prefixes),
    "slice_scatter": _GIVEN_AXIS,
    "reverse_sequence": AxisRule(movement.ordered, movement.ordered_attributes),
    "tril": _TRIANGLE,
    "triu": _TRIANGLE,
    "broadcast_to": AxisRule(creation.broadcast, expansion=with_arguments(creation.broadcast_arguments)),
    "full": _FILLED,
    "ones": _FILLED,
    "zeros": _FILLED,
    "one_hot": AxisRule(creation.encoded, axis.axis_attribute, completes=True),
    "bucketize": AxisRule(creation.bucketed),
    "nn.pixel_shuffle": PixelShuffleRule(),
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
    "argmax": _EXTREME_ALONG,
    "argmin": _EXTREME_ALONG,
    "median": AxisRule(axis.reduced_one, axis.reduced_attributes),
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
    "ewise_fma": _ELEMENTWISE,
    "floor": _ELEMENTWISE,
    "full_like": _ELEMENTWISE,
    "ones_like": _ELEMENTWISE,
    "zeros_like": _ELEMENTWISE,
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
    "match_cast": _ELEMENTWISE,
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
    "relay_layout.lookup": _QUANTIZED_UNARY,
    "relay.argmax": _EXTREME,
    "relay.argmin": _EXTREME,
    "relay.fast_erf": _ELEMENTWISE,
    "relay.fast_exp": _ELEMENTWISE,
    "relay.fast_tanh": _ELEMENTWISE,
    "relay.fixed_point_multiply": _ELEMENTWISE,
    "relay.image.resize1d": _RESIZING,
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
"""Relax operator name, without ``relax.``, to its rule; Relay's own operators begin with ``relay.``.

``match_cast`` is a kind of binding, which the graph names like an operator.
"""


Rules = Callable[[Node], Rule | None]
"""The rule of a node, or None if the node keeps its layouts."""


def table_rule(node: Node) -> Rule | None:
    """The rule of the operator table."""
    return TABLE.get(node.operator)


def is_elementwise(operator: str) -> bool:
    """Does it compute each element of its result from one of each operand, broadcast where need be?"""
    return TABLE.get(operator) is _ELEMENTWISE
