"""Convolutions of NHWC data, as kernels of GPUs compute them: matrix products, and depthwise ones."""

import json
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from topi_ext.workloads.convolution import BYTES
from topi_ext.workloads.text import with_tuples

COPY_BYTES = 16
"""What one copy from global to shared memory moves at most."""

GEMM_CONVOLUTION = "gemm_conv2d"
DEPTHWISE_CONVOLUTION = "depthwise_conv2d_nhwc"

_BYTES = {"uint8": 1, "int8": 1, "float16": 2, "float32": 4}


@dataclass(frozen=True)
class NhwcConvolution:
    """A 2-D convolution of NHWC data; extents in elements, ``padding`` as (top, left, bottom, right).

    ``dtype`` is what is multiplied: "float16", "tf32" or "float32" with sums of float32, or data of "uint8"
    or "int8" by weights of int8 with sums of int32.
    """

    batch: int
    in_height: int
    in_width: int
    in_channels: int
    out_channels: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int, int, int]
    dilation: tuple[int, int]
    groups: int
    dtype: str

    @property
    def data_shape(self) -> tuple[int, int, int, int]:
        """Images, rows, columns and channels of the data."""
        return self.batch, self.in_height, self.in_width, self.in_channels

    @property
    def out_height(self) -> int:
        reach = self.dilation[0] * (self.kernel[0] - 1) + 1
        return (self.in_height + self.padding[0] + self.padding[2] - reach) // self.strides[0] + 1

    @property
    def out_width(self) -> int:
        reach = self.dilation[1] * (self.kernel[1] - 1) + 1
        return (self.in_width + self.padding[1] + self.padding[3] - reach) // self.strides[1] + 1

    @property
    def rows(self) -> int:
        """Pixels of the result."""
        return self.batch * self.out_height * self.out_width

    @property
    def columns(self) -> int:
        """Output channels of a group."""
        return self.out_channels // self.groups

    @property
    def group_channels(self) -> int:
        return self.in_channels // self.groups

    @property
    def taps(self) -> int:
        return self.kernel[0] * self.kernel[1]

    @property
    def has_window(self) -> bool:
        """Does a result read several pixels, or what surrounds the image?"""
        return self.taps > 1 or any(self.padding)

    @property
    def depth(self) -> int:
        """How many products each element sums."""
        return self.taps * self.group_channels

    @property
    def macs(self) -> int:
        return self.rows * self.out_channels * self.depth

    @property
    def data_dtype(self) -> str:
        """The dtype of data in memory: tf32 is float32 there."""
        return "float32" if self.dtype == "tf32" else self.dtype

    @property
    def weight_dtype(self) -> str:
        return "int8" if self.dtype in BYTES else self.data_dtype

    @property
    def sum_dtype(self) -> str:
        return "int32" if self.dtype in BYTES else "float32"

    @property
    def element_bytes(self) -> int:
        return _BYTES[self.data_dtype]

    def to_json(self) -> str:
        """One line, keys sorted."""
        return json.dumps(asdict(self), sort_keys=True)


@dataclass(frozen=True)
class GemmConvolution(NhwcConvolution):
    """One as the matrix product that tensor cores compute (implicit GEMM).

    The product has a row for every pixel of the result, a column for every output channel of a group, and is
    summed over taps, and for each tap over the input channels of a group.
    """

    operator: str = GEMM_CONVOLUTION

    @cached_property
    def copy_elements(self) -> int:
        """Neighbouring input channels that one copy to shared memory moves: 16 bytes, or less where it
        must.
        """
        largest = COPY_BYTES // self.element_bytes
        return next(size for size in (16, 8, 4, 2, 1) if size <= largest and self.group_channels % size == 0)


@dataclass(frozen=True)
class DepthwiseConvolution(NhwcConvolution):
    """One whose groups are single input channels, each of which makes ``columns`` output channels."""

    operator: str = DEPTHWISE_CONVOLUTION


_KINDS: dict[str, type[GemmConvolution | DepthwiseConvolution]] = {
    GEMM_CONVOLUTION: GemmConvolution,
    DEPTHWISE_CONVOLUTION: DepthwiseConvolution,
}


def nhwc_convolution(text: str) -> GemmConvolution | DepthwiseConvolution:
    """What ``to_json`` of either kind wrote."""
    fields: dict[str, Any] = json.loads(text)
    return _KINDS[fields["operator"]](**with_tuples(fields))


def nhwc_class(operator: Any) -> type[GemmConvolution | DepthwiseConvolution] | None:
    """The kind of workload that an operator names, if it is one of these."""
    return _KINDS.get(operator) if isinstance(operator, str) else None
