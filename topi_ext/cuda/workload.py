"""A convolution as the matrix product that tensor cores compute (implicit GEMM)."""

import json
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

COPY_ELEMENTS = 8
"""Elements of float16 that one 16-byte copy moves."""


@dataclass(frozen=True)
class GemmConvolution:
    """A 2-D convolution of NHWC data; extents in elements, ``padding`` as (top, left, bottom, right).

    The product has a row for every pixel of the result, a column for every output channel of a group, and is
    summed over taps, and for each tap over the input channels of a group.
    ``dtype`` is what is multiplied: "float16", "tf32" or "float32". Sums are float32.
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
    def out_height(self) -> int:
        reach = self.dilation[0] * (self.kernel[0] - 1) + 1
        return (self.in_height + self.padding[0] + self.padding[2] - reach) // self.strides[0] + 1

    @property
    def out_width(self) -> int:
        reach = self.dilation[1] * (self.kernel[1] - 1) + 1
        return (self.in_width + self.padding[1] + self.padding[3] - reach) // self.strides[1] + 1

    @property
    def rows(self) -> int:
        return self.batch * self.out_height * self.out_width

    @property
    def columns(self) -> int:
        return self.out_channels // self.groups

    @property
    def group_channels(self) -> int:
        return self.in_channels // self.groups

    @property
    def depth(self) -> int:
        """How many products each element sums."""
        return self.kernel[0] * self.kernel[1] * self.group_channels

    @property
    def macs(self) -> int:
        return self.rows * self.out_channels * self.depth

    @cached_property
    def copy_elements(self) -> int:
        """Neighbouring input channels that one copy to shared memory moves: 16 bytes, or less where it
        must.
        """
        largest = COPY_ELEMENTS * 2 // self.element_bytes
        return next(size for size in (8, 4, 2, 1) if size <= largest and self.group_channels % size == 0)

    @property
    def element_bytes(self) -> int:
        return 2 if self.dtype == "float16" else 4

    def to_json(self) -> str:
        """One line, keys sorted."""
        return json.dumps({"operator": "gemm_conv2d", **asdict(self)}, sort_keys=True)

    @staticmethod
    def from_json(text: str) -> "GemmConvolution":
        fields: dict[str, Any] = json.loads(text)
        fields.pop("operator")
        named: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()
        }
        return GemmConvolution(**named)


__all__ = ["COPY_ELEMENTS", "GemmConvolution"]
