"""PyTorch's indexing with tensors and slices of open extents, which TVM's importer takes only in part.

Index tensors are broadcast together and name one element of all their dimensions (PyTorch, "Tensor indexing
API"; NumPy, "Advanced indexing"): their dimensions become one, of which a single ``take`` reads, or to which
one ``scatter_elements`` writes.
"""

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.frontend.scattering import scattered
from relay_layout.ir import Expression, dtype_of, shape_of

Converter = Callable[[Any, Any], Expression]


@dataclass(frozen=True)
class _Indexed:
    """A tensor whose indexed dimensions are joined: its shape then, which it is, and where in it to look.

    ``order`` is what was done to its dimensions before, None where they were side by side.
    """

    data: Expression
    shape: tuple[Any, ...]
    axis: int
    place: Expression
    order: list[int] | None


def argument(node: Any, position: int, name: str, otherwise: Any = None) -> Any:
    """What a node is given at a position or by a name; ``otherwise`` for neither, and for None."""
    found = node.args[position] if len(node.args) > position else node.kwargs.get(name)
    return otherwise if found is None else found


def scalar(emit: Callable[[Expression], Expression], extent: Any) -> Expression:
    """An extent as a tensor of one int64 without dimensions."""
    if isinstance(extent, int):
        return relax.const(extent, "int64")
    listed = emit(relax.op.shape_to_tensor(relax.ShapeExpr([extent])))
    return emit(relax.op.squeeze(listed, [0]))


def _indexed(node: Any, importer: Any) -> _Indexed:
    builder = importer.block_builder
    data, shape = importer.env[node.args[0]], shape_of(importer.env[node.args[0]])
    indexed = [axis for axis, index in enumerate(node.args[1]) if index is not None]
    indices = [importer.env[node.args[1][axis]] for axis in indexed]
    if any(str(index.ty.dtype) in ("bool", "uint8") for index in indices):
        raise ModelError(
            f"node '{node.name}': indexing with a mask is not supported in programs of PyTorch; "
            "torch.onnx.export(dynamo=True) writes it to ONNX, where it is"
        )
    extents = [shape[axis] for axis in indexed] if shape else []
    if not shape:
        raise ModelError(f"node '{node.name}': indexing a tensor of unknown shape is not supported")
    first, order = indexed[0], None
    if indexed != list(range(first, first + len(indexed))):
        # Between them lies a dimension that stays: what is picked comes first.
        first, order = 0, [*indexed, *(axis for axis in range(len(shape)) if axis not in indexed)]
        data = builder.emit(relax.op.permute_dims(data, order))
        shape = tuple(shape[axis] for axis in order)
    joined = (*shape[:first], math.prod(extents), *shape[first + len(indexed) :])
    if len(indexed) > 1:
        data = builder.emit(relax.op.reshape(data, joined))
    place: Expression | None = None
    for index, extent in zip(indices, extents, strict=True):
        known = builder.emit(relax.op.astype(index, "int64"))
        negative = builder.emit(relax.op.less(known, relax.const(0, "int64")))
        number = scalar(builder.emit, extent)
        wrapped = builder.emit(relax.op.add(known, number))
        found = builder.emit(relax.op.where(negative, wrapped, known))
        if place is not None:
            scaled = builder.emit(relax.op.multiply(place, number))
            found = builder.emit(relax.op.add(scaled, found))
        place = found
    return _Indexed(data, joined, first, place, order)


def _index(node: Any, importer: Any) -> Expression:
    """``index.Tensor(data, indices)``; None leaves a dimension as it is."""
    found = _indexed(node, importer)
    return importer.block_builder.emit(relax.op.take(found.data, found.place, axis=found.axis, mode="clip"))


def _index_put(node: Any, importer: Any) -> Expression:
    """``index_put(data, indices, values, accumulate=False)``."""
    builder, found = importer.block_builder, _indexed(node, importer)
    places = shape_of(found.place)
    before, after = found.shape[: found.axis], found.shape[found.axis + 1 :]
    known = places is not None and all(isinstance(extent, int) for extent in (*found.shape, *places))
    if places is None or not known or found.order is not None:
        raise ModelError(f"node '{node.name}': index_put takes dimensions of known extents, side by side")
    count = math.prod(places)
    values = builder.emit(relax.op.broadcast_to(importer.env[node.args[2]], (*before, *places, *after)))
    values = builder.emit(relax.op.reshape(values, (*before, count, *after)))
    index = builder.emit(relax.op.reshape(found.place, (*[1] * len(before), count, *[1] * len(after))))
    index = builder.emit(relax.op.broadcast_to(index, (*before, count, *after)))
    adds = len(node.args) > 3 and bool(node.args[3])
    if adds:
        _check_sum(node, dtype_of(found.data))
    put = builder.emit(
        relax.op.scatter_elements(found.data, index, values, found.axis, "add" if adds else "update")
    )
    return builder.emit(relax.op.reshape(put, shape_of(importer.env[node.args[0]])))


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
    start, end, step = (importer.env.get(bound, bound) for bound in (start, end, step or 1))
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
    # Else the result's extent would be an expression of minima, though export knows that it lies within.
    known = isinstance(node.meta["val"].shape[part.axis], int)
    inbound = not isinstance(part.extent, int) and (known or not isinstance(part.end, int))
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
    """The source at the places of a mask that is known."""
    if not all(isinstance(bound, int) for bound in (part.start, part.end, part.extent)):
        raise ModelError(
            f"node '{node.name}': writing to every {part.step} elements of an open extent is not supported"
        )
    emit, rank = importer.block_builder.emit, len(shape_of(data) or ())
    places = np.arange(part.extent)
    written = np.isin(places, np.arange(part.start, part.end, part.step))
    taken = np.where(written, (places - part.start) // part.step, 0)
    spread = emit(relax.op.take(source, relax.const(taken, "int64"), axis=part.axis, mode="clip"))
    mask = written.reshape([-1 if axis == part.axis else 1 for axis in range(rank)])
    return emit(relax.op.where(relax.const(mask), spread, data))


def _select_scatter(node: Any, importer: Any) -> Expression:
    """``select_scatter(data, source, dim, index)``."""
    data, emit = importer.env[node.args[0]], importer.block_builder.emit
    shape, index = shape_of(data) or (), importer.env.get(node.args[3], node.args[3])
    axis = int(node.args[2]) % len(shape)
    place = index + shape[axis] if is_negative(node.args[3]) else index
    source = emit(relax.op.expand_dims(importer.env[node.args[1]], axis))
    return _between(emit, data, source, _Range(axis, place, place + 1, 1, shape[axis]))


def is_negative(number: Any) -> bool:
    """Whether an argument is below zero; a symbolic one, in the example, which the guards keep so."""
    value = getattr(number, "meta", {}).get("val", number)
    if isinstance(value, int):
        return value < 0
    inner = getattr(value, "node", None)
    return inner is not None and inner.has_hint() and inner.hint < 0


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
    shape, index = shape_of(data), importer.env.get(node.args[2], node.args[2])
    if shape is None:
        raise ModelError(f"node '{node.name}': one of a tensor of unknown shape is not supported")
    axis = int(node.args[1]) % len(shape)
    place = index + shape[axis] if is_negative(node.args[2]) else index
    if isinstance(place, int):
        return emit(relax.op.take(data, relax.const(place, "int64"), axis=axis))
    return emit(relax.op.take(data, scalar(emit, place), axis=axis))


@dataclass(frozen=True)
class _Scattering:
    """The operands of a scatter."""

    emit: Callable[[Expression], Expression]
    data: Expression
    index: Expression
    source: Expression
    axis: int

    @property
    def dtype(self) -> str:
        return dtype_of(self.data)

    def filled(self, number: float) -> Expression:
        """As many elements as the index has, all of one number."""
        return self.emit(relax.op.full(shape_of(self.index), relax.const(number, self.dtype)))

    def into(self, data: Expression, source: Expression, reduction: str) -> Expression:
        """``data`` with ``source`` written or reduced to the places of the index."""
        return scattered(self.emit, data, self.index, source, self.axis, reduction)


def _scattering(node: Any, importer: Any) -> _Scattering:
    emit = importer.block_builder.emit
    data, index = importer.env[node.args[0]], importer.env[node.args[2]]
    shape, extents = shape_of(data), shape_of(index)
    if shape is None or extents is None or not all(isinstance(extent, int) for extent in extents):
        raise ModelError(f"node '{node.name}': scatter takes indices of known extents alone")
    axis = int(node.args[1]) % len(shape)
    source = importer.env.get(node.args[3])
    if source is None:
        source = emit(relax.op.full(extents, relax.const(node.args[3], dtype_of(data))))
    return _Scattering(emit, data, index, source, axis)


def _scatter(node: Any, importer: Any) -> Expression:
    """``scatter(data, dim, index, source, *, reduce)``, of which the source may be a number."""
    found = _scattering(node, importer)
    reduction = {"add": "add", "multiply": "mul"}.get(node.kwargs.get("reduce"), "update")
    return found.into(found.data, found.source, reduction)


def _scatter_add(node: Any, importer: Any) -> Expression:
    """``scatter_add(data, dim, index, source)``."""
    found = _scattering(node, importer)
    _check_sum(node, found.dtype)
    return found.into(found.data, found.source, "add")


def _check_sum(node: Any, dtype: str) -> None:
    if dtype == "bool":
        raise ModelError(f"node '{node.name}': adding truth values at indices is not supported")


def _scatter_reduce(node: Any, importer: Any) -> Expression:
    """``scatter_reduce(data, dim, index, source, reduce, *, include_self=True)``.

    Without the tensor itself, places that are written start from what changes no number.
    """
    found, name = _scattering(node, importer), node.args[4]
    own = bool(node.kwargs.get("include_self", True))
    if name not in _REDUCTIONS or found.dtype == "bool":
        raise ModelError(f"node '{node.name}': scatter_reduce by {name} of {found.dtype} is not supported")
    data = found.data
    if not own:
        data = found.into(data, found.filled(_neutral(name, found.dtype)), "update")
    reduced = found.into(data, found.source, _REDUCTIONS[name])
    if name != "mean":
        return reduced
    emit, one = found.emit, relax.const(1, found.dtype)
    none = emit(relax.op.full(shape_of(data), relax.const(int(own), found.dtype)))
    counts = emit(relax.op.maximum(found.into(none, found.filled(1), "add"), one))
    divide = relax.op.divide if "float" in found.dtype else relax.op.floor_divide
    return emit(divide(reduced, counts))


_REDUCTIONS = {"sum": "add", "mean": "add", "prod": "mul", "amax": "max", "amin": "min"}
"""What Relax calls PyTorch's reductions; a mean is a sum that is divided afterwards."""


def _neutral(reduction: str, dtype: str) -> float:
    """What a reduction starts from."""
    if reduction in ("sum", "mean", "prod"):
        return float(reduction == "prod")
    if "float" in dtype:
        return -math.inf if reduction == "amax" else math.inf
    limits = np.iinfo(dtype)
    return int(limits.min if reduction == "amax" else limits.max)


def _windows(node: Any, importer: Any) -> Expression:
    """``unfold(data, dimension, size, step)``: slices along a dimension, their elements last."""
    data, emit = importer.env[node.args[0]], importer.block_builder.emit
    rank, shape = len(shape_of(data) or ()), shape_of(data)
    axis, size, step = int(node.args[1]) % max(1, rank), int(node.args[2]), int(node.args[3])
    if not shape or not isinstance(shape[axis], int):
        raise ModelError(f"node '{node.name}': unfold takes a dimension of a known extent alone")
    starts = range(0, shape[axis] - size + 1, step)
    places = [[start + offset for offset in range(size)] for start in starts]
    taken = emit(relax.op.take(data, relax.const(places, "int64"), axis=axis, mode="clip"))
    order = [place for place in range(rank + 1) if place != axis + 1]
    return emit(relax.op.permute_dims(taken, [*order, axis + 1]))


CONVERTERS: dict[str, Converter] = {
    "index.Tensor": _index,
    "index_put.default": _index_put,
    "scatter.reduce": _scatter,
    "scatter.src": _scatter,
    "scatter.value": _scatter,
    "scatter.value_reduce": _scatter,
    "scatter_add.default": _scatter_add,
    "scatter_reduce.two": _scatter_reduce,
    "select.int": _select,
    "select_scatter.default": _select_scatter,
    "slice.Tensor": _slice,
    "slice_scatter.default": _slice_scatter,
    "unfold.default": _windows,
}
"""By the names that TVM's importer has for operations, whose own converters they replace."""

__all__ = ["CONVERTERS"]
