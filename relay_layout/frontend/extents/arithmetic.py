"""Arithmetic of extents, which keeps to numbers where they are known and to simple expressions elsewhere."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import sym, tirx
from tvm.ir import Range
from tvm_ffi import structural_map

from relay_layout.frontend.extents.known_sizes import known_interval
from relay_layout.frontend.extents.residues import never_more
from relay_layout.ir import Extent, factors


def simplify(extent: Extent) -> Extent:
    """A Python integer where the extent is known, and the simplest expression TVM finds otherwise."""
    if isinstance(extent, int | np.integer):
        return int(extent)
    analyzer = sym.Analyzer()
    for variable in tirx.analysis.undefined_vars(extent):
        known = known_interval(variable)
        if known.most is not None:
            analyzer.bind(variable, Range(as_expression(known.least), as_expression(known.most + 1)))
        elif known.least:
            analyzer.update(variable, sym.ConstIntBound(known.least, sym.ConstIntBound.POS_INF))
    simplest = analyzer.simplify(structural_map(analyzer.simplify(extent), (tirx.FloorMod, _missing)))
    return int(simplest) if isinstance(simplest, tirx.IntImm) else simplest


def _missing(remainder: tirx.FloorMod) -> Extent:
    """A remainder by a number below zero, by quotients; that of such a number, as what an extent has more.

    Exporters write so what is missing to a multiple, and how far elements are rolled.
    """
    number, divisor = remainder.a, remainder.b
    if isinstance(divisor, tirx.IntImm) and int(divisor) < 0:
        above = -int(divisor)
        return number - (number + (above - 1)) // above * above
    if isinstance(number, tirx.IntImm) and int(number) < 0 and never_more(0, divisor):
        # Nothing is divided by 0: a multiple of 7 that is not below 0 is at least 7.
        multiple, _ = factors(divisor)
        if -int(number) <= multiple or never_more(-int(number), divisor):
            return divisor + number
    return remainder


def same(left: Extent, right: Extent) -> bool:
    """Whether TVM itself proves two extents equal, so that it takes them for the same in a graph."""
    difference = simplify(left - right)
    return isinstance(difference, int) and difference == 0


def least(left: Extent, right: Extent) -> Extent:
    """The smaller of two extents."""
    for one, other in ((left, right), (right, left)):
        if never_more(one, other):
            return one
    return simplify(tirx.min(as_expression(left), as_expression(right)))


def greatest(left: Extent, right: Extent) -> Extent:
    """The larger of two extents."""
    for one, other in ((left, right), (right, left)):
        if never_more(one, other):
            return other
    return simplify(tirx.max(as_expression(left), as_expression(right)))


def clamped(extent: Extent, limit: Extent) -> Extent:
    """``extent`` kept between 0 and ``limit``."""
    return greatest(least(extent, limit), 0)


def as_expression(extent: Extent) -> Any:
    """An extent as an expression of TVM's, int64 where it is a number."""
    return tirx.const(extent, "int64") if isinstance(extent, int) else extent


def product(shape: Sequence[Extent]) -> Extent:
    """The number of elements of ``shape``."""
    total: Extent = 1
    for extent in shape:
        total = total * extent
    return simplify(total)
