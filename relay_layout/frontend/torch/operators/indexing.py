"""PyTorch's indexing with tensors and slices of open extents, which TVM's importer takes only in part.

Index tensors are broadcast together and name one element of all their dimensions (PyTorch, "Tensor indexing
API"; NumPy, "Advanced indexing"): their dimensions become one, of which a single ``take`` reads.
"""

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch.utils._sympy.functions import Max, Min
from tvm import relax, te, tirx

from relay_layout.errors import ModelError
from relay_layout.extent_polynomials import provably_equal
from relay_layout.frontend.torch.node import Converter, argument, is_negative, value_of
from relay_layout.frontend.torch.operators.counted import places
from relay_layout.ir import (
    Expression,
    Extent,
    dtype_of,
    is_one,
    is_static,
    scalar,
    shape_of,
)


@dataclass(frozen=True)
class Indexed:
    """A tensor whose indexed dimensions are joined: its shape then, which it is, and where in it to look.

    ``order`` is what was done to its dimensions before, None where they were side by side.
    """

    data: Expression
    shape: tuple[Any, ...]
    axis: int
    place: Expression
    order: list[int] | None


def indexed(node: Any, importer: Any) -> Indexed:
    """What a node indexes with its tensors, joined, and where these say."""
    builder = importer.block_builder
    data, shape = importer.env[node.args[0]], shape_of(importer.env[node.args[0]])
    axes, indices = _indices(node, importer)
    extents = [shape[axis] for axis in axes] if shape else []
    if not shape:
        raise ModelError(f"node '{node.name}': indexing a tensor of unknown shape is not supported")
    first, order = axes[0], None
    if axes != list(range(first, first + len(axes))):
        # Between them lies a dimension that stays: what is picked comes first.
        first, order = 0, [*axes, *(axis for axis in range(len(shape)) if axis not in axes)]
        data = builder.emit(relax.op.permute_dims(data, order))
        shape = tuple(shape[axis] for axis in order)
    joined = (*shape[:first], math.prod(extents), *shape[first + len(axes) :])
    if len(axes) > 1:
        data = builder.emit(relax.op.reshape(data, joined))
    place: Expression | None = None
    for index, extent in zip(indices, extents, strict=True):
        known = builder.emit(relax.op.astype(index, "int64"))
        negative = builder.emit(relax.op.less(known, relax.const(0, "int64")))
        number = scalar(builder.emit, extent)
        wrapped = builder.emit(relax.op.add(known, number))
        found = builder.emit(relax.op.where(negative, wrapped, known))
        if place is not None:
            _check_beside(node, shape_of(place) or (), shape_of(found) or ())
            scaled = builder.emit(relax.op.multiply(place, number))
            found = builder.emit(relax.op.add(scaled, found))
        place = found
    return Indexed(data, joined, first, place, order)


def _check_beside(node: Any, shape: Sequence[Extent], other: Sequence[Extent]) -> None:
    """ModelError where only the data say whether index tensors of two shapes fit each other."""
    for one, another in zip(reversed(shape), reversed(other), strict=False):
        if not (is_one(one) or is_one(another) or provably_equal([one], [another])):
            raise ModelError(
                f"node '{node.name}': indexing by {one} places and by {another} beside them is not "
                "supported, since only the data say whether they are as many; index by one after the other"
            )


def _indices(node: Any, importer: Any) -> tuple[list[int], list[Expression]]:
    """The dimensions that are indexed, and by what; a mask lists its places, a dimension each."""
    axes: list[int] = []
    indices: list[Expression] = []
    axis, emit = 0, importer.block_builder.emit
    for given in node.args[1]:
        found = [] if given is None else [importer.env[given]]
        if found and dtype_of(found[0]) in ("bool", "uint8"):
            listed = places(node, importer, given)
            row = range(len(shape_of(found[0]) or ()))
            found = [emit(relax.op.take(listed, relax.const(one, "int64"), axis=0)) for one in row]
        axes.extend(range(axis, axis + len(found)))
        indices.extend(found)
        axis += max(1, len(found))
    return axes, indices


def _index(node: Any, importer: Any) -> Expression:
    """``index.Tensor(data, indices)``; None leaves a dimension as it is."""
    found = indexed(node, importer)
    return importer.block_builder.emit(relax.op.take(found.data, found.place, axis=found.axis, mode="clip"))


@dataclass(frozen=True)
class _Range:
    """A part of a dimension: every ``step``-th element from ``start`` to before ``end``, of ``extent``."""

    axis: int
    start: Any
    end: Any
    step: int
    extent: Any

    @property
    def is_all(self) -> bool:
        return (self.start, self.step) == (0, 1) and self.end is self.extent


def _range(node: Any, importer: Any, shape: Sequence[Any], given: Sequence[Any]) -> _Range:
    """Of ``dim, start, end, step``; bounds beyond the extent are those of the extent."""
    axis, start, end, step = [*given, *[None] * 4][:4]
    from_end = is_negative(start), is_negative(end)
    start, end, step = (value_of(importer, bound) for bound in (start, end, step or 1))
    extent = shape[(axis or 0) % len(shape)]
    start, end = _bound(start, 0, extent, from_end[0]), _bound(end, extent, extent, from_end[1])
    if isinstance(start, int) and isinstance(end, int):
        end = max(start, end)
    return _Range((axis or 0) % len(shape), start, end, step, extent)


def _slice(node: Any, importer: Any) -> Expression:
    """``slice.Tensor(data, dim, start, end, step)``."""
    data = importer.env[node.args[0]]
    shape = shape_of(data)
    if shape is None:
        raise ModelError(f"node '{node.name}': a slice of a tensor of unknown shape is not supported")
    part = _range(node, importer, shape, node.args[1:])
    if part.is_all:
        return data
    size = node.meta["val"].shape[part.axis]
    is_open = not is_static((part.start, part.end))
    if isinstance(size, int) and isinstance(part.start, int) and is_open:
        # Export has found that the bound lies behind all that is taken.
        part = replace(part, end=part.start + (size - 1) * part.step + 1 if size else part.start)
    # Else the result's extent would be an expression of minima, though export knows that it lies within.
    if isinstance(part.extent, int):
        inbound = is_open and not isinstance(size, int) and not size.node.expr.has(Min, Max)
    else:
        inbound = isinstance(size, int) or not isinstance(part.end, int)
    return importer.block_builder.emit(
        relax.op.strided_slice(
            data, [part.axis], [part.start], [part.end], [part.step], assume_inbound=inbound
        )
    )


def _slice_scatter(node: Any, importer: Any) -> Expression:
    """``slice_scatter(data, source, dim, start, end, step)``: what is before, the source, what is behind."""
    data, emit = importer.env[node.args[0]], importer.block_builder.emit
    given = [argument(node, place, name) for place, name in enumerate(("dim", "start", "end", "step"), 2)]
    part = _range(node, importer, shape_of(data) or (), given)
    source = importer.env[node.args[1]]
    if part.step != 1:
        return _every_few(node, importer, data, source, part)
    return _between(emit, data, source, part)


def _between(
    emit: Callable[[Expression], Expression], data: Expression, source: Expression, part: _Range
) -> Expression:
    if part.is_all:
        return source

    def of(begin: Any, end: Any) -> Expression:
        inbound = not isinstance(part.extent, int)
        return emit(relax.op.strided_slice(data, [part.axis], [begin], [end], [1], assume_inbound=inbound))

    before = [] if isinstance(part.start, int) and part.start == 0 else [of(0, part.start)]
    behind = [] if part.end is part.extent or part.end == part.extent else [of(part.end, part.extent)]
    return emit(relax.op.concat([*before, source, *behind], part.axis))


def _every_few(node: Any, importer: Any, data: Expression, source: Expression, part: _Range) -> Expression:
    """The source at the places of a mask."""
    emit, rank = importer.block_builder.emit, len(shape_of(data) or ())
    spread = [part.extent if axis == part.axis else 1 for axis in range(rank)]
    taken: Expression
    mask: Expression
    if is_static((part.start, part.end, part.extent)):
        places = np.arange(part.extent)
        written = np.isin(places, np.arange(part.start, part.end, part.step))
        taken = relax.const(np.where(written, (places - part.start) // part.step, 0), "int64")
        mask = relax.const(written)
    else:

        def compute(start: Extent, end: Extent, extent: Extent) -> list[te.Tensor]:
            def source_of(place: Any) -> Any:
                return tirx.Cast("int64", tirx.floordiv(tirx.max(place - start, 0), part.step))

            def is_written(place: Any) -> Any:
                return tirx.all(place >= start, place < end, tirx.floormod(place - start, part.step).equal(0))

            return [te.compute((extent,), source_of, "taken"), te.compute((extent,), is_written, "written")]

        both = importer.block_builder.emit_te(
            compute, part.start, part.end, part.extent, primfunc_name_hint="every_few"
        )
        taken, mask = (emit(relax.TupleGetItem(both, place)) for place in (0, 1))
    spread_source = emit(relax.op.take(source, taken, axis=part.axis, mode="clip"))
    mask = emit(relax.op.reshape(mask, relax.ShapeExpr(spread)))
    return emit(relax.op.where(mask, spread_source, data))


def _select_scatter(node: Any, importer: Any) -> Expression:
    """``select_scatter(data, source, dim, index)``."""
    data, emit = importer.env[node.args[0]], importer.block_builder.emit
    shape, index = shape_of(data) or (), value_of(importer, node.args[3])
    axis = int(node.args[2]) % len(shape)
    place = index + shape[axis] if is_negative(node.args[3]) else index
    source = emit(relax.op.expand_dims(importer.env[node.args[1]], axis))
    return _between(emit, data, source, _Range(axis, place, place + 1, 1, shape[axis]))


def _bound(bound: Any, otherwise: Any, extent: Any, from_end: bool) -> Any:
    if bound is None:
        return otherwise
    if not isinstance(bound, int):
        return bound + extent if from_end else bound
    if bound >= sys.maxsize or (isinstance(extent, int) and bound >= extent):
        return extent
    if bound < 0:
        return max(0, bound + extent) if isinstance(extent, int) else bound + extent
    return bound


def _select(node: Any, importer: Any) -> Expression:
    """``select(data, dim, index)``; a negative index counts from the end."""
    data, emit = importer.env[node.args[0]], importer.block_builder.emit
    shape, index = shape_of(data), value_of(importer, node.args[2])
    if shape is None:
        raise ModelError(f"node '{node.name}': one of a tensor of unknown shape is not supported")
    axis = int(node.args[1]) % len(shape)
    place = index + shape[axis] if is_negative(node.args[2]) else index
    if isinstance(place, int):
        return emit(relax.op.take(data, relax.const(place, "int64"), axis=axis))
    return emit(relax.op.take(data, scalar(emit, place), axis=axis))


def _windows(node: Any, importer: Any) -> Expression:
    """``unfold(data, dimension, size, step)``: slices along a dimension, their elements last."""
    data, emit = importer.env[node.args[0]], importer.block_builder.emit
    rank, shape = len(shape_of(data) or ()), shape_of(data)
    axis, size, step = int(node.args[1]) % max(1, rank), int(node.args[2]), int(node.args[3])
    if not shape:
        raise ModelError(f"node '{node.name}': unfold takes a tensor of a known rank, with dimensions")
    count = (shape[axis] - size) // step + 1
    within = relax.const(np.arange(size), "int64")
    places: Expression
    if isinstance(count, int):
        places = relax.const(np.arange(count)[:, None] * step + np.arange(size), "int64")
    else:
        first = emit(relax.op.arange(0, count, 1, "int64"))
        first = emit(relax.op.multiply(first, relax.const(step, "int64")))
        places = emit(relax.op.add(emit(relax.op.expand_dims(first, 1)), within))
    taken = emit(relax.op.take(data, places, axis=axis, mode="clip"))
    order = [place for place in range(rank + 1) if place != axis + 1]
    return emit(relax.op.permute_dims(taken, [*order, axis + 1]))


CONVERTERS: dict[str, Converter] = {
    "index.Tensor": _index,
    "select.int": _select,
    "select_scatter.default": _select_scatter,
    "slice.Tensor": _slice,
    "slice_scatter.default": _slice_scatter,
    "unfold.default": _windows,
}
"""By the names that TVM's importer has for operations, whose own converters they replace."""
