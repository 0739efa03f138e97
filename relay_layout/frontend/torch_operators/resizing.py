"""PyTorch's resizing of images, with the index arithmetic of PyTorch.

A resize by a factor scales by that factor, not by the ratio of the sizes that it leads to.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.ir import Expression, shape_of

Converter = Callable[[Any, Any], Expression]


def _size(node: Any, value: Expression, factors: Sequence[float] | None) -> list[Any]:
    """Rows and columns of the result; extents that the program leaves open must grow by whole factors."""
    result = []
    before = (shape_of(value) or ())[2:]
    for place, (extent, held) in enumerate(zip(node.meta["val"].shape[2:], before, strict=True)):
        if isinstance(extent, int):
            result.append(extent)
        elif factors is not None and float(factors[place]).is_integer():
            result.append(held * int(factors[place]))
        else:
            raise ModelError(f"node '{node.name}': a resize of symbolic extents needs a whole scale factor")
    return result


def _factors(node: Any, position: int) -> Sequence[float] | None:
    found = node.args[position] if len(node.args) > position else node.kwargs.get("scale_factors")
    return None if found is None else list(found)


def _nearest(node: Any, importer: Any) -> Expression:
    value, factors = importer.env[node.args[0]], _factors(node, 2)
    size, before = _size(node, value, factors), (shape_of(value) or ())[2:]
    known = all(isinstance(extent, int) for extent in (*size, *before))
    whole = factors is not None and all(float(factor).is_integer() for factor in factors)
    if whole or (known and all(now % old == 0 for now, old in zip(size, before, strict=True))):
        return importer.block_builder.emit(
            relax.op.image.resize2d(
                value,
                tuple(size),
                method="nearest_neighbor",
                coordinate_transformation_mode="asymmetric",
                rounding_method="floor",
            )
        )
    if not known:
        raise ModelError(f"node '{node.name}': a resize of symbolic extents needs a whole scale factor")
    for axis, (now, old) in enumerate(zip(size, before, strict=True), 2):
        step = np.float32(old / now if factors is None else 1.0 / factors[axis - 2])
        index = np.minimum(np.floor(np.arange(now, dtype="float32") * step), old - 1).astype("int64")
        value = importer.block_builder.emit(relax.op.take(value, relax.const(index), axis=axis))
    return value


def _interpolated(method: str) -> Converter:
    def convert(node: Any, importer: Any) -> Expression:
        value, factors, corners = importer.env[node.args[0]], _factors(node, 3), bool(node.args[2])
        size, before = _size(node, value, factors), (shape_of(value) or ())[2:]
        if factors is not None and not corners:
            for now, old, factor in zip(size, before, factors, strict=True):
                if isinstance(now, int) and isinstance(old, int) and now != old * factor:
                    raise ModelError(
                        f"node '{node.name}': a resize by {factor:g} of {old} elements is not supported; "
                        "give interpolate a size, or recompute_scale_factor=True"
                    )
        mode = "align_corners" if corners else "half_pixel"
        return importer.block_builder.emit(
            relax.op.image.resize2d(value, tuple(size), method=method, coordinate_transformation_mode=mode)
        )

    return convert


def _antialiased(node: Any, importer: Any) -> Expression:
    del importer
    raise ModelError(f"node '{node.name}': a resize with antialias=True is not supported")


CONVERTERS: dict[str, Converter] = {
    "upsample_nearest2d.vec": _nearest,
    "upsample_bilinear2d.vec": _interpolated("linear"),
    "upsample_bicubic2d.vec": _interpolated("cubic"),
    "_upsample_bilinear2d_aa.default": _antialiased,
}
"""By the names that TVM's importer has for operations, whose own converters they replace."""

__all__ = ["CONVERTERS"]
