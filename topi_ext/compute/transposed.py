"""Transposed convolution over one, two or three axes, for every combination of plain and blocked layouts.

The gather form: an element of the result sums the taps that reach it. With stride s, dilation d and
g = gcd(s, d), tap k reaches result p (counted from before the padding) where k * d = p (mod s); those taps
are every (s / g)-th one, so that a loop over them visits no zero between the elements of the data.
"""

from collections.abc import Sequence
from math import gcd
from typing import Any

from tvm import te, tirx

from topi_ext.compute.geometry import Geometry, flat, geometry_of, reduction_channel, widened
from topi_ext.errors import RelayLayoutError
from topi_ext.indexing import Coordinate, physical_axes, physical_index


def conv_transpose(
    data: te.Tensor,
    weight: te.Tensor,
    *,
    data_layout: str,
    output_padding: Sequence[int] = (),
    **options: Any,
) -> te.Tensor:
    """The transpose of convolving with ``weight`` [I, O/groups, ...], on ``data`` [N, I, ...].

    The letters D, H and W that ``data_layout`` holds are the axes. ``options`` are those of
    :func:`.geometry_of`; ``output_padding`` is 0 where it is left out. The result [N, O, ...] extends over
    (extent - 1) * stride + dilation * (kernel - 1) + 1 + output_padding, less the padding.

    Raises RelayLayoutError where numbers or channels do not fit together.
    """
    spatial = "".join(axis for axis in "DHW" if (axis, 0) in physical_axes(data_layout))
    rank = len(spatial)
    geometry = geometry_of(spatial, data, weight, data_layout=data_layout, transposed=True, **options)
    behind = tuple(output_padding) or (0,) * rank
    if len(behind) != rank:
        raise RelayLayoutError(f"{rank} numbers of output_padding are needed, not {list(behind)}")
    axes = [_Axis(geometry, place) for place in range(rank)]
    extents = [axis.extent + int(more) for axis, more in zip(axes, behind, strict=True)]
    return _gathered(data, weight, geometry, axes, extents)


class _Axis:
    """One spatial axis: which taps reach an element of the result, and from where."""

    def __init__(self, geometry: Geometry, place: int) -> None:
        self._image = geometry.image[place]
        self._kernel, self._stride = geometry.kernel[place], geometry.strides[place]
        self._dilation = geometry.dilation[place]
        self._before = geometry.padding[place]
        self._after = geometry.padding[place + len(geometry.spatial)]
        self._common = gcd(self._stride, self._dilation)
        self._step = self._stride // self._common

    @property
    def extent(self) -> Any:
        """Elements of the result, without output padding."""
        reach = self._dilation * (self._kernel - 1) + 1
        return (self._image - 1) * self._stride + reach - self._before - self._after

    @property
    def taps(self) -> int:
        """The most taps that reach any one element."""
        return -(-self._kernel // self._step)

    def source(self, result: Any, turn: Any) -> tuple[Any, Any, list[Any]]:
        """Element of the data and tap that ``turn`` (below :attr:`taps`) takes, and when there are such."""
        place = result + self._before
        conditions = []
        tap = turn
        if self._step > 1:
            inverse = pow(self._dilation // self._common, -1, self._step)
            within = place if self._common == 1 else place // self._common
            first = (within if inverse == 1 else within * inverse) % self._step
            tap = first + turn * self._step
            if self._kernel % self._step:
                conditions.append(tap < self._kernel)
        if self._common > 1:
            conditions.append(place % self._common == 0)
        reached = place - tap * self._dilation
        element = reached if self._stride == 1 else reached // self._stride
        return element, tap, [*conditions, reached >= 0, element < self._image]


def _gathered(
    data: te.Tensor, weight: te.Tensor, geometry: Geometry, axes: Sequence[_Axis], extents: Sequence[Any]
) -> te.Tensor:
    lengths = geometry.reductions
    lengths |= {f"r{name.lower()}": axis.taps for name, axis in zip(geometry.spatial, axes, strict=True)}
    loops = {name: te.reduce_axis((0, size), name) for name, size in lengths.items()}
    outputs, block = geometry.group_out_channels, geometry.reduction_block
    out_axes = physical_axes(geometry.out_layout)

    def element(*index: tirx.Var) -> tirx.Expr:
        position = dict(zip(out_axes, index, strict=True))
        out_channel = geometry.out_channel(position)
        in_channel = reduction_channel(loops, block)
        in_group = out_channel
        if geometry.keeps_channels:
            in_channel, in_group = out_channel, 0
        elif geometry.groups > 1:
            group = flat(out_channel) // outputs
            in_channel = group * geometry.group_in_channels + flat(in_channel)
            in_group = flat(out_channel) % outputs
        pixel: dict[str, Coordinate] = {"N": position["N", 0], "C": in_channel}
        tap: dict[str, Coordinate] = {"O": in_group, "I": in_channel}
        conditions: list[Any] = []
        for name, axis in zip(geometry.spatial, axes, strict=True):
            pixel[name], tap[name], needed = axis.source(position[name, 0], loops[f"r{name.lower()}"])
            conditions += needed
        value = widened(data(*physical_index(geometry.data_layout, pixel)), geometry)
        factor = widened(weight(*physical_index(geometry.kernel_layout, tap)), geometry)
        nothing = tirx.const(0, geometry.out_dtype)
        reached = tirx.if_then_else(tirx.all(*conditions), value * factor, nothing)
        return te.sum(reached, axis=list(loops.values()))

    name = f"conv{len(geometry.spatial)}d_transpose"
    return te.compute(geometry.out_shape(extents), element, name=name)
