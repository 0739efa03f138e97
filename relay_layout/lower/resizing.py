"""Resizing of images whose columns are innermost in memory: first the columns, then the rows.

Interpolation is separable. TVM's compute gathers every pixel that an output pixel reads, one by one where
columns are innermost. Here columns are gathered for the rows of the smaller image alone, and rows of the
result are sums of whole rows, which vectors load. TVM's formula sums in this order too, to the same numbers.
"""

from functools import partial

from tvm import relax, te

from relay_layout.ir import Expression, shape_of
from relay_layout.lower.patterns import INJECTIVE, OPAQUE, PATTERN
from topi_ext.compute.interpolation import TAPS, interpolate

_ROWS, _COLUMNS = 2, 3
_FLOATS = ("float32", "float16", "bfloat16")
_REGIONAL = "tf_crop_and_resize"


def resize2d_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """A call of ``image.resize2d``: columns and then rows where that is faster, otherwise TVM's compute."""
    if not _enlarges_rows(call):
        return call.op.get_attr("FLegalize")(builder, call)
    data, attributes = call.args[0], call.attrs
    size, dtype = call.ty.shape.values, str(call.ty.dtype)
    along = partial(
        interpolate,
        method=str(attributes.method),
        coordinates=str(attributes.coordinate_transformation_mode),
        cubic_alpha=float(attributes.cubic_alpha),
        cubic_exclude=bool(attributes.cubic_exclude),
    )

    def rows(lines: te.Tensor) -> te.Tensor:
        image = along(lines, _ROWS, size[_ROWS])
        if dtype == "float32":
            return image
        return te.compute(image.shape, lambda *index: image(*index).astype(dtype), name="narrowed")

    # A function of its own: as part of the one of the rows it would be computed again for each of them.
    lines = builder.emit_te(
        along,
        data,
        _COLUMNS,
        size[_COLUMNS],
        primfunc_name_hint="resize_columns",
        primfunc_attrs={PATTERN: OPAQUE},
    )
    return builder.call_te(rows, lines, primfunc_name_hint="resize_rows", primfunc_attrs={PATTERN: INJECTIVE})


def _enlarges_rows(call: relax.Call) -> bool:
    """Whether an interpolation of an image, columns innermost, has more rows than the image.

    Symbolic extents count as such: sizes that are not known are those of decoders.
    """
    data, attributes = call.args[0], call.attrs
    before, after = shape_of(data), shape_of(call)
    if before is None or after is None or str(attributes.layout) != "NCHW":
        return False
    if str(data.ty.dtype) not in _FLOATS or str(attributes.method) not in TAPS:
        return False
    if str(attributes.coordinate_transformation_mode) == _REGIONAL:
        return False
    rows, out_rows = before[_ROWS], after[_ROWS]
    return not (isinstance(rows, int) and isinstance(out_rows, int)) or out_rows > rows


__all__ = ["resize2d_call"]
