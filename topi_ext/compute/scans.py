"""Scans: what all elements along an axis up to each one are combined to."""

from collections.abc import Callable
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
    shape, axis = data.shape, axis % len(data.shape)
    length, last = shape[axis], len(shape) - 1
    outer = [extent for place, extent in enumerate(shape[:last]) if place != axis]
    count = prod(outer)

    def scan(source: Any, result: Any) -> None:
        def along_rows(number: Any) -> None:
            rest = index_of_row(number, outer)
            state = variable(dtype)

            def index(own: Any) -> tuple[Any, ...]:
                return (*rest, own)

            def next_state(own: Any) -> Any:
                return combine(state[0], source[index(own)].astype(dtype))

            if before is not None:
                state[0] = tirx.const(before, dtype)
                with T.serial(0, length) as own:
                    result[index(own)] = state[0]
                    state[0] = next_state(own)
                return
            with T.If(tirx.const(0, "int64") < length), T.Then():
                state[0] = source[index(0)].astype(dtype)
                result[index(0)] = state[0]
            with T.serial(1, length) as own:
                state[0] = next_state(own)
                result[index(own)] = state[0]

        def from_row_to_row(number: Any, begin: Any, width: Any) -> None:
            """So many elements from ``begin`` on of the last dimension, at an index of the others."""
            rest = index_of_row(number, outer)

            def index(own: Any, place: Any) -> tuple[Any, ...]:
                return (*rest[:axis], own, *rest[axis:], begin + place)

            def element(own: Any, place: Any) -> Any:
                return source[index(own, place)].astype(dtype)

            with T.If(tirx.const(0, "int64") < length), T.Then(), T.serial(0, width) as place:
                first = element(0, place) if before is None else tirx.const(before, dtype)
                result[index(0, place)] = first
            with T.serial(1, length) as own, T.serial(0, width) as place:
                added = element(own if before is None else own - 1, place)
                result[index(own, place)] = combine(result[index(own - 1, place)], added)

        def work(loop: Any) -> None:
            """Everything, of which a ``loop`` of that kind is the outermost one."""
            if axis == last:
                with loop(0, count) as number:
                    along_rows(number)
                return
            width, known = shape[last], fixed(shape[last])
            if known is not None and known <= CHUNK:
                with loop(0, count) as number:
                    from_row_to_row(number, 0, width)
                return
            chunks = tirx.floordiv(width + (CHUNK - 1), CHUNK)
            with loop(0, count * chunks) as part:
                begin = tirx.floormod(part, chunks) * CHUNK
                rest = tirx.min(tirx.const(CHUNK, "int64"), width - begin)
                from_row_to_row(tirx.floordiv(part, chunks), begin, rest)

        by_threads_where(prod(shape) >= tirx.const(PARALLEL_ELEMENTS, "int64"), work)

    return written("scan", [data], [(shape, dtype)], scan)
