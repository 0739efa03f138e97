"""Inverses, factors and solutions for matrices, by PyTorch's operations that check nothing."""

from typing import Any

import torch
from torch import Tensor

from relay_layout.frontend.torch.rules.rule import Rule, aten

_MOST_SQUARINGS = 32
"""Matrices whose norm is up to two to the power of this have an exponential to the last digits."""

_TERMS = 16
"""Terms of the exponential's series for matrices of a norm up to a half, as precise as doubles."""


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


def _exponential(matrix: Tensor) -> Any:
    """By the series of the matrix halved until it is small, which is squared as often.

    Matrices need different numbers of squarings, so all are squared equally often and some keep what they
    have (Moler and Van Loan, "Nineteen Dubious Ways to Compute the Exponential of a Matrix", SIAM Review 45).
    """
    if matrix.is_complex():
        return NotImplemented
    wide = matrix.to(torch.float64)
    norm = wide.abs().sum(-2).amax(-1)[..., None, None]
    halvings = torch.ceil(torch.log2(norm.clamp(min=0.5)) + 1)
    small = wide * torch.exp2(-halvings)
    one = torch.eye(matrix.shape[-1], dtype=torch.float64).expand(matrix.shape)
    found = one
    for term in range(_TERMS, 0, -1):
        found = one + small @ found / term
    for done in range(_MOST_SQUARINGS):
        found = torch.where(done < halvings, found @ found, found)
    return found.to(matrix.dtype)


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
    aten.linalg_matrix_exp.default: _exponential,
    aten.linalg_pinv.atol_rtol_tensor: _pseudo_inverse,
    aten.linalg_solve.default: _solution_unchecked,
}
"""By operation."""
