"""The largest or smallest elements of rows, in order: what may be among them is found before it is sorted."""

from math import prod
from typing import Any

from tvm import te, tirx, topi
from tvm.script.ir_builder import tirx as T

from topi_ext.compute.imperative import variable, written
from topi_ext.compute.row_numbers import index_of_row, number_of_row

_BITS = 11
"""Of a key that one pass counts. Two passes tell numbers apart that differ by a 4096th."""

_BUCKETS = 1 << _BITS


def top_of_rows(data: te.Tensor, count: Any, *, largest: bool, index_dtype: str = "int64") -> list[te.Tensor]:
    """The first ``count`` elements of each row, the best first, and their places in it.

    ``data`` is (..., elements) of float32, ``count`` not above the elements; of equal ones the first is the
    better. The elements are float32 and their places ``index_dtype``, both (..., count); a function has both
    as results, because TVM makes a buffer that statements only write as small as it likes.

    Each row's elements are counted by the leading bits of their order, as in a radix sort; those in buckets
    that reach the first ``count``, which are few more, are sorted.
    """
    outer = data.shape[:-1]
    found, places, valid = _candidates(data, count, largest)
    order = topi.argsort(found, valid_count=valid, axis=1, is_ascend=not largest, dtype="int32")
    shape = (*outer, count)

    def ranked(source: te.Tensor, index: Any) -> Any:
        row = number_of_row(index[:-1], outer)
        return source[row, order[row, index[-1]]]

    values = te.compute(shape, lambda *index: ranked(found, index), name="top_values")
    indices = te.compute(shape, lambda *index: ranked(places, index).astype(index_dtype), name="top_places")
    return [values, indices]


def _candidates(data: te.Tensor, count: Any, largest: bool) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    """Elements of each row with all of its first ``count`` among them, their places, and how many they are.

    Float32 and int32 (rows, elements), in the order of the row, and int32 (rows,).
    """
    *outer, length = data.shape
    rows: Any = prod(outer)

    def select(data: Any, keys: Any, buckets: Any, found: Any, places: Any, valid: Any) -> None:
        with T.parallel(0, rows) as row:
            lead = index_of_row(row, outer)
            above, bucket, second, kept = variable(), variable(), variable(), variable()

            def clear() -> None:
                with T.serial(0, _BUCKETS) as place:
                    buckets[row, place] = T.int32(0)

            def descend(at: Any) -> None:
                """``at`` becomes the bucket that reaches the count; those above it are added up."""
                at[0] = T.int32(_BUCKETS - 1)
                with T.While(tirx.all(at[0] > 0, above[0] + buckets[row, at[0]] < count)):
                    above[0] = above[0] + buckets[row, at[0]]
                    at[0] = at[0] - 1

            clear()
            with T.serial(0, length) as place:
                index = (*lead, place)
                keys[row, place] = _key(data[index], largest)
                leading = (keys[row, place] >> (32 - _BITS)) + _BUCKETS // 2
                buckets[row, leading] = buckets[row, leading] + 1
            above[0] = T.int32(0)
            descend(bucket)
            clear()
            with T.serial(0, length) as place:
                leading = (keys[row, place] >> (32 - _BITS)) + _BUCKETS // 2
                with T.If(leading == bucket[0]), T.Then():
                    following = (keys[row, place] >> (32 - 2 * _BITS)) & (_BUCKETS - 1)
                    buckets[row, following] = buckets[row, following] + 1
            descend(second)
            least = ((bucket[0] - _BUCKETS // 2) << _BITS) + second[0]
            second[0] = least << (32 - 2 * _BITS)
            kept[0] = T.int32(0)
            with T.serial(0, length) as place, T.If(keys[row, place] >= second[0]), T.Then():
                index = (*lead, place)
                found[row, kept[0]] = data[index]
                places[row, kept[0]] = place.astype("int32")
                kept[0] = kept[0] + 1
            valid[row] = kept[0]

    per_row = [
        ((rows, length), "int32"),
        ((rows, _BUCKETS), "int32"),
        ((rows, length), "float32"),
        ((rows, length), "int32"),
        ((rows,), "int32"),
    ]
    _, _, found, places, valid = written("candidates", [data], per_row, select)
    return found, places, valid


def _key(element: Any, largest: bool) -> Any:
    """An int32 that is the greater, the better a float32 is; zeros of both signs are alike."""
    bits = T.reinterpret("int32", element)
    key = tirx.Select(element == 0, T.int32(0), bits ^ ((bits >> 31) & T.int32(0x7FFFFFFF)))
    return key if largest else ~key
