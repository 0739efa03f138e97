"""Storages for tensors that lie in one another, and where in them each lies."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tvm import relax, tirx

from relay_layout.lower.memory.operators import is_known
from relay_layout.lower.memory.strided import Rows

Span = tuple[int, int]
"""The first and the last binding that something is needed for."""

ALIGNMENT = 64
"""Bytes at multiples of which a tensor begins; one that begins elsewhere TVM would copy."""


@dataclass
class Joined:
    """A storage for a tensor and its parts, from the first definition of one to the last use.

    ``made_by`` is what allocates the tensor's; ``size`` is None where it is known at run time alone.
    """

    first: int
    last: int
    size: int | None
    element_bytes: int
    made_by: relax.Call


@dataclass
class _Storage:
    """A storage of a known size, and from when to when it holds something."""

    size: int
    variable: relax.Var
    call: relax.Call
    busy: list[Span]

    def is_free(self, first: int, last: int) -> bool:
        return all(end < first or last < begin for begin, end in self.busy)

    def allocation(self) -> relax.Binding:
        size = relax.ShapeExpr([tirx.IntImm("int64", self.size)])
        call = self.call
        return relax.VarBinding(
            self.variable, relax.Call(call.op, [size, *call.args[1:]], call.attrs, call.ty_args)
        )


@dataclass(frozen=True)
class Part:
    """Where a tensor lies: ``offset`` elements behind the begin of a storage.

    Rows of ``run`` elements are ``pitch`` apart; both are 0 where it is all in one.
    """

    joined: Joined
    offset: int
    run: int = 0
    pitch: int = 0

    @property
    def shift(self) -> int:
        """Elements from the last address before it that TVM takes for a tensor's."""
        return self.offset % (ALIGNMENT // self.joined.element_bytes)

    @property
    def rows(self) -> Rows | None:
        """How kernels find it; None where it is like any tensor."""
        return Rows(self.run, self.pitch, self.shift) if self.pitch or self.shift else None


class PartStorages:
    """The storage of each of ``everyone``.

    Its own where its size is known at run time alone, else the smallest of those that are free meanwhile,
    made longer if need be. ``allocations`` are those that there are, and ``busy`` says from when to when each
    holds other tensors.
    """

    def __init__(
        self,
        everyone: Iterable[Joined],
        allocations: Sequence[relax.VarBinding],
        busy: Mapping[relax.Var, list[Span]],
    ) -> None:
        self._like = allocations[0]
        self._shared = [
            _Storage(int(size.values[0]), binding.var, binding.value, list(busy.get(binding.var, [])))
            for binding in allocations
            if is_known(size := binding.value.args[0])
        ]
        self._chosen: dict[int, relax.Var] = {}
        self._opened: dict[int, list[relax.Binding]] = {}
        for joined in sorted(everyone, key=lambda joined: joined.first):
            if joined.size is None:
                self._chosen[id(joined)] = self._open(joined)
            else:
                self._chosen[id(joined)] = self._share(joined, joined.size)

    def of(self, joined: Joined) -> relax.Var:
        return self._chosen[id(joined)]

    def shared(self) -> list[relax.Binding]:
        """All allocations of known sizes, which come before all else."""
        return [storage.allocation() for storage in self._shared]

    def opened(self, place: int) -> list[relax.Binding]:
        """Those that come before the binding at ``place``."""
        return self._opened.get(place, [])

    def _open(self, joined: Joined) -> relax.Var:
        variable = relax.Var(f"joined_of_any_size{len(self._chosen)}", self._like.var.ty)
        self._opened.setdefault(joined.first, []).append(relax.VarBinding(variable, joined.made_by))
        return variable

    def _share(self, joined: Joined, size: int) -> relax.Var:
        free = [storage for storage in self._shared if storage.is_free(joined.first, joined.last)]
        free.sort(key=lambda storage: (storage.size < size, abs(storage.size - size)))
        if not free:
            variable = relax.Var(f"joined{len(self._shared)}", self._like.var.ty)
            free = [_Storage(0, variable, self._like.value, [])]
            self._shared.append(free[0])
        free[0].size = max(free[0].size, size)
        free[0].busy.append((joined.first, joined.last))
        return free[0].variable


__all__ = ["ALIGNMENT", "Joined", "Part", "PartStorages", "Span"]
