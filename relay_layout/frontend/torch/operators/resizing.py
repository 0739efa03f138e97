"""PyTorch's resizing of images, with the index arithmetic of PyTorch.

A resize by a factor scales by that factor, not by the ratio of the sizes that it leads to.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tvm import relax, te, tirx

from relay_layout.errors import ModelError
from relay_layout.ir import Expression, shape_of

Converter = Callable[[Any, Any], Expression]


def _resized(node: Any, importer: Any, position: int) -> tuple[Expression, list[Any], Sequence[float] | None]:
    """What is resized, rows and columns of the result, and the factors, at ``position``, if they are given.

    Open extents are of a given size, or grow by whole factors. Where they are halved, halved again and so on,
    it is what has no row or column left over that is resized.
    """
    value, factors = importer.env[node.args[0]], _factors(node, position)
    if factors is None:
        return value, [importer.env.get(size, size) for size in node.args[1]], None
    result = []
    for axis, extent in enumerate(node.meta["val"].shape[2:], 2):
        factor, held = float(factors[axis - 2]), (shape_of(value) or ())[axis]
        parts = round(1 / factor)
        if isinstance(extent, int):
            result.append(extent)
        elif factor.is_integer():
            result.append(held * int(factor))
        elif parts * factor == 1 and parts & (parts - 1) == 0:
            result.append(tirx.floordiv(held, parts))
            value = importer.block_builder.emit(
                relax.op.strided_slice(value, [axis], [0], [result[-1] * parts], assume_inbound=True)
            )
        else:
            raise ModelError(
                f"node '{node.name}': a resize of open extents by {factor:g} is not supported; give it a size"
            )
    return value, result, factors


def _factors(node: Any, position: int) -> Sequence[float] | None:
    found = node.args[position] if len(node.args) > position else node.kwargs.get("scale_factors")
    return None if found is None else list(found)


def _nearest(node: Any, importer: Any) -> Expression:
    value, size, factors = _resized(node, importer, 2)
    before = (shape_of(value) or ())[2:]
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
    for axis, (now, old) in enumerate(zip(size, before, strict=True), 2):
        place: Expression
        if isinstance(now, int) and isinstance(old, int):
            step = np.float32(old / now if factors is None else 1.0 / factors[axis - 2])
            index = np.minimum(np.floor(np.arange(now, dtype="float32") * step), old - 1)
            place = relax.const(index.astype("int64"))
        else:
            place = importer.block_builder.emit_te(_nearest_places, now, old, primfunc_name_hint="nearest")
        value = importer.block_builder.emit(relax.op.take(value, place, axis=axis, mode="clip"))
    return value


def _nearest_places(now: Any, old: Any) -> te.Tensor:
    """For each of ``now`` elements the one of ``old`` that it is taken from."""

    def place(element: Any) -> Any:
        step = tirx.Cast("float32", old) / tirx.Cast("float32", now)
        return tirx.Cast("int64", te.floor(tirx.Cast("float32", element) * step))

    return te.compute((now,), place, name="places")


def _interpolated(method: str) -> Converter:
    def convert(node: Any, importer: Any) -> Expression:
        value, size, factors = _resized(node, importer, 3)
        before, corners = (shape_of(value) or ())[2:], bool(node.args[2])
        if (
            factors is not None
            and method == "cubic"
            and not all(float(factor).is_integer() for factor in factors)
        ):
            _check_known(node, size)
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


def _check_known(node: Any, size: Sequence[Any]) -> None:
    if not all(isinstance(extent, int) for extent in size):
        raise ModelError(
            f"node '{node.name}': a cubic resize of open extents takes whole factors; give interpolate a size"
        )


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
