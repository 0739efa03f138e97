"""Operators whose computes are the same for processors and for CUDA."""

from collections.abc import Callable

from tvm import relax

from relay_layout.ir import Expression
from relay_layout.lower.legalize.elementwise import (
    EQUALITIES,
    EXTREMA,
    ORDERS,
    difference_call,
    equality_call,
    full_call,
    negative_call,
    ordered_call,
    sign_call,
)
from relay_layout.lower.legalize.gathering import gather_elements_call, gather_nd_call, take_call
from relay_layout.lower.legalize.padding import pad_call
from relay_layout.lower.legalize.reductions import (
    extreme_call,
    first_place_call,
    layer_norm_call,
    rms_norm_call,
)
from relay_layout.lower.legalize.repeats import tile_call
from relay_layout.lower.legalize.views import reshape_call

Legalizer = Callable[[relax.BlockBuilder, relax.Call], Expression]
"""Gives what takes the place of a call."""

COMMON_LEGALIZERS: dict[str, Legalizer] = {
    **dict.fromkeys(EQUALITIES, equality_call),
    **dict.fromkeys(ORDERS, ordered_call),
    **dict.fromkeys(EXTREMA, ordered_call),
    "negative": negative_call,
    "subtract": difference_call,
    "sign": sign_call,
    **dict.fromkeys(("full", "full_like"), full_call),
    **dict.fromkeys(("max", "min"), extreme_call),
    **dict.fromkeys(("argmax", "argmin"), first_place_call),
    "gather_elements": gather_elements_call,
    "gather_nd": gather_nd_call,
    "nn.layer_norm": layer_norm_call,
    "nn.pad": pad_call,
    "nn.rms_norm": rms_norm_call,
    "reshape": reshape_call,
    "take": take_call,
    "tile": tile_call,
}
"""By operator."""
