"""Which operators take lower precision: Relay's categories, and callbacks that decide otherwise."""

from collections.abc import Callable, Sequence
from typing import Any

from relay_layout.errors import ModelError
from relay_layout.relay.registries.registry import Callback, Registry
from relay_layout.relay.syntax import tree

MIXED_PRECISION_ALWAYS = 0
"""Computed in the lower precision whatever the operands are: it is worth a conversion of them."""

MIXED_PRECISION_FOLLOW = 1
"""Computed in the lower precision where its operands have it already, or are inputs and constants."""

MIXED_PRECISION_NEVER = 2
"""Computed in float32: its results grow fast, or are sums of many numbers."""

Decision = tuple[int, str, str]
"""A category, and the dtypes that results are summed in and given in where the lower precision is taken."""

DEFAULT_ALWAYS_LIST = [
    "nn.batch_matmul",
    "nn.conv1d",
    "nn.conv1d_transpose",
    "nn.conv2d",
    "nn.conv2d_transpose",
    "nn.conv3d",
    "nn.conv3d_transpose",
    "nn.dense",
    # What nn.dense is in Relax.
    "nn.matmul",
]

DEFAULT_FOLLOW_LIST = [
    "add",
    "argmax",
    "argmin",
    "argwhere",
    "broadcast_to_like",
    "cast",
    "cast_like",
    "clip",
    "concatenate",
    "copy",
    "divide",
    "dyn.broadcast_to",
    "dyn.full",
    "dyn.reshape",
    "dyn.strided_slice",
    "dyn.tile",
    "expand_dims",
    "fast_erf",
    "fast_exp",
    "fast_tanh",
    "full",
    "greater",
    "greater_equal",
    "image.resize2d",
    "less",
    "less_equal",
    "max",
    "maximum",
    "min",
    "minimum",
    "multiply",
    "nn.adaptive_max_pool1d",
    "nn.adaptive_max_pool2d",
    "nn.adaptive_max_pool3d",
    "nn.avg_pool1d",
    "nn.avg_pool2d",
    "nn.avg_pool3d",
    "nn.batch_flatten",
    "nn.batch_norm",
    "nn.bias_add",
    "nn.depth_to_space",
    "nn.dropout",
    "nn.global_max_pool2d",
    "nn.leaky_relu",
    "nn.max_pool1d",
    "nn.max_pool2d",
    "nn.max_pool3d",
    "nn.pad",
    "nn.prelu",
    "nn.relu",
    "reshape",
    "scatter",
    "scatter_elements",
    "scatter_nd",
    "shape_of",
    "sigmoid",
    "split",
    "sqrt",
    "squeeze",
    "strided_slice",
    "subtract",
    "take",
    "tanh",
    "tile",
    "transpose",
    "where",
    "zeros",
    # Relay names none for these; where by a condition of floats asks for the second.
    "equal",
    "not_equal",
]

DEFAULT_NEVER_LIST = [
    "arange",
    "erf",
    "exp",
    "mean",
    "nn.adaptive_avg_pool1d",
    "nn.adaptive_avg_pool2d",
    "nn.adaptive_avg_pool3d",
    "nn.cross_entropy",
    "nn.cross_entropy_with_logits",
    "nn.global_avg_pool2d",
    "nn.l2_normalize",
    "nn.layer_norm",
    "nn.softmax",
    "power",
    "sum",
    "variance",
]

CATEGORIES: dict[str, int] = {
    **dict.fromkeys(DEFAULT_ALWAYS_LIST, MIXED_PRECISION_ALWAYS),
    **dict.fromkeys(DEFAULT_FOLLOW_LIST, MIXED_PRECISION_FOLLOW),
    **dict.fromkeys(DEFAULT_NEVER_LIST, MIXED_PRECISION_NEVER),
}
"""Relay's category of each operator that it has one for; the others follow their operands."""

MIXED = Registry("mixed precision", ("call_node", "mixed_precision_type"), ModelError)


def register_mixed_precision_conversion(op_name: str, func: Callback | None = None, level: int = 10) -> Any:
    """Register ``f(call_node, mixed_precision_type)`` for an operator; a decorator without ``f``.

    It returns a category (``MIXED_PRECISION_ALWAYS``, ``FOLLOW`` or ``NEVER``), and the dtypes that results
    are summed in and given in. It holds in place of Relay's category; of several the highest level.
    ModelError for an unknown operator or a second callback of the same level.
    """
    return MIXED.register(op_name, func, level)


def is_known(name: str) -> bool:
    """Whether an operator has a category of Relay's, or a callback."""
    return name in CATEGORIES or name.startswith("qnn.") or MIXED.get(name) is not None


def decide(name: str, call: Callable[[], tree.Call] | None, dtype: str) -> Decision:
    """What becomes of a call, which ``call`` makes for callbacks to see; None for what Relay does not have.

    ModelError for a callback that returns something else.
    """
    if call is not None and MIXED.get(name) is not None:
        return _checked(name, MIXED.ask(name, call(), dtype))
    # What turns floats into integers has scales of float32.
    default = MIXED_PRECISION_NEVER if name.startswith("qnn.") else MIXED_PRECISION_FOLLOW
    return CATEGORIES.get(name, default), dtype, dtype


def _checked(name: str, decision: Any) -> Decision:
    if (
        not isinstance(decision, Sequence)
        or len(decision) != 3
        or decision[0] not in (MIXED_PRECISION_ALWAYS, MIXED_PRECISION_FOLLOW, MIXED_PRECISION_NEVER)
        or any(str(dtype) not in DTYPES for dtype in decision[1:])
    ):
        raise ModelError(
            f"the mixed precision callback for {name} returned {decision!r}, not [category, accumulation "
            f"dtype, output dtype] with a category of 0, 1 or 2 and dtypes of {', '.join(DTYPES)}"
        )
    category, accumulation, output = decision
    return int(category), str(accumulation), str(output)


DTYPES = ("bfloat16", "float16", "float32", "float64")
"""What floats are computed in."""
