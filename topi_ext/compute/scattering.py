"""Rows, or elements, written to places that are known at run time."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import tirx as T

from topi_ext.compute.imperative import loops, variable, view_of, written
from topi_ext.extents import as_int, fixed, is_one

CHUNK = 1024
"""Neighbouring elements that one thread takes, of all places."""

MOST_ALONE = 1 << 14
"""Elements that one thread writes by itself."""

COMBINATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "update": lambda there, new: new,
    "add": lambda there, new: there + new,
    "mul": lambda there, new: there * new,
    "min": tirx.min,
    "max": tirx.max,
    "mean": lambda there, new: _half(there + new),
}
"""What an element becomes of what is there and what is written."""


def scattered(
    data: te.Tensor,
    places: te.Tensor,
    updates: te.Tensor,
    reduction: str,
    shape: Sequence[Any] | None = None,
) -> te.Tensor:
    """``data`` (outer, extent, inner) with ``updates`` (outer, count, inner) written along the second axis.

    The result has as many elements as ``data``, and is of its shape unless another ``shape`` is given.
    ``places``, integers, are of the shape of the updates, or (1, count, 1) where they are those of whole
    rows; those below 0 count from the end, and nothing is written to those outside. What is written to one
    place is combined there one after the other, by one of :data:`COMBINATIONS`; the last of several updates
    stays.
    """
    outer, extent, inner = data.shape
    count = updates.shape[1]
    columns = fixed(inner)
    whole = columns is not None and columns <= CHUNK
    chunks = 1 if whole else tirx.floordiv(inner + (CHUNK - 1), CHUNK)
    by_row = is_one(places.shape[0]) and is_one(places.shape[2])
    combined = COMBINATIONS[reduction]

    def body(source: Any, place: Any, new: Any, whole_result: Any) -> None:
        loop = T.serial if _is_small(data) else T.parallel
        result = view_of(whole_result, data.shape, data.dtype)
        with loop(0, outer * chunks) as part:
            row, begin = tirx.floordiv(part, chunks), tirx.floormod(part, chunks) * CHUNK
            length = inner if whole else tirx.min(CHUNK, inner - begin)
            with T.serial(0, extent) as at, T.serial(0, length) as column:
                result[row, at, begin + column] = source[row, at, begin + column]
            with T.serial(0, count) as number:
                goal = variable("int64")

                def write(own: Any) -> None:
                    """The update in column ``own`` to where ``goal`` is."""
                    there = result[row, goal[0], own]
                    result[row, goal[0], own] = combined(there, new[row, number, own])

                if by_row:
                    goal[0] = _from_the_front(place[0, number, 0], extent)
                    with T.If(_is_within(goal[0], extent)), T.Then(), T.serial(0, length) as column:
                        write(begin + column)
                else:
                    with T.serial(0, length) as column:
                        goal[0] = _from_the_front(place[row, number, begin + column], extent)
                        with T.If(_is_within(goal[0], extent)), T.Then():
                            write(begin + column)

    return written("scattered", [data, places, updates], [(shape or data.shape, data.dtype)], body)


def scattered_within(
    data: te.Tensor, places: te.Tensor, updates: te.Tensor, axis: int, reduction: str
) -> te.Tensor:
    """``data`` with ``updates``, written to ``places`` along an axis and to where they are on all others.

    All three have as many dimensions; places and updates are of one shape, and no longer than the data
    on the other axes. Places count and combine as those of :func:`scattered`.
    """
    rank = len(data.shape)
    extent = data.shape[axis]
    combined = COMBINATIONS[reduction]
    others = [at for at in range(rank) if at != axis]
    # Threads take what no other one writes to: parts of an axis along which nothing moves.
    lead = next((at for at in others if not is_one(data.shape[at])), axis)

    def body(source: Any, place: Any, new: Any, result: Any) -> None:
        def write(index: Sequence[Any]) -> None:
            goal = variable("int64")
            goal[0] = _from_the_front(place[tuple(index)], extent)
            with T.If(_is_within(goal[0], extent)), T.Then():
                at = (*index[:axis], goal[0], *index[axis + 1 :])
                result[at] = combined(result[at], new[tuple(index)])

        if lead == axis:
            with loops(data.shape) as index:
                result[tuple(index)] = source[tuple(index)]
            with loops(places.shape) as index:
                write(index)
            return
        with (T.serial if _is_small(data) else T.parallel)(0, data.shape[lead]) as part:
            with loops(data.shape, {lead: part}) as index:
                result[tuple(index)] = source[tuple(index)]
            with T.If(part < places.shape[lead]), T.Then(), loops(places.shape, {lead: part}) as index:
                write(index)

    return written("scattered_within", [data, places, updates], [(data.shape, data.dtype)], body)


def _half(total: Any) -> Any:
    return total / 2 if str(total.ty.dtype).startswith(("float", "bfloat")) else tirx.floordiv(total, 2)


def _from_the_front(place: Any, extent: Any) -> Any:
    place = place.astype("int64")
    return tirx.if_then_else(place < 0, place + extent, place)


def _is_within(place: Any, extent: Any) -> Any:
    return tirx.all(place >= 0, place < extent)


def _is_small(data: te.Tensor) -> bool:
    shape = [as_int(extent) for extent in data.shape]
    return all(isinstance(extent, int) for extent in shape) and prod(shape) <= MOST_ALONE
