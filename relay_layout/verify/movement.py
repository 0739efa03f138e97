"""Calls that only move elements, read from the call itself: where its operand's elements then lie."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tvm
from tvm import tirx

from relay_layout.graph import MATCH_CAST, Node
from relay_layout.verify.digits import Digit, Dims, joined, regrouped, shape_of_dims
from relay_layout.verify.symbols import Symbol, extents, times


def moved(node: Node, dims: Dims) -> Dims | None:
    """The result of a call on an operand that lies as ``dims``; None for a call that is no mere movement.

    None also where digits cannot say it: a reshape that cuts a dimension unevenly, an index map that pads or
    that :func:`is_lowered` refuses.
    """
    reader = MOVES.get(node.operator)
    return reader(node, dims) if reader is not None else None


def is_movement(node: Node) -> bool:
    """Whether :func:`moved` knows the operator."""
    return node.operator in MOVES


def merged(dims: Dims, node: Node) -> Dims:
    """``dims`` with neighbours merged that a reshape takes together: those of equal products."""
    shape, target = shape_of_dims(dims), node.results[0].shape
    if target is None or node.operator in ("permute_dims", "layout_transform"):
        return dims
    wanted = list(extents(target))
    found: list[tuple[Digit, ...]] = []
    place = 0
    while place < len(dims):
        before, after, taken = shape[place], wanted.pop(0) if wanted else 1, [dims[place]]
        place += 1
        while before != after:
            if not isinstance(before, int) or not isinstance(after, int):
                return dims
            if before < after and place < len(dims) and isinstance(shape[place], int):
                before = times(before, shape[place])
                taken.append(dims[place])
                place += 1
            elif after < before and wanted:
                after = times(after, wanted.pop(0))
            else:
                return dims
        found.append(joined(digit for dim in taken for digit in dim))
    return tuple(found)


def _permuted(node: Node, dims: Dims) -> Dims | None:
    axes = node.attributes.axes
    if axes is None:
        return dims[::-1]
    order = [int(axis) % len(dims) for axis in axes]
    return tuple(dims[axis] for axis in order) if sorted(order) == list(range(len(dims))) else None


def _reshaped(node: Node, dims: Dims) -> Dims | None:
    shape = node.results[0].shape
    return regrouped(dims, extents(shape)) if shape is not None else None


def _shuffled(node: Node, dims: Dims) -> Dims | None:
    """Channels of r x r blocks become r times the rows and columns."""
    factor = int(node.attributes.upscale_factor)
    shape = node.operands[0].shape
    if shape is None or len(shape) < 3:
        return None
    leading, (channels, rows, columns) = shape[:-3], shape[-3:]
    if not isinstance(channels, int) or channels % (factor * factor):
        return None
    split = regrouped(dims, extents((*leading, channels // (factor * factor), factor, factor, rows, columns)))
    if split is None:
        return None
    outer, (channel, down, right, row, column) = split[:-5], split[-5:]
    return (*outer, channel, joined((*row, *down)), joined((*column, *right)))


def _mapped(node: Node, dims: Dims) -> Dims | None:
    attributes = node.attributes
    if attributes.pad_value is not None or not is_lowered(node):
        return None
    return _through_map(attributes.index_map, dims)


def is_lowered(node: Node) -> bool:
    """False for a layout transform whose index map TVM, which lowers it by the inverse, cannot invert."""
    shape = node.operands[0].shape
    if node.operator != "layout_transform" or shape is None:
        return True
    try:
        node.attributes.index_map.non_surjective_inverse(list(shape))
    except tvm.error.InternalError:
        return False
    return True


def _through_map(index_map: Any, dims: Dims) -> Dims | None:
    """The dimensions that an index map gives, read from its expressions."""
    variables = list(index_map.initial_indices)
    if len(variables) != len(dims):
        return None
    values = [_terms_of(dim) for dim in dims]
    found = []
    for expression in index_map.final_indices:
        whole = next((dim for own, dim in zip(variables, dims, strict=True) if own.same_as(expression)), None)
        if whole is not None:
            found.append(whole)
            continue
        terms = _evaluate(expression, variables, values)
        dim = _dense(terms) if terms is not None else None
        if dim is None:
            return None
        found.append(dim)
    return tuple(found)


class _Term(NamedTuple):
    """``digit * scale``: one summand of an index."""

    scale: int
    digit: Digit


_Terms = list[_Term] | None
"""Summands by falling scale, none reaching the scale of the one before; None if there is no such sum."""


def _terms_of(dim: Sequence[Digit]) -> _Terms:
    terms = []
    scale = 1
    for digit in reversed(dim):
        terms.append(_Term(scale, digit))
        if isinstance(digit.extent, Symbol) and len(dim) > 1:
            return None
        scale *= digit.extent if isinstance(digit.extent, int) else 1
    return terms[::-1]


def _evaluate(expression: Any, variables: Sequence[Any], values: Sequence[_Terms]) -> _Terms:
    if isinstance(expression, tirx.Var):
        for variable, terms in zip(variables, values, strict=True):
            if variable.same_as(expression):
                return terms
        return None
    if isinstance(expression, tirx.IntImm):
        return [] if int(expression) == 0 else None
    combine = _COMBINE.get(type(expression))
    if combine is None:
        return None
    left = _evaluate(expression.a, variables, values)
    if left is None:
        return None
    if combine is _sum:
        right = _evaluate(expression.b, variables, values)
        return _sum(left, right) if right is not None else None
    if not isinstance(expression.b, tirx.IntImm) or int(expression.b) <= 0:
        return None
    number = int(expression.b)
    return combine(left, number)


def _sum(left: list[_Term], right: list[_Term]) -> _Terms:
    merged: list[_Term] = []
    for term in sorted((*left, *right), key=lambda term: -term.scale):
        last = merged[-1] if merged else None
        if last is None:
            merged.append(term)
            continue
        if isinstance(term.digit.extent, Symbol) or last.scale < term.scale * term.digit.extent:
            return None
        continues = last.scale == term.scale * term.digit.extent
        run = joined((last.digit, term.digit)) if continues else ()
        if len(run) == 1:
            merged[-1] = _Term(term.scale, run[0])
        else:
            merged.append(term)
    return merged


def _product(terms: list[_Term], number: int) -> _Terms:
    return [_Term(term.scale * number, term.digit) for term in terms]


def _quotient(terms: list[_Term], number: int) -> _Terms:
    parts = _parted(terms, number)
    return parts[0] if parts is not None else None


def _remainder(terms: list[_Term], number: int) -> _Terms:
    parts = _parted(terms, number)
    return parts[1] if parts is not None else None


def _parted(terms: list[_Term], number: int) -> tuple[list[_Term], list[_Term]] | None:
    """Quotient and remainder of a sum by ``number``."""
    above, below = [], []
    for scale, digit in terms:
        if scale % number == 0:
            above.append(_Term(scale // number, digit))
            continue
        if not isinstance(digit.extent, int) or not isinstance(digit.unit, int):
            return None
        if scale * digit.extent <= number:
            below.append(_Term(scale, digit))
            continue
        inner = number // scale
        if number % scale or digit.extent % inner:
            return None
        above.append(_Term(1, Digit(digit.axis, digit.unit * inner, digit.extent // inner)))
        below.append(_Term(scale, Digit(digit.axis, digit.unit, inner)))
    return above, below


_COMBINE: dict[type, Callable[[list[_Term], Any], _Terms]] = {
    tirx.Add: _sum,
    tirx.Mul: _product,
    tirx.FloorDiv: _quotient,
    tirx.FloorMod: _remainder,
}


def _dense(terms: list[_Term]) -> tuple[Digit, ...] | None:
    """The digits of a sum that takes every value below the product of their extents."""
    scale = 1
    for term in reversed(terms):
        if term.scale != scale:
            return None
        scale *= term.digit.extent if isinstance(term.digit.extent, int) else 1
    return joined(term.digit for term in terms)


def _checked(node: Node, dims: Dims) -> Dims | None:
    """A check that names no extent anew is no more than its operand."""
    before, after = node.operands[0].shape, node.results[0].shape
    if before is None or after is None or extents(before) != extents(after):
        return None
    return dims


MOVES: dict[str, Callable[[Node, Dims], Dims | None]] = {
    MATCH_CAST: _checked,
    "expand_dims": _reshaped,
    "flatten": _reshaped,
    "layout_transform": _mapped,
    "nn.batch_flatten": _reshaped,
    "nn.pixel_shuffle": _shuffled,
    "permute_dims": _permuted,
    "reshape": _reshaped,
    "squeeze": _reshaped,
}
"""Operators that compute nothing, and how they move what a tensor holds."""
