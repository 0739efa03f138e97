"""Storages of symbolic size, in which tensors take turns.

TVM lets tensors share a storage where their sizes are written alike. When a tensor is needed does not depend
on sizes, so that here any others share one, too, which is as large as the largest of them at the size of a
call. Networks take less memory so, and more of it is still in the cache.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import gcd, prod
from typing import Any

import tvm
from tvm import relax, tirx

from relay_layout.extent_polynomials import polynomial
from relay_layout.graph.uses import variables_read
from relay_layout.ir import (
    Extent,
    as_extent,
    bindings_of,
    is_static,
    operator_name,
    shape_of,
    with_bindings,
    with_main,
    with_operands,
)
from relay_layout.lower.dynamic_shapes.typical_size import IMAGE, typical_extent
from relay_layout.lower.memory.aliases import Aliases
from relay_layout.lower.memory.operators import (
    RESHAPE,
    STORAGE,
    TENSOR,
    definitions,
    is_known,
    may_return_operand,
    symbols_of,
)
from topi_ext.extents import simplified
from topi_ext.ir import substitute


def share_dynamic_storages(module: tvm.IRModule) -> tvm.IRModule:
    """Let tensors of "main" that are not needed at the same time share storages of symbolic size.

    Expects planned memory. Storages of outputs stay alone, as do all in functions with branches.
    """
    function = module["main"]
    bindings = bindings_of(function)
    if any(isinstance(binding.value, relax.If) for binding in bindings):
        return module
    shared = _Shared(function, bindings)
    if not shared.groups:
        return module
    return with_main(module, with_bindings(function, shared.rewritten()))


@dataclass
class _Storage:
    """A storage of ``size`` bytes that is needed from the binding ``first`` to the binding ``last``.

    ``typical`` is what ``size`` is where sizes of inputs are those of an image.
    """

    variable: relax.Var
    call: relax.Call
    size: Extent
    typical: int
    first: int
    last: int

    @property
    def kind(self) -> Sequence[str]:
        """Device, scope and element type, which those that share have in common."""
        return [str(argument) for argument in self.call.args[1:]]


@dataclass
class _Group:
    """Storages that are one, that of the first of them."""

    members: list[_Storage] = field(default_factory=list)

    @property
    def typical(self) -> int:
        """Its size where sizes of inputs are those of an image."""
        return max(member.typical for member in self.members)

    def allocation(self) -> relax.Binding:
        """The binding of the first, of the largest size."""
        first = self.members[0]
        size = relax.ShapeExpr([_largest([member.size for member in self.members])])
        call = with_operands(first.call, [size, *first.call.args[1:]])
        return relax.VarBinding(first.variable, call)


class _Shared:
    """The ``groups`` of storages of a function that are one."""

    def __init__(self, function: relax.Function, bindings: Sequence[relax.Binding]) -> None:
        self._bindings = bindings
        self._defined = definitions(function, bindings)
        self._known: dict[tirx.Var, Extent] = {}
        self._read_extents()
        storages = self._storages(function)
        self.groups = [group for group in self._grouped(storages) if len(group.members) > 1]

    def rewritten(self) -> list[relax.Binding]:
        """The bindings with one allocation for each group."""
        allocations = {group.members[0].variable: group.allocation() for group in self.groups}
        first = {
            member.variable: group.members[0].variable for group in self.groups for member in group.members
        }
        found = []
        for binding in self._bindings:
            variable, call = binding.var, binding.value
            if variable in allocations:
                found.append(allocations[variable])
            elif variable in first:
                continue
            elif operator_name(call) == TENSOR and call.args[0] in first:
                operands = [first[call.args[0]], *call.args[1:]]
                call = with_operands(call, operands)
                found.append(relax.VarBinding(variable, call))
            else:
                found.append(binding)
        return found

    def _read_extents(self) -> None:
        """What each symbolic extent is if a reshape tells."""
        for binding in self._bindings:
            if operator_name(binding.value) == RESHAPE:
                self._read_reshape(shape_of(binding.value.args[0]), shape_of(binding.var))

    def _read_reshape(self, before: Sequence[Extent] | None, after: Sequence[Extent] | None) -> None:
        """Both shapes have as many elements: one unknown extent is told by all others."""
        if before is None or after is None:
            return
        unknown = [each for each in after if isinstance(each, tirx.Var) and self._is_told_late(each)]
        if len(unknown) != 1 or any(map(self._reads_late, before)):
            return
        (extent,) = unknown
        others = [each for each in after if not (isinstance(each, tirx.Var) and each.same_as(extent))]
        # Others are numbers: of sizes that a call may have, some are 0, by which nothing is divided.
        if len(others) == len(after) - 1 and is_static(others) and 0 not in others:
            self._known[extent] = simplified(self._told(prod(before)) // prod(others))

    def _is_told_late(self, variable: tirx.Var) -> bool:
        return self._defined.get(variable, 0) >= 0 and variable not in self._known

    def _reads_late(self, extent: Extent) -> bool:
        return any(map(self._is_told_late, symbols_of(extent)))

    def _told(self, extent: Extent) -> Extent:
        """An extent in terms of the sizes of inputs as far as these tell it."""
        if isinstance(extent, int):
            return extent
        known = {symbol: self._known[symbol] for symbol in symbols_of(extent) if symbol in self._known}
        return simplified(substitute(extent, known)) if known else extent

    def _storages(self, function: relax.Function) -> list[_Storage]:
        """Those of symbolic size that no output is in, by when they are first needed."""
        aliases = Aliases(self._bindings)
        holding: dict[relax.Var, relax.Var] = {}
        found: dict[relax.Var, _Storage] = {}
        kept = {aliases.root(variable) for variable in variables_read(function.body.body)}
        for place, binding in enumerate(self._bindings):
            variable, value = binding.var, binding.value
            read = variables_read(value)
            if may_return_operand(value):
                kept.update(map(aliases.root, read))
            if operator_name(value) == STORAGE:
                if not is_known(value.args[0]):
                    (size,) = value.args[0].values
                    told = self._told(as_extent(size))
                    found[variable] = _Storage(
                        variable, value, told, typical_extent(told, IMAGE), place, place
                    )
            elif operator_name(value) == TENSOR:
                holding[variable] = value.args[0]
            for each in read:
                root = aliases.root(each)
                storage = found.get(holding.get(root, root))
                if storage is not None:
                    storage.last = place
        leaving = {holding[root] for root in kept if root in holding}
        return [storage for variable, storage in found.items() if variable not in leaving]

    def _grouped(self, storages: Iterable[_Storage]) -> list[_Group]:
        """Each storage with a free one: the smallest that holds it at a typical size, or the largest."""
        groups: list[_Group] = []
        for storage in storages:
            group = self._free_for(storage, groups)
            if group is None:
                groups.append(group := _Group())
            group.members.append(storage)
        return groups

    def _free_for(self, storage: _Storage, groups: Iterable[_Group]) -> _Group | None:
        def misfit(group: _Group) -> tuple[bool, int]:
            return group.typical < storage.typical, abs(group.typical - storage.typical)

        free = [group for group in groups if self._may_join(storage, group)]
        return min(free, key=misfit, default=None)

    def _may_join(self, storage: _Storage, group: _Group) -> bool:
        first, last = group.members[0], group.members[-1]
        if last.last >= storage.first or first.kind != storage.kind:
            return False
        begin = first.first
        return all(self._defined.get(symbol, begin) < begin for symbol in symbols_of(storage.size))


def _largest(sizes: Sequence[Extent]) -> Any:
    """The largest of sizes; of multiples of one extent only the most is computed."""
    most: dict[Any, tuple[int, Extent]] = {}
    for size in sizes:
        terms = polynomial(size, {}) or {}
        times = gcd(*terms.values()) or 1
        extent = frozenset((product, count // times) for product, count in terms.items()) or size
        if extent not in most or most[extent][0] < times:
            most[extent] = times, size
    (_, largest), *others = most.values()
    for _, other in others:
        largest = tirx.max(largest, other)
    return largest
