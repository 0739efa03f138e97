"""The table of meanings: how to read a call of each operator.

It is made apart from the operator table that conversion uses, so that a mistake there is not repeated here.
An operator that is not in it may only appear as the original function has it.
"""

from relay_layout.graph import MATCH_CAST, Node
from relay_layout.verify import arrangement_meanings as arrangement
from relay_layout.verify import axis_meanings as axes
from relay_layout.verify.layout_meanings import convolution, windowed
from relay_layout.verify.movement import MOVES
from relay_layout.verify.reading import Reader, Reading

_ELEMENTWISE = """
abs acos acosh add asin asinh astype atan atan2 atanh bitwise_and bitwise_not bitwise_or bitwise_xor ceil
clip cos cosh divide equal erf ewise_fma exp floor floor_divide floor_mod full_like greater greater_equal
isfinite isinf isnan left_shift less less_equal log log_add_exp logical_and logical_not logical_or logical_xor
maximum minimum mod multiply negative nn.dropout nn.gelu nn.gelu_tanh nn.leakyrelu nn.relu nn.selu nn.silu
nn.softplus not_equal ones_like power right_shift round rsqrt sigmoid sign sin sinh sqrt square subtract tan
tanh trunc where zeros_like
relay.fast_erf relay.fast_exp relay.fast_tanh relay.fixed_point_multiply relay.log10 relay.log2
relay.reinterpret relay.round
"""
_ALONG_AXIS = """
argsort cumprod cumsum flip gather_elements nn.log_softmax nn.softmax repeat scatter_elements slice_scatter
sort topk
relay.nn.fast_softmax relay.nn.lrn
"""
_REDUCTIONS = "max mean median min prod std sum variance"
_EXTREMES = "argmax argmin relay.argmax relay.argmin"
_CONVOLUTIONS = """
nn.conv1d nn.conv1d_transpose nn.conv2d nn.conv2d_transpose nn.conv3d nn.conv3d_transpose
relay.nn.conv2d relay.nn.conv3d relay.qnn.conv2d relay.qnn.conv2d_transpose
"""
_WINDOWED = """
image.grid_sample image.resize2d image.resize3d nn.adaptive_avg_pool1d nn.adaptive_avg_pool2d
nn.adaptive_avg_pool3d nn.avg_pool1d nn.avg_pool2d nn.avg_pool3d nn.max_pool1d nn.max_pool2d nn.max_pool3d
relay.image.resize1d vision.roi_align vision.roi_pool
"""
_QUANTIZED_UNARY = """
relay.qnn.abs relay.qnn.erf relay.qnn.exp relay.qnn.hardswish relay.qnn.leaky_relu relay.qnn.log
relay.qnn.rsqrt relay.qnn.sigmoid relay.qnn.sqrt relay.qnn.tanh
relay.relay.op.annotation.simulated_quantize relay_layout.lookup
"""
_QUANTIZED_BINARY = "relay.qnn.add relay.qnn.mul relay.qnn.subtract"
_QUANTIZED_PER_AXIS = "relay.qnn.dequantize relay.qnn.quantize relay.qnn.requantize"

MEANINGS: dict[str, Reader] = {
    **dict.fromkeys(_ELEMENTWISE.split(), axes.elementwise),
    **dict.fromkeys(_ALONG_AXIS.split(), axes.along_axis),
    **dict.fromkeys(_REDUCTIONS.split(), axes.reduction),
    **dict.fromkeys(_EXTREMES.split(), axes.place_of_extreme),
    **dict.fromkeys(_CONVOLUTIONS.split(), convolution()),
    **dict.fromkeys(_WINDOWED.split(), windowed),
    **dict.fromkeys(_QUANTIZED_UNARY.split(), axes.quantized(1)),
    **dict.fromkeys(_QUANTIZED_BINARY.split(), axes.quantized(2, "lhs_axis", "rhs_axis")),
    **dict.fromkeys(_QUANTIZED_PER_AXIS.split(), axes.quantized(1, "axis")),
    **dict.fromkeys(("full", "ones", "zeros"), arrangement.filling),
    "broadcast_to": arrangement.broadcast,
    "bucketize": axes.quantized(1),
    "concat": arrangement.concatenation,
    "dequantize": axes.normalized_along("axis"),
    "einsum": arrangement.contraction,
    "gather_nd": arrangement.indexed(scatters=False),
    MATCH_CAST: axes.cast,
    "matmul": axes.matrix_product,
    "nn.batch_norm": axes.normalized_along("axis"),
    "nn.group_norm": axes.normalized_along("channel_axis", "axes"),
    "nn.instance_norm": axes.normalized_along("channel_axis", "axes"),
    "nn.layer_norm": axes.normalized_over,
    "nn.pad": arrangement.padding,
    "nn.prelu": axes.normalized_along("axis"),
    "nn.rms_norm": axes.normalized_over,
    "one_hot": arrangement.one_hot,
    "quantize": axes.normalized_along("axis"),
    "relay.nn.deformable_conv2d": convolution(2, also_data=1),
    "relay.qnn.concatenate": arrangement.quantized_concatenation,
    "reverse_sequence": arrangement.reversing,
    "scatter_nd": arrangement.indexed(scatters=True),
    "split": arrangement.splitting,
    "stack": arrangement.stacking,
    "strided_slice": arrangement.slicing,
    "take": arrangement.taking,
    "tile": arrangement.tiling,
    "tril": axes.triangle,
    "triu": axes.triangle,
}
"""Relax operator name, without ``relax.``, to its reader; Relay's own operators begin with ``relay.``."""


def without_meaning(operator: str) -> str:
    """What a message adds for an operator that has no meaning here; nothing for one that has."""
    if operator in MEANINGS or operator in MOVES:
        return ""
    return "; relay_layout/verify/meanings.py has no row for this operator, so that it may only be as it was"


def reading_of(node: Node) -> Reading | None:
    """What a call means; None for one that may only be left as it is, such as one of unknown ranks."""
    reader = MEANINGS.get(node.operator)
    return reader(node) if reader is not None and node.has_known_ranks else None
