"""ONNX operators that are linear in their data: convolutions and matrix products."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from tvm import relax

from relay_layout.frontend.extents.arithmetic import simplify
from relay_layout.frontend.onnx.agreement import contractible, joinable, with_channels
from relay_layout.frontend.onnx.node import Converter, Node
from relay_layout.frontend.onnx.operators.padding import windowed
from relay_layout.frontend.onnx.operators.windows import given_window, integers
from relay_layout.frontend.operators.convolving import (
    CONVOLUTIONS_BY_RANK,
    TRANSPOSED_BY_RANK,
    ConvolutionOperator,
)
from relay_layout.frontend.operators.matrices import of_matrices
from relay_layout.frontend.operators.sliding_windows import Window
from relay_layout.frontend.values import Unsupported, Value, dtype_of, shape_of, written
from relay_layout.ir import Extent, is_static
from topi_ext.compute.determinants import determinants
from topi_ext.compute.inverses import inverses


def _convolution(node: Node) -> Value:
    shape, weight = shape_of(node.input(0)), shape_of(node.input(1))
    operator, layout, kernel_layout = _of_rank(CONVOLUTIONS_BY_RANK, shape, weight)
    kernel = kernel_extents(node, weight)
    groups = node.attributes.get("group", 1)
    data = with_channels(node, node.input(0), weight[1] * groups)
    shape = shape_of(data)
    if groups < 1 or shape[1] != weight[1] * groups or weight[0] % groups:
        raise Unsupported(
            f"convolves {written(shape)} with a weight of {written(weight)} and group={groups}, "
            "whose channels do not fit"
        )
    data, sliding = windowed(node, node.expression(data), kernel, 0.0)
    result = operator(
        data,
        node.tensor(1),
        strides=list(sliding.strides),
        padding=sliding.padding,
        dilation=list(sliding.dilation),
        groups=groups,
        data_layout=layout,
        kernel_layout=kernel_layout,
    )
    return biased(node, result, weight[0], len(shape))


def _transposed_convolution(node: Node) -> Value:
    shape, weight = shape_of(node.input(0)), shape_of(node.input(1))
    operator, layout, kernel_layout = _of_rank(TRANSPOSED_BY_RANK, shape, weight)
    kernel = kernel_extents(node, weight)
    groups = node.attributes.get("group", 1)
    data = with_channels(node, node.input(0), weight[0])
    shape = shape_of(data)
    if groups < 1 or shape[1] != weight[0] or weight[0] % groups:
        raise Unsupported(
            f"convolves {written(shape)} with a weight of {written(weight)} and group={groups}, "
            "whose channels do not fit"
        )
    beyond = integers(node, "output_padding", [0] * len(kernel), least=0)
    sliding, beyond = _transposed_window(node, kernel, beyond, shape[2:])
    sides = zip(sliding.strides, sliding.reach, sliding.before, sliding.after, beyond, strict=True)
    for extent, (stride, reach, before, after, added) in zip(shape[2:], sides, strict=True):
        # Of no pixels padding would take away what is not there.
        node.requirements.more(simplify(stride * (extent - 1) + reach - before - after + added), -1)
    result = operator(
        node.expression(data),
        node.tensor(1),
        strides=list(sliding.strides),
        padding=sliding.padding,
        output_padding=list(beyond),
        dilation=list(sliding.dilation),
        groups=groups,
        data_layout=layout,
        kernel_layout=kernel_layout,
    )
    return biased(node, result, weight[1] * groups, len(shape))


def _of_rank(
    operators: Mapping[int, ConvolutionOperator], shape: list[Extent], weight: list[Extent]
) -> ConvolutionOperator:
    if len(shape) != len(weight) or len(shape) - 2 not in operators:
        raise Unsupported(f"convolves {written(shape)} with a weight of {written(weight)}")
    return operators[len(shape) - 2]


def kernel_extents(node: Node, weight: list[Extent]) -> list[int]:
    """The spatial extents of a weight, which the node may repeat."""
    kernel = list(weight[2:])
    if not is_static(weight):
        raise Unsupported(
            f"has a weight of symbolic shape {written(weight)}: "
            "give the model's inputs fixed shapes (--input-shape)"
        )
    declared = list(node.attributes.get("kernel_shape", kernel))
    if declared != kernel:
        raise Unsupported(f"has kernel_shape {declared}, but its weight is {written(weight)}")
    return kernel


def biased(node: Node, result: Any, channels: int, rank: int, place: int = 2) -> Value:
    """``result`` with the bias that the node has as its input ``place``, if it has one."""
    if not node.has(place):
        return result
    bias = shape_of(node.input(place))
    if bias != [channels]:
        raise Unsupported(f"has a bias of {written(bias)} for {channels} output channels")
    spread = node.reshaped(node.input(place), [1, channels, *[1] * (rank - 2)])
    return relax.op.add(node.emit(result, "unbiased"), node.expression(spread))


def _transposed_window(
    node: Node, kernel: list[int], beyond: tuple[int, ...], spatial: list[Extent]
) -> tuple[Window, tuple[int, ...]]:
    """The window and the output padding, to which is added what an output shape has beyond all windows."""
    rank = len(kernel)
    mode = node.attributes.get("auto_pad", "NOTSET")
    plain = given_window(node, kernel, rank)
    sizes = tuple(node.attributes.get("output_shape", ()))[-rank:]
    if not sizes and mode == "NOTSET":
        return plain, beyond
    if not sizes and mode == "VALID":
        return plain.padded((0,) * rank, mode), beyond
    totals, added = [], list(beyond)
    for axis, reach in enumerate(plain.reach):
        # Without output_shape the goal is extent * stride, whatever the extent.
        total = reach + beyond[axis] - plain.strides[axis]
        if sizes:
            if not isinstance(spatial[axis], int):
                raise Unsupported(
                    f"has an output_shape for the symbolic extent '{spatial[axis]}': "
                    "give the model's input a fixed shape (--input-shape)"
                )
            total += plain.strides[axis] * spatial[axis] - sizes[axis]
        if total < 0:
            added[axis] -= total
        if added[axis] > max(beyond[axis], plain.strides[axis] - 1):
            raise Unsupported(
                f"has the output shape {list(sizes)}, which is a stride or more beyond its windows"
            )
        totals.append(max(total, 0))
    return plain.padded(totals, mode), tuple(added)


def _matrix_product(node: Node) -> Value:
    left, right = joinable(node, node.input(0), node.input(1))
    return relax.op.matmul(node.expression(left), node.expression(right))


def _general_matrix_product(node: Node) -> Value:
    alpha, beta = node.attributes.get("alpha", 1.0), node.attributes.get("beta", 1.0)
    left = _transposed(node, node.input(0), node.attributes.get("transA", 0))
    right = _transposed(node, node.input(1), node.attributes.get("transB", 0))
    left, right = joinable(node, left, right)
    # The factor goes to the operand that is folded, if there is one.
    if isinstance(right, np.ndarray):
        right = _scaled(node, right, alpha)
    else:
        left = _scaled(node, left, alpha)
    result = relax.op.matmul(node.expression(left), node.expression(right))
    if not node.has(2):
        return result
    result = node.emit(result, "unbiased")
    bias = node.input(2)
    if isinstance(bias, np.ndarray) and bias.ndim == 2 and bias.shape[0] == 1:
        bias = bias.reshape(-1)
    return relax.op.add(result, node.expression(_scaled(node, bias, beta)))


def _transposed(node: Node, matrix: Value, transposed: int) -> Value:
    rank = len(shape_of(matrix))
    if rank != 2:
        raise Unsupported(f"multiplies {written(shape_of(matrix))}, which is no matrix")
    if not transposed:
        return matrix
    if isinstance(matrix, np.ndarray):
        return np.ascontiguousarray(matrix.T)
    return node.emit(relax.op.permute_dims(matrix, [1, 0]), "transposed")


def _scaled(node: Node, matrix: Value, factor: float) -> Value:
    if factor == 1.0:
        return matrix
    if isinstance(matrix, np.ndarray):
        # What numpy computes of one number is no array.
        return np.asarray(matrix * np.asarray(factor, matrix.dtype), matrix.dtype)
    return relax.op.multiply(matrix, node.like(factor, matrix))


def _einsum(node: Node) -> Value:
    equation = node.attributes["equation"].replace(" ", "")
    operands = [node.tensor(index) for index in range(len(node.inputs))]
    terms = equation.partition("->")[0].split(",")
    if len(terms) != len(operands):
        raise Unsupported(f"has {len(operands)} operands for '{equation}'")
    return relax.op.einsum(contractible(node, operands, terms), equation)


def _determinant(node: Node) -> Value:
    """The determinant of each matrix of [..., N, N]."""
    return _of_matrices(node, determinants, "takes the determinant of")


def inverse(node: Node) -> Value:
    """The inverse of each matrix of [..., N, N], an operator of com.microsoft."""
    return _of_matrices(node, inverses, "inverts")


def _of_matrices(node: Node, compute: Callable[[Any], Any], verb: str) -> Any:
    shape = shape_of(node.input(0))
    if len(shape) < 2 or not node.requirements.assume_equal(*shape[-2:]):
        raise Unsupported(f"{verb} {written(shape)}, which is no square matrix")
    if not dtype_of(node.input(0)).startswith("float"):
        raise Unsupported(f"{verb} {dtype_of(node.input(0))}, which is not supported: cast it to float32")
    return of_matrices(node.builder, compute, node.tensor(0))[0]


CONVERTERS: dict[str, Converter] = {
    "Conv": _convolution,
    "ConvTranspose": _transposed_convolution,
    "Det": _determinant,
    "Einsum": _einsum,
    "Gemm": _general_matrix_product,
    "MatMul": _matrix_product,
}
