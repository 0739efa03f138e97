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


_FEW = 16
"""Elements of a row that are kept in order while it is read. All may move for each that is better."""

_LANES, _VECTORS = 16, 4
"""What is compared with the last of the few at once: vectors, and their elements."""


def ranks_faster(count: int, length: int) -> bool:
    """Whether to find the first ``count`` of rows of that ``length`` takes less time than to sort them."""
    return 1 <= count <= max(length // 2, min(length, _FEW))


def top_of_rows(data: te.Tensor, count: Any, *, largest: bool, index_dtype: str = "int64") -> list[te.Tensor]:
    """The first ``count`` elements of each row, the best first, and their places in it.

    ``data`` is (..., elements) of float32, ``count`` not above the elements; of equal ones the first is the
    better. The elements are float32 and their places ``index_dtype``, both (..., count); a function has both
    as results, because TVM makes a buffer that statements only write as small as it likes.

    Few are kept in order while the row is read. For more, the elements of a row are counted by the leading
    bits of their order, as in a radix sort; those in buckets that reach the first ``count``, which are few
    more, are sorted.
    """
    if isinstance(count, int) and count <= _FEW:
        return _few_of_rows(data, count, largest, index_dtype)
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


def _few_of_rows(data: te.Tensor, count: int, largest: bool, index_dtype: str) -> list[te.Tensor]:
    """As :func:`top_of_rows`, by insertion into the ``count`` best so far."""
    *outer, length = data.shape
    shape = (*outer, count)
    chunk = _LANES * _VECTORS

    def select(data: Any, values: Any, indices: Any) -> None:
        with T.parallel(0, prod(outer)) as row:
            lead = index_of_row(row, outer)
            # The first of them is above all keys, so that none moves beyond it.
            keys, places = variable("int32", count + 1), variable("int32", count + 1)
            at, key, highest = variable(), variable(), variable("int32", _LANES)
            keys[0] = T.int32(0x7FFFFFFF)

            def at_place(place: Any) -> Any:
                index = (*lead, place)
                return data[index]

            def insert(place: Any, last: Any) -> None:
                """At ``last`` at most, the others after it moving on."""
                at[0] = last.astype("int32")
                with T.While(keys[at[0] - 1] < key[0]):
                    keys[at[0]] = keys[at[0] - 1]
                    places[at[0]] = places[at[0] - 1]
                    at[0] = at[0] - 1
                keys[at[0]] = key[0]
                places[at[0]] = place.astype("int32")

            def compare(place: Any) -> None:
                key[0] = _key(at_place(place), largest)
                with T.If(key[0] > keys[count]), T.Then():
                    insert(place, T.int32(count))

            with T.serial(0, count) as place:
                key[0] = _key(at_place(place), largest)
                insert(place, place + 1)
            chunks = (length - count) // chunk
            with T.serial(0, chunks) as number:
                begin = count + number * chunk
                with T.vectorized(0, _LANES) as lane:
                    highest[lane] = T.int32(-0x80000000)
                with T.unroll(0, _VECTORS) as vector, T.vectorized(0, _LANES) as lane:
                    own = _key(at_place(begin + vector * _LANES + lane), largest)
                    highest[lane] = te.max(highest[lane], own)
                key[0] = highest[0]
                with T.unroll(1, _LANES) as lane:
                    key[0] = te.max(key[0], highest[lane])
                with T.If(key[0] > keys[count]), T.Then(), T.serial(0, chunk) as place:
                    compare(begin + place)
            with T.serial(count + chunks * chunk, length) as place:
                compare(place)
            with T.serial(0, count) as rank:
                place = places[rank + 1]
                own = (*lead, rank)
                values[own] = at_place(place)
                indices[own] = place.astype(index_dtype)

    return written("top", [data], [(shape, "float32"), (shape, index_dtype)], select)


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
