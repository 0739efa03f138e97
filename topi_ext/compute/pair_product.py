"""Products of two activations in bfloat16, by instructions that add the products of two pairs."""

from math import ceil
from typing import Any

from tvm import te, tirx

from topi_ext.codegen.bfloat16 import BITS, rounded, widened
from topi_ext.codegen.dot_products import PAIR, dot, parts_of, word_of
from topi_ext.extents import is_one

FEWEST_ROWS = 8
"""Rows that make up for packing the other operand."""


def pair_product(left: te.Tensor, right: te.Tensor) -> te.Tensor:
    """``left`` (..., rows, depth) by ``right`` (..., depth, columns), float32 of float32 rounded to bfloat16.

    Extents before the last two are broadcast as numpy does. Words hold two rows of ``right`` each, column by
    column, and a zero where the depth is odd. Depth and columns are fixed, and the depth is 2 or more.
    """
    *_, rows, depth = left.shape
    *own, _, columns = right.shape
    depth = int(depth)
    pairs = ceil(depth / PAIR)

    def or_zero(place: Any, bits: Any) -> Any:
        """``bits`` of that place along the depth, beyond which are zeros."""
        if depth % PAIR == 0:
            return bits
        return tirx.if_then_else(place < depth, bits, tirx.const(0, BITS))

    def word(*index: Any) -> Any:
        *image, pair, column = index
        low, high = pair * PAIR, pair * PAIR + 1
        return word_of(
            rounded(right(*image, low, column)), or_zero(high, rounded(right(*image, high, column)))
        )

    values = te.compute(left.shape, lambda *index: rounded(left(*index)), name="values")
    words = te.compute((*own, pairs, columns), word, name="words")
    pair = te.reduce_axis((0, pairs), name="pair")

    def element(*index: Any) -> Any:
        *image, row, column = index
        first, second = (values(*own_place(values, image), row, pair * PAIR + place) for place in range(PAIR))
        both = [first, or_zero(pair * PAIR + 1, second)]
        factors = parts_of(words(*own_place(words, image), pair, column), BITS)
        return te.sum(dot([*map(widened, both)], [*map(widened, factors)], "float32"), axis=pair)

    return te.compute((*broadcast(left, right), rows, columns), element, name="pair_product")


def broadcast(left: te.Tensor, right: te.Tensor) -> list[Any]:
    """The extents before the last two of a product."""
    shapes = [list(tensor.shape[:-2]) for tensor in (left, right)]
    rank = max(map(len, shapes))
    one, other = ([1] * (rank - len(shape)) + shape for shape in shapes)
    return [mine if is_one(its) else its for mine, its in zip(one, other, strict=True)]


def own_place(tensor: te.Tensor, image: list[Any]) -> list[Any]:
    """Where ``tensor`` has what belongs to one element of the broadcast extents."""
    extents = list(tensor.shape[:-2])
    mine = image[len(image) - len(extents) :]
    return [0 if is_one(extent) else place for extent, place in zip(extents, mine, strict=True)]
