"""Inverses, determinants and solutions, beside PyTorch's."""

from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from relay_layout import from_torch  # noqa: E402
from relay_layout.errors import ModelError  # noqa: E402
from tests.relay_layout.frontend.torch.harness import Every, Functions, assert_agrees, session_of  # noqa: E402

torch.manual_seed(0)

COLUMNS, BATCH = torch.randn(4, 3), torch.randn(5, 1, 4, 3)


def operations(dtype: torch.dtype) -> Functions:
    columns, batch = COLUMNS.to(dtype), BATCH.to(dtype)
    return {
        "inverse": torch.inverse,
        "inverse without a check": lambda x: torch.linalg.inv_ex(x)[0],
        "inverse of one": lambda x: torch.linalg.inv(x[0]),
        "determinant": torch.linalg.det,
        "determinant of one": lambda x: torch.linalg.det(x[0]),
        "sign and logarithm": lambda x: torch.stack(torch.linalg.slogdet(x)),
        "logarithm": lambda x: torch.logdet(x @ x.mT + 1),
        "columns": lambda x: torch.linalg.solve(x, columns),
        "columns of batches": lambda x: torch.linalg.solve(x, batch),
        "a vector": lambda x: torch.linalg.solve(x[0], columns[:, 0]),
        "a vector for each": lambda x: torch.linalg.solve(x, x[..., 0] + 1),
        "from the right": lambda x: torch.linalg.solve(x, columns.T, left=False),
        "a negative power": lambda x: torch.linalg.matrix_power(x, -2),
        "without a check": lambda x: torch.linalg.solve_ex(x, columns)[0],
        "factors": lambda x: torch.linalg.lu_factor(x)[0],
        "rows of factors": lambda x: torch.linalg.lu_factor_ex(x).pivots,
        "by factors": lambda x: torch.linalg.lu_solve(*torch.linalg.lu_factor(x[0]), batch),
        "lower triangles": lambda x: torch.linalg.solve_triangular(x + 3, columns, upper=False),
        "upper triangles": lambda x: torch.linalg.solve_triangular(x + 3, batch, upper=True),
        "triangles with ones": lambda x: torch.linalg.solve_triangular(
            x, columns, upper=False, unitriangular=True
        ),
        "triangles from the right": lambda x: torch.linalg.solve_triangular(
            x[0] + 3, columns.T, upper=True, left=False
        ),
        "lower root": lambda x: torch.linalg.cholesky(_positive(x)),
        "upper root": lambda x: torch.linalg.cholesky_ex(_positive(x), upper=True).L,
        "exponential": torch.matrix_exp,
        "exponentials of several norms": lambda x: torch.matrix_exp(
            x.clamp(-1, 1) * torch.tensor([1e-3, 4.0])[:, None, None]
        ),
        "exponential of nothing": lambda x: torch.matrix_exp(x * 0),
        "by a root": lambda x: torch.cholesky_solve(
            columns.expand(2, 4, 3), torch.linalg.cholesky(_positive(x))
        ),
        "by an upper root": lambda x: torch.cholesky_solve(
            columns, torch.linalg.cholesky(_positive(x[0]), upper=True), upper=True
        ),
    }


def _positive(x: torch.Tensor) -> torch.Tensor:
    return x @ x.mT + torch.eye(4, dtype=x.dtype)


def of_any_matrices() -> Functions:
    """Signs of singular vectors are anyone's, so that only products of them are compared."""

    def together(left: torch.Tensor, values: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        count = values.shape[-1]
        return (left[..., :count] * values.unsqueeze(-2)) @ right[..., :count, :]

    def orthogonal(full: bool) -> Callable[[torch.Tensor], torch.Tensor]:
        def products(x: torch.Tensor) -> torch.Tensor:
            left, _, right = torch.linalg.svd(x, full_matrices=full)
            return torch.cat([(left.mT @ left).flatten(1), (right @ right.mT).flatten(1)], 1)

        return products

    def symmetric(x: torch.Tensor) -> torch.Tensor:
        values, vectors = torch.linalg.eigh(x @ x.mT - 1)
        return torch.cat([(vectors * values.unsqueeze(-2)) @ vectors.mT, vectors.mT @ vectors], 1)

    return {
        "together": lambda x: together(*torch.linalg.svd(x)),
        "all directions": orthogonal(True),
        "those of values": orthogonal(False),
        "singular values": torch.linalg.svdvals,
        "rank": torch.linalg.matrix_rank,
        "nuclear norm": lambda x: torch.linalg.norm(x, "nuc", dim=(-2, -1)),
        "pseudo-inverse": torch.linalg.pinv,
        "coarse pseudo-inverse": lambda x: torch.linalg.pinv(x, rtol=0.5),
        "pseudo-inverse beyond a number": lambda x: torch.linalg.pinv(x, atol=0.1),
        "eigenvectors": symmetric,
        "eigenvalues": lambda x: torch.linalg.eigvalsh(x @ x.mT - 1),
        "eigenvalues of upper triangles": lambda x: torch.linalg.eigvalsh((x @ x.mT).triu(), UPLO="U"),
    }


@pytest.mark.parametrize("name", of_any_matrices())
def test_singular_values(name: str, tmp_path: Path) -> None:
    operation = of_any_matrices()[name]
    x = torch.randn(3, 4, 3)
    x[1], x[2, :, 1] = 0, x[2, :, 0]
    model = Every({"tall": operation, "wide": lambda x: operation(x.mT)}).eval()
    assert_agrees(session_of(model, tmp_path, (x,)), model, (x,))


def test_orthogonal_factors(tmp_path: Path) -> None:
    model = Every(
        {
            "reduced": lambda x: torch.cat(torch.linalg.qr(x), 1),
            "complete": lambda x: torch.linalg.qr(x, "complete").Q,
            "upper": lambda x: torch.linalg.qr(x, "complete").R,
            "upper alone": lambda x: torch.linalg.qr(x, "r").R,
            "wide": lambda x: torch.cat(torch.linalg.qr(x.mT), 2),
            "by a root": lambda x: torch.cholesky_inverse(torch.linalg.cholesky(_positive(x))),
        }
    ).eval()
    x = torch.randn(2, 4, 3)
    assert_agrees(session_of(model, tmp_path, (x,)), model, (x,))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_operations(dtype: torch.dtype, tmp_path: Path) -> None:
    model, x = Every(operations(dtype)).eval(), torch.randn(2, 4, 4).to(dtype)
    assert_agrees(session_of(model, tmp_path, (x,)), model, (x,))


def test_an_open_number_of_matrices(tmp_path: Path) -> None:
    model, x = Every({"inverse": torch.inverse, "determinant": torch.linalg.det}).eval(), torch.randn(2, 3, 3)
    session = session_of(model, tmp_path, (x,), dynamic_shapes=(({0: torch.export.Dim("n")},),))
    for count in (1, 5):
        assert_agrees(session, model, (torch.randn(count, 3, 3),))


def test_logarithms_of_what_is_no_number(tmp_path: Path) -> None:
    """A determinant that is too large, one that is too small, and zero."""
    model, x = Every({"both": lambda x: torch.stack(torch.linalg.slogdet(x))}).eval(), torch.randn(2, 4, 4)
    x[0] *= 1e20
    x[1] *= 1e-20
    session = session_of(model, tmp_path, (x,))
    assert_agrees(session, model, (x,))
    (found,) = session.run({session.inputs[0].name: torch.zeros(2, 4, 4)}).values()
    assert found.tolist() == [[0.0, 0.0], [float("-inf")] * 2]


def test_a_program_that_changes_a_tensor(tmp_path: Path) -> None:
    def changed(x: torch.Tensor) -> torch.Tensor:
        held = x.clone()
        held[:, 0].add_(1)
        return torch.inverse(held)

    model, x = Every({"changed": changed}).eval(), torch.randn(2, 4, 4)
    assert_agrees(session_of(model, tmp_path, (x,)), model, (x,))


def test_what_is_told_of_matrices_without_factors(tmp_path: Path) -> None:
    """The first pivot that is zero, and the first row where a matrix is not positive definite."""

    def told(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([torch.linalg.lu_factor_ex(x).info, torch.linalg.cholesky_ex(x).info])

    model, x = Every({"told": told}).eval(), torch.eye(3).repeat(3, 1, 1)
    x[1, 1, 1], x[2, 2, 2] = 0, -1
    assert_agrees(session_of(model, tmp_path, (x,)), model, (x,))


@pytest.mark.parametrize(
    ("operation", "refusal"),
    [
        (lambda x: torch.linalg.lu_factor_ex(x, pivot=False).LU, "factors without pivots are not supported"),
        (
            lambda x: torch.linalg.lu_solve(*torch.linalg.lu_factor(x), x, adjoint=True),
            "linalg_lu_solve is supported with left=True and adjoint=False",
        ),
    ],
)
def test_factors_that_are_refused(operation: Callable[[torch.Tensor], torch.Tensor], refusal: str) -> None:
    model = Every({"refused": operation}).eval()
    with pytest.raises(ModelError, match=refusal):
        from_torch(torch.export.export(model, (torch.eye(3),)))


def test_what_is_told_of_singular_matrices_is_refused() -> None:
    model = Every({"told": lambda x: torch.linalg.inv_ex(x).info}).eval()
    with pytest.raises(ModelError, match="of linalg_inv_ex only the first result is supported"):
        from_torch(torch.export.export(model, (torch.eye(3),)))
