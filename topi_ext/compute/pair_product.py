"""Products of two activations in bfloat16, by instructions that add the products of two pairs."""

from collections.abc import Sequence
from typing import Any

from tvm import te

from topi_ext.codegen.bfloat16 import BITS, rounded, widened
from topi_ext.codegen.dot_products import PAIR, dot, parts_of
from topi_ext.compute.word_product import word_product

FEWEST_ROWS = 8
"""Rows that make up for packing the other operand."""


def pair_product(left: te.Tensor, right: te.Tensor) -> te.Tensor:
    """``left`` (..., rows, depth) by ``right`` (..., depth, columns), float32 of float32 rounded to bfloat16.

    Extents before the last two are broadcast as numpy does. Depth and columns are fixed, and the depth is 2
    or more.
    """

    def multiplied(pair: Sequence[Any], word: Any) -> Any:
        return dot([*map(widened, pair)], [*map(widened, parts_of(word, BITS))], "float32")

    values = te.compute(left.shape, lambda *index: rounded(left(*index)), name="values")
    return word_product(
        values, lambda *index: rounded(right(*index)), right, PAIR, multiplied, "pair_product"
    )
