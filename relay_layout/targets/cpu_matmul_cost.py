"""The estimated time of a matrix product on a CPU."""

from math import prod

from relay_layout.graph import Node, Value
from relay_layout.ir import constant_array
from relay_layout.targets.cpu_costs import CpuCosts, loops_us
from relay_layout.targets.matrix_products import ROWS, product_workload
from topi_ext.dtypes import DTYPE_BYTES
from topi_ext.workloads.convolution import ConvolutionWorkload
from topi_ext.workloads.word_forms import ByteWeight

LOOPS_SHARE = 0.1
"""The share of the multiply-add peak that products of two activations reach."""


def cpu_matmul_us(node: Node, target: CpuCosts) -> float:
    """Estimated microseconds of a product of static shapes.

    By its kernel if the second operand is constant, else by the multiply-add peak and the bytes moved.
    """
    left, right = node.operands
    result = node.results[0]
    workload = _workload(left, right, result)
    if workload is not None and right.constant is not None:
        form = target.kernel_form(workload, ByteWeight(constant_array(right.constant).T))
        return target.kernels.choose(form).microseconds + target.facts.launch_us
    multiply_adds = prod(result.shape or ()) * int((left.shape or (1,))[-1])
    return loops_us((left, right, result), multiply_adds, LOOPS_SHARE, target)


def _workload(rows: Value, matrix: Value, result: Value) -> ConvolutionWorkload | None:
    """The pointwise convolution that computes a product by a constant matrix; None for other products."""
    if matrix.constant is None or matrix.rank != 2 or rows.rank not in ROWS or rows.dtype != matrix.dtype:
        return None
    if rows.dtype not in DTYPE_BYTES or result.dtype not in DTYPE_BYTES:
        return None
    _, outputs = matrix.shape or (1, 1)
    return product_workload(rows.shape or (), int(outputs), rows.dtype, result.dtype)
