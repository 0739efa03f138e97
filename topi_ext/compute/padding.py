"""Zeros around an image, as a block that the schedule places."""

from collections.abc import Mapping
from typing import Any

from tvm import te, tirx

from topi_ext.indexing import physical_axes

PADDING = "data_pad"
"""Name of the block that copies the image with its padding."""


def pad(data: te.Tensor, layout: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> te.Tensor:
    """``data``, stored in ``layout``, with that many zeros before and after each named axis."""
    if not any((*before.values(), *after.values())):
        return data
    axes = [name if not factor else "" for name, factor in physical_axes(layout)]
    low = [before.get(name, 0) for name in axes]
    high = [after.get(name, 0) for name in axes]
    shape = [size + first + last for size, first, last in zip(data.shape, low, high, strict=True)]

    def element(*index: tirx.Var) -> tirx.Expr:
        inside = [
            condition
            for position, first, last, size in zip(index, low, high, data.shape, strict=True)
            if first or last
            for condition in (position >= first, position < size + first)
        ]
        source = [position - first if first else position for position, first in zip(index, low, strict=True)]
        return tirx.if_then_else(tirx.all(*inside), data(*source), tirx.const(0, data.dtype))

    return te.compute(shape, element, name=PADDING)


__all__ = ["PADDING", "pad"]
