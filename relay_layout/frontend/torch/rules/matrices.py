"""Inverses, factors and solutions for matrices, by PyTorch's operations that check nothing."""

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


def _inverse_by_cholesky(factor: Tensor, upper: bool = False) -> Tensor:
    one = torch.eye(factor.shape[-1], dtype=factor.dtype)
    return torch.cholesky_solve(one.expand(factor.shape), factor, upper=upper)


def _symmetric(matrix: Tensor, UPLO: str = "L", compute_v: bool = True) -> tuple[Tensor, Tensor]:
    """The eigenvalues of what one triangle says, in rising order, and their vectors.

    They are singular values once so much is added to the diagonal that no eigenvalue is below zero.
    """
    lower = matrix.mT if UPLO.upper() == "U" else matrix
    wide = (lower.tril() + lower.tril(-1).mT).to(torch.float64)
    added = wide.abs().sum(-1).amax(-1)
    moved = wide + added[..., None, None] * torch.eye(matrix.shape[-1], dtype=torch.float64)
    _, values, vectors = aten._linalg_svd(moved, False, compute_v)
    found = (values - added.unsqueeze(-1)).flip(-1).to(matrix.dtype)
    return found, vectors.mT.flip(-1).to(matrix.dtype) if compute_v else matrix.new_empty(0)


def _pseudo_inverse(
    matrix: Tensor, *, atol: Tensor | None = None, rtol: Tensor | None = None, hermitian: bool = False
) -> Tensor:
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    least = torch.zeros((), dtype=values.dtype) if atol is None else atol
    if rtol is None:
        usual = torch.finfo(matrix.dtype).eps * max(matrix.shape[-2:])
        rtol = torch.where(least > 0, 0.0, usual)
    least = torch.maximum(least, rtol * values[..., 0]).to(values.dtype).unsqueeze(-1)
    inverted = torch.where(values > least, 1 / values, 0)
    return right.mT @ (inverted.unsqueeze(-1) * left.mT)


RULES: dict[Any, Rule] = {
    aten._linalg_eigh.default: _symmetric,
    aten._linalg_solve_ex.default: _solution,
    aten.cholesky.default: _cholesky_unchecked,
    aten.cholesky_inverse.default: _inverse_by_cholesky,
    aten.cholesky_solve.default: _solution_by_cholesky,
    aten.inverse.default: _inverse_unchecked,
    aten.linalg_cholesky.default: _cholesky_unchecked,
    aten.linalg_inv.default: _inverse_unchecked,
    aten.linalg_lu_factor.default: _factors_unchecked,
    aten.linalg_pinv.atol_rtol_tensor: _pseudo_inverse,
    aten.linalg_solve.default: _solution_unchecked,
}
"""By operation."""
