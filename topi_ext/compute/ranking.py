"""The largest or smallest elements of rows, in order: what may be among them is found before it is sorted."""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import tirx as T

from topi_ext.compute.imperative import variable, written
from topi_ext.compute.row_numbers import index_of_row
from topi_ext.compute.sorting import COUNTS, entry, place_of, sort_entries, sort_key
from topi_ext.extents import as_int, simplified

_BITS = 11
"""Bits of a key that one pass counts. Two passes tell numbers apart that differ by a 4096th."""

_BUCKETS = 1 << _BITS

_FEW = 16
"""Elements of a row that are kept in order while it is read. All may move for each that is better."""

_LANES, _VECTORS = 16, 4
"""What is compared with the last of the few at once: vectors, and their elements."""

_BESTS = 8
"""Times as many bests of a few elements as are wanted, so that few more elements reach the bound."""


def top_of_rows(data: te.Tensor, count: Any, *, largest: bool, index_dtype: str = "int64") -> list[te.Tensor]:
    """The first ``count`` elements of each row, the best first, and their places in it.

    ``data`` is (..., elements) of float32 or int32, ``count`` not above the elements; of equal ones the first
    is the better. The elements are of its dtype and their places ``index_dtype``, both (..., count); a
    function has both as results, because TVM makes a buffer that statements only write as small as it likes.

    Few are kept in order while the row is read. For more, the elements of a row are counted by the leading
    bits of their order, as in a radix sort; those in buckets that reach the first ``count``, which are few
    more, are sorted.
    """
    *outer, length = map(as_int, data.shape)
    count = as_int(count)
    if isinstance(count, int) and count <= _FEW:
        return _few_of_rows(data, count, largest, index_dtype)
    shape = (*outer, count)
    selection = _Selection.of(count, length, largest=largest)

    def select(
        data: Any, values: Any, indices: Any, entries: Any, other: Any, counts: Any, keys: Any
    ) -> None:
        with T.parallel(0, prod(outer)) as row:
            lead = index_of_row(row, outer)
            number = selection.write(data, lead, entries, keys, counts, row)
            sort_entries(entries, other, counts, row, number)
            with T.serial(0, count) as rank:
                place = place_of(entries[row, rank])
                own, index = (*lead, rank), (*lead, place)
                values[own] = data[index]
                indices[own] = place.astype(index_dtype)

    rows = prod(outer)
    outputs = [
        (shape, data.dtype),
        (shape, index_dtype),
        ((rows, length), "int64"),
        ((rows, length), "int64"),
        ((rows, max(COUNTS, _BUCKETS)), "int32"),
        ((rows, selection.counted), "int32"),
    ]
    return list(written("top", [data], outputs, select)[:2])


def _few_of_rows(data: te.Tensor, count: int, largest: bool, index_dtype: str) -> list[te.Tensor]:
    """As :func:`top_of_rows`, by insertion into the ``count`` best so far."""
    *outer, length = data.shape
    shape = (*outer, count)

    def select(data: Any, values: Any, indices: Any) -> None:
        with T.parallel(0, prod(outer)) as row:
            lead = index_of_row(row, outer)
            # The first of them is above all keys, so that none moves beyond it.
            keys, places = variable("int32", count + 1), variable("int32", count + 1)
            at, key, best = variable(), variable(), variable("int32", _LANES)
            keys[0] = T.int32(0x7FFFFFFF)

            def at_place(place: Any) -> Any:
                index = (*lead, place)
                return data[index]

            def key_of(place: Any) -> Any:
                return sort_key(at_place(place), largest=largest)

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
                key[0] = key_of(place)
                with T.If(key[0] > keys[count]), T.Then():
                    insert(place, T.int32(count))

            with T.serial(0, count) as place:
                key[0] = key_of(place)
                insert(place, place + 1)
            first: Any = count
            for vectors in (_VECTORS, 1):
                chunk = vectors * _LANES
                chunks = (length - first) // chunk
                with T.serial(0, chunks) as number:
                    begin = first + number * chunk
                    _write_bests(best, key_of, begin, vectors)
                    with T.If(_largest_of(best) > keys[count]), T.Then(), T.serial(0, chunk) as place:
                        compare(begin + place)
                first = first + chunks * chunk
            with T.serial(first, length) as place:
                compare(place)
            with T.serial(0, count) as rank:
                place = places[rank + 1]
                own = (*lead, rank)
                values[own] = at_place(place)
                indices[own] = place.astype(index_dtype)

    return written("top", [data], [(shape, data.dtype), (shape, index_dtype)], select)


@dataclass(frozen=True)
class _Selection:
    """Elements of a row of ``length`` with all of its first ``count`` among them.

    Where few are wanted, what is counted is the best of each few elements: as many of these as are wanted
    reach a bound that, therefore, as many elements reach, and most others need not be looked at again.
    """

    count: Any
    length: Any
    largest: bool
    taken: int
    """Vectors of elements of which the best are counted; 1 where all elements are."""

    chunks: Any
    """How many times as many vectors there are."""

    @staticmethod
    def of(count: Any, length: Any, largest: bool) -> "_Selection":
        taken = _vectors_per_best(count, length)
        return _Selection(count, length, largest, taken, length // (taken * _LANES) if taken > 1 else 0)

    @property
    def chunk(self) -> int:
        """Elements of which there are as many bests as a vector has lanes."""
        return self.taken * _LANES

    @property
    def bests(self) -> Any:
        return self.chunks * _LANES

    @property
    def counted(self) -> Any:
        """Keys that are counted: the bests, and those of the elements after the last chunk."""
        return self.bests + self.length - self.chunks * self.chunk

    def write(self, data: Any, lead: Any, entries: Any, keys: Any, buckets: Any, row: Any) -> Any:
        """Statements that write the row's ``entries``, by place; how many these are.

        ``keys`` is (rows, counted) and ``buckets`` (rows, 2048 at least), both int32.
        """
        least, kept, best = variable(), variable(), variable("int32", _LANES)
        kept[0] = T.int32(0)

        def key_of(place: Any) -> Any:
            index = (*lead, place)
            return sort_key(data[index], largest=self.largest)

        def keep(place: Any, key: Any) -> None:
            entries[row, kept[0]] = entry(key, place)
            kept[0] = kept[0] + 1

        if self.is_all:
            with T.serial(0, self.length) as place:
                keep(place, key_of(place))
            return self.length
        after = self.chunks * self.chunk - self.bests
        with T.serial(0, self.chunks) as number:
            _write_bests(best, key_of, number * self.chunk, self.taken)
            with T.vectorized(0, _LANES) as lane:
                keys[row, number * _LANES + lane] = best[lane]
        with T.serial(self.bests, self.counted) as place:
            keys[row, place] = key_of(place + after)
        self._find_least(keys, buckets, row, least)
        with T.serial(0, self.chunks) as number:
            with T.vectorized(0, _LANES) as lane:
                best[lane] = keys[row, number * _LANES + lane]
            with T.If(_largest_of(best) >= least[0]), T.Then(), T.serial(0, self.chunk) as offset:
                place = number * self.chunk + offset
                with T.If(key_of(place) >= least[0]), T.Then():
                    keep(place, key_of(place))
        with T.serial(self.bests, self.counted) as place, T.If(keys[row, place] >= least[0]), T.Then():
            keep(place + after, keys[row, place])
        return kept[0]

    @property
    def is_all(self) -> bool:
        """Whether it takes longer to find which are among the first than to sort all."""
        rest = simplified(self.length - self.count)
        return isinstance(rest, int) and (not isinstance(self.count, int) or rest < self.count)

    def _find_least(self, keys: Any, buckets: Any, row: Any, least: Any) -> None:
        """``least`` becomes a key that ``count`` of the keys reach, and few more."""
        above, bucket, second = variable(), variable(), variable()

        def clear() -> None:
            with T.serial(0, _BUCKETS) as value:
                buckets[row, value] = T.int32(0)

        def descend(at: Any) -> None:
            """``at`` becomes the bucket that reaches the count; those above it are added up."""
            at[0] = T.int32(_BUCKETS - 1)
            with T.While(tirx.all(at[0] > 0, above[0] + buckets[row, at[0]] < self.count)):
                above[0] = above[0] + buckets[row, at[0]]
                at[0] = at[0] - 1

        clear()
        with T.serial(0, self.counted) as place:
            leading = (keys[row, place] >> (32 - _BITS)) + _BUCKETS // 2
            buckets[row, leading] = buckets[row, leading] + 1
        above[0] = T.int32(0)
        descend(bucket)
        clear()
        with T.serial(0, self.counted) as place:
            leading = (keys[row, place] >> (32 - _BITS)) + _BUCKETS // 2
            with T.If(leading == bucket[0]), T.Then():
                following = (keys[row, place] >> (32 - 2 * _BITS)) & (_BUCKETS - 1)
                buckets[row, following] = buckets[row, following] + 1
        descend(second)
        leading = ((bucket[0] - _BUCKETS // 2) << _BITS) + second[0]
        least[0] = leading << (32 - 2 * _BITS)


def _vectors_per_best(count: Any, length: Any) -> int:
    """Of how many vectors only the best are counted, with room for ``count``; 1 where all are."""
    if not isinstance(count, int) or not isinstance(length, int):
        return 1
    spare = length // (count * _BESTS)
    return next((taken for taken in (32, 16, 8, 4) if taken <= spare), 1)


def _write_bests(best: Any, key_of: Callable[[Any], Any], begin: Any, vectors: int) -> None:
    """Statements by which ``best`` has in each lane the greatest key of as many vectors from ``begin`` on."""
    with T.vectorized(0, _LANES) as lane:
        best[lane] = key_of(begin + lane)
    with T.unroll(1, vectors) as vector, T.vectorized(0, _LANES) as lane:
        best[lane] = te.max(best[lane], key_of(begin + vector * _LANES + lane))


def _largest_of(vector: Any) -> Any:
    """The largest of the elements of a variable, in halves."""
    values = [vector[lane] for lane in range(_LANES)]
    while len(values) > 1:
        half = len(values) // 2
        values = [te.max(*pair) for pair in zip(values[:half], values[half:], strict=True)]
    return values[0]
