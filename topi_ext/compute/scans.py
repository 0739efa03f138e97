"""Scans: what all elements along an axis up to each one are combined to."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import tirx as T

from topi_ext.compute.imperative import by_threads_where, variable, view_of, written
from topi_ext.extents import fixed

PARALLEL_ELEMENTS = 1 << 15
"""Elements that threads share: fewer take as long as it takes to wake one."""

CHUNK = 1024
"""Neighbours of which one row follows the other; the nearest cache holds those of the row before."""

Combine = Callable[[Any, Any], Any]
"""What an element makes of all before it."""


def scanned(
    data: te.Tensor, axis: int, combine: Combine, *, dtype: str = "", before: Any = None
) -> te.Tensor:
    """``combine`` of the elements of ``data`` along ``axis`` up to each one, in their order.

    The result has the shape of ``data``, and its type unless ``dtype`` is another, which then combines. With
    ``before``, a number, an element itself is left out: the first is ``before``.

    Along any axis but the last one of more than one element, whole rows follow on each other, all elements of
    the axes behind in one, and what was made of the row before is read again.
    """
    dtype = dtype or str(data.dtype)
    first = None if before is None else tirx.const(before, dtype)
    axis %= len(data.shape)
    rows, row = prod(data.shape[:axis]), prod(data.shape[axis + 1 :])
    shape = [rows, data.shape[axis]] if fixed(row) == 1 else [rows, data.shape[axis], row]

    def scan(source: Any, result: Any) -> None:
        views = view_of(source, shape, str(data.dtype)), view_of(result, shape, dtype)
        work = _Scan(*views, shape, dtype, combine, first).write
        by_threads_where(prod(data.shape) >= tirx.const(PARALLEL_ELEMENTS, "int64"), work)

    return written("scan", [data], [(data.shape, dtype)], scan)


@dataclass(frozen=True)
class _Scan:
    """Statements that write ``result``; ``before`` is its first element where elements are left out.

    Of three dimensions the second one is scanned, of two as well.
    """

    source: Any
    result: Any
    shape: Sequence[Any]
    dtype: str
    combine: Combine
    before: Any

    def write(self, loop: Any) -> None:
        """Everything, of which a ``loop`` of that kind is the outermost one."""
        count, length, *rest = self.shape
        if not rest:
            with loop(0, count) as number:
                self._along_row(number, length)
            return
        (width,) = rest
        if (fixed(width) or CHUNK + 1) <= CHUNK:
            with loop(0, count) as number:
                self._from_row_to_row(number, length, 0, width)
            return
        chunks = tirx.floordiv(width + (CHUNK - 1), CHUNK)
        with loop(0, count * chunks) as part:
            begin = tirx.floormod(part, chunks) * CHUNK
            left = tirx.min(tirx.const(CHUNK, "int64"), width - begin)
            self._from_row_to_row(tirx.floordiv(part, chunks), length, begin, left)

    def _along_row(self, number: Any, length: Any) -> None:
        result, state = self.result, variable(self.dtype)

        def element(own: Any) -> Any:
            return self.source[number, own].astype(self.dtype)

        if self.before is not None:
            state[0] = self.before
            with T.serial(0, length) as own:
                result[number, own] = state[0]
                state[0] = self.combine(state[0], element(own))
            return
        with T.If(tirx.const(0, "int64") < length), T.Then():
            state[0] = element(0)
            result[number, 0] = state[0]
        with T.serial(1, length) as own:
            state[0] = self.combine(state[0], element(own))
            result[number, own] = state[0]

    def _from_row_to_row(self, number: Any, length: Any, begin: Any, width: Any) -> None:
        """So many elements from ``begin`` on of each row."""
        result = self.result

        def element(own: Any, place: Any) -> Any:
            return self.source[number, own, begin + place].astype(self.dtype)

        with T.If(tirx.const(0, "int64") < length), T.Then(), T.serial(0, width) as place:
            result[number, 0, begin + place] = element(0, place) if self.before is None else self.before
        with T.serial(1, length) as own, T.serial(0, width) as place:
            added = element(own if self.before is None else own - 1, place)
            before = result[number, own - 1, begin + place]
            result[number, own, begin + place] = self.combine(before, added)
