"""Extents that the data decide: how many elements an operator finds is known at run time alone.

Such an extent is a symbolic variable, which a ``match_cast`` of the Relax function defines. Extents that are
computed from it get variables of their own: what is computed from those stays simple, and TVM does not fuse
functions of tensors whose extents are expressions of a variable that is no extent itself.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from tvm import relax, sym, tirx

from relay_layout.extent_polynomials import Polynomial, polynomial
from relay_layout.frontend.extents.arithmetic import simplify
from relay_layout.frontend.identity import ByIdentity
from relay_layout.ir import Extent


class Counts:
    """The variables of one function, each with what it is at most; ``builder`` takes their definitions."""

    def __init__(self, builder: Any) -> None:
        self._builder = builder
        self._most: dict[tirx.Var, Extent | None] = {}
        self._computed: list[tuple[Extent, tirx.Var]] = []
        self._sums: dict[tirx.Var, Polynomial] = {}
        self.parts: ByIdentity[Any, Sequence[Any]] = ByIdentity()
        """The parts of tensors that were joined along their one axis."""
        self._sources: ByIdentity[Any, Any] = ByIdentity()
        self._places: ByIdentity[Any, Any] = ByIdentity()
        self._ends: ByIdentity[Any, tirx.Var] = ByIdentity()

    def count(self, tensor: Any, most: Extent | None, name: str) -> tirx.Var:
        """An extent for the number that ``tensor``, one int64, holds, at most ``most`` where known."""
        shape = self._builder.emit(relax.op.tensor_to_shape(tensor), name_hint=f"{name}_shape")
        variable = tirx.Var(name, "int64")
        self._most[variable] = most
        self._builder.match_cast(shape, relax.ShapeType([variable]), f"{name}_count")
        return variable

    def places(self, data: Any, find: Callable[[], Any]) -> Any:
        """Places in ``data``, which ``find`` finds: once, so that what they pick has the same extents."""
        return self._places.kept(data, lambda _: find())

    def end(self, number: Any, count: Callable[[], tirx.Var]) -> tirx.Var:
        """The extent up to ``number``, which ``count`` counts once, so that ranges up to it have one."""
        return self._ends.kept(self._origin(number), lambda _: count())

    def known_end(self, number: Any) -> tirx.Var | None:
        """The extent that :meth:`end` has counted up to ``number``; None where it has not."""
        return self._ends.get(self._origin(number))

    def made_of(self, number: Any, source: Any) -> None:
        """Notes that a tensor is another one with converted elements, or of one element in another shape.

        Nothing is noted of one that stands for its own source, as what changes nothing gives it back.
        """
        if all(earlier is not number for earlier in self.sources(source)):
            self._sources[number] = source

    def sources(self, number: Any) -> Iterator[Any]:
        """``number``, and the tensors that it was made of one by one, the last one made first."""
        while number is not None:
            yield number
            number = self._sources.get(number)

    def _origin(self, number: Any) -> Any:
        """The integer of which another integer is the same."""
        for source in islice(self.sources(number), 1, None):
            if "int" not in str(source.ty.dtype) or "int" not in str(number.ty.dtype):
                break
            number = source
        return number

    def opened(self, name: str, most: Extent | None = None) -> tirx.Var:
        """An extent that the data decide, defined by the parameter or the check whose extent it is."""
        variable = tirx.Var(name, "int64")
        self._most[variable] = most
        return variable

    @contextmanager
    def inside(self) -> Iterator[None]:
        """What is computed meanwhile belongs to another function, and is not read after it."""
        with self.aside():
            self._places, self._ends = ByIdentity(), ByIdentity()
            yield

    @contextmanager
    def aside(self) -> Iterator[list[tuple[Extent, tirx.Var]]]:
        """What is computed meanwhile is not read after it, unless :meth:`read_again` is given the list."""
        before, places, ends = self._computed, self._places, self._ends
        meanwhile: list[tuple[Extent, tirx.Var]] = []
        self._computed, self._places, self._ends = list(before), places.copy(), ends.copy()
        try:
            yield meanwhile
        finally:
            meanwhile.extend(self._computed[len(before) :])
            self._computed, self._places, self._ends = before, places, ends

    def read_again(self, computed: Sequence[tuple[Extent, tirx.Var]]) -> None:
        """What was computed aside has become a part of the function under way."""
        self._computed.extend(computed)

    def sized(self, tensor: Any, name: str) -> Any:
        """``tensor``, a variable, with a variable for each of its extents that is computed from counts."""
        extents = getattr(getattr(tensor, "ty", None), "shape", None)
        if not self._most or not isinstance(extents, relax.ShapeExpr):
            return tensor
        present = list(extents)
        shape = [self.plain(extent, f"{name}_{axis}") for axis, extent in enumerate(present)]
        if all(new is old for new, old in zip(shape, present, strict=True)):
            return tensor
        return self._builder.emit(relax.op.reshape(tensor, relax.ShapeExpr(shape)), name_hint=f"{name}_sized")

    def plain(self, extent: Extent, name: str) -> Extent:
        """``extent``, or a variable for it if it is computed from counts."""
        if isinstance(extent, int | tirx.IntImm | tirx.Var) or not self.reads_counts(extent):
            return extent
        simplest = simplify(extent)
        if isinstance(simplest, int | tirx.Var):
            return simplest
        analyzer, terms = sym.Analyzer(), polynomial(simplest, self._sums)
        for known, variable in self._computed:
            alike = terms is not None and self._sums.get(variable) == terms
            if alike or analyzer.can_prove_equal(known, simplest):
                return variable
        # By way of a tensor: TVM puts the expression back in place of a variable that it sees to be equal.
        tensor = self._builder.emit(relax.op.shape_to_tensor(relax.ShapeExpr([simplest])), name_hint=name)
        variable = self.count(tensor, simplest, name)
        self._computed.append((simplest, variable))
        if terms is not None:
            self._sums[variable] = terms
        return variable

    def reads_counts(self, extent: Extent) -> bool:
        """Whether the data decide an extent that is no number."""
        return not isinstance(extent, int) and any(
            variable in self._most for variable in tirx.analysis.undefined_vars(extent)
        )

    def least_size(self, extent: Extent) -> int:
        """What the variables of an extent are at least: images have pixels, data may decide on nothing."""
        return int(isinstance(extent, int) or not self.reads_counts(extent))

    def most_where_empty(self, size: Extent, extent: tirx.Var) -> int | None:
        """The most that ``size`` is where ``extent`` is 0; None where that is not known."""
        match size:
            case int():
                return size
            case tirx.IntImm():
                return int(size)
            case tirx.Var():
                known = self._most.get(size)
                if size.same_as(extent):
                    return 0
                return None if known is None else self.most_where_empty(known, extent)
        combine = _BOUNDS.get(type(size))
        if combine is None:
            return None
        return combine(self.most_where_empty(size.a, extent), self.most_where_empty(size.b, extent))


def _of_both(combine: Callable[[int, int], int]) -> Callable[[int | None, int | None], int | None]:
    return lambda one, other: None if one is None or other is None else combine(one, other)


def _least(one: int | None, other: int | None) -> int | None:
    known = [bound for bound in (one, other) if bound is not None]
    return min(known) if known else None


def _product(one: int | None, other: int | None) -> int | None:
    return 0 if 0 in (one, other) else _of_both(lambda left, right: left * right)(one, other)


_BOUNDS: dict[type, Callable[[int | None, int | None], int | None]] = {
    tirx.Add: _of_both(lambda one, other: one + other),
    tirx.Mul: _product,
    tirx.Min: _least,
    tirx.Max: _of_both(max),
}
"""The most that two numbers are together, neither of them negative, from the most that each is."""
