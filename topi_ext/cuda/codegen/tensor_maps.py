"""Tensor maps: what sm_90's tensor memory accelerator knows of a tensor that it copies tiles of.

The host makes one for each operand and hands it to the kernel as a parameter (CUDA driver API, "Tensor Map
Object Management"). A tiled map copies a box of rows; a map of windows (im2col) walks over the pixels of a
result, row by row and image by image, and takes of each the channels of one tap. What lies outside the tensor
arrives as zeros. Tiles arrive in the permutation of :mod:`topi_ext.cuda.codegen.swizzle`.
"""

from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T

from topi_ext.cuda.codegen.window_maps import ENCODE_WINDOWS
from topi_ext.cuda.workload import GemmConvolution
from topi_ext.dtypes import DTYPE_BYTES
from topi_ext.workloads.convolution import BYTES

ENCODE_TILED = "runtime.cuTensorMapEncodeTiled"
"""TVM's own encoder."""

SWIZZLES = {32: 1, 64: 2, 128: 3}
"""CUtensorMapSwizzle by the bytes of a tile's row."""

PROMOTION = 2
"""CUtensorMapL2promotion: the second-level cache reads 128 bytes at once."""

STRIDE_BYTES = 16
"""What strides between rows are multiples of."""

MOST_BOX, MOST_STEP = 256, 8
"""Rows of a box, and pixels from one to the next."""

MOST_OFFSET = 255
"""The largest distance of a tap from the first one, in pixels along either axis."""

CORNERS = range(-128, 128)
"""How far the box of first taps may begin or end from the image's borders."""


@dataclass(frozen=True)
class TiledMap:
    """Boxes of a matrix by rows. ``extents`` and ``box``: elements of a row, rows."""

    dtype: str
    extents: tuple[int, int]
    box: tuple[int, int]

    @property
    def problem(self) -> str | None:
        """What the accelerator cannot do, if anything."""
        return _row_problem(self.dtype, self.extents[0], self.box[1])

    def encoded(self, place: Any, data: Any) -> Any:
        """The call that makes the map at ``place`` of the tensor at ``data``."""
        size = DTYPE_BYTES[self.dtype]
        numbers = [*self.extents, self.extents[0] * size, *self.box, 1, 1]
        swizzle = SWIZZLES[self.box[0] * size]
        fixed = [0, swizzle, PROMOTION, 0]
        return T.call_packed(ENCODE_TILED, place, self.dtype, 2, data, *_integers([*numbers, *fixed]))


@dataclass(frozen=True)
class WindowMap:
    """Channels of pixels of NHWC data.

    ``extents``: channels, columns, rows, images. ``lower``: where the first tap of the first window lies,
    column and row; ``upper``: where the box of first taps ends, behind the image's end. ``steps``: from one
    window to the next. ``box``: channels and pixels of a tile. ``reach``: of the last tap from the first.
    """

    dtype: str
    extents: tuple[int, int, int, int]
    lower: tuple[int, int]
    upper: tuple[int, int]
    steps: tuple[int, int]
    box: tuple[int, int]
    reach: tuple[int, int]

    @property
    def problem(self) -> str | None:
        """What the accelerator cannot do, if anything."""
        problem = _row_problem(self.dtype, self.extents[0], self.box[1])
        if problem is not None:
            return problem
        if max(self.steps) > MOST_STEP:
            return f"bulk copies of windows {max(self.steps)} pixels apart"
        corners = all(corner in CORNERS for corner in (*self.lower, *self.upper))
        return None if corners and max(self.reach) <= MOST_OFFSET else "bulk copies of so large a window"

    def encoded(self, place: Any, data: Any) -> Any:
        """The call that makes the map at ``place`` of the tensor at ``data``."""
        swizzle = SWIZZLES[self.box[0] * DTYPE_BYTES[self.dtype]]
        numbers = [*self.extents, *self.lower, *self.upper, *self.steps, *self.box, swizzle, PROMOTION]
        return T.call_packed(ENCODE_WINDOWS, place, self.dtype, data, *_integers(numbers))


def is_pointwise(workload: GemmConvolution) -> bool:
    """Are the rows of the product those of the data as they lie?"""
    plain = workload.kernel == (1, 1) and workload.strides == (1, 1)
    return plain and not any(workload.padding)


def data_map(workload: GemmConvolution, block_m: int, block_k: int) -> TiledMap | WindowMap:
    """The map of the data: a tile is ``block_m`` pixels of the result and ``block_k`` of the depth."""
    channels, dtype, box = workload.in_channels, workload.data_dtype, (block_k, block_m)
    if is_pointwise(workload):
        return TiledMap(dtype, (channels, workload.rows), box)
    image = workload.in_width, workload.in_height
    result = workload.out_width, workload.out_height
    lower = -workload.padding[1], -workload.padding[0]
    steps = workload.strides[1], workload.strides[0]
    ends = [(result[axis] - 1) * steps[axis] + 1 + lower[axis] - image[axis] for axis in range(2)]
    reach = [workload.dilation[axis] * (workload.kernel[axis] - 1) for axis in (1, 0)]
    extents = (channels, *image, workload.batch)
    return WindowMap(dtype, extents, lower, (ends[0], ends[1]), steps, box, (reach[0], reach[1]))


def weight_map(workload: GemmConvolution, packed: tuple[int, int], block_n: int, block_k: int) -> TiledMap:
    """The map of packed weights of so many columns and so much depth."""
    columns, depth = packed
    return TiledMap(workload.weight_dtype, (depth, workload.groups * columns), (block_k, block_n))


def bulk_misfit(workload: GemmConvolution, block_m: int, block_n: int, block_k: int) -> str | None:
    """What keeps bulk copies from a workload and its tiles, if anything."""
    if workload.group_channels % block_k and (not is_pointwise(workload) or workload.groups > 1):
        return f"bulk copies of {block_k} of {workload.group_channels} channels"
    if workload.dtype in BYTES and any(workload.padding):
        return "bulk copies of what surrounds an image with a zero point"
    if block_n > MOST_BOX:
        return f"bulk copies of {block_n} columns"
    return data_map(workload, block_m, block_k).problem


def _row_problem(dtype: str, elements: int, rows: int) -> str | None:
    """What is wrong with ``rows`` at once of a tensor whose rows have so many elements, if anything."""
    row = elements * DTYPE_BYTES[dtype]
    if row % STRIDE_BYTES:
        return f"bulk copies of rows of {row} bytes, no multiple of {STRIDE_BYTES}"
    return f"bulk copies of {rows} rows" if rows > MOST_BOX else None


def _integers(values: list[int]) -> list[Any]:
    return [tirx.const(value, "int64") for value in values]
