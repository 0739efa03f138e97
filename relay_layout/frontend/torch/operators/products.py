"""PyTorch's convolutions and matrix products, in the type of their operands.

Results of TVM's importer are float32 whatever the operands are, and it lacks the transposed convolution of
volumes.
"""

from typing import Any

from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.frontend.operators.convolving import CONVOLUTIONS_BY_RANK, TRANSPOSED_BY_RANK
from relay_layout.frontend.torch.node import Converter
from relay_layout.frontend.torch.operators.open_groups import convolution_by_groups
from relay_layout.ir import Emit, Expression, dtype_of, shape_of
from relay_layout.quantization.run_time import bytes_of


def _convolution(node: Any, importer: Any) -> Expression:
    """``convolution(data, weight, bias, stride, padding, dilation, transposed, output_padding, groups)``."""
    data, weight, bias = importer.retrieve_args(node)[:3]
    stride, padding, dilation, transposed, output_padding, groups = node.args[3:9]
    rank, emit = len(shape_of(data) or ()), importer.block_builder.emit
    kinds = TRANSPOSED_BY_RANK if transposed else CONVOLUTIONS_BY_RANK
    if rank - 2 not in kinds:
        raise ModelError(f"node '{node.name}': a convolution of {rank} dimensions is not supported")
    if not isinstance(groups, int):
        if transposed:
            raise ModelError(
                f"node '{node.name}': a transposed convolution in an open number of groups is not supported; "
                "give the input a fixed batch"
            )
        window = (stride, padding, dilation)
        found = convolution_by_groups(node, emit, data, weight, importer.env[groups], window)
        return _with_bias(emit, found, bias, rank)
    convolve, data_layout, kernel_layout = kinds[rank - 2]
    found = emit(
        convolve(
            data,
            weight,
            strides=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
            data_layout=data_layout,
            kernel_layout=kernel_layout,
            out_dtype=dtype_of(data),
            **({"output_padding": output_padding} if transposed else {}),
        )
    )
    return _with_bias(emit, found, bias, rank)


def _with_bias(emit: Emit, found: Expression, bias: Expression | None, rank: int) -> Expression:
    if bias is None:
        return found
    return emit(relax.op.add(found, emit(relax.op.reshape(bias, (1, -1, *[1] * (rank - 2))))))


def _product(node: Any, importer: Any) -> Expression:
    """``mm(left, right)`` and ``bmm``."""
    left, right = (importer.env[argument] for argument in node.args[:2])
    return importer.block_builder.emit(relax.op.matmul(left, right, out_dtype=dtype_of(left)))


def _product_of_bytes(node: Any, importer: Any) -> Expression:
    """``_int_mm(left, right)``: int8 or uint8 by int8, in int32."""
    emit = importer.block_builder.emit
    left, right = (importer.env[argument] for argument in node.args[:2])
    # Kernels multiply uint8 by int8.
    given = bytes_of(left, None, emit)
    total = emit(relax.op.matmul(given.tensor, right, out_dtype="int32"))
    if given.zero_point is None:
        return total
    sums = emit(relax.op.sum(emit(relax.op.astype(right, "int32")), [0], True))
    return emit(relax.op.subtract(total, emit(relax.op.multiply(given.zero_point, sums))))


def _sum_with_product(node: Any, importer: Any) -> Expression:
    """``addmm(addend, left, right, *, beta=1, alpha=1)`` and ``baddbmm``; of beta 0 the addend is ignored."""
    addend, left, right = (importer.env[argument] for argument in node.args[:3])
    emit, dtype = importer.block_builder.emit, dtype_of(left)
    found = emit(relax.op.matmul(left, right, out_dtype=dtype))
    alpha, beta = node.kwargs.get("alpha", 1), node.kwargs.get("beta", 1)
    if alpha != 1:
        found = emit(relax.op.multiply(found, relax.const(alpha, dtype)))
    if beta == 0:
        return found
    if beta != 1:
        addend = emit(relax.op.multiply(addend, relax.const(beta, dtype)))
    return emit(relax.op.add(found, addend))


CONVERTERS: dict[str, Converter] = {
    "_int_mm.default": _product_of_bytes,
    "addmm.default": _sum_with_product,
    "baddbmm.default": _sum_with_product,
    "bmm.default": _product,
    "convolution.default": _convolution,
    "mm.default": _product,
}
"""By the names that TVM's importer has for operations, whose own converters they replace."""
