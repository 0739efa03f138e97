"""PyTorch's operations that write to a tensor at places that other tensors say.

Index tensors of several dimensions name one element of what these are joined to, to which one
``scatter_elements`` writes.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.frontend.operators.scattering import scattered
from relay_layout.frontend.torch.node import Converter
from relay_layout.frontend.torch.operators.counted import counts_of
from relay_layout.frontend.torch.operators.indexing import indexed
from relay_layout.ir import Expression, Extent, dtype_of, is_static, same_extents, shape_of


def _index_put(node: Any, importer: Any) -> Expression:
    """``index_put(data, indices, values, accumulate=False)``."""
    adds = len(node.args) > 3 and bool(node.args[3])
    if adds:
        _check_sum(node, dtype_of(importer.env[node.args[0]]))
    if _is_mask(node, importer):
        return _masked_put(node, importer, adds)
    emit, found = importer.block_builder.emit, indexed(node, importer)
    places = shape_of(found.place) or ()
    before, after = found.shape[: found.axis], found.shape[found.axis + 1 :]
    count = math.prod(places)
    extents = [*before, *places, *after]
    values = _counted(importer, importer.env[node.args[2]], extents, node.name)
    if not same_extents(shape_of(values) or (), extents):
        values = emit(relax.op.broadcast_to(values, relax.ShapeExpr(extents)))
    values = emit(relax.op.reshape(values, relax.ShapeExpr([*before, count, *after])))
    spread = relax.ShapeExpr([*[1] * len(before), count, *[1] * len(after)])
    index = emit(relax.op.reshape(found.place, spread))
    if before or after:
        index = emit(relax.op.broadcast_to(index, relax.ShapeExpr([*before, count, *after])))
    put = emit(relax.op.scatter_elements(found.data, index, values, found.axis, "add" if adds else "update"))
    own = shape_of(importer.env[node.args[0]]) or ()
    if found.order is None:
        return emit(relax.op.reshape(put, relax.ShapeExpr(list(own))))
    put = emit(relax.op.reshape(put, relax.ShapeExpr([own[axis] for axis in found.order])))
    return emit(relax.op.permute_dims(put, [found.order.index(axis) for axis in range(len(own))]))


def _counted(importer: Any, values: Expression, extents: Sequence[Extent], name: str) -> Expression:
    """``values`` that are put at ``extents``, of which the data decide some: these are checked as it runs.

    ``y[y > 0] = x[x > 0]`` counts twice, and has to find as many.
    """
    counts, shape = counts_of(importer), shape_of(values) or ()
    aligned = extents[len(extents) - len(shape) :]
    wanted = [
        own if isinstance(own, int) or not counts.reads_counts(own) else extent
        for own, extent in zip(shape, aligned, strict=True)
    ]
    if same_extents(shape, wanted):
        return values
    ty = relax.TensorType(relax.ShapeExpr(wanted), dtype_of(values))
    return importer.block_builder.match_cast(values, ty, f"{name}_values")


def _is_mask(node: Any, importer: Any) -> bool:
    """Whether the one index is a mask, and what is put there a single number."""
    indices = [importer.env[index] for index in node.args[1] if index is not None]
    value = shape_of(importer.env[node.args[2]])
    is_one = value is not None and is_static(value) and math.prod(value) == 1
    return is_one and len(indices) == 1 and dtype_of(indices[0]) == "bool"


def _masked_put(node: Any, importer: Any, adds: bool) -> Expression:
    """A number where the mask holds, whose dimensions are some of the data's side by side."""
    emit, data = importer.block_builder.emit, importer.env[node.args[0]]
    (axis,) = (axis for axis, index in enumerate(node.args[1]) if index is not None)
    mask, value = importer.env[node.args[1][axis]], emit(relax.op.reshape(importer.env[node.args[2]], ()))
    behind = len(shape_of(data) or ()) - axis - len(shape_of(mask) or ())
    spread = relax.ShapeExpr([*(shape_of(mask) or ()), *[1] * behind])
    chosen = emit(relax.op.add(data, value)) if adds else value
    return emit(relax.op.where(emit(relax.op.reshape(mask, spread)), chosen, data))


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
        extents = relax.ShapeExpr(list(shape_of(self.index) or ()))
        return self.emit(relax.op.full(extents, relax.const(number, self.dtype)))

    def into(self, data: Expression, source: Expression, reduction: str) -> Expression:
        """``data`` with ``source`` written or reduced to the places of the index."""
        return scattered(self.emit, data, self.index, source, self.axis, reduction)


def _scattering(node: Any, importer: Any) -> _Scattering:
    emit = importer.block_builder.emit
    data, index = importer.env[node.args[0]], importer.env[node.args[2]]
    shape, extents = shape_of(data), shape_of(index)
    if shape is None or extents is None:
        raise ModelError(f"node '{node.name}': scatter takes tensors of known ranks alone")
    axis = int(node.args[1]) % len(shape)
    source = importer.env.get(node.args[3])
    if source is None:
        number = relax.const(node.args[3], dtype_of(data))
        source = emit(relax.op.full(relax.ShapeExpr(list(extents)), number))
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


CONVERTERS: dict[str, Converter] = {
    "index_put.default": _index_put,
    "scatter.reduce": _scatter,
    "scatter.src": _scatter,
    "scatter.value": _scatter,
    "scatter.value_reduce": _scatter,
    "scatter_add.default": _scatter_add,
    "scatter_reduce.two": _scatter_reduce,
}
"""By the names that TVM's importer has for operations, whose own converters they replace."""
