"""Products of two activations of bytes, by instructions that add the products of four of them."""

from math import ceil
from typing import Any

from tvm import te, tirx

from topi_ext.codegen.dot_products import dot, parts_of, word_of
from topi_ext.compute.pair_product import broadcast, own_place
from topi_ext.indexing import WORD_BYTES


def byte_product(left: te.Tensor, right: te.Tensor) -> te.Tensor:
    """``left`` (..., rows, depth) of uint8 by ``right`` (..., depth, columns) of int8, in int32.

    Extents before the last two are broadcast as numpy does. Words hold four rows of ``right`` each, column by
    column, and zeros beyond the depth, which is fixed.
    """
    *_, rows, depth = left.shape
    *own, _, columns = right.shape
    depth = int(depth)
    count = ceil(depth / WORD_BYTES)

    def inside(place: Any, element: int, value: Any) -> Any:
        """The byte ``element`` of a word, which begins at ``place`` along the depth; zero beyond that."""
        last = depth % WORD_BYTES
        if element < (last or WORD_BYTES):
            return value
        return tirx.if_then_else(place + element < depth, value, tirx.const(0, value.ty.dtype))

    def word(*index: Any) -> Any:
        *image, place, column = index
        begin = place * WORD_BYTES
        rows_of_word = (
            inside(begin, element, right(*image, begin + element, column).astype("uint8"))
            for element in range(WORD_BYTES)
        )
        return word_of(*rows_of_word)

    words = te.compute((*own, count, columns), word, name="words")
    step = te.reduce_axis((0, count), name="word")

    def element(*index: Any) -> Any:
        *image, row, column = index
        begin = step * WORD_BYTES
        values = [
            inside(begin, place, left(*own_place(left, image), row, begin + place))
            for place in range(WORD_BYTES)
        ]
        factors = parts_of(words(*own_place(words, image), step, column), "int8")
        return te.sum(dot(values, factors), axis=step)

    return te.compute((*broadcast(left, right), rows, columns), element, name="byte_product")
