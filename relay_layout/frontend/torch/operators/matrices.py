"""PyTorch's inverses and determinants of square matrices, and what is solved by them.

A singular matrix, which PyTorch ends a program at, has infinities and NaN for its inverse.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.frontend.operators.square_matrices import of_square_matrices
from relay_layout.frontend.torch.node import Converter, is_read
from relay_layout.frontend.torch.operators.rules import Rule, aten
from relay_layout.ir import Expression
from topi_ext.compute.determinants import determinants, signs_and_logarithms
from topi_ext.compute.inverses import inverses


def _of_matrices(compute: Callable[[Any], Any], others: int) -> Converter:
    """``compute`` of each matrix, for an operation that has ``others`` as further results."""

    def convert(node: Any, importer: Any) -> Expression:
        _check_read(node, range(1, others + 1), "only the first result is")
        found = of_square_matrices(importer.block_builder, compute, importer.env[node.args[0]])
        return importer.block_builder.emit(relax.Tuple([found] * (others + 1)))

    return convert


def _check_read(node: Any, others: range, supported: str) -> None:
    if any(is_read(node, place) for place in others):
        name = node.target.__name__.partition(".")[0]
        raise ModelError(f"node '{node.name}': of {name} {supported} supported, and the program reads others")


def _sign_and_logarithm(node: Any, importer: Any) -> Expression:
    _check_read(node, range(2, 4), "the sign and the logarithm are")
    builder = importer.block_builder
    both = of_square_matrices(builder, signs_and_logarithms, importer.env[node.args[0]])
    parts = [builder.emit(relax.op.take(both, relax.const(place, "int64"), axis=-1)) for place in (0, 1)]
    return builder.emit(relax.Tuple([*parts, both, both]))


def _solution(
    matrix: Tensor, other: Tensor, *, left: bool = True, check_errors: bool = False
) -> tuple[Tensor, ...]:
    """The X of matrix X = other, or of X matrix = other; and the factors of the matrix, if they are read."""
    inverse = torch.linalg.inv_ex(matrix).inverse
    is_vector = other.ndim == 1 or (matrix.ndim - 1 == other.ndim and other.shape == matrix.shape[:-1])
    columns = other.unsqueeze(-1) if is_vector else other
    found = inverse @ columns if left else columns @ inverse
    return (found.squeeze(-1) if is_vector else found, *torch.linalg.lu_factor_ex(matrix))


def _inverse_unchecked(matrix: Tensor) -> Tensor:
    return aten.linalg_inv_ex(matrix)[0]


def _solution_unchecked(matrix: Tensor, other: Tensor, *, left: bool = True) -> Tensor:
    return _solution(matrix, other, left=left)[0]


RULES: dict[Any, Rule] = {
    aten._linalg_solve_ex.default: _solution,
    aten.inverse.default: _inverse_unchecked,
    aten.linalg_inv.default: _inverse_unchecked,
    aten.linalg_solve.default: _solution_unchecked,
}
"""By operation, as those of :mod:`relay_layout.frontend.torch.operators.rules`."""

CONVERTERS: dict[str, Converter] = {
    "_linalg_det.default": _of_matrices(determinants, others=2),
    "_linalg_slogdet.default": _sign_and_logarithm,
    "linalg_inv_ex.default": _of_matrices(inverses, others=1),
}
"""By the names that TVM's importer would have for operations."""
