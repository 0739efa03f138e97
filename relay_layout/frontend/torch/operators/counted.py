"""PyTorch's operations that give as many elements as the data say."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.frontend.extents.counts import Counts
from relay_layout.frontend.operators.distinct import distinct
from relay_layout.frontend.torch.node import Converter, argument, result_dtype, value_of
from relay_layout.ir import Expression, dtype_of, shape_of
from topi_ext.compute.nonzero import places_of_nonzero


class _Found:
    """Extents that the data decide in an importer's one function, and places by the node looked at."""

    def __init__(self, importer: Any) -> None:
        self.counts = Counts(importer.block_builder)
        self.places: dict[Any, Expression] = {}


_FOUND: WeakKeyDictionary[Any, _Found] = WeakKeyDictionary()


def _found(importer: Any) -> _Found:
    if importer not in _FOUND:
        _FOUND[importer] = _Found(importer)
    return _FOUND[importer]


def counts_of(importer: Any) -> Counts:
    """The extents of an importer's function that the data decide."""
    return _found(importer).counts


@contextmanager
def looked_at_anew(importer: Any) -> Iterator[None]:
    """Nodes that are converted meanwhile may be converted again, of other tensors."""
    found = _found(importer)
    known = dict(found.places)
    try:
        yield
    finally:
        found.places = known


def places(node: Any, importer: Any, looked_at: Any) -> Expression:
    """Where the tensor of the node ``looked_at`` is not zero, int64.

    A row for each of its dimensions, a column for each place. Places in one tensor are counted once, so that
    what is picked by them has the same extents.
    """
    known = _found(importer).places
    if looked_at not in known:
        known[looked_at] = _places(node, importer, importer.env[looked_at])
    return known[looked_at]


def _places(node: Any, importer: Any, data: Expression) -> Expression:
    emit, shape = importer.block_builder.emit, shape_of(data)
    if not shape:
        raise ModelError(
            f"node '{node.name}': places in a tensor without dimensions are not supported: "
            "give it one, by reshape(1)"
        )
    found = importer.block_builder.emit_te(places_of_nonzero, data, primfunc_name_hint="places_of_nonzero")
    count = emit(relax.TupleGetItem(found, 1))
    number = counts_of(importer).count(count, math.prod(shape), f"{node.name}_number")
    return emit(
        relax.op.strided_slice(emit(relax.TupleGetItem(found, 0)), [1], [0], [number], assume_inbound=True)
    )


def _nonzero(node: Any, importer: Any) -> Expression:
    """``nonzero(data)``: a row for each place, a column for each dimension."""
    found = places(node, importer, node.args[0])
    return importer.block_builder.emit(relax.op.permute_dims(found, [1, 0]))


def _repeated_places(node: Any, importer: Any) -> Expression:
    """``repeat_interleave(repeats, output_size=None)``: each place as often as its number says."""
    emit, repeats = importer.block_builder.emit, importer.env[node.args[0]]
    times = emit(relax.op.astype(repeats, "int64"))
    ends = emit(relax.op.cumsum(times, 0))
    number = value_of(importer, argument(node, 1, "output_size"))
    if number is None:
        number = _counted(node, importer, emit(relax.op.sum(times)))
    # What a place is behind the ends of, is before it.
    found = relax.op.bucketize(emit(relax.op.arange(0, number, 1, "int64")), ends, right=True)
    return emit(relax.op.astype(emit(found), dtype_of(repeats)))


def _numbers_of_each(node: Any, importer: Any) -> Expression:
    """``bincount(values, weights=None, minlength=0)``: how often there is each number, or its weight."""
    emit, values = importer.block_builder.emit, importer.env[node.args[0]]
    weights, least = argument(node, 1, "weights"), argument(node, 2, "minlength", 0)
    index = emit(relax.op.astype(values, "int64"))
    # A maximum of nothing is a number below all others.
    most = emit(relax.op.maximum(emit(relax.op.max(index)), relax.const(-1, "int64")))
    count = emit(relax.op.add(most, relax.const(1, "int64")))
    number = _counted(node, importer, emit(relax.op.maximum(count, relax.const(int(least), "int64"))))
    dtype = result_dtype(node)
    added = emit(relax.op.ones_like(index)) if weights is None else importer.env[weights]
    zeros = emit(relax.op.zeros(relax.ShapeExpr([number]), dtype))
    return emit(relax.op.scatter_elements(zeros, index, emit(relax.op.astype(added, dtype)), 0, "add"))


def _counted(node: Any, importer: Any, number: Expression) -> Any:
    """An extent for a number that the data decide, an int64 tensor without dimensions."""
    tensor = importer.block_builder.emit(relax.op.reshape(number, relax.ShapeExpr([1])))
    return counts_of(importer).count(tensor, None, f"{node.name}_number")


def _distinct(node: Any, importer: Any) -> Expression:
    """``_unique2(data)``: elements that differ, which of them each is, and how often there is each."""
    return _distinct_elements(node, importer, ordered=False)


def _distinct_slices(node: Any, importer: Any) -> Expression:
    """``unique_dim(data, dim)``: slices that differ, which of them each is, and how often there is each."""
    data = importer.env[node.args[0]]
    axis = node.args[1] % len(shape_of(data) or ())
    return relax.Tuple(_distinct_along(node, importer, data, axis))


def _runs(node: Any, importer: Any) -> Expression:
    """``unique_consecutive(data, return_inverse, return_counts, dim)``: what differs from the one before."""
    data, dim = importer.env[node.args[0]], argument(node, 3, "dim")
    if dim is not None:
        axis = dim % len(shape_of(data) or ())
        return relax.Tuple(_distinct_along(node, importer, data, axis, ordered=True))
    return _distinct_elements(node, importer, ordered=True)


def _distinct_elements(node: Any, importer: Any, *, ordered: bool) -> Expression:
    emit, data = importer.block_builder.emit, importer.env[node.args[0]]
    shape = shape_of(data) or ()
    flat = emit(relax.op.reshape(data, relax.ShapeExpr([math.prod(shape)])))
    values, inverse, counts = _distinct_along(node, importer, flat, 0, ordered=ordered)
    return relax.Tuple([values, emit(relax.op.reshape(inverse, relax.ShapeExpr(shape))), counts])


def _distinct_along(
    node: Any, importer: Any, data: Expression, axis: int, *, ordered: bool = False
) -> list[Expression]:
    builder = importer.block_builder
    data = counts_of(importer).sized(builder.emit(data), f"{node.name}_data")
    found = distinct(builder, data, axis, partial(_places, node, importer), ordered=ordered)
    values = builder.emit(relax.op.take(data, found.first, axis, mode="clip"))
    return [values, found.inverse, found.counts]


CONVERTERS: dict[str, Converter] = {
    "_unique2.default": _distinct,
    "unique_consecutive.default": _runs,
    "unique_dim.default": _distinct_slices,
    "bincount.default": _numbers_of_each,
    "nonzero.default": _nonzero,
    "repeat_interleave.Tensor": _repeated_places,
}
"""By the names that TVM's importer has for operations, whose own converters they replace."""
