"""PyTorch's inverses, determinants and factors of square matrices, and what is solved by factors.

A singular matrix, which PyTorch ends a program at, has infinities and NaN for its inverse.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.frontend.operators.square_matrices import of_square_matrices
from relay_layout.frontend.torch.node import Converter, argument, is_read
from relay_layout.ir import Expression, shape_of
from topi_ext.compute.determinants import determinants, signs_and_logarithms
from topi_ext.compute.factors import (
    cholesky_factors,
    lower_upper_factors,
    solutions_of_factors,
    triangular_solutions,
)
from topi_ext.compute.inverses import inverses


def _of_matrices(compute: Callable[[Any], Any], others: int = 0) -> Converter:
    """``compute`` of each matrix, for an operation that has ``others`` as further results, not to be read."""

    def convert(node: Any, importer: Any) -> Expression:
        _check_read(node, range(1, others + 1), "only the first result is")
        found, *_ = of_square_matrices(importer.block_builder, compute, importer.env[node.args[0]])
        return importer.block_builder.emit(relax.Tuple([found] * (others + 1)))

    return convert


def _check_read(node: Any, others: range, supported: str) -> None:
    if any(is_read(node, place) for place in others):
        name = node.target.__name__.partition(".")[0]
        raise ModelError(f"node '{node.name}': of {name} {supported} supported, and the program reads others")


def _sign_and_logarithm(node: Any, importer: Any) -> Expression:
    _check_read(node, range(2, 4), "the sign and the logarithm are")
    builder = importer.block_builder
    both, *_ = of_square_matrices(builder, signs_and_logarithms, importer.env[node.args[0]])
    parts = [builder.emit(relax.op.take(both, relax.const(place, "int64"), axis=-1)) for place in (0, 1)]
    return builder.emit(relax.Tuple([*parts, both, both]))


def _lower_upper(node: Any, importer: Any) -> Expression:
    if not argument(node, 1, "pivot", True):
        raise ModelError(f"node '{node.name}': factors without pivots are not supported")
    found = of_square_matrices(importer.block_builder, lower_upper_factors, importer.env[node.args[0]])
    return importer.block_builder.emit(relax.Tuple(found))


def _cholesky(node: Any, importer: Any) -> Expression:
    builder, data = importer.block_builder, importer.env[node.args[0]]
    is_upper = argument(node, 1, "upper", False)
    symmetric = _transposed(builder, data) if is_upper else data
    factor, indefinite = of_square_matrices(builder, cholesky_factors, symmetric)
    return builder.emit(relax.Tuple([_transposed(builder, factor) if is_upper else factor, indefinite]))


def _solution_by_factors(node: Any, importer: Any) -> Expression:
    factors, rows, columns = (importer.env[given] for given in node.args[:3])
    if not argument(node, 3, "left", True) or argument(node, 4, "adjoint", False):
        raise ModelError(f"node '{node.name}': linalg_lu_solve is supported with left=True and adjoint=False")
    builder = importer.block_builder
    operands = _of_one_batch(builder, [(factors, 2), (rows, 1), (columns, 2)])
    return of_square_matrices(builder, solutions_of_factors, *operands)[0]


def _triangular_solution(node: Any, importer: Any) -> Expression:
    builder, (matrix, columns) = importer.block_builder, (importer.env[given] for given in node.args[:2])
    is_upper, is_left = argument(node, 2, "upper"), argument(node, 3, "left", True)
    if not is_left:
        is_upper = not is_upper
        matrix, columns = _transposed(builder, matrix), _transposed(builder, columns)
    operands = _of_one_batch(builder, [(matrix, 2), (columns, 2)])
    compute = triangular_solutions(is_upper, argument(node, 4, "unitriangular", False))
    found = of_square_matrices(builder, compute, *operands)[0]
    return found if is_left else _transposed(builder, found)


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
    "_linalg_det.default": _of_matrices(determinants, others=2),
    "_linalg_slogdet.default": _sign_and_logarithm,
    "linalg_cholesky_ex.default": _cholesky,
    "linalg_inv_ex.default": _of_matrices(inverses, others=1),
    "linalg_lu_factor_ex.default": _lower_upper,
    "linalg_lu_solve.default": _solution_by_factors,
    "linalg_solve_triangular.default": _triangular_solution,
}
"""By the names that TVM's importer would have for operations."""
