"""Quantized convolutions and products of matrices: integer operators on values less their zero points.

Relay expands the product into four terms; modulo 2**32 these are the one convolution here.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax

from relay_layout.errors import LayoutError, ModelError
from relay_layout.ir import Expression, constant, dtype_of
from relay_layout.layout import grammar
from relay_layout.relay.operators.attributes import Attributes
from relay_layout.relay.operators.convolutions import build_convolution, build_transposed
from relay_layout.relay.operators.operator import Build, Operator, Scope, extents, rank_of
from relay_layout.relay.operators.quantization import (
    EIGHT_BITS,
    check_dtype,
    check_dtype_attribute,
    check_scale,
    check_zero_point,
    is_zero,
    known,
)
from relay_layout.relay.operators.windows import python_padding

_OPERANDS = ("input_zero_point", "kernel_zero_point", "input_scale", "kernel_scale")


def _shifted(value: Expression, zero_point: Expression, dtype: str) -> Expression:
    """``value - zero_point`` in the narrowest type that holds it; ``zero_point`` broadcasts to ``value``."""
    if is_zero(zero_point):
        return value
    array = known(zero_point)
    fits = array is not None and array.size and array.min() >= -128 and array.max() <= 255
    narrow = "int16" if fits and dtype_of(value) in EIGHT_BITS else dtype
    return relax.op.subtract(relax.op.astype(value, narrow), relax.op.astype(zero_point, narrow))


def _same_dtype(scope: Scope, left: Expression, right: Expression) -> tuple[Expression, Expression]:
    """Both integer operands in a type that holds either."""
    left, right = scope.emit(left), scope.emit(right)
    common = str(np.promote_types(dtype_of(left), dtype_of(right)))
    return relax.op.astype(left, common), relax.op.astype(right, common)


def _is_one(value: Expression) -> bool:
    """Whether a value is a vector of one number, which Relay takes for the number."""
    return extents(value) == (1,)


def _as_number(value: Expression) -> Expression:
    if not _is_one(value):
        return value
    array = known(value)
    return relax.op.squeeze(value, [0]) if array is None else constant(array.reshape(()))


def _operands(
    scope: Scope,
    operands: Sequence[Expression],
    out_dtype: str,
    kernel_zero_point: Callable[[], Expression],
) -> tuple[Expression, Expression]:
    data, kernel, input_zero_point = operands[:3]
    check_zero_point(input_zero_point, "the input zero point", scalar_only=not _is_one(input_zero_point))
    check_zero_point(operands[3], "the kernel zero point")
    check_scale(operands[4], "the input scale", scalar_only=not _is_one(operands[4]))
    check_scale(operands[5], "the kernel scale")
    input_zero_point = _as_number(input_zero_point)
    wide = "int64" if out_dtype == "int64" else "int32"
    left, right = _same_dtype(
        scope, _shifted(data, input_zero_point, wide), _shifted(kernel, kernel_zero_point(), wide)
    )
    return scope.emit(left), scope.emit(right)


def along_output_channels(zero_point: Expression, kernel: Expression, layout: str) -> Expression:
    """The zero points of a kernel, one or one per output channel, shaped to broadcast to the kernel."""
    if rank_of(zero_point) == 0:
        return zero_point
    (count,) = extents(zero_point)
    if count == 1:
        return relax.op.squeeze(zero_point, [0])
    try:
        axes = grammar.read(layout).axes
    except LayoutError as error:
        raise ModelError(str(error)) from None
    shape = extents(kernel)
    if len(axes) != len(shape) or not isinstance(count, int):
        raise ModelError(f"kernel layout '{layout}' does not fit a kernel of {len(shape)} dimensions")
    names = [axis.name for axis in axes]
    # A depthwise kernel of several channels per group has them along its input channels.
    wanted = "O" if _extent(names, shape, "O") == count else "OI"
    if _extent(names, shape, wanted) != count:
        raise ModelError(f"there are {count} zero points for a kernel of shape {shape} in {layout}")
    order = [index for letter in wanted for index, name in enumerate(names) if name == letter]
    spread = relax.op.reshape(zero_point, [shape[index] for index in order])
    spread = relax.op.permute_dims(spread, [order.index(index) for index in sorted(order)])
    return relax.op.reshape(
        spread, [shape[index] if name in wanted else 1 for index, name in enumerate(names)]
    )


def _extent(names: Sequence[str], shape: Sequence[Any], letters: str) -> int:
    product = 1
    for name, extent in zip(names, shape, strict=True):
        product *= extent if name in letters else 1
    return product


def _convolution(unquantized: Build, data_dtypes: Sequence[str], kernel_dtypes: Sequence[str]) -> Any:
    def build(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
        out_dtype = check_dtype_attribute(attributes.out_dtype, ("int16", "int32", "int64"))
        check_dtype(operands[0], "the data", data_dtypes)
        check_dtype(operands[1], "the kernel", kernel_dtypes)
        data, kernel = _operands(
            scope,
            operands,
            out_dtype,
            lambda: along_output_channels(operands[3], operands[1], attributes.kernel_layout),
        )
        return unquantized(scope, (data, kernel), attributes)

    return build


def _dense(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    out_dtype = check_dtype_attribute(attributes.out_dtype, ("int32", "int64"))
    check_dtype(operands[0], "the data", (*EIGHT_BITS, "int16", "uint16"))
    check_dtype(operands[1], "the weight", EIGHT_BITS)
    weight_shape = extents(operands[1])
    if len(weight_shape) != 2:
        raise ModelError(f"the weight has {len(weight_shape)} dimensions, not 2")
    if attributes.units is not None and weight_shape[0] != attributes.units:
        raise ModelError(f"units is {attributes.units}, but the weight has {weight_shape[0]} rows")
    data, weight = _operands(
        scope, operands, out_dtype, lambda: along_output_channels(operands[3], operands[1], "OI")
    )
    return relax.op.matmul(data, relax.op.permute_dims(weight), out_dtype)


def _batch_matmul(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    out_dtype = check_dtype_attribute(attributes.out_dtype, ("int32",))
    if attributes.transpose_a or not attributes.transpose_b:
        raise ModelError("transpose_a must be False and transpose_b True")
    for operand, what in zip(operands[:2], ("x", "y"), strict=True):
        check_dtype(operand, what, EIGHT_BITS)
        if rank_of(operand) != 3:
            raise ModelError(f"{what} has {rank_of(operand)} dimensions, not 3")
    check_zero_point(operands[3], "the zero point of y", scalar_only=True)
    left, right = _operands(scope, operands, out_dtype, lambda: operands[3])
    return relax.op.matmul(left, relax.op.permute_dims(right, [0, 2, 1]), out_dtype)


def _prepare(operands: Sequence[str]) -> Callable[..., tuple[Sequence[Any], Mapping[str, Any]]]:
    def prepare(**arguments: Any) -> tuple[Sequence[Any], Mapping[str, Any]]:
        arguments["padding"] = python_padding(arguments["padding"], 2)
        return [arguments.pop(name) for name in operands], arguments

    return prepare


_CONVOLUTION_OPERANDS = ("data", "kernel", *_OPERANDS)
_TRANSPOSED_OPERANDS = ("data", "weight", *_OPERANDS)

ROWS = (
    Operator(
        "qnn.conv2d",
        _CONVOLUTION_OPERANDS,
        _convolution(build_convolution(2), (*EIGHT_BITS, "int16"), (*EIGHT_BITS, "int16")),
        "Conv2DAttrs",
        signature=(
            "data, kernel, input_zero_point, kernel_zero_point, input_scale, kernel_scale, kernel_size, "
            "channels, strides=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1, data_layout='NCHW', "
            "kernel_layout='OIHW', out_layout='', out_dtype='int32'"
        ),
        prepare=_prepare(_CONVOLUTION_OPERANDS),
        carried=True,
    ),
    Operator(
        "qnn.conv2d_transpose",
        _TRANSPOSED_OPERANDS,
        _convolution(build_transposed(2), (*EIGHT_BITS, "int16", "uint16"), EIGHT_BITS),
        "Conv2DTransposeAttrs",
        signature=(
            "data, weight, input_zero_point, kernel_zero_point, input_scale, kernel_scale, strides=(1, 1), "
            "padding=(0, 0), dilation=(1, 1), groups=1, channels=None, kernel_size=None, data_layout='NCHW', "
            "kernel_layout='IOHW', out_layout='', output_padding=(0, 0), out_dtype='int32'"
        ),
        prepare=_prepare(_TRANSPOSED_OPERANDS),
        carried=True,
    ),
    Operator(
        "qnn.dense",
        _TRANSPOSED_OPERANDS,
        _dense,
        "DenseAttrs",
        signature=(
            "data, weight, input_zero_point, kernel_zero_point, input_scale, kernel_scale, units, "
            "out_dtype='int32'"
        ),
        carried=True,
    ),
    Operator(
        "qnn.batch_matmul",
        ("x", "y", "x_zero_point", "y_zero_point", "x_scale", "y_scale"),
        _batch_matmul,
        "BatchMatmulAttrs",
        signature="x, y, x_zero_point, y_zero_point, x_scale, y_scale, out_dtype='int32'",
        prepare=lambda x, y, x_zero_point, y_zero_point, x_scale, y_scale, out_dtype: (
            (x, y, x_zero_point, y_zero_point, x_scale, y_scale),
            {"out_dtype": out_dtype, "transpose_b": True},
        ),
        carried=True,
    ),
)
