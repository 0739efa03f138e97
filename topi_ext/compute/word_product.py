"""Products of two activations by instructions that add the products of the elements of 32-bit words."""

from collections.abc import Callable, Sequence
from math import ceil
from typing import Any

from tvm import te, tirx

from topi_ext.codegen.dot_products import word_of
from topi_ext.extents import is_one


def word_product(
    values: te.Tensor,
    bits_of: Callable[..., Any],
    right: te.Tensor,
    elements: int,
    multiplied: Callable[[Sequence[Any], Any], Any],
    name: str,
) -> te.Tensor:
    """``values`` (..., rows, depth) by ``right`` (..., depth, columns).

    Extents before the last two are broadcast as numpy does. Words hold ``elements`` rows of ``right`` each,
    column by column, as ``bits_of`` an index of it has them, and zeros beyond the depth, which is fixed.
    ``multiplied`` is the sum of the products of as many values by a word.
    """
    *_, rows, depth = values.shape
    *own, _, columns = right.shape
    depth = int(depth)
    count = ceil(depth / elements)

    def inside(begin: Any, place: int, value: Any) -> Any:
        """What is ``place`` elements from the beginning of a word; zero beyond the depth."""
        if place < (depth % elements or elements):
            return value
        return tirx.if_then_else(begin + place < depth, value, tirx.const(0, value.ty.dtype))

    def word(*index: Any) -> Any:
        *image, step, column = index
        begin = step * elements
        rows_of_word = (bits_of(*image, begin + place, column) for place in range(elements))
        return word_of(*(inside(begin, place, bits) for place, bits in enumerate(rows_of_word)))

    words = te.compute((*own, count, columns), word, name="words")
    step = te.reduce_axis((0, count), name="word")

    def element(*index: Any) -> Any:
        *image, row, column = index
        begin = step * elements
        found = (values(*own_place(values, image), row, begin + place) for place in range(elements))
        factors = [inside(begin, place, value) for place, value in enumerate(found)]
        return te.sum(multiplied(factors, words(*own_place(words, image), step, column)), axis=step)

    return te.compute((*broadcast(values, right), rows, columns), element, name=name)


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
