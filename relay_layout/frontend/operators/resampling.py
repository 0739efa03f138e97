"""Resizing one axis at a time, of extents that are known and that are not, for all importers.

What each element of a result reads is a formula, ``formula(functions, element, before, after)``:
``functions`` are those of numbers in single precision, ``element`` is the place in the result, ``before`` and
``after`` are the extents. Of known extents it is computed by numpy and becomes a constant, of open ones by a
kernel.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from tvm import relax, te, tirx

from relay_layout.ir import Expression, Extent, dtype_of, is_static, shape_of

Formula = Callable[[Any, Any, Any, Any], Any]


@dataclass(frozen=True)
class ResizedAxis:
    """An axis and its extents before and after."""

    axis: int
    before: Extent
    after: Extent

    @property
    def is_known(self) -> bool:
        return is_static((self.before, self.after))


def _divided(left: Any, right: Any) -> Any:
    """A quotient of floats, where TVM would multiply by the reciprocal of a number that it can tell."""
    return left / tirx.reinterpret("float32", tirx.reinterpret("int32", right))


NUMPY = SimpleNamespace(
    floor=np.floor,
    ceil=np.ceil,
    maximum=np.maximum,
    minimum=np.minimum,
    where=np.where,
    same=operator.eq,
    both=operator.and_,
    divided=operator.truediv,
    real=lambda value: np.asarray(value).astype("float32"),
    place=lambda value: np.asarray(value).astype("int64"),
)
TENSOR = SimpleNamespace(
    floor=te.floor,
    ceil=te.ceil,
    maximum=tirx.max,
    minimum=tirx.min,
    where=tirx.Select,
    same=tirx.EQ,
    both=tirx.And,
    divided=_divided,
    real=lambda value: tirx.Cast("float32", value) if hasattr(value, "ty") else tirx.const(value, "float32"),
    place=lambda value: tirx.Cast("int64", value) if hasattr(value, "ty") else tirx.const(value, "int64"),
)
"""The same functions of numbers that are known, and of those at run time."""


def weight_at(functions: Any, distance: Any, *, cubic: bool, sharpness: float) -> Any:
    """What an element weighs at a distance from 0 up; ``sharpness`` is the coefficient of Keys (1981)."""
    zero = functions.real(0)
    if not cubic:
        return functions.maximum(functions.real(1) - distance, zero)
    near = ((sharpness + 2) * distance - (sharpness + 3)) * distance * distance + 1.0
    far = ((sharpness * distance - 5 * sharpness) * distance + 8 * sharpness) * distance - 4 * sharpness
    return functions.where(distance <= 1, near, functions.where(distance < 2, far, zero))


_MOST_TAPS = 64
"""Elements that one expression sums."""

_PRODUCTS_PER_TAP = 16
"""Products with a matrix that take as long as one element that is read by its place, measured on a Zen 5."""


@dataclass(frozen=True)
class Resampling:
    """Emits expressions of ``builder``, variables named ``name`` where one is given."""

    builder: Any
    name: str = ""

    def computed(self, axis: ResizedAxis, dtype: str, formula: Formula) -> Expression:
        """The numbers of a formula, one for each element of the result."""
        if axis.is_known:
            values = formula(NUMPY, NUMPY.real(np.arange(axis.after)), axis.before, axis.after)
            return relax.const(np.broadcast_to(values, axis.after).astype(dtype))

        def compute(before: Any, after: Any) -> te.Tensor:
            def one(element: Any) -> Any:
                return tirx.Cast(dtype, formula(TENSOR, TENSOR.real(element), before, after))

            return te.compute((after,), one, name="resized")

        return self._kernel(compute, axis.before, axis.after)

    def picked(self, value: Expression, axis: ResizedAxis, place: Formula) -> Expression:
        """For each element of the result the one of ``value`` at an integer place, within it."""
        places = self.computed(axis, "int64", place)
        return self._emit(relax.op.take(value, places, axis=axis.axis, mode="clip"))

    def from_neighbours(
        self,
        value: Expression,
        axis: ResizedAxis,
        taps: Sequence[int],
        place: Formula,
        weight: Callable[..., Any],
    ) -> Expression:
        """The sum of the elements around each place, ``taps`` away from the one below it.

        ``weight(tap, functions, element, before, after)`` is what they weigh. Outside of ``value`` lies more
        of its outermost element.
        """

        def neighbour(tap: int, functions: Any, *given: Any) -> Any:
            found = functions.place(functions.floor(place(functions, *given))) + tap
            return functions.minimum(functions.maximum(found, 0), given[1] - 1)

        return self._sum(value, axis, taps, neighbour, weight)

    def _sum(
        self,
        value: Expression,
        axis: ResizedAxis,
        taps: Sequence[int],
        place: Callable[..., Any],
        weight: Callable[..., Any],
    ) -> Expression:
        """The sum of elements at ``place(tap, ...)``, within ``value``, times ``weight(tap, ...)``."""
        dtype = dtype_of(value)
        spread = [1] * len(shape_of(value) or ())
        spread[axis.axis] = axis.after
        total: Expression | None = None
        for tap in taps:
            numbers = self.computed(axis, dtype, partial(weight, tap))
            weights = self._emit(relax.op.reshape(numbers, relax.ShapeExpr(spread)))
            picked = self.picked(value, axis, partial(place, tap))
            product = self._emit(relax.op.multiply(picked, weights))
            total = product if total is None else self._emit(relax.op.add(total, product))
        return total

    def by_matrix(
        self, value: Expression, axis: ResizedAxis, weight: Callable[..., Any], around: Extent = 0
    ) -> Expression:
        """The product of one axis with what all its elements weigh, made to add up to one.

        ``weight(functions, row, column, before, after)`` is what the element at ``row`` weighs in that of the
        result at ``column``. ``around`` as many rows before and after the elements of ``value`` count for the
        outermost of them. Where few elements of a known matrix are not zero, those alone are multiplied.
        """
        if axis.is_known:
            matrix = _known_matrix(axis, weight, around)
            first, taps = _band(matrix)
            if taps <= _MOST_TAPS and taps * _PRODUCTS_PER_TAP <= axis.before:
                return self._by_band(value, axis, matrix, first, taps)
            weights = relax.const(matrix.astype(dtype_of(value)))
        else:
            if not isinstance(around, int) or around:
                value = self._widened(value, axis, around)
            weights = self._open_matrix(axis, dtype_of(value), weight, around)
        rank = len(shape_of(value) or ())
        if axis.axis == rank - 1:
            return self._emit(relax.op.matmul(value, weights, out_dtype=dtype_of(value)))
        order = [place for place in range(rank) if place != axis.axis] + [axis.axis]
        turned = self._emit(relax.op.permute_dims(value, order))
        product = self._emit(relax.op.matmul(turned, weights, out_dtype=dtype_of(value)))
        return self._emit(relax.op.permute_dims(product, [order.index(place) for place in range(rank)]))

    def _by_band(
        self, value: Expression, axis: ResizedAxis, matrix: np.ndarray, first: np.ndarray, taps: int
    ) -> Expression:
        """The product with a matrix whose columns have ``taps`` elements from row ``first`` on."""
        columns = np.arange(axis.after)

        def place(tap: int, *_: Any) -> Any:
            return np.minimum(first + tap, axis.before - 1)

        def share(tap: int, *_: Any) -> Any:
            return np.where(first + tap < axis.before, matrix[place(tap), columns], 0)

        return self._sum(value, axis, range(taps), place, share)

    def _widened(self, value: Expression, axis: ResizedAxis, around: Extent) -> Expression:
        """``value`` with ``around`` more of its outermost elements on both sides."""
        wide = ResizedAxis(axis.axis, around, axis.before + 2 * around)

        def inside(functions: Any, element: Any, around: Any, extent: Any) -> Any:
            found = functions.maximum(functions.place(element) - around, 0)
            return functions.minimum(found, extent - 2 * around - 1)

        return self.picked(value, wide, inside)

    def _open_matrix(
        self, axis: ResizedAxis, dtype: str, weight: Callable[..., Any], around: Extent
    ) -> Expression:
        def compute(before: Any, after: Any, around: Any) -> te.Tensor:
            def one(row: Any, column: Any) -> Any:
                found = weight(TENSOR, TENSOR.real(row - around), TENSOR.real(column), before, after)
                return tirx.Cast(dtype, found)

            return te.compute((before + 2 * around, after), one, name="weights")

        given = self._kernel(compute, axis.before, axis.after, around)
        return self._emit(relax.op.divide(given, self._emit(relax.op.sum(given, 0, keepdims=True))))

    def _kernel(self, compute: Callable[..., te.Tensor], *extents: Extent) -> Expression:
        return self._emit(self.builder.call_te(compute, *extents, primfunc_name_hint="resized"))

    def _emit(self, expression: Expression) -> Expression:
        return self.builder.emit(expression, name_hint=self.name)


def _band(matrix: np.ndarray) -> tuple[np.ndarray, int]:
    """The first row of each column that is not zero, and how many rows the longest column has from there."""
    is_used = matrix != 0
    first = is_used.argmax(0)
    last = len(matrix) - 1 - is_used[::-1].argmax(0)
    return first, int((last - first).max()) + 1


def _known_matrix(axis: ResizedAxis, weight: Callable[..., Any], around: int) -> np.ndarray:
    """What each element of the data weighs in each of the result, float32 (before, after)."""
    rows = np.arange(-around, axis.before + around, dtype="float32")
    columns = np.arange(axis.after, dtype="float32")
    wide = weight(NUMPY, rows[:, None], columns, axis.before, axis.after)
    found = wide[around : around + axis.before].copy()
    found[0] += wide[:around].sum(0)
    found[-1] += wide[around + axis.before :].sum(0)
    return np.asarray(found / found.sum(0))
