"""Axes along which a tensor is repeated, cut in two: the number of the repeat, and the place in the tensor.

What is read at a place modulo an extent ends there a row, however short, for what follows it in memory is
read at another row. Of the place alone nothing is divided, and it is joined to the axes inside of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tirx
from tvm.ir import TensorLoad
from tvm_ffi import structural_map

from topi_ext.extents import fixed
from topi_ext.ir import loads_of, nodes_of, occurrences
from topi_ext.schedule.cpu.coalescing import tensor_of


@dataclass(frozen=True)
class Cut:
    """A statement over axes that are cut, by views; ``tensors`` says of each view of which tensor it is."""

    store: tirx.BufferStore
    axes: list[tirx.IterVar]
    tensors: dict[Any, Any]


def cut_repeats(store: tirx.BufferStore, axes: Sequence[tirx.IterVar]) -> Cut | None:
    """The statement with all such axes cut, of which there is one at least; else None."""
    periods = {axis.var: _period(store, axis) for axis in axes}
    halves = {axis.var: _halves(axis, period) for axis in axes if (period := periods[axis.var])}
    if not halves:
        return None
    tensors: dict[Any, Any] = {}
    made: dict[tuple[Any, tuple[int, ...]], Any] = {}

    def moved(access: Any) -> tuple[Any, list[Any]]:
        tensor = tensor_of(access)
        indices: list[Any] = []
        extents: list[Any] = []
        cuts: list[int] = []
        for index, extent in zip(access.indices, tensor.shape, strict=True):
            pair = halves.get(index) if isinstance(index, tirx.Var) else None
            if pair is None:
                indices.append(_within(index, halves))
                extents.append(extent)
                continue
            indices += [half.var for half in pair]
            cuts.append(len(extents))
            extents += [half.dom.extent for half in pair]
        if not cuts:
            return tensor, indices
        place = tensor, tuple(cuts)
        if place not in made:
            made[place] = tirx.decl_buffer(extents, tensor.dtype, tensor.name)
            tensors[made[place]] = tensor
        return made[place], indices

    value = structural_map(store.value, (TensorLoad, lambda load: tirx.BufferLoad(*moved(load))))
    buffer, indices = moved(store)
    cut = [half for axis in axes for half in halves.get(axis.var, [axis])]
    return Cut(tirx.BufferStore(buffer, value, indices), cut, tensors)


def _period(store: tirx.BufferStore, axis: tirx.IterVar) -> int | None:
    """The extent modulo which the place along an axis is read, if all else it does is to be an index."""
    extent, loads = fixed(axis.dom.extent), loads_of(store.value)
    if extent is None:
        return None
    plain = [index for load in (*loads, store) for index in load.indices if index.same_as(axis.var)]
    wholes = [
        fixed(size)
        for load in (*loads, store)
        for index, size in zip(load.indices, tensor_of(load).shape, strict=True)
        if index.same_as(axis.var)
    ]
    parts = [
        part
        for load in loads
        for index in load.indices
        for part in nodes_of(index, tirx.FloorMod)
        if part.a.same_as(axis.var)
    ]
    periods = {fixed(part.b) for part in parts}
    period = periods.pop() if len(periods) == 1 else None
    if period is None or extent % period or not 1 < period < extent or any(size != extent for size in wholes):
        return None
    return period if occurrences(store, axis.var) == len(plain) + len(parts) else None


def _halves(axis: tirx.IterVar, period: int) -> list[tirx.IterVar]:
    extent = fixed(axis.dom.extent)
    assert extent is not None
    return [_axis(axis.var, extent // period), _axis(axis.var, period)]


def _axis(like: tirx.Var, extent: int) -> tirx.IterVar:
    begin, end = (tirx.const(number, like.ty.dtype) for number in (0, extent))
    return tirx.IterVar(tvm.ir.Range(begin, end), tirx.Var(like.name, like.ty), tirx.IterVar.DataPar)


def _within(index: Any, halves: dict[Any, list[tirx.IterVar]]) -> Any:
    """An index of a tensor that is repeated: the place in it, of what is divided."""

    def place(part: tirx.FloorMod) -> Any:
        pair = halves.get(part.a) if isinstance(part.a, tirx.Var) else None
        return part if pair is None else pair[1].var

    return structural_map(index, (tirx.FloorMod, place))
