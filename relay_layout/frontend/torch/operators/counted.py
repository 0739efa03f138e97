"""PyTorch's operations that give as many elements as the data say."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.frontend.extents.counts import Counts
from relay_layout.frontend.torch.node import Converter
from relay_layout.ir import Expression, shape_of
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


CONVERTERS: dict[str, Converter] = {"nonzero.default": _nonzero}
"""By the names that TVM's importer has for operations, whose own converters they replace."""
