"""Products of few rows by a matrix whose rows are read: each element is the dot product of two rows."""

from typing import Any

from tvm import te

from topi_ext.compute.word_product import broadcast, own_place

ROW_DOTS = "topi_ext.row_dots"
"""Annotation of the block that computes such products."""

MOST_ROWS = 2
"""Rows of the first operand for which the second one is not transposed: those of one new word or two."""


def row_dots(left: te.Tensor, right: te.Tensor) -> te.Tensor:
    """:func:`dots` of few rows, by a kernel of their own."""
    return dots(left, right, name="row_dots", attributes={ROW_DOTS: 1})


def dots(
    left: te.Tensor, right: te.Tensor, *, name: str = "dots", attributes: dict[str, int] | None = None
) -> te.Tensor:
    """``left`` (..., rows, depth) by the transpose of ``right`` (..., columns, depth).

    Extents before the last two are broadcast as numpy does.
    """
    depth = te.reduce_axis((0, left.shape[-1]), name="depth")

    def element(*index: Any) -> Any:
        *image, row, column = index
        factors = left(*own_place(left, image), row, depth), right(*own_place(right, image), column, depth)
        return te.sum(factors[0] * factors[1], axis=depth)

    shape = (*broadcast(left, right), left.shape[-2], right.shape[-2])
    return te.compute(shape, element, name=name, attrs=attributes)


def dots_with_vector(left: te.Tensor, right: te.Tensor) -> te.Tensor:
    """``left`` (..., rows, depth) by ``right`` (depth,)."""
    depth = te.reduce_axis((0, left.shape[-1]), name="depth")
    return te.compute(
        left.shape[:-1], lambda *index: te.sum(left(*index, depth) * right(depth), axis=depth), name="dots"
    )
