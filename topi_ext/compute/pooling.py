"""2-D pooling over windows, for plain and blocked layouts."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import te, tirx

from topi_ext.codegen.infinite_extremes import INFINITE
from topi_ext.compute.padding import PADDING
from topi_ext.extents import as_int, fixed, simplified
from topi_ext.indexing import logical_extent, physical_axes
from topi_ext.workloads.convolution import ANNOTATION
from topi_ext.workloads.pooling import AVERAGE_POOL, MAX_POOL, PoolingWorkload

COLUMNS = "topi_ext.pooled_columns"
"""Annotation of the block whose elements are the columns of windows."""


@dataclass(frozen=True)
class Pooling:
    """Windows over rows and columns of images in a layout; ``padding`` is (top, left, bottom, right)."""

    kernel: Sequence[int]
    strides: Sequence[int] = (1, 1)
    padding: Sequence[int] = (0, 0, 0, 0)
    dilation: Sequence[int] = (1, 1)
    layout: str = "NCHW"


def max_pool2d(data: te.Tensor, pooling: Pooling, out_shape: Sequence[Any]) -> te.Tensor:
    """The largest element of each window; padding never wins.

    Positions outside the image are moved to the nearest one inside instead of being padded with
    minus infinity. With dilation 1 the edge element belongs to the same window, so its maximum is
    unchanged, and neither a padded copy nor a branch in the inner loop is needed. A dilated window
    may step over the edge, and a window may lie beside the image; those are padded.
    """
    dense = all(step == 1 for step in pooling.dilation)
    clamp = dense and _every_window_touches(data, pooling, out_shape)
    dtype = str(data.dtype)
    lowest = tirx.const(-math.inf, dtype) if "float" in dtype else tirx.min_value(dtype)
    if _is_by_rows(pooling):
        return by_rows(data, MAX_POOL, pooling, out_shape, te.max, lowest, clamp)

    def element(window: "_Window") -> tirx.Expr:
        index, inside = window.position(clamp=clamp)
        value = data(*index)
        if not clamp:
            value = tirx.if_then_else(inside, value, lowest)
        return te.max(value, axis=window.axes)

    return _pool(data, MAX_POOL, element, pooling, out_shape)


def avg_pool2d(
    data: te.Tensor, pooling: Pooling, out_shape: Sequence[Any], *, count_include_pad: bool
) -> te.Tensor:
    """The mean of each window, over the elements inside the image or over all of the window."""

    def element(window: "_Window") -> tirx.Expr:
        index, inside = window.position(clamp=True)
        return te.sum(tirx.if_then_else(inside, data(*index), tirx.const(0, data.dtype)), axis=window.axes)

    if _is_by_rows(pooling):
        zero = tirx.const(0, data.dtype)
        total = by_rows(data, AVERAGE_POOL, pooling, out_shape, te.sum, zero, clamp=False)
    else:
        total = _pool(data, AVERAGE_POOL, element, pooling, out_shape)
    axes = physical_axes(pooling.layout)
    spatial = {name: place for place, (name, factor) in enumerate(axes) if name in "HW" and not factor}

    def count(index: Sequence[tirx.Var], axis: int) -> Any:
        name = "HW"[axis]
        size = data.shape[spatial[name]]
        start = index[spatial[name]] * pooling.strides[axis] - pooling.padding[axis]
        step = pooling.dilation[axis]
        # The last window of ceil mode may reach past the padded image; what lies beyond is not counted.
        end = size + pooling.padding[axis + 2] if count_include_pad else size
        first = 0 if count_include_pad else tirx.max((0 - start + step - 1) // step, 0)
        return tirx.min((end - 1 - start) // step + 1, pooling.kernel[axis]) - first

    def average(*index: tirx.Var) -> tirx.Expr:
        elements = tirx.max(count(index, 0) * count(index, 1), 1).astype(data.dtype)
        # Integers are divided as C does, towards zero.
        is_integer = str(data.dtype).startswith(("int", "uint"))
        return tirx.truncdiv(total(*index), elements) if is_integer else total(*index) / elements

    return te.compute(total.shape, average, name="average")


def _is_by_rows(pooling: Pooling) -> bool:
    """Whether pixels of a row lie together, and each window has several of them, one or more of the row."""
    return physical_axes(pooling.layout)[-1] == ("W", 0) and pooling.kernel[1] > max(1, pooling.padding[1])


def by_rows(
    data: te.Tensor,
    operator: str,
    pooling: Pooling,
    out_shape: Sequence[Any],
    combine: Callable[..., tirx.Expr],
    neutral: tirx.Expr,
    clamp: bool,
) -> te.Tensor:
    """Windows as the columns of each, and then a row of what these give: as many steps as it has sides.

    Vectors are pixels of a row, which has a border of ``neutral`` elements once it is made of rows. With
    ``clamp`` rows beside the image are the nearest one inside.
    """
    axes = physical_axes(pooling.layout)
    down, across = axes.index(("H", 0)), len(axes) - 1
    height, width = data.shape[down], data.shape[across]
    (taps_down, taps_across), (step_down, step_across) = pooling.kernel, pooling.dilation
    top, left = pooling.padding[:2]
    tap = te.reduce_axis((0, taps_down), "rh")

    def column(*index: Any) -> tirx.Expr:
        row = index[down] * pooling.strides[0] + tap * step_down - top
        nearest = tirx.max(tirx.min(row, height - 1), 0) if clamp else row
        value = data(*index[:down], nearest, *index[down + 1 :])
        if not clamp:
            value = tirx.if_then_else(tirx.all(row >= 0, row < height), value, neutral)
        return combine(value, axis=[tap])

    columns = te.compute(
        [*out_shape[:across], width],
        column,
        name=f"{operator}_columns",
        attrs={COLUMNS: 1, **_marks(operator)},
    )
    beside = te.reduce_axis((0, taps_across), "rw")
    read = _elements_read(pooling, 1, out_shape[across])

    def bordered(*index: Any) -> tirx.Expr:
        pixel = index[across] - left
        inside = tirx.all(pixel >= 0, pixel < width)
        return tirx.if_then_else(inside, columns(*index[:across], pixel), neutral)

    has_border = left or not _at_most(read, width)
    source = te.compute([*out_shape[:across], read], bordered, name=PADDING) if has_border else columns

    def window(*index: Any) -> tirx.Expr:
        pixel = index[across] * pooling.strides[1] + beside * step_across
        return combine(source(*index[:across], pixel), axis=[beside])

    return te.compute(out_shape, window, name=operator, attrs=_described(data, operator, pooling))


def _every_window_touches(data: te.Tensor, pooling: Pooling, out_shape: Sequence[Any]) -> bool:
    """Whether every window has an element inside the image; for unknown extents, if padding is small."""
    kernel, padding = pooling.kernel, pooling.padding
    for place, (name, factor) in enumerate(physical_axes(pooling.layout)):
        if name not in "HW" or factor:
            continue
        axis = "HW".index(name)
        size, count = fixed(data.shape[place]), fixed(out_shape[place])
        if padding[axis] >= kernel[axis]:
            return False
        if size is not None and count is not None:
            if (count - 1) * pooling.strides[axis] - padding[axis] >= size:
                return False
        elif padding[axis + 2] >= kernel[axis]:
            return False
    return True


class _Window:
    """The window of one output element: its reduction axes and the positions they visit."""

    def __init__(
        self,
        data: te.Tensor,
        pooling: Pooling,
        out_shape: Sequence[Any],
        index: Sequence[tirx.Var],
        axes: Sequence[te.Tensor],
    ) -> None:
        self.axes = list(axes)
        self._out_shape = out_shape
        self._data = data
        self._pooling = pooling
        self._index = index

    def position(self, *, clamp: bool) -> tuple[list[Any], Any]:
        """The index into the data, and the condition under which it lies inside the image."""
        pooling = self._pooling
        index: list[Any] = []
        conditions: list[Any] = []
        for (name, factor), position, size, count in zip(
            physical_axes(pooling.layout), self._index, self._data.shape, self._out_shape, strict=True
        ):
            if name not in "HW" or factor:
                index.append(position)
                continue
            axis = "HW".index(name)
            tap = self.axes[axis] if pooling.kernel[axis] > 1 else 0
            source = position * pooling.strides[axis] + tap * pooling.dilation[axis] - pooling.padding[axis]
            if not pooling.padding[axis] and _at_most(_elements_read(pooling, axis, count), size):
                # Told here, for of open extents TVM does not see it.
                index.append(source)
                continue
            conditions += [source >= 0, source < size]
            index.append(tirx.max(tirx.min(source, size - 1), 0) if clamp else source)
        return index, tirx.all(*conditions) if conditions else tirx.const(True, "bool")


def _pool(
    data: te.Tensor,
    operator: str,
    element: Callable[[_Window], tirx.Expr],
    pooling: Pooling,
    out_shape: Sequence[Any],
) -> te.Tensor:
    axes = [te.reduce_axis((0, taps), name) for taps, name in zip(pooling.kernel, ("rh", "rw"), strict=True)]
    return te.compute(
        out_shape,
        lambda *index: element(_Window(data, pooling, out_shape, index, axes)),
        name=operator,
        attrs=_described(data, operator, pooling),
    )


def _elements_read(pooling: Pooling, axis: int, count: Any) -> Any:
    """How many elements there are from the first of the first window to the last of the last of ``count``."""
    return (count - 1) * pooling.strides[axis] + (pooling.kernel[axis] - 1) * pooling.dilation[axis] + 1


def _at_most(left: Any, right: Any) -> bool:
    """Whether one extent is known to be no larger than another."""
    excess = simplified(left - right)
    return isinstance(excess, int) and excess <= 0


def _described(data: te.Tensor, operator: str, pooling: Pooling) -> dict[str, Any]:
    """The annotations that say what a block computes."""
    channels: Any = as_int(logical_extent(pooling.layout, data.shape, "C"))
    if not isinstance(channels, int):
        channels = str(channels)
    workload = PoolingWorkload(
        operator=operator,
        channels=channels,
        kernel=(pooling.kernel[0], pooling.kernel[1]),
        strides=(pooling.strides[0], pooling.strides[1]),
        layout=pooling.layout,
        dtype=str(data.dtype),
    )
    return {ANNOTATION: workload.to_json(), **_marks(operator)}


def _marks(operator: str) -> dict[str, int]:
    """The annotations of all blocks that reduce."""
    return {INFINITE: 1} if operator == MAX_POOL else {}
