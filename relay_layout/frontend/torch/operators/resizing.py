"""PyTorch's resizing of rows, images and volumes, with the index arithmetic of PyTorch.

A resize by a factor scales by that factor, not by the ratio of the sizes that it leads to. So TVM's own
resize is used where both are the same, and elsewhere each axis is resized on its own: by picking elements and
weighting them, or, where an antialiased filter reads more of them the smaller the result is, by a product
with the matrix of all weights.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.frontend.extents.quotients import quotient
from relay_layout.frontend.operators.resampling import Resampling, ResizedAxis, weight_at
from relay_layout.frontend.torch.node import Converter, argument, value_of
from relay_layout.ir import HALVES, Expression, Extent, dtype_of, shape_of


@dataclass(frozen=True)
class _Axis(ResizedAxis):
    """One resized axis: extents before and after, and the factor where one is given."""

    factor: float | None

    @property
    def is_ratio(self) -> bool:
        """Whether the factor is the ratio of the extents."""
        if self.factor is None or self.factor.is_integer():
            return True
        return self.is_known and self.after == self.before * self.factor

    @property
    def is_whole(self) -> bool:
        """Whether every element is repeated equally often."""
        if self.is_known:
            return self.is_ratio and self.after % self.before == 0
        return self.factor is not None and self.factor.is_integer()


def _resized(
    node: Any, importer: Any, position: int, *, local: bool = True
) -> tuple[Expression, list[_Axis]]:
    """What is resized, and how; the factors, if they are given, are at ``position``.

    Where open extents are halved, halved again and so on, it is what has no element left over that is; but
    for a way of resizing that is not ``local``, and reads what is left over as well.
    """
    value = importer.env[node.args[0]]
    factors = argument(node, position, "scale_factors")
    shape, wanted = shape_of(value) or (), node.meta["val"].shape
    axes = []
    for axis in range(2, len(shape)):
        before, after = shape[axis], wanted[axis]
        factor = None if factors is None else float(factors[axis - 2])
        if factor is None:
            after = value_of(importer, node.args[1][axis - 2])
        elif not isinstance(after, int):
            after = _scaled(node, before, factor)
            parts = round(1 / factor)
            if local and parts * factor == 1 and parts & (parts - 1) == 0:
                before, factor = after * parts, None
                value = importer.block_builder.emit(
                    relax.op.strided_slice(value, [axis], [0], [before], assume_inbound=True)
                )
        axes.append(_Axis(axis, before, after, factor))
    return value, axes


def _scaled(node: Any, extent: Extent, factor: float) -> Extent:
    try:
        # In double precision, as export computes sizes.
        return quotient(extent, lambda sizes: np.floor(sizes * factor))
    except ValueError:
        raise ModelError(
            f"node '{node.name}': a resize of open extents by {factor:g} is not supported; give it a size"
        ) from None


def _step(
    functions: Any,
    factor: float | None,
    before: Any,
    after: Any,
    *,
    corners: bool = False,
    exact: Sequence[int] = (),
) -> Any:
    """How far apart elements of the result are, in elements of the data.

    Where the extents are ``exact`` multiples, PyTorch takes the multiple instead of the factor.
    """
    old, new = functions.real(before), functions.real(after)
    if corners:
        return (old - 1.0) / functions.maximum(new - 1.0, functions.real(1))
    if factor is None:
        return old / new
    step = functions.real(np.float32(1.0 / factor))
    for multiple in exact:
        is_exact = functions.same(functions.place(after), functions.place(before) * multiple)
        step = functions.where(is_exact, functions.real(1 / multiple), step)
    return step


def _nearest(*, exact: bool = False) -> Converter:
    """Each element is the one below its place, or, if ``exact``, the one that its middle lies in."""

    def convert(node: Any, importer: Any) -> Expression:
        value, axes = _resized(node, importer, 2)
        if len(axes) == 2 and all(axis.is_whole for axis in axes):
            return importer.block_builder.emit(
                relax.op.image.resize2d(
                    value,
                    tuple(axis.after for axis in axes),
                    method="nearest_neighbor",
                    coordinate_transformation_mode="asymmetric",
                    rounding_method="floor",
                )
            )
        # Of images only, and of these without the middles of elements, PyTorch takes note of multiples.
        multiples = (1, 2) if len(axes) == 2 and not exact else ()
        for axis in axes:

            def place(functions: Any, element: Any, before: Any, after: Any, axis: _Axis = axis) -> Any:
                step = _step(functions, axis.factor, before, after, exact=multiples)
                found = functions.floor((element + (0.5 if exact else 0.0)) * step)
                return functions.minimum(functions.place(found), before - 1)

            value = Resampling(importer.block_builder).picked(value, axis, place)
        return value

    return convert


_SHARPNESS = -0.75
"""The coefficient of the cubic filter (Keys, 1981)."""
_SHARPNESS_OF_ANTIALIASING = -0.5


def _interpolated(*, cubic: bool = False) -> Converter:
    def convert(node: Any, importer: Any) -> Expression:
        corners = bool(node.args[2])
        value, axes = _resized(node, importer, 3, local=not (cubic or corners))
        _check_floats(node, value)
        if len(axes) == 2 and all(axis.is_ratio or corners for axis in axes):
            mode = "align_corners" if corners else "half_pixel"
            return importer.block_builder.emit(
                relax.op.image.resize2d(
                    value,
                    tuple(axis.after for axis in axes),
                    method="cubic" if cubic else "linear",
                    coordinate_transformation_mode=mode,
                )
            )

        def along(wide: Expression, axis: _Axis) -> Expression:
            return _from_neighbours(importer, wide, axis, cubic=cubic, corners=corners)

        return _axis_by_axis(importer, value, axes, along)

    return convert


def _check_floats(node: Any, value: Expression) -> None:
    if "float" not in dtype_of(value):
        raise ModelError(
            f"node '{node.name}': a resize that interpolates between elements of {dtype_of(value)} is not "
            "supported; convert them to floats"
        )


def _axis_by_axis(
    importer: Any, value: Expression, axes: Sequence[_Axis], along: Callable[[Expression, _Axis], Expression]
) -> Expression:
    """Resized by ``along`` one axis after the other, halves in single precision as PyTorch has them."""
    dtype, emit = dtype_of(value), importer.block_builder.emit
    wide = emit(relax.op.astype(value, "float32")) if dtype in HALVES else value
    for axis in axes:
        if axis.factor is not None or (axis.before is not axis.after and axis.before != axis.after):
            wide = along(wide, axis)
    return emit(relax.op.astype(wide, dtype)) if dtype in HALVES else wide


def _from_neighbours(
    importer: Any, value: Expression, axis: _Axis, *, cubic: bool, corners: bool
) -> Expression:
    """The sum of the two or four elements around each place, weighted by how near they are."""

    def place(functions: Any, element: Any, before: Any, after: Any) -> Any:
        kept = () if cubic else (1,)
        step = _step(functions, axis.factor, before, after, corners=corners, exact=kept)
        if corners:
            return element * step
        found = (element + 0.5) * step - 0.5
        return found if cubic else functions.maximum(found, functions.real(0))

    def weight(tap: int, functions: Any, *given: Any) -> Any:
        found = place(functions, *given)
        part = found - functions.floor(found)
        distance = part - float(tap) if tap < 1 else float(tap) - part
        return weight_at(functions, distance, cubic=cubic, sharpness=_SHARPNESS)

    taps = (-1, 0, 1, 2) if cubic else (0, 1)
    return Resampling(importer.block_builder).from_neighbours(value, axis, taps, place, weight)


def _antialiased(*, cubic: bool = False) -> Converter:
    """As Pillow resizes: the filter is stretched over all elements that fall together."""

    def convert(node: Any, importer: Any) -> Expression:
        value, axes = _resized(node, importer, 3, local=False)
        _check_floats(node, value)

        def along(wide: Expression, axis: _Axis) -> Expression:
            weight = _stretched(axis, cubic=cubic, corners=bool(node.args[2]))
            return Resampling(importer.block_builder).by_matrix(wide, axis, weight)

        return _axis_by_axis(importer, value, axes, along)

    return convert


def _stretched(axis: _Axis, *, cubic: bool, corners: bool) -> Callable[..., Any]:
    """What the element at a row weighs in that of the result at a column."""

    def weight(functions: Any, row: Any, column: Any, before: Any, after: Any) -> Any:
        step = _step(functions, axis.factor, before, after, corners=corners)
        stretch = functions.maximum(step, functions.real(1))
        middle, support = (column + 0.5) * step, (2.0 if cubic else 1.0) * stretch
        first = functions.floor(functions.maximum(middle - support + 0.5, functions.real(0)))
        last = functions.floor(middle + support + 0.5)
        offset = (row - middle + 0.5) / stretch
        distance = functions.maximum(offset, -offset)
        found = weight_at(functions, distance, cubic=cubic, sharpness=_SHARPNESS_OF_ANTIALIASING)
        below = functions.where(row < last, found, functions.real(0))
        return functions.where(row >= first, below, functions.real(0))

    return weight


CONVERTERS: dict[str, Converter] = {
    **{f"upsample_nearest{rank}d.vec": _nearest() for rank in (1, 2, 3)},
    **{f"_upsample_nearest_exact{rank}d.vec": _nearest(exact=True) for rank in (1, 2, 3)},
    "upsample_linear1d.vec": _interpolated(),
    "upsample_bilinear2d.vec": _interpolated(),
    "upsample_trilinear3d.vec": _interpolated(),
    "upsample_bicubic2d.vec": _interpolated(cubic=True),
    "_upsample_bilinear2d_aa.vec": _antialiased(),
    "_upsample_bicubic2d_aa.vec": _antialiased(cubic=True),
}
"""By the names that TVM's importer has for operations, whose own converters they replace."""
