"""PyTorch's inverses, determinants and factors of matrices, and what is solved by factors.

A singular matrix, which PyTorch ends a program at, has infinities and NaN for its inverse.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.frontend.operators.matrices import of_matrices
from relay_layout.frontend.torch.node import Converter, argument, is_read
from relay_layout.ir import Expression, dtype_of, shape_of
from topi_ext.compute.determinants import determinants, signs_and_logarithms
from topi_ext.compute.factors import (
    cholesky_factors,
    lower_upper_factors,
    solutions_of_factors,
    triangular_solutions,
)
from topi_ext.compute.inverses import inverses
from topi_ext.compute.orthogonal import orthogonal_columns, orthogonal_factors


def _of_matrices(compute: Callable[[Any], Any], others: int = 0) -> Converter:
    """``compute`` of each matrix, for an operation that has ``others`` as further results, not to be read."""

    def convert(node: Any, importer: Any) -> Expression:
        _check_read(node, range(1, others + 1), "only the first result is")
        found, *_ = of_matrices(importer.block_builder, compute, importer.env[node.args[0]])
        return importer.block_builder.emit(relax.Tuple([found] * (others + 1)))

    return convert


def _check_read(node: Any, others: range, supported: str) -> None:
    if any(is_read(node, place) for place in others):
        name = node.target.__name__.partition(".")[0]
        raise ModelError(f"node '{node.name}': of {name} {supported} supported, and the program reads others")


def _sign_and_logarithm(node: Any, importer: Any) -> Expression:
    _check_read(node, range(2, 4), "the sign and the logarithm are")
    builder = importer.block_builder
    both, *_ = of_matrices(builder, signs_and_logarithms, importer.env[node.args[0]])
    parts = [builder.emit(relax.op.take(both, relax.const(place, "int64"), axis=-1)) for place in (0, 1)]
    return builder.emit(relax.Tuple([*parts, both, both]))


def _lower_upper(node: Any, importer: Any) -> Expression:
    if not argument(node, 1, "pivot", True):
        raise ModelError(f"node '{node.name}': factors without pivots are not supported")
    found = of_matrices(importer.block_builder, lower_upper_factors, importer.env[node.args[0]])
    return importer.block_builder.emit(relax.Tuple(found))


def _cholesky(node: Any, importer: Any) -> Expression:
    builder, data = importer.block_builder, importer.env[node.args[0]]
    is_upper = argument(node, 1, "upper", False)
    symmetric = _transposed(builder, data) if is_upper else data
    factor, indefinite = of_matrices(builder, cholesky_factors, symmetric)
    return builder.emit(relax.Tuple([_transposed(builder, factor) if is_upper else factor, indefinite]))


def _solution_by_factors(node: Any, importer: Any) -> Expression:
    factors, rows, columns = (importer.env[given] for given in node.args[:3])
    if not argument(node, 3, "left", True) or argument(node, 4, "adjoint", False):
        raise ModelError(f"node '{node.name}': linalg_lu_solve is supported with left=True and adjoint=False")
    builder = importer.block_builder
    operands = _of_one_batch(builder, [(factors, 2), (rows, 1), (columns, 2)])
    return of_matrices(builder, solutions_of_factors, *operands)[0]


def _triangular_solution(node: Any, importer: Any) -> Expression:
    builder, (matrix, columns) = importer.block_builder, (importer.env[given] for given in node.args[:2])
    is_upper, is_left = argument(node, 2, "upper"), argument(node, 3, "left", True)
    if not is_left:
        is_upper = not is_upper
        matrix, columns = _transposed(builder, matrix), _transposed(builder, columns)
    operands = _of_one_batch(builder, [(matrix, 2), (columns, 2)])
    compute = triangular_solutions(is_upper, argument(node, 4, "unitriangular", False))
    found = of_matrices(builder, compute, *operands)[0]
    return found if is_left else _transposed(builder, found)


def _orthogonal_factors(node: Any, importer: Any) -> Expression:
    builder, data = importer.block_builder, importer.env[node.args[0]]
    mode = argument(node, 1, "mode", "reduced")
    if mode == "r":
        _check_read(node, range(1), "with mode='r' only the second result is")
    factor, upper = of_matrices(builder, orthogonal_factors, data)
    *_, rows, columns = shape_of(data) or ()
    if mode != "complete" and rows > columns:
        factor, upper = _first(builder, factor, -1, columns), _first(builder, upper, -2, columns)
    return builder.emit(relax.Tuple([factor, upper]))


def _singular_values(node: Any, importer: Any) -> Expression:
    """The directions in which a matrix stretches, by how much, and those that it takes there.

    Directions that are lost have a length of zero: reflections, which keep the others, find some for them.
    """
    builder, data = importer.block_builder, importer.env[node.args[0]]
    dtype = dtype_of(data)
    *_, rows, columns = shape_of(data) or ()
    is_wide = rows < columns
    if is_wide:
        data, rows, columns = _transposed(builder, data), columns, rows
    wide = builder.emit(relax.op.astype(data, "float64"))
    stretched, lengths, right = of_matrices(builder, orthogonal_columns, wide)
    values = builder.emit(relax.op.astype(lengths, dtype))
    if not is_read(node, 0) and not is_read(node, 2):
        return builder.emit(relax.Tuple([values] * 3))
    zero, one = relax.const(0.0, "float64"), relax.const(1.0, "float64")
    divisor = relax.op.where(relax.op.equal(lengths, zero), one, lengths)
    directions = relax.op.divide(stretched, relax.op.expand_dims(divisor, -1))
    left, upper = of_matrices(builder, orthogonal_factors, _transposed(builder, builder.emit(directions)))
    # Reflections may turn directions round.
    diagonal = relax.op.sum(relax.op.multiply(upper, relax.const(np.eye(rows, columns), "float64")), -2)
    signs = builder.emit(relax.op.where(relax.op.less(diagonal, zero), relax.op.negative(one), one))
    spare = relax.op.ones(relax.ShapeExpr([*(shape_of(data) or ())[:-2], rows - columns]), "float64")
    signs = builder.emit(relax.op.expand_dims(relax.op.concat([signs, spare], -1), -2))
    left = builder.emit(relax.op.astype(relax.op.multiply(left, signs), dtype))
    if not argument(node, 1, "full_matrices", False):
        left = _first(builder, left, -1, columns)
    right = builder.emit(relax.op.astype(right, dtype))
    if is_wide:
        left, right = _transposed(builder, right), _transposed(builder, left)
    return builder.emit(relax.Tuple([left, values, right]))


def _first(builder: Any, value: Expression, axis: int, count: int) -> Expression:
    return builder.emit(relax.op.strided_slice(value, [axis], [0], [count]))


def _transposed(builder: Any, matrices: Expression) -> Expression:
    *batch, rows, columns = range(len(shape_of(matrices) or ()))
    return builder.emit(relax.op.permute_dims(matrices, [*batch, columns, rows]))


def _of_one_batch(builder: Any, operands: Sequence[tuple[Expression, int]]) -> list[Expression]:
    """Operands, each with the number of dimensions that are its own, with all other dimensions alike."""
    shapes = [list(shape_of(value) or ()) for value, _ in operands]
    batches = [shape[: len(shape) - own] for shape, (_, own) in zip(shapes, operands, strict=True)]
    rank = max(len(batch) for batch in batches)
    padded = [[1] * (rank - len(batch)) + batch for batch in batches]
    common = [next((one for one in extents if one != 1), 1) for extents in zip(*padded, strict=True)]
    return [
        builder.emit(relax.op.broadcast_to(value, relax.ShapeExpr([*common, *shape[len(shape) - own :]])))
        for shape, (value, own) in zip(shapes, operands, strict=True)
    ]


CONVERTERS: dict[str, Converter] = {
    "_linalg_svd.default": _singular_values,
    "_linalg_det.default": _of_matrices(determinants, others=2),
    "_linalg_slogdet.default": _sign_and_logarithm,
    "linalg_cholesky_ex.default": _cholesky,
    "linalg_inv_ex.default": _of_matrices(inverses, others=1),
    "linalg_lu_factor_ex.default": _lower_upper,
    "linalg_lu_solve.default": _solution_by_factors,
    "linalg_qr.default": _orthogonal_factors,
    "linalg_solve_triangular.default": _triangular_solution,
}
"""By the names that TVM's importer would have for operations."""
