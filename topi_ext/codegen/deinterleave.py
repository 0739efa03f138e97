"""Loads of every second element made of two whole vectors: LLVM gets the others one by one."""

from typing import Any

from tvm import tirx
from tvm.ir import TensorLoad

from topi_ext.codegen.passes import function_pass, replaced
from topi_ext.extents import fixed

FEWEST_LANES = 4
"""The shortest vector that is taken out of two."""


@function_pass
def deinterleave_loads(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Vectors of every second element are shuffled of two that lie together, which read nothing beside them.

    The second one ends with the last element, and so begins with the last of the first one.
    """
    return replaced(func, (TensorLoad, _of_two))


def _of_two(load: TensorLoad) -> Any:
    ramp = load.indices[0] if len(load.indices) == 1 else None
    if not isinstance(ramp, tirx.Ramp) or fixed(ramp.stride) != 2:
        return load
    lanes = fixed(ramp.lanes)
    if lanes is None or lanes < FEWEST_LANES:
        return load
    starts = ramp.base, ramp.base + (lanes - 1)
    halves = [tirx.BufferLoad(load.source, [tirx.Ramp(start, 1, lanes)]) for start in starts]
    # The one that both halves have is taken of the first.
    order = [place if place < lanes else place + 1 for place in range(0, 2 * lanes, 2)]
    return tirx.Shuffle(halves, order)
