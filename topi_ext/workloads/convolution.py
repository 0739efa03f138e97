"""What a convolution *is*, apart from how it is computed.

A workload names a kernel by mathematics and memory (operator, extents, strides, padding, dilation,
groups, dtypes, layouts), so that it survives releases of TVM and can be read and merged by a
person. It travels inside the function as a block annotation, and it is the key of a tuning record.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

from topi_ext.codegen.bfloat16 import BITS
from topi_ext.indexing import lies_in_pairs, physical_axes, word_axis
from topi_ext.workloads.text import workload_text

ANNOTATION = "topi_ext.workload"
"""Block annotation that carries :meth:`ConvolutionWorkload.to_json`, or that of a pooling
(:class:`topi_ext.workloads.pooling.PoolingWorkload`)."""

TYPICAL = "topi_ext.typical"
"""Block annotation of a convolution with a symbolic batch, height, width or depth: the workload at a typical
size, as JSON, for which its knobs are chosen."""

BYTES = ("uint8", "int8")
"""What is multiplied by int8 weights and summed as int32."""

WIDENED = "int16"
"""What kernels make of data of uint8 where no instruction adds up products of bytes."""

_WORDS = {**{(byte, "int32"): 4 for byte in BYTES}, (WIDENED, "int32"): 2, ("bfloat16", "float32"): 2}
"""Elements in a word, by the dtypes of data and result that dot products of words are for."""


def word_elements(dtype: str, out_dtype: str) -> int:
    """Elements of a word in dot products of these dtypes; 1 where there are no such dot products."""
    return _WORDS.get((dtype, out_dtype), 1)


ALGORITHM = "topi_ext.algorithm"
"""Block annotation that names the algorithm of a convolution; a direct one has none."""


ROWS, COLUMNS, PLANES = 0, 1, 2
"""Spatial axes, as :meth:`ConvolutionWorkload.along` numbers them: height, width, and depth in 3-D alone."""


class SpatialAxis(NamedTuple):
    """A convolution along one spatial axis, in elements of the image."""

    extent: Any
    """The extent of the input image, without padding; an int, or symbolic."""

    taps: int
    """Extent of the convolution kernel."""

    stride: int
    pad_before: int
    pad_after: int
    dilation: int

    @property
    def window(self) -> int:
        """Elements of the padded image from the first tap to the last."""
        return self.dilation * (self.taps - 1) + 1


_ONE_PLANE = SpatialAxis(extent=1, taps=1, stride=1, pad_before=0, pad_after=0, dilation=1)


@dataclass(frozen=True)
class ConvolutionWorkload:
    """A 2-D convolution; extents in elements, ``padding`` as (top, left, bottom, right)."""

    batch: Any
    in_channels: int
    out_channels: int
    in_height: Any
    in_width: Any
    kernel: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int, int, int]
    dilation: tuple[int, int]
    groups: int
    data_layout: str
    kernel_layout: str
    out_layout: str
    dtype: str
    out_dtype: str
    operator: str = "conv2d"
    pairs_fit: bool = False
    """Whether the sum of two products always fits int16, for weights of bytes in words. The products are
    those of neighbours for uint8 data (:func:`topi_ext.workloads.word_forms.pairs_fit`), and any two for
    int8."""

    spare_bits: int = 0
    """Bits of int32 that the sums leave free, for weights of int16
    (:attr:`topi_ext.workloads.word_forms.ByteWeight.spare_bits`)."""

    @property
    def depth(self) -> tuple[Any, ...]:
        """The fields of the :class:`SpatialAxis` of a :class:`VolumeWorkload`'s depth; empty in 2-D."""
        return ()

    @property
    def spatial(self) -> str:
        """The letters of the spatial axes, as layouts name them."""
        return "DHW" if self.depth else "HW"

    def along(self, side: int) -> SpatialAxis:
        """The convolution along :data:`ROWS`, :data:`COLUMNS` or :data:`PLANES`, of which 2-D has one."""
        if side == PLANES:
            return SpatialAxis(*self.depth) if self.depth else _ONE_PLANE
        before, after = self.padding[side::2]
        image = (self.in_height, self.in_width)[side]
        return SpatialAxis(image, self.kernel[side], self.strides[side], before, after, self.dilation[side])

    @property
    def in_depth(self) -> Any:
        """Planes of the input image; 1 in 2-D."""
        return self.along(PLANES).extent

    @property
    def kernel_depth(self) -> int:
        """Planes of the convolution kernel; 1 in 2-D."""
        return self.along(PLANES).taps

    @property
    def out_depth(self) -> Any:
        """Planes of the result; 1 in 2-D."""
        return self.out_extent(PLANES)

    @cached_property
    def planes(self) -> int:
        """Two-dimensional images in the result; a symbolic batch counts as one."""
        return (self.batch if isinstance(self.batch, int) else 1) * int(self.out_depth)

    @cached_property
    def taps(self) -> int:
        """Elements of the kernel for one pair of channels."""
        return self.kernel_depth * self.kernel[0] * self.kernel[1]

    @property
    def summed_planes(self) -> int:
        """Pairs of a kernel plane and an input channel: the 2-D convolutions that are summed in one group."""
        return self.kernel_depth * self.in_channels

    @cached_property
    def is_padded(self) -> bool:
        """Is there padding on any side?"""
        depth = self.along(PLANES)
        return any((*self.padding, depth.pad_before, depth.pad_after))

    @cached_property
    def is_copied(self) -> bool:
        """Does the kernel copy the image: with its border, or into the dtype that it is multiplied in?"""
        in_bytes = self.dtype in BYTES and self.weight_dtype == "int8"
        return self.is_padded or not (in_bytes or self.data_dtype == self.weight_dtype)

    @cached_property
    def out_height(self) -> Any:
        return self.out_extent(ROWS)

    @cached_property
    def out_width(self) -> Any:
        return self.out_extent(COLUMNS)

    def out_extent(self, side: int) -> Any:
        """The extent of the result along one spatial axis, as :meth:`along` numbers them."""
        axis = self.along(side)
        return (axis.extent + axis.pad_before + axis.pad_after - axis.window) // axis.stride + 1

    @property
    def weight_dtype(self) -> str:
        """What the data is multiplied as; for bytes it is int8 where int32 is accumulated, and else the
        result's.
        """
        if self.dtype not in BYTES:
            return BITS if self.dtype == "bfloat16" else self.dtype
        return "int8" if self.out_dtype == "int32" else self.out_dtype

    @property
    def data_dtype(self) -> str:
        """The dtype of the data in memory, where bfloat16 is its bits (:mod:`topi_ext.codegen.bfloat16`)."""
        return {"bfloat16": BITS, WIDENED: "uint8"}.get(self.dtype, self.dtype)

    @property
    def is_static(self) -> bool:
        """Are all extents but the batch known, as knobs need them?"""
        extents = (self.in_channels, self.out_channels, self.in_height, self.in_width, *self.depth)
        return all(isinstance(extent, int) for extent in extents)

    @cached_property
    def word_axis(self) -> str:
        """The axis along which dot products of words run; "" where products are summed one by one."""
        return word_axis(self.kernel_layout, word_elements(self.dtype, self.out_dtype))

    @property
    def word(self) -> int:
        """Elements in a word; 1 where products are summed one by one."""
        return word_elements(self.dtype, self.out_dtype) if self.word_axis else 1

    @property
    def paired_words(self) -> bool:
        """Does its kernel store two words of each output side by side, as products of matrices take them
        (:mod:`topi_ext.codegen.neon_matrices`)?"""
        return bool(self.word_axis) and lies_in_pairs(self.kernel_layout)

    @cached_property
    def is_depthwise(self) -> bool:
        """One input channel per group: nothing is reduced over channels, and a vector holds several groups.

        Padded vectors are of one group.
        """
        return self.groups == self.in_channels and self.groups > 1 and not self.padded_lanes

    @cached_property
    def is_pointwise(self) -> bool:
        """A matrix product over the pixels of each image: 1x1, stride 1, no padding."""
        return self.taps == 1 and self.strides == (1, 1) and not self.is_padded

    @cached_property
    def group_in_channels(self) -> int:
        return self.in_channels // self.groups

    @property
    def group_out_channels(self) -> int:
        return self.out_channels // self.groups

    @cached_property
    def padded_lanes(self) -> int:
        """Lanes of the vectors that the output channels of a group do not fill; 0 where they do.

        The weights of the lanes that are left over are zeros, and their results are not stored.
        """
        return padded_lanes(self.kernel_layout, self.out_layout, self.groups, self.out_channels)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the direct algorithm; extents must be integers."""
        pixels = int(self.batch) * int(self.out_depth) * int(self.out_height) * int(self.out_width)
        return pixels * self.out_channels * self.group_in_channels * self.taps

    def to_json(self) -> str:
        """One line, keys sorted; symbolic extents become their names."""
        return self._text

    @cached_property
    def _text(self) -> str:
        return workload_text(self)


@dataclass(frozen=True)
class VolumeWorkload(ConvolutionWorkload):
    """A 3-D convolution: 2-D convolutions of planes, summed over the planes of the kernel.

    ``depth`` has the fields of the :class:`SpatialAxis` along which the planes lie; the other fields describe
    the planes.
    """

    operator: str = "conv3d"
    depth: tuple[Any, ...] = ()


def fields_of(workload: ConvolutionWorkload) -> dict[str, Any]:
    """What every convolution's workload has; not copies: symbolic extents are the variables of a shape."""
    return {entry.name: getattr(workload, entry.name) for entry in fields(ConvolutionWorkload)}


def volume_workload(planes: ConvolutionWorkload, depth: SpatialAxis) -> VolumeWorkload:
    """The 3-D convolution that is ``planes`` in each plane, and ``depth`` across them."""
    return VolumeWorkload(**{**fields_of(planes), "operator": "conv3d", "depth": depth})


def workload_along(
    image: Sequence[Any],
    kernel: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    **others: Any,
) -> ConvolutionWorkload:
    """The convolution along one to three spatial axes: columns, rows and columns, or planes of these.

    One along columns alone is that of images of one row. ``padding`` lists all that is before, then all that
    is after; ``others`` are the other fields.
    """
    before, after = padding[: len(image)], padding[len(image) :]
    along = zip(image, kernel, strides, before, after, dilation, strict=True)
    axes = [_ONE_PLANE, *(SpatialAxis(*each) for each in along)]
    rows, columns = axes[-2:]
    planes = ConvolutionWorkload(
        in_height=rows.extent,
        in_width=columns.extent,
        kernel=(rows.taps, columns.taps),
        strides=(rows.stride, columns.stride),
        padding=(rows.pad_before, columns.pad_before, rows.pad_after, columns.pad_after),
        dilation=(rows.dilation, columns.dilation),
        **others,
    )
    return volume_workload(planes, axes[1]) if len(image) == len("DHW") else planes


def padded_lanes(kernel_layout: str, out_layout: str, groups: int, channels: int) -> int:
    """Lanes of the kernel's vectors of outputs if ``channels`` do not fill them; else 0.

    Only a result with its channels last can leave lanes out. Where there are several ``groups`` the kernel's
    layout then begins with their axis, as in "GOHWI16o". Words of inputs may follow the lanes: "OHWI16o2i".
    """
    axes = list(physical_axes(kernel_layout))
    first = axes[0][0]
    while axes[-1][0] != "O" and axes[-1][1]:
        axes.pop()
    axis, lanes = axes[-1]
    if axis != "O" or lanes == 0 or physical_axes(out_layout)[-1] != ("C", 0):
        return 0
    return lanes if first == "G" or (groups == 1 and channels % lanes) else 0
