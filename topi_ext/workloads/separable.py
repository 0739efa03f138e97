"""Two convolutions in one kernel: a depthwise one, and the pointwise one of its result."""

from dataclasses import asdict, dataclass
from functools import cached_property

from topi_ext.indexing import block_of, physical_axes
from topi_ext.workloads.convolution import ConvolutionWorkload

SEPARABLE = "separable_conv2d"
"""The operator of a :class:`SeparableWorkload`."""

CHANNEL_VECTOR = 8
"""Channels of a :class:`SeparableWorkload` between the two convolutions are a multiple of this."""


@dataclass(frozen=True)
class SeparableWorkload(ConvolutionWorkload):
    """A depthwise convolution and the pointwise one of its result, in one kernel.

    Fields are the pointwise convolution's. ``before`` is what differs in the depthwise one: height and width
    of its image, and kernel, strides, padding and dilation in the order of the fields of these names.
    """

    operator: str = SEPARABLE
    before: tuple[int, ...] = ()

    @property
    def depthwise(self) -> ConvolutionWorkload:
        """The convolution that comes first."""
        height, width, rows, columns, down, along, *rest = self.before
        return ConvolutionWorkload(
            batch=self.batch,
            in_channels=self.in_channels,
            out_channels=self.in_channels,
            in_height=height,
            in_width=width,
            kernel=(rows, columns),
            strides=(down, along),
            padding=(rest[0], rest[1], rest[2], rest[3]),
            dilation=(rest[4], rest[5]),
            groups=self.in_channels,
            data_layout=self.data_layout,
            kernel_layout=_depthwise_kernel(self.data_layout),
            out_layout=self.data_layout,
            dtype=self.dtype,
            out_dtype=self.out_dtype,
        )

    @property
    def pointwise(self) -> ConvolutionWorkload:
        """The convolution that comes second."""
        fields = {name: value for name, value in asdict(self).items() if name != "before"}
        return ConvolutionWorkload(**{**fields, "operator": "conv2d"})

    @cached_property
    def is_pointwise(self) -> bool:
        """Never: its pixels are no single run, for the rows are made a few at a time."""
        return False

    @property
    def macs(self) -> int:
        """Multiply-accumulates of both."""
        return super().macs + self.depthwise.macs


def separable(depthwise: ConvolutionWorkload, pointwise: ConvolutionWorkload) -> SeparableWorkload | None:
    """Both as one, where ``pointwise`` reads the result of ``depthwise``; None where no kernel does both."""
    fits = (
        depthwise.kernel_layout == _depthwise_kernel(depthwise.data_layout) != ""
        and depthwise.is_depthwise
        and pointwise.is_pointwise
        and depthwise.out_channels == depthwise.in_channels == pointwise.in_channels
        and pointwise.groups == 1
        and physical_axes(pointwise.out_layout)[-1][0] == "C"
        and depthwise.data_layout == depthwise.out_layout == pointwise.data_layout
        and depthwise.in_channels % CHANNEL_VECTOR == 0
        and (depthwise.out_height, depthwise.out_width) == (pointwise.in_height, pointwise.in_width)
        and {depthwise.dtype, depthwise.out_dtype, pointwise.dtype, pointwise.out_dtype} == {"float32"}
        and not depthwise.depth
        and not pointwise.depth
    )
    if not fits:
        return None
    own = depthwise
    window = (*own.kernel, *own.strides, *own.padding, *own.dilation)
    return SeparableWorkload(
        **{**asdict(pointwise), "operator": SEPARABLE, "before": (own.in_height, own.in_width, *window)}
    )


def _depthwise_kernel(data_layout: str) -> str:
    """The layout of depthwise weights for data with its channels last, in blocks or not; "" for others."""
    block = block_of(data_layout, "C")
    if block > 1:
        return f"OIHW{block}o"
    return "HWOI" if data_layout == "NHWC" else ""
