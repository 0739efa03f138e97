"""The border around an image, as a block that the schedule places."""

from collections.abc import Mapping
from typing import Any

from tvm import te, tirx

from topi_ext.codegen.bfloat16 import BITS, rounded
from topi_ext.indexing import physical_axes

PADDING = "data_pad"
"""Name of the block that copies the image with its padding."""

FILLED = "topi_ext.filled"
"""Annotation of such a block: what its border holds, where that is not zero."""


def pad(
    data: te.Tensor,
    layout: str,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    *,
    value: int = 0,
    dtype: str | None = None,
) -> te.Tensor:
    """``data``, stored in ``layout``, with that many elements before and after each named axis.

    These are ``value``, zeros by default; all are cast to ``dtype`` where that is another one, and float32 to
    the bits of bfloat16 where it is theirs.
    """
    dtype = dtype or str(data.dtype)
    if not any((*before.values(), *after.values())) and dtype == str(data.dtype):
        return data
    axes = [name if not factor else "" for name, factor in physical_axes(layout)]
    low = [before.get(name, 0) for name in axes]
    high = [after.get(name, 0) for name in axes]
    shape = [size + first + last for size, first, last in zip(data.shape, low, high, strict=True)]

    is_rounded = dtype == BITS and str(data.dtype) == "float32"

    def padded(*index: tirx.Var) -> tirx.Expr:
        inside = [
            condition
            for position, first, last, size in zip(index, low, high, data.shape, strict=True)
            if first or last
            for condition in (position >= first, position < size + first)
        ]
        source = [position - first if first else position for position, first in zip(index, low, strict=True)]
        element = data(*source)
        element = rounded(element) if is_rounded else element.astype(dtype)
        return tirx.if_then_else(tirx.all(*inside), element, tirx.const(value, dtype)) if inside else element

    attributes = {FILLED: value} if value else {}
    return te.compute(shape, padded, name=PADDING, attrs=attributes)
