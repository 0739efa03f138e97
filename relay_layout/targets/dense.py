"""Matrix products on CPUs: which of them run as pointwise convolutions of rows, and their estimated time."""

from collections.abc import Sequence
from math import prod
from typing import Any

from relay_layout.graph import Node, Value
from relay_layout.ir import Extent, constant_array
from relay_layout.targets.convolutions import output_lanes
from relay_layout.targets.cpu_costs import CpuCosts, loops_us
from topi_ext.dtypes import DTYPE_BYTES
from topi_ext.word_forms import ByteWeight
from topi_ext.workload import ConvolutionWorkload

ROWS = {2: "WC", 3: "NWC", 4: "NHWC"}
"""The data layout of rows of a matrix as a convolution, by the rank of the tensor."""

LOOPS_SHARE = 0.1
"""The share of the multiply-add peak that products of two activations reach."""


def kernel_layout(columns: Extent) -> str:
    """The layout in which a constant matrix is stored: in vectors of columns, the last one padded."""
    return f"OI{output_lanes(columns)}o" if isinstance(columns, int) else "IO"


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


def product_workload(
    shape: Sequence[Extent], columns: int, dtype: str, out_dtype: str | None = None
) -> ConvolutionWorkload:
    """The pointwise convolution that computes rows of ``shape`` by a constant matrix of ``columns``.

    ``shape`` is that of the data, as many axes as :data:`ROWS` has; ``out_dtype`` is ``dtype`` if not given.
    """
    layout = ROWS[len(shape)]
    extents: dict[str, Any] = {"N": 1, "H": 1, **dict(zip(layout, shape, strict=True))}
    return ConvolutionWorkload(
        batch=extents["N"],
        in_channels=extents["C"],
        out_channels=columns,
        in_height=extents["H"],
        in_width=extents["W"],
        kernel=(1, 1),
        strides=(1, 1),
        padding=(0, 0, 0, 0),
        dilation=(1, 1),
        groups=1,
        data_layout=layout,
        kernel_layout=kernel_layout(columns),
        out_layout=layout,
        dtype=dtype,
        out_dtype=out_dtype or dtype,
    )


def _workload(rows: Value, matrix: Value, result: Value) -> ConvolutionWorkload | None:
    """The pointwise convolution that computes a product by a constant matrix; None for other products."""
    if matrix.constant is None or matrix.rank != 2 or rows.rank not in ROWS or rows.dtype != matrix.dtype:
        return None
    if rows.dtype not in DTYPE_BYTES or result.dtype not in DTYPE_BYTES:
        return None
    _, outputs = matrix.shape or (1, 1)
    return product_workload(rows.shape or (), int(outputs), rows.dtype, result.dtype)
