"""Products of matrices, and biases."""

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.ir import Expression, dtype_of, is_static, shape_of
from relay_layout.relay.operators.agreement import matrices, vector_along_axis
from relay_layout.relay.operators.attributes import Attributes
from relay_layout.relay.operators.axis_arguments import axis_of
from relay_layout.relay.operators.normalization import check_vectors, vector_types
from relay_layout.relay.operators.operator import Operator, Scope, along, extents, rank_of
from relay_layout.relay.operators.windows import count
from relay_layout.relay.syntax.relay_types import RelayType, TensorType


def _product(left: Expression, right: Expression, given: str | None) -> Expression:
    """Relay's result has the dtype of the left operand where none is given."""
    inner = extents(left)[-1], extents(right)[-2]
    if is_static(inner) and inner[0] != inner[1]:
        raise ModelError(f"rows of {inner[0]} elements do not fit columns of {inner[1]}")
    out_dtype = given or (dtype_of(left) if dtype_of(left) != dtype_of(right) else None)
    return relax.op.matmul(left, right, out_dtype)


def _dense(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    return _multiply(scope, operands, {**attributes, "transpose_a": False, "transpose_b": True})


def _multiply(scope: Scope, operands: Sequence[Expression], attributes: Mapping[str, Any]) -> Expression:
    left, right = operands
    left_shape, right_shape = extents(left), extents(right)
    if len(right_shape) != 2:
        raise ModelError(f"the second matrix has {len(right_shape)} dimensions, not 2")
    if len(left_shape) < (2 if attributes["transpose_a"] else 1):
        raise ModelError(f"the first matrix has {len(left_shape)} dimensions")
    units = right_shape[0 if attributes["transpose_b"] else 1]
    if attributes["units"] is not None:
        wanted = count("units", attributes["units"])
        if isinstance(units, int) and units != wanted:
            raise ModelError(f"units is {wanted}; the weight has {units}")
    left, right = _turned(scope, left, right, attributes)
    return _product(left, right, attributes["out_dtype"])


def _turned(
    scope: Scope, left: Expression, right: Expression, attributes: Mapping[str, Any]
) -> tuple[Expression, Expression]:
    """The two matrices, the last two axes exchanged where the attributes ask for it; both typed."""
    if attributes["transpose_a"]:
        left = scope.emit(_transposed(left))
    if attributes["transpose_b"]:
        right = scope.emit(_transposed(right))
    return left, right


def _transposed(matrices: Expression) -> Expression:
    rank = rank_of(matrices)
    return relax.op.permute_dims(matrices, [*range(rank - 2), rank - 1, rank - 2])


def _batch_matmul(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    for name, operand in zip(("first", "second"), operands, strict=True):
        if rank_of(operand) != 3:
            raise ModelError(f"the {name} operand has {rank_of(operand)} dimensions, not 3")
    left, right = _turned(scope, operands[0], operands[1], attributes)
    return _product(left, right, attributes.out_dtype)


def _ranks(call: relax.Call) -> tuple[int, ...]:
    shapes = [shape_of(argument) for argument in call.args]
    return tuple(-1 if shape is None else len(shape) for shape in shapes)


def _out_dtype(call: relax.Call) -> str | None:
    """What the call says; where it says nothing, both operands have the dtype of the result."""
    return str(call.attrs.out_dtype) if call.attrs.out_dtype else None


def _export_matmul(call: relax.Call) -> Mapping[str, Any] | None:
    left, right = _ranks(call)
    if left < 1 or right != 2:
        return None
    units = extents(call.args[1])[1]
    return {
        "units": units if isinstance(units, int) else None,
        "out_dtype": _out_dtype(call),
        "transpose_a": False,
        "transpose_b": False,
    }


def _export_batch_matmul(call: relax.Call) -> Mapping[str, Any] | None:
    if _ranks(call) != (3, 3):
        return None
    return {"out_dtype": _out_dtype(call), "transpose_a": False, "transpose_b": False}


def _matrix_types(known: Sequence[RelayType | None], attributes: Attributes) -> Mapping[int, RelayType]:
    """The second matrix, from ``units``."""
    data = known[0]
    if not isinstance(data, TensorType) or attributes["units"] is None or not data.shape:
        return {}
    units = count("units", attributes["units"])
    transpose_a = bool(attributes.get("transpose_a", False))
    transpose_b = bool(attributes.get("transpose_b", True))
    if transpose_a and len(data.shape) < 2:
        return {}
    inner = data.shape[-2 if transpose_a else -1]
    shape = (units, inner) if transpose_b else (inner, units)
    return {1: TensorType(shape, data.dtype)}


def _dense_pack(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    """dense with a weight of blocks: [units / t, in, t], or [units / t, in / s, t, s]."""
    data, weight = operands
    shape = extents(weight)
    if rank_of(data) != 2 or len(shape) not in (3, 4):
        raise ModelError(
            f"data of {rank_of(data)} and a weight of {len(shape)} dimensions; 2, and 3 or 4 fit"
        )
    packed = list(shape) + [1] * (4 - len(shape))
    order = (1, 0, 2) if len(shape) == 3 else (1, 3, 0, 2)
    matrix = relax.op.permute_dims(weight, order)
    return _product(
        data,
        scope.emit(relax.op.reshape(matrix, [packed[1] * packed[3], packed[0] * packed[2]])),
        attributes.out_dtype,
    )


def _bias_add(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    data, bias = operands
    rank = rank_of(data)
    axis = axis_of(attributes.axis, rank)
    check_vectors(data, (bias,), axis, "bias")
    return relax.op.add(data, along(bias, axis, rank))


def _batch_flatten(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    rank = rank_of(operands[0])
    if rank == 1:
        return relax.op.expand_dims(operands[0], [1])
    if rank == 0:
        raise ModelError("the data is a scalar")
    return relax.op.nn.batch_flatten(operands[0])


ROWS = (
    Operator(
        "nn.dense",
        ("data", "weight"),
        _dense,
        "DenseAttrs",
        signature="data, weight, units=None, out_dtype=''",
        operand_types=_matrix_types,
        agreement=matrices,
    ),
    Operator(
        "nn.matmul",
        ("tensor_a", "tensor_b"),
        _multiply,
        "MatmulAttrs",
        signature=("tensor_a, tensor_b, units=None, out_dtype='', transpose_a=False, transpose_b=False"),
        relax_names=("matmul",),
        export=_export_matmul,
        operand_types=_matrix_types,
        agreement=matrices,
    ),
    Operator(
        "nn.batch_matmul",
        ("tensor_a", "tensor_b"),
        _batch_matmul,
        "BatchMatmulAttrs",
        signature="tensor_a, tensor_b, out_dtype='', transpose_a=False, transpose_b=True",
        relax_names=("matmul",),
        export=_export_batch_matmul,
        agreement=matrices,
    ),
    Operator(
        "nn.contrib_dense_pack",
        ("data", "weight"),
        _dense_pack,
        "DensePackAttrs",
        signature="data, weight, weight_layout='NC', units=None, out_dtype=''",
    ),
    Operator(
        "nn.bias_add",
        ("data", "bias"),
        _bias_add,
        "BiasAddAttrs",
        signature="data, bias, axis=1",
        operand_types=vector_types(1),
        agreement=vector_along_axis,
    ),
    Operator(
        "nn.batch_flatten",
        ("data",),
        _batch_flatten,
        relax_names=("nn.batch_flatten",),
        export=lambda call: {},
    ),
)
