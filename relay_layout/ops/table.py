"""The operator table: one row for each operator that takes part in layouts.

Solver and rewriter read operators from here only; what the verifier knows of them is in
:mod:`relay_layout.verify.meanings`, apart. An operator without a row, and a case
that its row cannot carry, keeps its original layouts, which is always correct.
"""

from collections.abc import Callable
from dataclasses import replace

from relay_layout.graph import Node
from relay_layout.ops import axis_rules as axis
from relay_layout.ops import carried_rules as carried
from relay_layout.ops import channel_norms as norms
from relay_layout.ops import creation_rules as creation
from relay_layout.ops import movement_rules as movement
from relay_layout.ops import parameter_rules as parameter
from relay_layout.ops import slice_rules as slices
from relay_layout.ops import window_rules as window
from relay_layout.ops.axis_rule import AxisRule, Condition, with_arguments
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
_POOLING = AxisRule(
    window.pooled,
    window.pooled_attributes,
    accepts=Condition(
        "each dimension has one block at most: TVM's layouts have no nested ones", window.lowers_pooling
    ),
)
_RESIZING = AxisRule(
    window.sampled,
    window.sampled_attributes,
    accepts=Condition("TVM resizes in this layout: channels first, last, or blocked", window.lowers_resize),
)
_GIVEN_AXIS = AxisRule(movement.along_given_axis, axis.axis_attribute)
_OVER_AXES = AxisRule(parameter.over_axes, parameter.over_axes_attributes)
_CHANNEL_NORM = AxisRule(
    norms.channel_norm,
    norms.channel_norm_attributes,
    expansion=norms.channel_norm_expansion,
    accepts=Condition("blocks of channels and groups of them divide each other", norms.keeps_groups),
)
_VECTOR = AxisRule(parameter.vector_along_axis, axis.axis_attribute)
_TRIANGLE = AxisRule(
    movement.triangle,
    accepts=Condition("the last two dimensions are the innermost, in their order", movement.keeps_last_two),
)
_FILLED = AxisRule(creation.filled, expansion=with_arguments(creation.filled_arguments))
_EXTREME = AxisRule(
    carried.extreme,
    carried.extreme_attributes,
    accepts=Condition("the reduced dimensions stay in their order", carried.keeps_counting_order),
)


def _quantized(tensors: int, *axes: str) -> AxisRule:
    return AxisRule(carried.quantized(tensors, *axes), carried.quantized_attributes(*axes))


_PER_AXIS = _quantized(1, "axis")
_QUANTIZED_UNARY = _quantized(1)
_QUANTIZED_BINARY = _quantized(2, "lhs_axis", "rhs_axis")

_ELEMENTWISE_NAMES = """
abs acos acosh add asin asinh astype atan atan2 atanh bitwise_and bitwise_not bitwise_or bitwise_xor ceil
clip cos cosh divide equal erf ewise_fma exp floor floor_divide floor_mod full_like greater greater_equal
isfinite isinf isnan left_shift less less_equal log log_add_exp logical_and logical_not logical_or
logical_xor match_cast maximum minimum mod multiply negative nn.dropout nn.gelu nn.gelu_tanh nn.leakyrelu
nn.relu nn.selu nn.silu nn.softplus not_equal ones_like power right_shift round rsqrt sigmoid sign sin sinh
sqrt square subtract tan tanh trunc where zeros_like
relay.fast_erf relay.fast_exp relay.fast_tanh relay.fixed_point_multiply relay.log10 relay.log2
relay.reinterpret relay.round
"""

_QUANTIZED_UNARY_NAMES = """
relay_layout.lookup relay.qnn.abs relay.qnn.erf relay.qnn.exp relay.qnn.hardswish relay.qnn.leaky_relu
relay.qnn.log relay.qnn.rsqrt relay.qnn.sigmoid relay.qnn.sqrt relay.qnn.tanh
relay.relay.op.annotation.simulated_quantize
"""

_GIVEN_AXIS_NAMES = (
    "slice_scatter repeat flip sort argsort topk cumsum cumprod gather_elements scatter_elements"
)

TABLE: dict[str, Rule] = {
    **{f"nn.conv{rank}d{suffix}": _CONVOLUTION for suffix in ("", "_transpose") for rank in (1, 2, 3)},
    "matmul": MatmulRule(),
    "einsum": AxisRule(creation.contracted, creation.contracted_attributes, completes=True),
    "nn.batch_norm": AxisRule(
        parameter.normalized, axis.axis_attribute, expansion=parameter.normalized_expansion
    ),
    "image.resize2d": _RESIZING,
    "image.resize3d": _RESIZING,
    "vision.roi_align": replace(
        _RESIZING, accepts=Condition("TVM aligns regions of interest in this layout", window.lowers_roi_align)
    ),
    "nn.layer_norm": _OVER_AXES,
    "nn.rms_norm": replace(_OVER_AXES, expansion=parameter.root_mean_square_expansion),
    "nn.instance_norm": _CHANNEL_NORM,
    "nn.group_norm": _CHANNEL_NORM,
    "nn.prelu": AxisRule(parameter.rectified, axis.axis_attribute, expansion=parameter.rectified_expansion),
    "quantize": _VECTOR,
    "dequantize": _VECTOR,
    "nn.pad": AxisRule(
        movement.padded,
        movement.padded_attributes,
        accepts=Condition(
            "every width is a multiple of the block that it adds to", movement.pads_whole_blocks
        ),
    ),
    "split": AxisRule(movement.split, movement.split_attributes),
    "stack": AxisRule(movement.stacked, axis.axis_attribute, completes=True),
    "expand_dims": AxisRule(movement.expanded_dims, movement.expanded_attributes, completes=True),
    "squeeze": AxisRule(movement.squeezed, movement.squeezed_attributes, completes=True),
    "tile": AxisRule(
        movement.tiled,
        movement.tiled_attributes,
        completes=True,
        accepts=Condition(
            "dimensions that a tile adds come first, as the operator places them", movement.tiles_in_order
        ),
    ),
    "strided_slice": AxisRule(
        slices.sliced,
        expansion=with_arguments(slices.sliced_arguments),
        accepts=Condition(
            "the bounds of every dimension that is cut fall on the edges of its blocks",
            slices.cuts_slices_cleanly,
        ),
    ),
    "take": TakeRule(),
    "gather_nd": TailRule(gathered_prefixes),
    "scatter_nd": TailRule(scattered_prefixes),
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
    "reshape": ReshapeRule(),
    "flatten": ReshapeRule(),
    "nn.batch_flatten": ReshapeRule(),
    "argmax": _EXTREME_ALONG,
    "argmin": _EXTREME_ALONG,
    "median": replace(_EXTREME_ALONG, attributes=axis.reduced_attributes),
    "concat": AxisRule(axis.concatenated, axis.axis_attribute),
    "permute_dims": AxisRule(axis.permuted, alias=True),
    "nn.softmax": _ALONG_AXIS,
    "nn.log_softmax": _ALONG_AXIS,
    "relay.argmax": _EXTREME,
    "relay.argmin": _EXTREME,
    "relay.image.resize1d": _RESIZING,
    "relay.nn.fast_softmax": _ALONG_AXIS,
    "relay.nn.lrn": _ALONG_AXIS,
    "relay.qnn.add": _QUANTIZED_BINARY,
    "relay.qnn.concatenate": AxisRule(carried.quantized_concatenation, carried.quantized_attributes("axis")),
    "relay.qnn.dequantize": _PER_AXIS,
    "relay.qnn.mul": _QUANTIZED_BINARY,
    "relay.qnn.quantize": _PER_AXIS,
    "relay.qnn.requantize": _PER_AXIS,
    "relay.qnn.subtract": _QUANTIZED_BINARY,
    **dict.fromkeys(_ELEMENTWISE_NAMES.split(), _ELEMENTWISE),
    **dict.fromkeys(_QUANTIZED_UNARY_NAMES.split(), _QUANTIZED_UNARY),
    **dict.fromkeys(_GIVEN_AXIS_NAMES.split(), _GIVEN_AXIS),
    **{f"nn.{kind}_pool{rank}d": _POOLING for kind in ("max", "avg", "adaptive_avg") for rank in (1, 2, 3)},
    **dict.fromkeys(["sum", "mean", "max", "min", "prod", "variance", "std"], _REDUCTION),
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
