"""Products of two activations of bytes, by instructions that add the products of four of them."""

from collections.abc import Sequence
from typing import Any

from tvm import te

from topi_ext.codegen.dot_products import dot, parts_of
from topi_ext.compute.word_product import word_product
from topi_ext.indexing import WORD_BYTES


def byte_product(left: te.Tensor, right: te.Tensor) -> te.Tensor:
    """``left`` (..., rows, depth) of uint8 by ``right`` (..., depth, columns) of int8, in int32.

    Extents before the last two are broadcast as numpy does. The depth is fixed.
    """

    def multiplied(values: Sequence[Any], word: Any) -> Any:
        return dot(values, parts_of(word, "int8"))

    return word_product(
        left, lambda *index: right(*index).astype("uint8"), right, WORD_BYTES, multiplied, "byte_product"
    )
