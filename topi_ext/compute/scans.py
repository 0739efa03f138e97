"""Scans: what all elements along an axis up to each one are combined to."""

from collections.abc import Callable
from math import prod
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import tirx as T

from topi_ext.compute.imperative import by_threads_where, variable, vectors, written
from topi_ext.compute.row_numbers import index_of_row
from topi_ext.extents import fixed

PARALLEL_ELEMENTS = 1 << 15
"""That threads share: fewer take as long as it takes to wake one."""

Combine = Callable[[Any, Any], Any]
"""What an element makes of all before it."""


def scanned(
    data: te.Tensor, axis: int, combine: Combine, *, dtype: str = "", before: Any = None
) -> te.Tensor:
    """``combine`` of the elements of ``data`` along ``axis`` up to each one, in their order.

    The result has the shape of ``data``, and its type unless ``dtype`` is another, which then combines. With
    ``before``, a number, an element itself is left out: the first is ``before``.

    Along any axis but the last one, vectors go from one row to the next.
    """
    dtype = dtype or str(data.dtype)
    shape, axis = data.shape, axis % len(data.shape)
    length, last = shape[axis], len(shape) - 1
    outer = [extent for place, extent in enumerate(shape[:last]) if place != axis]

    def scan(source: Any, result: Any) -> None:
        def line(number: Any, at: Any = None, lanes: int = 1) -> None:
            """At an index of all other axes, but of the last one ``lanes`` from ``at`` on together."""
            rest = index_of_row(number, outer)

            def index(own: Any, lane: Any) -> tuple[Any, ...]:
                return (*rest[:axis], own, *rest[axis:], *(() if at is None else (at + lane,)))

            def element(own: Any, lane: Any) -> Any:
                return source[index(own, lane)].astype(dtype)

            state = variable(dtype, lanes)

            def all_lanes() -> Any:
                return T.vectorized(0, lanes) if lanes > 1 else T.serial(0, 1)

            if before is not None:
                with all_lanes() as lane:
                    state[lane] = tirx.const(before, dtype)
                with T.serial(0, length) as own, all_lanes() as lane:
                    result[index(own, lane)] = state[lane]
                    state[lane] = combine(state[lane], element(own, lane))
                return
            with T.If(tirx.const(0, "int64") < length), T.Then(), all_lanes() as lane:
                state[lane] = element(0, lane)
                result[index(0, lane)] = state[lane]
            with T.serial(1, length) as own, all_lanes() as lane:
                state[lane] = combine(state[lane], element(own, lane))
                result[index(own, lane)] = state[lane]

        def lines(number: Any, loop: Any = T.serial) -> None:
            width = fixed(shape[last])
            if axis == last:
                line(number)
            elif width is None:
                with loop(0, shape[last]) as at:
                    line(number, at)
            else:
                for at, lanes in vectors(width, loop):
                    line(number, at, lanes)

        def work(loop: Any) -> None:
            """Everything, of which a ``loop`` of that kind is the outermost one."""
            if fixed(count) == 1:
                lines(tirx.const(0, "int64"), loop)
                return
            with loop(0, count) as number:
                lines(number)

        count = prod(outer)
        by_threads_where(prod(shape) >= tirx.const(PARALLEL_ELEMENTS, "int64"), work)

    return written("scan", [data], [(shape, dtype)], scan)
