"""Instance and group norm on CPUs: a loop over rows where these are rows in memory, else arithmetic."""

from functools import partial
from math import prod

from tvm import relax

from relay_layout.ir import Expression, dtype_of, is_static, operator_name, shape_of
from relay_layout.layout import Layout
from relay_layout.ops.axis_rule import letters
from relay_layout.ops.channel_norms import ChannelNorm
from topi_ext.compute.instance_norm import instance_norm
from topi_ext.schedule.cpu.rows import FEWEST_ROWS

SHORTEST_ROW, LONGEST_ROW = 16, 1 << 15
"""Elements of a row that has a vector at least, and of one that a level-2 cache keeps between its steps."""


def channel_norm_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """A call in the order of dimensions that it has."""
    data, gamma, beta = call.args
    rank = len(data.ty.shape.values)
    norm = ChannelNorm.of(operator_name(call), rank, call.attrs)
    if not _is_of_rows(norm, data):
        return norm.arithmetic(builder, Layout.generic(rank), call.args)
    compute = partial(instance_norm, epsilon=norm.epsilon)
    parameters = [gamma if norm.scale else None, beta if norm.center else None]
    return builder.call_te(compute, data, *parameters, primfunc_name_hint="instance_norm")


def _is_of_rows(norm: ChannelNorm, data: Expression) -> bool:
    """Whether each mean is one of a row in memory, of which there are many of some length."""
    shape, text = shape_of(data), letters(norm.rank)
    if norm.groups is not None or (norm.channel, norm.reduced) != (text[1], tuple(text[2:])):
        return False
    if shape is None or not is_static(shape) or dtype_of(data) != "float32":
        return False
    rows, row = prod(shape[:2]), prod(shape[2:])
    return rows >= FEWEST_ROWS and SHORTEST_ROW <= row <= LONGEST_ROW
