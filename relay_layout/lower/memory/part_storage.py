"""Storages that are shared by a tensor and its parts, and the place of each in its storage."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tvm import relax, tirx

from relay_layout.ir import with_operands
from relay_layout.lower.memory.operators import is_known
from relay_layout.lower.memory.strided import Rows

LiveRange = tuple[int, int]
"""The indices of the first and the last binding that need something."""

ALIGNMENT = 64
"""Bytes to a multiple of which TVM aligns tensors; it would copy one that begins elsewhere."""


@dataclass
class SharedStorage:
    """A storage for a tensor and its parts, live from the binding ``first`` to the binding ``last``.

    ``allocation_call`` allocates the tensor's own storage; ``size``, in bytes, is None if it is symbolic.
    ``last_begin`` is the furthest byte at which a part begins.
    """

    first: int
    last: int
    size: int | None
    element_bytes: int
    allocation_call: relax.Call
    last_begin: int = 0

    def allocation(self) -> relax.Call:
        """The call that allocates it if its size is symbolic: of no elements at all, parts begin within it
        as well.
        """
        call = self.allocation_call
        (size,) = call.args[0].values
        enough = relax.ShapeExpr([size + self.last_begin])
        return with_operands(call, [enough, *call.args[1:]])


@dataclass
class _Storage:
    """A storage of static size, in bytes, and the live ranges of what it holds."""

    size: int
    variable: relax.Var
    call: relax.Call
    busy: list[LiveRange]

    def is_free(self, first: int, last: int) -> bool:
        return all(end < first or last < begin for begin, end in self.busy)

    def allocation(self) -> relax.Binding:
        size = relax.ShapeExpr([tirx.IntImm("int64", self.size)])
        call = self.call
        return relax.VarBinding(self.variable, with_operands(call, [size, *call.args[1:]]))


@dataclass(frozen=True)
class Part:
    """The place of a tensor in a storage, ``offset`` elements behind its begin.

    Its rows of ``run`` elements begin ``pitch`` elements apart; both are 0 for a contiguous tensor.
    """

    storage: SharedStorage
    offset: int
    run: int = 0
    pitch: int = 0

    @property
    def shift(self) -> int:
        """Elements between the last aligned address before the tensor and the tensor."""
        return self.offset % (ALIGNMENT // self.storage.element_bytes)

    @property
    def rows(self) -> Rows | None:
        """How kernels must address it; None for a contiguous tensor at an aligned address."""
        return Rows(self.run, self.pitch, self.shift) if self.pitch or self.shift else None


class PartStorages:
    """The assignment of ``shared_storages`` to allocations.

    One of symbolic size gets an allocation of its own; others get the smallest allocation of static size that
    is free during their live range, enlarged if necessary. ``allocations`` are the existing ones, and
    ``busy`` has the live ranges of what else they hold.
    """

    def __init__(
        self,
        shared_storages: Iterable[SharedStorage],
        allocations: Sequence[relax.VarBinding],
        busy: Mapping[relax.Var, list[LiveRange]],
    ) -> None:
        self._like = allocations[0]
        self._shared = [
            _Storage(int(size.values[0]), binding.var, binding.value, list(busy.get(binding.var, [])))
            for binding in allocations
            if is_known(size := binding.value.args[0])
        ]
        self._chosen: dict[int, relax.Var] = {}
        self._opened: dict[int, list[relax.Binding]] = {}
        for storage in sorted(shared_storages, key=lambda storage: storage.first):
            if storage.size is None:
                self._chosen[id(storage)] = self._open(storage)
            else:
                self._chosen[id(storage)] = self._share(storage, storage.size)

    def of(self, storage: SharedStorage) -> relax.Var:
        """The variable of the allocation that ``storage`` was assigned to."""
        return self._chosen[id(storage)]

    def shared(self) -> list[relax.Binding]:
        """All allocations of static size, which precede all other bindings."""
        return [storage.allocation() for storage in self._shared]

    def allocations_at(self, place: int) -> list[relax.Binding]:
        """The allocations of symbolic size that precede the binding at ``place``."""
        return self._opened.get(place, [])

    def _open(self, storage: SharedStorage) -> relax.Var:
        variable = relax.Var(f"joined_of_any_size{len(self._chosen)}", self._like.var.ty)
        self._opened.setdefault(storage.first, []).append(relax.VarBinding(variable, storage.allocation()))
        return variable

    def _share(self, storage: SharedStorage, size: int) -> relax.Var:
        free = [each for each in self._shared if each.is_free(storage.first, storage.last)]
        free.sort(key=lambda each: (each.size < size, abs(each.size - size)))
        if not free:
            variable = relax.Var(f"joined{len(self._shared)}", self._like.var.ty)
            free = [_Storage(0, variable, self._like.value, [])]
            self._shared.append(free[0])
        free[0].size = max(free[0].size, size)
        free[0].busy.append((storage.first, storage.last))
        return free[0].variable
