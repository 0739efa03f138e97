"""Resizing of images whose columns are innermost in memory: first along one axis, then along the other.

Interpolation is separable. TVM's compute gathers every pixel that an output pixel reads, one by one where
columns are innermost. Here columns are gathered for the rows of the smaller image alone, and rows are sums of
whole rows, which vectors load. Where rows become more, TVM's formula sums in this order too, to the same
numbers.
"""

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

from tvm import relax, te, topi

from relay_layout.ir import Expression, is_static, shape_of
from relay_layout.lower.fusion.patterns import INJECTIVE, OPAQUE, PATTERN
from relay_layout.lower.legalize.default import default_call
from topi_ext.compute.interpolation import TAPS, interpolate, nearest
from topi_ext.indexing import physical_axes

_ROWS = 2
"""The dimension of rows in NCHW, the layout in which columns are innermost."""
_FLOATS = ("float32", "float16", "bfloat16")
_REGIONAL = "tf_crop_and_resize"
_MOST_SHRUNK = 8
"""Columns that vectors interpolate in the time in which one is gathered twice more."""


def resize2d_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """A call of ``image.resize2d``: one axis after the other where that is faster, or TVM's compute."""
    if _picks_columns(call):
        return _picked(builder, call)
    if not _is_by_axes(call):
        return whole_resize_call(builder, call)
    if not _is_worth_two_passes(call) and not _may_divide_by_zero(call):
        return default_call(builder, call)
    data, attributes = call.args[0], call.attrs
    size, dtype = call.ty.shape.values, str(call.ty.dtype)
    along = partial(
        interpolate,
        method=str(attributes.method),
        coordinates=str(attributes.coordinate_transformation_mode),
        cubic_alpha=float(attributes.cubic_alpha),
        cubic_exclude=bool(attributes.cubic_exclude),
    )
    rows, columns = zip(("rows", "columns"), _image_axes(call), strict=True)
    # The first pass is along the axis that leaves fewer elements to the second one.
    (first, first_axis), (second, second_axis) = (columns, rows) if _enlarges_rows(call) else (rows, columns)

    def finished(lines: te.Tensor) -> te.Tensor:
        image = along(lines, second_axis, size[second_axis])
        if dtype == "float32":
            return image
        return te.compute(image.shape, lambda *index: image(*index).astype(dtype), name="narrowed")

    # A function of its own: as part of the second one it would be computed again for each of its elements.
    lines = builder.emit_te(
        along,
        data,
        first_axis,
        size[first_axis],
        primfunc_name_hint=f"resize_{first}",
        primfunc_attrs={PATTERN: OPAQUE},
    )
    return builder.call_te(
        finished, lines, primfunc_name_hint=f"resize_{second}", primfunc_attrs={PATTERN: INJECTIVE}
    )


def _picks_columns(call: relax.Call) -> bool:
    """Whether elements are taken as they are, from images of known sizes whose columns are innermost."""
    attributes = call.attrs
    if str(attributes.method) != "nearest_neighbor" or str(attributes.layout) != "NCHW":
        return False
    if str(attributes.coordinate_transformation_mode) == _REGIONAL or _single_axes(call):
        return False
    shapes = [shape_of(side) for side in (call.args[0], call)]
    return all(shape is not None and is_static(shape) and 0 not in shape for shape in shapes)


def _picked(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """The nearest elements, whose places are worked out once for all rows."""
    attributes = call.attrs

    def resized(data: te.Tensor) -> te.Tensor:
        row, column = (
            nearest(
                int(data.shape[axis]),
                int(call.ty.shape.values[axis]),
                str(attributes.coordinate_transformation_mode),
                str(attributes.rounding_method),
            )
            for axis in _image_axes(call)
        )
        return te.compute(
            call.ty.shape.values, lambda n, c, y, x: data(n, c, row(y), column(x)), tag=topi.tag.INJECTIVE
        )

    return builder.call_te(
        resized, call.args[0], primfunc_name_hint="resize2d", primfunc_attrs={PATTERN: INJECTIVE}
    )


def whole_resize_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """A call of ``image.resize2d`` by TVM's compute of both axes at once."""
    return _beside_singles(builder, call) if _single_axes(call) else default_call(builder, call)


def _beside_singles(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """TVM's compute, where corners are aligned with those of a result that has one row or one column.

    TVM divides by the extent less one. The one element is the first of the image, whatever the method, so
    the image is that element twice along such an axis, and so is the result, of which one is kept.
    """
    singles, attributes = _single_axes(call), call.attrs
    size = [2 if place in singles else call.ty.shape.values[place] for place in _image_axes(call)]

    def resized(image: te.Tensor) -> te.Tensor:
        shape = [2 if place in singles else extent for place, extent in enumerate(image.shape)]
        twice = te.compute(shape, lambda *index: image(*_first(index, singles)), name="twice")
        grown = topi.image.resize2d(
            twice,
            attributes.roi,
            size,
            attributes.layout,
            attributes.method,
            attributes.coordinate_transformation_mode,
            attributes.rounding_method,
            attributes.cubic_alpha,
            attributes.cubic_exclude,
        )
        return te.compute(
            call.ty.shape.values, lambda *index: grown(*_first(index, singles)), tag=topi.tag.INJECTIVE
        )

    return builder.call_te(resized, call.args[0], primfunc_name_hint="resize2d")


def _first(index: Sequence[Any], axes: Collection[int]) -> list[Any]:
    """An index that is zero along ``axes``."""
    return [0 if place in axes else element for place, element in enumerate(index)]


def _is_by_axes(call: relax.Call) -> bool:
    """Whether one axis can be interpolated after the other."""
    data, attributes = call.args[0], call.attrs
    if shape_of(data) is None or shape_of(call) is None or str(data.ty.dtype) not in _FLOATS:
        return False
    return str(attributes.method) in TAPS and str(attributes.coordinate_transformation_mode) != _REGIONAL


def _is_worth_two_passes(call: relax.Call) -> bool:
    """Whether columns are innermost, and the result has not far fewer of them."""
    if str(call.attrs.layout) != "NCHW":
        return False
    columns, out_columns = (tuple(shape_of(side) or ())[_ROWS + 1] for side in (call.args[0], call))
    known = isinstance(columns, int) and isinstance(out_columns, int)
    return _enlarges_rows(call) or not known or columns <= _MOST_SHRUNK * out_columns


def _enlarges_rows(call: relax.Call) -> bool:
    """Whether the result has more rows than the image.

    Symbolic extents count as such: sizes that are not known are those of decoders.
    """
    rows_at, _ = _image_axes(call)
    rows, out_rows = (tuple(shape_of(side) or ())[rows_at] for side in (call.args[0], call))
    return not (isinstance(rows, int) and isinstance(out_rows, int)) or out_rows > rows


def _may_divide_by_zero(call: relax.Call) -> bool:
    """Whether corners are aligned with those of a result of which an extent may be one."""
    if str(call.attrs.coordinate_transformation_mode) != "align_corners":
        return False
    sizes = [tuple(shape_of(call) or ())[place] for place in _image_axes(call)]
    return any(not isinstance(size, int) or size == 1 for size in sizes)


def _single_axes(call: relax.Call) -> list[int]:
    """The dimensions of the image in memory of which a result with aligned corners has one element."""
    if str(call.attrs.coordinate_transformation_mode) != "align_corners":
        return []
    return [place for place in _image_axes(call) if tuple(shape_of(call) or ())[place] == 1]


def _image_axes(call: relax.Call) -> tuple[int, int]:
    """Which dimensions in memory rows and columns are."""
    axes = [axis for axis, _ in physical_axes(str(call.attrs.layout))]
    return axes.index("H"), axes.index("W")
