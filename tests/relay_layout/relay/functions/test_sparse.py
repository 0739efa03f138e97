"""Products with sparse matrices beside numpy's with dense ones."""

from typing import NamedTuple

import numpy as np
import pytest

from relay_layout import relay
from relay_layout.errors import ModelError

RNG = np.random.default_rng(0)


class Sparse(NamedTuple):
    data: object
    indices: object
    indptr: object


def csr(matrix: np.ndarray) -> Sparse:
    rows, columns = np.nonzero(matrix)
    starts = np.searchsorted(rows, np.arange(len(matrix) + 1)).astype("int32")
    return Sparse(matrix[rows, columns], columns.astype("int32"), starts)


def sparse_matrix(rows: int, columns: int) -> np.ndarray:
    kept = RNG.random((rows, columns)) < 0.3
    return (RNG.standard_normal((rows, columns)) * kept).astype("float32")


def computed(expression: relay.Expr, data: np.ndarray) -> np.ndarray:
    result: np.ndarray = (
        relay.create_executor("graph")
        .evaluate(relay.Function(relay.analysis.free_vars(expression), expression))(data)
        .numpy()
    )
    return result


@pytest.mark.parametrize("as_constants", [False, True])
@pytest.mark.parametrize("sparse_lhs", [False, True])
def test_rows_of_csr(sparse_lhs: bool, as_constants: bool) -> None:
    data, matrix = RNG.standard_normal((4, 7)).astype("float32"), sparse_matrix(5, 7)
    parts = Sparse(*map(relay.const, csr(matrix))) if as_constants else csr(matrix)
    result = computed(relay.nn.sparse_dense(relay.var("x", shape=(4, 7)), parts, sparse_lhs), data)
    expected = matrix @ data.T if sparse_lhs else data @ matrix.T
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_blocks_of_bsr() -> None:
    data, blocks = RNG.standard_normal((3, 6)).astype("float32"), RNG.standard_normal((3, 2, 3))
    matrix = np.zeros((4, 6))
    matrix[:2, 3:], matrix[2:, :3], matrix[2:, 3:] = blocks
    parts = Sparse(blocks.astype("float32"), np.array([1, 0, 1]), np.array([0, 1, 3]))
    result = computed(relay.nn.sparse_dense(relay.var("x", shape=(3, 6)), parts), data)
    np.testing.assert_allclose(result, data @ matrix.T, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (Sparse(relay.var("d", shape=(1,)), [0], [0, 1]), "the values of the sparse matrix are not known"),
        (Sparse(np.ones((2, 2)), [0, 1], [0, 2]), r"data \[2, 2\], .* are neither CSR nor BSR"),
        (Sparse(np.ones(1), np.array([7]), np.array([0, 1])), "an index is not below 7"),
    ],
)
def test_mistakes(parts: Sparse, message: str) -> None:
    given = Sparse(*(np.array(part) if isinstance(part, list) else part for part in parts))
    with pytest.raises(ModelError, match=f"nn.sparse_dense: .*{message}"):
        relay.nn.sparse_dense(relay.var("x", shape=(4, 7)), given)


def test_a_matrix_that_is_too_large() -> None:
    parts = Sparse(np.ones(1), np.array([7]), np.array([0, 1, 1]))
    with pytest.raises(ModelError, match=r"a matrix of 2 x 1073741824 is too large to write out"):
        relay.nn.sparse_dense(relay.var("x", shape=(1, 1 << 30)), parts)
