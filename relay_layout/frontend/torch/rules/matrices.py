"""Inverses, factors and solutions for square matrices, by PyTorch's operations that check nothing."""

from typing import Any

import torch
from torch import Tensor

from relay_layout.frontend.torch.rules.rule import Rule, aten


def _solution(
    matrix: Tensor, other: Tensor, *, left: bool = True, check_errors: bool = False
) -> tuple[Tensor, ...]:
    """The X of matrix X = other, or of X matrix = other; and the factors of the matrix."""
    is_vector = other.ndim == 1 or (matrix.ndim - 1 == other.ndim and other.shape == matrix.shape[:-1])
    columns = other.unsqueeze(-1) if is_vector else other
    if left:
        factors, rows, singular = torch.linalg.lu_factor_ex(matrix)
        found = torch.linalg.lu_solve(factors, rows, columns)
    else:
        factors, rows, singular = torch.linalg.lu_factor_ex(matrix.mT)
        found = torch.linalg.lu_solve(factors, rows, columns.mT).mT
    return found.squeeze(-1) if is_vector else found, factors, rows, singular


def _inverse_unchecked(matrix: Tensor) -> Tensor:
    return aten.linalg_inv_ex(matrix)[0]


def _solution_unchecked(matrix: Tensor, other: Tensor, *, left: bool = True) -> Tensor:
    return _solution(matrix, other, left=left)[0]


def _factors_unchecked(matrix: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor]:
    return torch.linalg.lu_factor_ex(matrix, pivot=pivot)[:2]


def _cholesky_unchecked(matrix: Tensor, upper: bool = False) -> Tensor:
    return torch.linalg.cholesky_ex(matrix, upper=upper).L


def _solution_by_cholesky(columns: Tensor, factor: Tensor, upper: bool = False) -> Tensor:
    lower = factor.mT if upper else factor
    inner = torch.linalg.solve_triangular(lower, columns, upper=False)
    return torch.linalg.solve_triangular(lower.mT, inner, upper=True)


RULES: dict[Any, Rule] = {
    aten._linalg_solve_ex.default: _solution,
    aten.cholesky.default: _cholesky_unchecked,
    aten.cholesky_solve.default: _solution_by_cholesky,
    aten.inverse.default: _inverse_unchecked,
    aten.linalg_cholesky.default: _cholesky_unchecked,
    aten.linalg_inv.default: _inverse_unchecked,
    aten.linalg_lu_factor.default: _factors_unchecked,
    aten.linalg_solve.default: _solution_unchecked,
}
"""By operation."""
