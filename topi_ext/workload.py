"""What a convolution, a pooling or a layout transform *is*, apart from how it is computed.

A workload names a kernel by mathematics and memory (operator, extents, strides, padding, dilation,
groups, dtypes, layouts), so that it survives releases of TVM and can be read and merged by a
person. It travels inside the function as a block annotation, and it is the key of a tuning record.
"""

import json
from dataclasses import asdict, dataclass
from math import prod
from typing import Any

from topi_ext.indexing import physical_axes, word_axis

ANNOTATION = "topi_ext.workload"
"""Block annotation that carries :meth:`ConvolutionWorkload.to_json` or :meth:`PoolingWorkload.to_json`."""

LAYOUT_TRANSFORM = "layout_transform"

BYTES = ("uint8", "int8")
WORDS = tuple((byte, "int32") for byte in BYTES)
"""Dtypes of data and result that dot products of bytes are for, by weights of int8."""

ALGORITHM = "topi_ext.algorithm"
"""Block annotation that names the algorithm of a convolution; a direct one has none."""


PLANES = 2
"""The side of a 3-D convolution that is neither rows nor columns; see :meth:`ConvolutionWorkload.along`."""


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

    @property
    def depth(self) -> tuple[Any, ...]:
        """What :class:`VolumeWorkload` has along its third axis; nothing of two axes."""
        return ()

    @property
    def spatial(self) -> str:
        """The letters of its axes."""
        return "DHW" if self.depth else "HW"

    def along(self, side: int) -> tuple[Any, ...]:
        """Of rows (0), columns (1) or planes (2) what :attr:`VolumeWorkload.depth` is of these."""
        if side == PLANES:
            return self.depth
        extent, before, after = (self.in_height, self.in_width)[side], *self.padding[side::2]
        return extent, self.kernel[side], self.strides[side], before, after, self.dilation[side]

    @property
    def out_depth(self) -> Any:
        """Planes of the result; one of a 2-D convolution."""
        return self._out(PLANES) if self.depth else 1

    @property
    def planes(self) -> int:
        """Images of rows and columns that are computed, a symbolic batch taken for one."""
        return (self.batch if isinstance(self.batch, int) else 1) * int(self.out_depth)

    @property
    def taps(self) -> int:
        """Elements of the kernel for one pair of channels."""
        return (self.depth[1] if self.depth else 1) * self.kernel[0] * self.kernel[1]

    @property
    def is_padded(self) -> bool:
        """Is there padding on any side?"""
        return any(self.padding) or any(self.depth[3:5])

    @property
    def out_height(self) -> Any:
        return self._out(0)

    @property
    def out_width(self) -> Any:
        return self._out(1)

    def _out(self, side: int) -> Any:
        extent, taps, stride, before, after, dilation = self.along(side)
        return (extent + before + after - (dilation * (taps - 1) + 1)) // stride + 1

    @property
    def weight_dtype(self) -> str:
        """That of the data; for bytes it is int8 where int32 is accumulated, and else the result's."""
        if self.dtype not in BYTES:
            return self.dtype
        return "int8" if self.out_dtype == "int32" else self.out_dtype

    @property
    def word_axis(self) -> str:
        """The axis along which dot products of four bytes run; "" where products are summed one by one."""
        return word_axis(self.kernel_layout) if (self.dtype, self.out_dtype) in WORDS else ""

    @property
    def is_depthwise(self) -> bool:
        """One input channel per group: nothing is reduced over channels, and a vector holds several groups.

        Padded vectors are of one group.
        """
        return self.groups == self.in_channels and self.groups > 1 and not self.padded_lanes

    @property
    def is_pointwise(self) -> bool:
        """A matrix product over the pixels of each image: 1x1, stride 1, no padding."""
        return self.taps == 1 and self.strides == (1, 1) and not self.is_padded

    @property
    def group_in_channels(self) -> int:
        return self.in_channels // self.groups

    @property
    def group_out_channels(self) -> int:
        return self.out_channels // self.groups

    @property
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
        return _to_json(asdict(self))

    @staticmethod
    def from_json(text: str) -> "ConvolutionWorkload":
        fields = _from_json(text)
        return VolumeWorkload(**fields) if "depth" in fields else ConvolutionWorkload(**fields)


@dataclass(frozen=True)
class VolumeWorkload(ConvolutionWorkload):
    """A 3-D convolution: that of planes of rows and columns, summed over planes of the kernel.

    ``depth`` is what it has along its third axis: extent, taps of the kernel, stride, padding in front and
    behind, dilation.
    """

    operator: str = "conv3d"
    depth: tuple[Any, ...] = ()


def in_depth(planes: ConvolutionWorkload, depth: tuple[Any, ...]) -> VolumeWorkload:
    """The 3-D convolution whose planes are those of ``planes``, with ``depth`` as :class:`VolumeWorkload`."""
    return VolumeWorkload(**{**asdict(planes), "operator": "conv3d", "depth": depth})


@dataclass(frozen=True)
class PoolingWorkload:
    """A 2-D window reduction; ``operator`` is ``max_pool2d`` or ``avg_pool2d``."""

    operator: str
    channels: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    layout: str
    dtype: str

    def to_json(self) -> str:
        """One line, keys sorted."""
        return _to_json(asdict(self))

    @staticmethod
    def from_json(text: str) -> "PoolingWorkload":
        return PoolingWorkload(**_from_json(text))


@dataclass(frozen=True)
class TransformWorkload:
    """A tensor brought from one layout into another.

    ``shape`` are its extents in the order of ``axes``, letters that both layouts name, such as ``NCHW``.
    """

    axes: str
    shape: tuple[int, ...]
    source_layout: str
    target_layout: str
    dtype: str
    operator: str = LAYOUT_TRANSFORM

    @property
    def elements(self) -> int:
        """How many elements move."""
        return prod(self.shape)

    def to_json(self) -> str:
        """One line, keys sorted."""
        return _to_json(asdict(self))

    @staticmethod
    def from_json(text: str) -> "TransformWorkload":
        return TransformWorkload(**_from_json(text))


def padded_lanes(kernel_layout: str, out_layout: str, groups: int, channels: int) -> int:
    """Lanes of the kernel's vectors of outputs if ``channels`` do not fill them; else 0.

    Only a result with its channels last can leave lanes out. Where there are several ``groups`` the kernel's
    layout then begins with their axis, as in "GOHWI16o".
    """
    (first, _), *_, (axis, lanes) = physical_axes(kernel_layout)
    if axis != "O" or lanes == 0 or physical_axes(out_layout)[-1] != ("C", 0):
        return 0
    return lanes if first == "G" or (groups == 1 and channels % lanes) else 0


def operator_of(annotation: str) -> str:
    """The operator a serialised workload belongs to."""
    return str(json.loads(annotation)["operator"])


def _to_json(fields: dict[str, Any]) -> str:
    plain = {
        key: value if isinstance(value, (int, str, tuple, list)) else str(value)
        for key, value in fields.items()
    }
    return json.dumps(plain, sort_keys=True)


def _from_json(text: str) -> dict[str, Any]:
    fields = json.loads(text)
    return {key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()}
