"""Sorting of the elements of rows by the bits of their keys, in linear time and stable.

An entry is an int64 of an element's key, which is the less the earlier it comes, and its place in the row. A
radix sort from the last digit on (Knuth, The Art of Computer Programming, volume 3, 5.2.5), of the key alone.
"""

from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import tirx as T

from topi_ext.compute.imperative import variable, written

COUNTS = 4 << 8
"""Numbers that :func:`sort_entries` keeps for each row: for four digits, the entries with each value."""

KEYED = ("float32", "int32")
"""Types of elements whose keys are different where they are; other floats are compared as float32."""

_DIGITS, _VALUES = 4, 256

_SHORT = 48
"""Entries up to which moving each to its place takes less time than to go through all counts."""


def sort_key(element: Any, *, largest: bool) -> Any:
    """An int32, the greater the better an element is; zeros of both signs are alike."""
    if str(element.ty.dtype) == "int32":
        ordered = element
    else:
        bits = T.reinterpret("int32", element.astype("float32"))
        ordered = tirx.Select(element == 0, T.int32(0), bits ^ ((bits >> 31) & T.int32(0x7FFFFFFF)))
    return ordered if largest else ~ordered


def entry(key: Any, place: Any) -> Any:
    """An element as an integer that sorts by greatest key first, and by place among equal keys."""
    return ((~key).astype("int64") << 32) | place.astype("int64")


def place_of(entry: Any) -> Any:
    """The int32 place of an element in its row."""
    return (entry & T.int64(0x7FFFFFFF)).astype("int32")


def falling_order(values: te.Tensor, valid: te.Tensor) -> te.Tensor:
    """Places of the first ``valid`` elements of each row by falling value, of equal ones the first first.

    ``values`` is (rows, elements), ``valid`` integers (rows,), which may be below 0 or above the elements.
    The result is int32 (rows, elements), and the rest of it anything.
    """
    rows, length = values.shape

    def order(values: Any, valid: Any, places: Any, entries: Any, other: Any, counts: Any) -> None:
        with T.parallel(0, rows) as row:
            number = variable()
            number[0] = te.max(te.min(valid[row].astype("int32"), tirx.Cast("int32", length)), T.int32(0))
            with T.serial(0, number[0]) as place:
                entries[row, place] = entry(sort_key(values[row, place], largest=True), place)
            sort_entries(entries, other, counts, row, number[0])
            with T.serial(0, number[0]) as rank:
                places[row, rank] = place_of(entries[row, rank])

    entries = ((rows, length), "int64")
    outputs = [((rows, length), "int32"), entries, entries, ((rows, COUNTS), "int32")]
    return written("falling_order", [values, valid], outputs, order)[0]


def sort_entries(entries: Any, other: Any, counts: Any, row: Any, number: Any) -> None:
    """Statements that sort the first ``number`` of ``entries[row]``, which are in order of their places.

    ``entries`` and ``other`` are int64 (rows, elements), ``counts`` int32 (rows, :data:`COUNTS`); what is in
    the last two does not matter.
    """
    with T.If(number <= _SHORT):
        with T.Then():
            _insert_each(entries, row, number)
        with T.Else():
            _sort_by_digits(entries, other, counts, row, number)


def _insert_each(entries: Any, row: Any, number: Any) -> None:
    moved, at = variable("int64"), variable()
    with T.serial(1, number) as place:
        moved[0] = entries[row, place]
        at[0] = place.astype("int32")
        with T.While(tirx.all(at[0] > 0, entries[row, te.max(at[0] - 1, 0)] > moved[0])):
            entries[row, at[0]] = entries[row, at[0] - 1]
            at[0] = at[0] - 1
        entries[row, at[0]] = moved[0]


def _sort_by_digits(entries: Any, other: Any, counts: Any, row: Any, number: Any) -> None:
    total, held = variable(), variable()
    with T.serial(0, COUNTS) as value:
        counts[row, value] = T.int32(0)
    with T.serial(0, number) as place:
        for digit in range(_DIGITS):
            value = _value(entries[row, place], digit)
            counts[row, value] = counts[row, value] + 1
    for digit in range(_DIGITS):
        total[0] = T.int32(0)
        with T.serial(digit * _VALUES, (digit + 1) * _VALUES) as value:
            held[0] = counts[row, value]
            counts[row, value] = total[0]
            total[0] = total[0] + held[0]
    for digit in range(_DIGITS):
        source, target = (other, entries) if digit % 2 else (entries, other)
        with T.serial(0, number) as place:
            value = _value(source[row, place], digit)
            held[0] = counts[row, value]
            counts[row, value] = held[0] + 1
            target[row, held[0]] = source[row, place]


def _value(entry: Any, digit: int) -> Any:
    """Where the entries with its value of a digit are counted; the last digit has the sign."""
    value = (entry >> (32 + 8 * digit)).astype("int32") & (_VALUES - 1)
    return digit * _VALUES + (value ^ 128 if digit == _DIGITS - 1 else value)
