"""Norms over axes that Relay's operators of the name do not take, written out in operators that it has.

Relay's ``nn.layer_norm`` takes one axis, and channels in blocks lie on two; its ``nn.group_norm`` takes the
axes behind that of channels, and channels that come last have none.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from tvm import relax

from relay_layout.ir import Expression, dtype_of, ints, operator_name, shape_of
from relay_layout.relay.syntax import tree

Expressions = Sequence[tree.Expression]


def norm_written_out(
    call: relax.Call, operand: Callable[[Expression], tree.Expression]
) -> tree.Expression | None:
    """A layer or group norm as sums, products and a square root of its operands; None for other calls.

    ``operand`` gives the tree of an operand. The axes of a layer norm have to be in ascending order.
    """
    write = {"nn.layer_norm": _layer_norm, "nn.group_norm": _group_norm}.get(operator_name(call))
    shape = shape_of(call.args[0]) if write is not None else None
    if write is None or shape is None:
        return None
    return write(call, len(shape), [operand(argument) for argument in call.args])


def _layer_norm(call: relax.Call, rank: int, operands: Expressions) -> tree.Expression | None:
    axes = [axis % rank for axis in ints(call.attrs.axes)]
    if axes != sorted(set(axes)):
        return None
    data, gamma, beta = operands
    scaled = _call("multiply", _normalized(call, data, axes), _along(gamma, axes, rank))
    return _call("add", scaled, _along(beta, axes, rank))


def _group_norm(call: relax.Call, rank: int, operands: Expressions) -> tree.Expression | None:
    """Channels as groups of channels, so that the statistics are over the second axis of the two."""
    data, gamma, beta = operands
    channel = int(call.attrs.channel_axis) % rank
    others = [axis % rank for axis in ints(call.attrs.axes)]
    axes = sorted([channel + 1, *(axis + (axis > channel) for axis in others if axis != channel)])
    kept = (0,) * channel
    # In Relay's codes 0 keeps an extent, -4 splits one in two, -3 joins two, and -2 keeps all that follow.
    split = _call("reshape", data, newshape=(*kept, -4, int(call.attrs.num_groups), -1, -2))
    joined = _call("reshape", _normalized(call, split, axes), newshape=(*kept, -3, -2))
    scaled = _call("multiply", joined, _along(gamma, [channel], rank))
    return _call("add", scaled, _along(beta, [channel], rank))


def _normalized(call: relax.Call, data: tree.Expression, axes: Sequence[int]) -> tree.Expression:
    """The data less their mean over ``axes``, over the root of their variance there."""
    over = {"axis": tuple(axes), "keepdims": True}
    centred = _call("subtract", data, _call("mean", data, **over))
    variance = _call("mean", _call("multiply", centred, centred), **over)
    epsilon = tree.Constant(np.array(float(call.attrs.epsilon), dtype_of(call.args[0])))
    return _call("divide", centred, _call("sqrt", _call("add", variance, epsilon)))


def _along(parameter: tree.Expression, axes: Sequence[int], rank: int) -> tree.Expression:
    """A parameter whose dimensions are ``axes`` of a tensor of ``rank``, with 1 for those between and
    behind."""
    for position, (axis, following) in reversed([*enumerate(pairwise([*axes, rank]), 1)]):
        if following - axis > 1:
            parameter = _call("expand_dims", parameter, axis=position, num_newaxis=following - axis - 1)
    return parameter


def _call(name: str, *operands: tree.Expression, **attributes: Any) -> tree.Call:
    return tree.Call(name, operands, attributes)
