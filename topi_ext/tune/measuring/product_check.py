"""Does a convolution on a GPU compute what it should? Some of its pixels beside those of numpy."""

import numpy as np
import numpy.typing as npt

from topi_ext.cuda.compute.implicit_gemm import rounded_to_tf32
from topi_ext.cuda.kernel import Knobs
from topi_ext.cuda.winograd_knobs import WinogradGemmKnobs
from topi_ext.cuda.workload import NhwcConvolution
from topi_ext.tune.measuring.agreement import DIRECT_TOLERANCE, WINOGRAD_TOLERANCE
from topi_ext.workloads.convolution import BYTES

ROWS = 2048
"""Pixels of the result that are compared; of a smaller one, all."""

_ALLOWED = {"float16": 2e-3, "tf32": 1e-4, "float32": DIRECT_TOLERANCE, **dict.fromkeys(BYTES, 0.0)}
"""Relative to the largest result. float16 rounds the result by up to 2^-11 of it; sums of tensor cores are
truncated where they are aligned, which costs 2^-22 of the largest for each instruction.
"""

_ALLOWED_OF_TILES = {2: DIRECT_TOLERANCE, 4: WINOGRAD_TOLERANCE}
"""The tolerance of Winograd's by the size of the tile: the small one rounds like the direct convolution."""

Array = npt.NDArray[np.generic]


def allowed_error(workload: NhwcConvolution, knobs: Knobs) -> float:
    """What rounding explains of :func:`largest_error`."""
    if isinstance(knobs, WinogradGemmKnobs):
        return _ALLOWED_OF_TILES[knobs.tile]
    return _ALLOWED[workload.dtype]


def operands(workload: NhwcConvolution) -> tuple[Array, Array]:
    """The same random NHWC data and OHWI weights each time, as they are multiplied."""
    random = np.random.default_rng(0)
    kernel = (workload.out_channels, *workload.kernel, workload.group_channels)
    found = []
    for shape, dtype in ((workload.data_shape, workload.data_dtype), (kernel, workload.weight_dtype)):
        if dtype in BYTES:
            limits = np.iinfo(dtype)
            found.append(random.integers(limits.min, limits.max, shape, dtype, endpoint=True))
        else:
            values = random.standard_normal(shape, np.float32)
            found.append(rounded_to_tf32(values) if workload.dtype == "tf32" else values.astype(dtype))
    return found[0], found[1]


def largest_error(result: Array, data: Array, weight: Array, workload: NhwcConvolution) -> float:
    """The largest difference of NHWC ``result``, relative to the largest value it should have; infinite where
    a value is no number.
    """
    rows = np.arange(workload.rows)
    if workload.rows > ROWS:
        rows = np.random.default_rng(1).choice(rows, ROWS, replace=False)
        # The last tile of rows is where a kernel forgets some.
        rows[0] = workload.rows - 1
    expected = product_rows(data, weight, workload, rows)
    found = result.reshape(workload.rows, workload.out_channels)[rows].astype(np.float64)
    apart = np.abs(found - expected).max()
    largest = np.abs(expected).max()
    if not np.isfinite(apart):
        return float("inf")
    return float(apart / largest) if largest else float(apart)


def product_rows(
    data: Array, weight: Array, workload: NhwcConvolution, rows: Array
) -> npt.NDArray[np.float64]:
    """Pixels of the result by number, float64 [rows, output channels]; zeros lie around the image."""
    image, pixel = np.divmod(rows, workload.out_height * workload.out_width)
    y, x = np.divmod(pixel, workload.out_width)
    result = np.zeros((len(rows), workload.out_channels))
    for i in range(workload.kernel[0]):
        for j in range(workload.kernel[1]):
            top = y * workload.strides[0] + i * workload.dilation[0] - workload.padding[0]
            left = x * workload.strides[1] + j * workload.dilation[1] - workload.padding[1]
            inside = (top >= 0) & (top < workload.in_height) & (left >= 0) & (left < workload.in_width)
            read = data[image[inside], top[inside], left[inside]].astype(np.float64)
            # A matrix for each group: pixels by inputs, and inputs by outputs.
            grouped = read.reshape(-1, workload.groups, workload.group_channels).transpose(1, 0, 2)
            taps = weight[:, i, j].astype(np.float64).reshape(workload.groups, workload.columns, -1)
            products = grouped @ taps.transpose(0, 2, 1)
            result[inside] += products.transpose(1, 0, 2).reshape(-1, workload.out_channels)
    return result
