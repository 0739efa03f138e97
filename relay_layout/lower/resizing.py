"""Resizing of images whose columns are innermost in memory: first the columns, then the rows.

Interpolation is separable. TVM's compute gathers every pixel that an output pixel reads, one by one where
columns are innermost. Here columns are gathered for the rows of the smaller image alone, and rows of the
result are sums of whole rows, which vectors load. TVM's formula sums in this order too, to the same numbers.
"""

from typing import Any

from tvm import relax, topi

from relay_layout.ir import Expression, shape_of
from relay_layout.lower.patterns import INJECTIVE, OPAQUE, PATTERN

_SEPARABLE = ("linear", "cubic")
_REGIONAL = "tf_crop_and_resize"


def resize2d_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """A call of ``image.resize2d``: columns and then rows where that is faster, otherwise TVM's compute."""
    if not _enlarges_rows(call):
        return call.op.get_attr("FLegalize")(builder, call)
    data, attributes = call.args[0], call.attrs
    batch, channels, rows, columns = data.ty.shape.values
    out_rows, out_columns = call.ty.shape.values[2:]

    def resized(value: Expression, layout: str, extent: Any, pattern: int) -> Expression:
        return builder.emit_te(
            topi.image.resize1d,
            value,
            roi=[0.0, 0.0],
            size=[extent],
            layout=layout,
            method=str(attributes.method),
            coordinate_transformation_mode=str(attributes.coordinate_transformation_mode),
            bicubic_alpha=float(attributes.cubic_alpha),
            bicubic_exclude=int(attributes.cubic_exclude),
            primfunc_name_hint="resize_columns" if layout == "NCW" else "resize_rows",
            primfunc_attrs={PATTERN: pattern},
        )

    lines = builder.emit(relax.op.reshape(data, (batch, channels * rows, columns)))
    # A function of its own: as part of the one of the rows it would be computed again for each of them.
    lines = resized(lines, "NCW", out_columns, OPAQUE)
    images = builder.emit(relax.op.reshape(lines, (batch * channels, rows, out_columns)))
    images = resized(images, "NWC", out_rows, INJECTIVE)
    return relax.op.reshape(images, (batch, channels, out_rows, out_columns))


def _enlarges_rows(call: relax.Call) -> bool:
    """Whether an interpolation of an image, columns innermost, has more rows than the image.

    Symbolic extents count as such: sizes that are not known are those of decoders.
    """
    data, attributes = call.args[0], call.attrs
    before, after = shape_of(data), shape_of(call)
    if before is None or after is None or str(attributes.layout) != "NCHW":
        return False
    if str(data.ty.dtype) != "float32" or str(call.ty.dtype) != "float32":
        return False
    if str(attributes.method) not in _SEPARABLE:
        return False
    if str(attributes.coordinate_transformation_mode) == _REGIONAL:
        return False
    rows, out_rows = before[2], after[2]
    return not (isinstance(rows, int) and isinstance(out_rows, int)) or out_rows > rows


__all__ = ["resize2d_call"]
