"""Scans: what all elements along an axis up to each one are combined to."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import tirx as T

from topi_ext.compute.imperative import by_threads_where, variable, written
from topi_ext.compute.row_numbers import index_of_row
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

    Along any axis but the last one, whole rows follow on each other, and what was made of the row before is
    read again.
    """
    dtype = dtype or str(data.dtype)
    first = None if before is None else tirx.const(before, dtype)
    axis %= len(data.shape)

    def scan(source: Any, result: Any) -> None:
        work = _Scan(source, result, data.shape, axis, dtype, combine, first).write
        by_threads_where(prod(data.shape) >= tirx.const(PARALLEL_ELEMENTS, "int64"), work)

    return written("scan", [data], [(data.shape, dtype)], scan)


@dataclass(frozen=True)
class _Scan:
    """Statements that write ``result``; ``before`` is its first element where elements are left out."""

    source: Any
    result: Any
    shape: Sequence[Any]
    axis: int
    dtype: str
    combine: Combine
    before: Any

    def write(self, loop: Any) -> None:
        """Everything, of which a ``loop`` of that kind is the outermost one."""
        count, width = prod(self._outer), self.shape[-1]
        known = fixed(width)
        if self.axis == len(self.shape) - 1:
            with loop(0, count) as number:
                self._along_row(number)
        elif known is not None and known <= CHUNK:
            with loop(0, count) as number:
                self._from_row_to_row(number, 0, width)
        else:
            chunks = tirx.floordiv(width + (CHUNK - 1), CHUNK)
            with loop(0, count * chunks) as part:
                begin = tirx.floormod(part, chunks) * CHUNK
                rest = tirx.min(tirx.const(CHUNK, "int64"), width - begin)
                self._from_row_to_row(tirx.floordiv(part, chunks), begin, rest)

    @property
    def _outer(self) -> list[Any]:
        """The extents of all dimensions but the scanned and the last one."""
        return [extent for place, extent in enumerate(self.shape[:-1]) if place != self.axis]

    def _along_row(self, number: Any) -> None:
        rest = index_of_row(number, self._outer)
        length, result, state = self.shape[self.axis], self.result, variable(self.dtype)

        def index(own: Any) -> tuple[Any, ...]:
            return (*rest, own)

        def element(own: Any) -> Any:
            return self.source[index(own)].astype(self.dtype)

        if self.before is not None:
            state[0] = self.before
            with T.serial(0, length) as own:
                result[index(own)] = state[0]
                state[0] = self.combine(state[0], element(own))
            return
        with T.If(tirx.const(0, "int64") < length), T.Then():
            state[0] = element(0)
            result[index(0)] = state[0]
        with T.serial(1, length) as own:
            state[0] = self.combine(state[0], element(own))
            result[index(own)] = state[0]

    def _from_row_to_row(self, number: Any, begin: Any, width: Any) -> None:
        """So many elements from ``begin`` on of the last dimension, at an index of the others."""
        rest = index_of_row(number, self._outer)
        length, result = self.shape[self.axis], self.result

        def index(own: Any, place: Any) -> tuple[Any, ...]:
            return (*rest[: self.axis], own, *rest[self.axis :], begin + place)

        def element(own: Any, place: Any) -> Any:
            return self.source[index(own, place)].astype(self.dtype)

        with T.If(tirx.const(0, "int64") < length), T.Then(), T.serial(0, width) as place:
            result[index(0, place)] = element(0, place) if self.before is None else self.before
        with T.serial(1, length) as own, T.serial(0, width) as place:
            added = element(own if self.before is None else own - 1, place)
            result[index(own, place)] = self.combine(result[index(own - 1, place)], added)
