"""Products with sparse matrices of known values, which become those with the dense matrices that they are."""

from typing import Any

import numpy as np

from relay_layout.errors import ModelError
from relay_layout.relay.expression import as_expression, const
from relay_layout.relay.functions.operator_functions import operator_function
from relay_layout.relay.syntax import relay_types, tree

_MOST_BYTES = 1 << 30
"""The largest matrix that is written out."""


def sparse_dense(dense_mat: Any, sparse_mat: Any, sparse_lhs: bool = False) -> Any:
    """nn.dense of a matrix of (m, k) and a sparse one of (n, k); with ``sparse_lhs`` the sparse one is first.

    ``sparse_mat`` has ``data``, ``indices`` and ``indptr`` of CSR, or of BSR where data has blocks, as arrays
    or constants. Columns end where the dense matrix does. ModelError for a matrix whose values are not known.
    """
    dense = as_expression(dense_mat)
    kind = dense.checked_type
    if not isinstance(kind, relay_types.TensorType) or len(kind.shape) != 2 or kind.shape[1] is None:
        raise ModelError("nn.sparse_dense: the dense matrix needs two dimensions, the second one known")
    written = const(_written_out(sparse_mat, kind.shape[1]), kind.dtype)
    operands = (written, dense) if sparse_lhs else (dense, written)
    return operator_function("nn.dense")(*operands)


def _written_out(sparse: Any, columns: int) -> np.ndarray:
    parts = sparse if isinstance(sparse, tuple | list) else (sparse.data, sparse.indices, sparse.indptr)
    data, indices, starts = map(_values, parts)
    if data.ndim not in (1, 3) or indices.ndim != 1 or starts.ndim != 1 or len(data) != len(indices):
        raise ModelError(
            f"nn.sparse_dense: data {list(data.shape)}, indices {list(indices.shape)} and indptr "
            f"{list(starts.shape)} are neither CSR nor BSR"
        )
    height, width = data.shape[1:] or (1, 1)
    rows = len(starts) - 1
    if rows * height * columns * data.itemsize > _MOST_BYTES:
        raise ModelError(
            f"nn.sparse_dense: a matrix of {rows * height} x {columns} is too large to write out"
        )
    if len(indices) and not 0 <= indices.min() <= indices.max() < columns // width:
        raise ModelError(f"nn.sparse_dense: an index is not below {columns // width}, the columns of blocks")
    blocks = np.zeros((rows, columns // width, height, width), data.dtype)
    row_of = np.repeat(np.arange(rows), np.diff(starts))
    np.add.at(blocks, (row_of, indices), data.reshape(-1, height, width))
    return blocks.transpose(0, 2, 1, 3).reshape(rows * height, -1)


def _values(part: Any) -> np.ndarray:
    found = as_expression(part)
    if not isinstance(found, tree.Constant):
        raise ModelError(
            "nn.sparse_dense: the values of the sparse matrix are not known; give constants, or the dense "
            "matrix to nn.dense"
        )
    return np.asarray(found.data)
