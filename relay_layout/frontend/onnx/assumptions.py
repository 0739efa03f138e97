"""What the sizes of inputs have to be for a graph to fit, found while it is read.

An upsampled image meets the one from which it was made: ``(h + 1) // 2 * 2`` and ``h``, which are equal for
even ``h``. The graph is then read again for images of ``h // 2 * 2`` rows, where TVM can tell that all fits,
and in each call the size is checked to be even.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import lcm
from typing import Any

from tvm import relax, tirx
from tvm_ffi import structural_map

from relay_layout.extent_polynomials import provably_equal
from relay_layout.frontend.extents.arithmetic import as_expression, same, simplify
from relay_layout.frontend.extents.factors import pairs_of_factors
from relay_layout.frontend.extents.known_sizes import ANY, Interval
from relay_layout.frontend.extents.residues import ALL, Residues, equal_interval, equal_residues
from relay_layout.frontend.values import dtype_of, shape_of
from relay_layout.ir import Extent
from topi_ext.ir import nodes_of

_LARGEST = 4096
"""No size is asked to be a multiple of more."""


class Assumption(Exception):
    """``size`` has to be ``extent``, of a residue class or in an interval: the graph has to be read again
    with that.
    """

    def __init__(self, size: tirx.Var, extent: Extent | Residues | Interval) -> None:
        super().__init__(f"{size} has to be {extent}")
        self.size = size
        self.extent = extent


class Assumptions:
    """What is assumed of ``sizes``, the extents of inputs that the file leaves open."""

    def __init__(self, sizes: Iterable[tirx.Var] = ()) -> None:
        self._sizes = list(sizes)
        self._residues: dict[tirx.Var, Residues] = {}
        self._extents: dict[tirx.Var, Extent] = {}
        self._intervals: dict[tirx.Var, Interval] = {}

    @property
    def intervals(self) -> Mapping[tirx.Var, Interval]:
        """Between what sizes lie, for :func:`relay_layout.frontend.extents.known_sizes.known_sizes`."""
        return self._intervals

    def add(self, assumption: Assumption) -> None:
        """Take one for granted, beside all others."""
        size, extent = assumption.size, assumption.extent
        if isinstance(extent, Interval):
            self._intervals[size] = extent.within(self._intervals.get(size, ANY))
            return
        if isinstance(extent, Residues):
            self._residues[size] = extent
            extent = size // extent.divisor * extent.divisor + extent.rest
        known = self._extents
        self._extents = {name: _replaced(other, size, extent) for name, other in known.items()}
        self._extents[size] = extent

    def fewest(self, size: tirx.Var) -> int:
        """The least that a size is, other than 0: of what 8 divides there are 8 at least."""
        residues = self._residues.get(size, ALL)
        return residues.rest or residues.divisor

    def equal(self, left: Extent, right: Extent) -> bool:
        """Whether both are always equal; False where nothing is known of it. Raises :class:`Assumption`."""
        if same(left, right) or provably_equal([left], [right]):
            return True
        for size, other in ((left, right), (right, left)):
            if self._is_open(size) and size not in _variables(other) and self._sizes_alone(other):
                raise Assumption(size, other)
        pairs = pairs_of_factors(left, right)
        if len(pairs) > 1:
            return all([self.equal(*pair) for pair in pairs])
        ((left, right),) = pairs
        for size, other in ((left, right), (right, left)):
            if isinstance(other, int) and self._is_open(size):
                raise Assumption(size, other)
        variables = set(_variables(left)) | set(_variables(right))
        if len(variables) != 1:
            self._assume_solved(left, right)
            self._assume_one_size(left, right)
            self._assume_multiples(left, right)
            return False
        (size,) = variables
        interval = equal_interval(left, right)
        if interval is not None and self._sizes_alone(size):
            bounds = self._intervals.get(size, ANY)
            if interval.within(bounds) == bounds:
                return True
            raise Assumption(size, interval)
        known = self._residues.get(size, ALL)
        found = equal_residues(left, right, known)
        if found is None:
            self._assume_multiples(left, right)
        if found is None or found == known:
            return found is not None
        if not self._sizes_alone(size) or found.divisor > _LARGEST:
            return False
        raise Assumption(size, found)

    def _assume_solved(self, left: Extent, right: Extent) -> None:
        """Raises :class:`Assumption` where a size that is a term of one side tells what it has to be."""
        if not self._sizes_alone(left) or not self._sizes_alone(right):
            return
        difference = simplify(left - right)
        solutions = [
            (size, simplify(size - sign * difference))
            for size in _variables(difference)
            for sign in (1, -1)
            if self._is_open(size)
        ]
        solved = [(size, extent) for size, extent in solutions if size not in _variables(extent)]
        # That of one size by another names an extent of an input; others are numbers computed of several.
        for size, extent in sorted(solved, key=lambda pair: not isinstance(pair[1], tirx.Var)):
            raise Assumption(size, extent)

    def _assume_one_size(self, left: Extent, right: Extent) -> None:
        """Raises :class:`Assumption` where both are equal if two sizes are: of two images that the same
        convolutions reduce.
        """
        if not self._sizes_alone(left) or not self._sizes_alone(right):
            return
        read = [[size for size in _variables(side) if self._is_open(size)] for side in (left, right)]
        for one, other in itertools.product(*read):
            if not one.same_as(other) and same(_replaced(left, other, one), _replaced(right, other, one)):
                raise Assumption(other, one)

    def _assume_multiples(self, left: Extent, right: Extent) -> None:
        """Raises :class:`Assumption` where both are equal if each size is a multiple of all it is divided by:
        pixels of an image that was reduced by those of a smaller one.
        """
        divisors: dict[tirx.Var, int] = {}
        for quotient in [node for side in (left, right) for node in nodes_of(side, tirx.FloorDiv)]:
            for size in _variables(quotient.a) if isinstance(quotient.b, tirx.IntImm) else ():
                divisors[size] = lcm(divisors.get(size, 1), int(quotient.b))
        if not divisors or not all(map(self._is_open, divisors)) or max(divisors.values()) > _LARGEST:
            return
        for size, divisor in divisors.items():
            left, right = (_replaced(side, size, size * divisor) for side in (left, right))
        if not provably_equal([left], [right]):
            return
        for size, divisor in divisors.items():
            known = self._residues.get(size, ALL)
            if known == ALL:
                raise Assumption(size, Residues(divisor, 0))

    def declared(self, extent: int | tirx.Var) -> Extent:
        """The extent of an input as its type has it: a variable, unless it is another one, or a number."""
        known = self._extents.get(extent, extent)
        return known if isinstance(known, int | tirx.Var) else extent

    def fitting(self, builder: Any, tensor: relax.Var) -> relax.Var:
        """An input with the extents that are assumed of it."""
        shape = shape_of(tensor)
        assumed = [self._extents.get(extent, extent) for extent in shape]
        if all(map(same, shape, assumed)):
            return tensor
        return builder.match_cast(
            tensor, relax.TensorType(assumed, dtype_of(tensor)), f"{tensor.name}_fitting"
        )

    def conditions(self) -> Iterator[Any]:
        """What has to be checked of sizes that are variables of their own."""
        for size, extent in self._extents.items():
            if size in self._residues:
                divisor, rest = self._residues[size]
                yield tirx.EQ(size % divisor, tirx.const(rest, "int64"))
            elif not isinstance(extent, int | tirx.Var):
                yield tirx.EQ(size, extent)
        for size, (least, most) in self._intervals.items():
            if least:
                yield tirx.GE(size, tirx.const(least, "int64"))
            if most is not None:
                yield tirx.LE(size, tirx.const(most, "int64"))

    def _is_open(self, extent: Extent) -> bool:
        return isinstance(extent, tirx.Var) and extent in self._sizes

    def _sizes_alone(self, extent: Extent) -> bool:
        """Whether it depends on nothing but sizes of inputs."""
        return all(variable in self._sizes for variable in _variables(extent))


def _variables(extent: Extent) -> Sequence[tirx.Var]:
    return [] if isinstance(extent, int) else list(tirx.analysis.undefined_vars(extent))


def _replaced(extent: Extent, size: tirx.Var, by: Extent) -> Extent:
    if isinstance(extent, int):
        return extent
    value = as_expression(by)
    return simplify(
        structural_map(extent, (tirx.Var, lambda variable: value if variable.same_as(size) else variable))
    )
