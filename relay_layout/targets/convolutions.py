"""Extents of convolutions, and the layouts of data, kernel and result that go together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from relay_layout.graph import Node
from relay_layout.ir import Extent, constant_array, is_static
from relay_layout.layout import Layout
from relay_layout.ops import ConvolutionLayouts
from topi_ext.divisors import divisors
from topi_ext.workloads.word_forms import ByteWeight

CONVOLUTIONS = ("nn.conv1d", "nn.conv2d", "nn.conv3d")
"""Those that have tiled kernels, and that indices in ``skip_layers`` of a request count."""

TRANSPOSED_CONVOLUTIONS = {f"{name}_transpose": name for name in CONVOLUTIONS}
"""Transposed ones, which may take the layouts named for others, each with the one that makes its phases."""

CONVOLUTION_AXES = {
    "nn.conv1d": "NCW",
    "nn.conv2d": "NCHW",
    "nn.conv3d": "NCDHW",
    "nn.conv1d_transpose": "NCW",
    "nn.conv2d_transpose": "NCHW",
    "nn.conv3d_transpose": "NCDHW",
}
"""Operators whose layouts a caller may name, with the axes of their data."""

DEPTHWISE = "nn.depthwise_conv2d"
"""The key of desired layouts for depthwise nn.conv2d alone."""

USUAL_KERNELS: Mapping[str, Mapping[str, str]] = {
    "nn.conv1d": {"NCW": "OIW", "NWC": "WIO"},
    "nn.conv2d": {"NCHW": "OIHW", "NHWC": "HWIO", "HWNC": "HWOI"},
    DEPTHWISE: {"NCHW": "OIHW", "NHWC": "HWOI", "HWNC": "HWOI"},
    "nn.conv3d": {"NCDHW": "OIDHW", "NDHWC": "DHWIO"},
    "nn.conv1d_transpose": {"NCW": "IOW", "NWC": "WIO"},
    "nn.conv2d_transpose": {"NCHW": "IOHW", "NHWC": "HWIO"},
    "nn.conv3d_transpose": {"NCDHW": "IODHW", "NDHWC": "DHWOI"},
}
"""The kernel layout that goes with a data layout where the caller says "default", as in Relay.

I counts the input channels of a group, and for a transposed convolution all of them; O all output channels,
and for a transposed convolution those of a group.
"""

SMALLEST_BLOCK = 4
"""Channels in the smallest block; fewer channels are stored in a layout without blocks."""


@dataclass(frozen=True)
class Convolution:
    """Extents of a convolution in its own letters; ``image`` and ``kernel`` have one per spatial axis."""

    operator: str
    batch: Extent
    in_channels: int
    out_channels: int
    image: tuple[Extent, ...]
    kernel: tuple[int, ...]
    groups: int
    weight: ByteWeight | None = field(default=None, compare=False, repr=False)
    """A constant one, for costs that its elements decide; known where it is read off a graph."""

    @property
    def spatial(self) -> str:
        """Letters of the spatial axes."""
        return CONVOLUTION_AXES[self.operator][2:]

    @property
    def is_transposed(self) -> bool:
        return self.operator in TRANSPOSED_CONVOLUTIONS

    @property
    def is_depthwise(self) -> bool:
        return self.groups > 1 and self.groups == self.in_channels

    @property
    def group_out_channels(self) -> int:
        return self.out_channels // self.groups

    @property
    def channels_first(self) -> str:
        """``"NCHW"`` and the like."""
        return f"NC{self.spatial}"

    @property
    def channels_last(self) -> str:
        """``"NHWC"`` and the like."""
        return f"N{self.spatial}C"


def convolution_of(node: Node) -> Convolution | None:
    """The extents of ``node``; None for other operators, symbolic channels or kernels, blocked layouts."""
    found = convolution_with(node.operator, node.attributes, node.operand_shapes())
    if found is None or node.operands[1].constant is None:
        return found
    outputs = str(node.attributes.kernel_layout).index("O")
    weight = np.moveaxis(constant_array(node.operands[1].constant), outputs, 0)
    return replace(found, weight=ByteWeight(weight))


def convolution_with(
    operator: str, attributes: Any, shapes: Sequence[Sequence[Extent]]
) -> Convolution | None:
    """As :func:`convolution_of`, from a call's attributes and the shapes of its operands."""
    if operator not in CONVOLUTION_AXES:
        return None
    texts = [str(attributes.data_layout), str(attributes.kernel_layout)]
    if any(not text.isupper() or len(shape) != len(text) for text, shape in zip(texts, shapes, strict=True)):
        return None
    data = dict(zip(texts[0], shapes[0], strict=True))
    weight = dict(zip(texts[1], shapes[1], strict=True))
    if not is_static([data["C"], *weight.values()]):
        return None
    groups, spatial = int(attributes.groups), CONVOLUTION_AXES[operator][2:]
    return Convolution(
        operator,
        data["N"],
        data["C"],
        weight["O"] * groups if operator in TRANSPOSED_CONVOLUTIONS else weight["O"],
        tuple(data[axis] for axis in spatial),
        tuple(weight[axis] for axis in spatial),
        groups,
    )


def desired_layouts(convolution: Convolution, data: Layout) -> ConvolutionLayouts | None:
    """The usual layouts for a data layout; None without a kernel for it.

    A block that does not divide the channels becomes a smaller one.
    """
    if not data.is_blocked:
        return plain_layouts(convolution, str(data))
    if data.blocked_axes != ("C",) or str(data.primal_layout) != convolution.channels_first:
        return None
    return fitting_layouts(convolution, str(data), str(data))


def blocks_fit(convolution: Convolution, layouts: ConvolutionLayouts) -> bool:
    """Do the blocks of data, kernel and result divide the channels?"""
    inputs, outputs, groups = convolution.in_channels, convolution.out_channels, convolution.groups
    own = (inputs, outputs // groups) if convolution.is_transposed else (inputs // groups, outputs)
    sides = [(layouts.data, "C", inputs), (layouts.out, "C", outputs)]
    sides += [(layouts.kernel, axis, channels) for axis, channels in zip("IO", own, strict=True)]
    return all(Layout.parse(text).uneven_axis({axis: channels}) is None for text, axis, channels in sides)


def plain_layouts(convolution: Convolution, data: str) -> ConvolutionLayouts:
    """Plain data and result with the usual kernel layout, else with the kernel's axes in the order of the
    data's.
    """
    named = DEPTHWISE if convolution.operator == "nn.conv2d" and convolution.is_depthwise else ""
    usual = USUAL_KERNELS[named or convolution.operator].get(data)
    letters = {"N": "I", "C": "O"} if convolution.is_transposed else {"N": "O", "C": "I"}
    kernel = usual or "".join(letters.get(axis, axis) for axis in data)
    return ConvolutionLayouts(data, kernel, data)


def fitting_layouts(convolution: Convolution, data: str, out: str) -> ConvolutionLayouts:
    """The layouts nearest to ``data`` and ``out`` that fit the channels, with their kernel layout.

    A block that does not divide the channels is halved until it does; below :data:`SMALLEST_BLOCK` the layout
    is channels last, whose kernels take any number of channels. Data with fewer channels than that, as of a
    first layer, stays channels first: its kernel broadcasts single elements, so that another layout would
    only add a transform.
    """
    spatial, last = convolution.spatial, convolution.channels_last
    out = _fitting_memory(convolution, convolution.out_channels, out)
    if convolution.is_depthwise:
        if convolution.out_channels != convolution.in_channels:
            out = last
        block = Layout.parse(out).block("C")
        lanes, run = ("i", "IO") if convolution.is_transposed else ("o", "OI")
        kernel = f"OI{spatial}{block}{lanes}" if block > 1 else f"{spatial}{run}"
        return ConvolutionLayouts(out, kernel, out)
    if convolution.in_channels < SMALLEST_BLOCK and data != last:
        data = convolution.channels_first
    else:
        data = _fitting_memory(convolution, convolution.in_channels, data)
    if convolution.is_transposed:
        return ConvolutionLayouts(data, _transposed_kernel(convolution, data, out), out)
    block = Layout.parse(data).block("C")
    group_channels = convolution.in_channels // convolution.groups
    inner = f"{block}i" if block > 1 and group_channels % block == 0 else ""
    window = f"{spatial}I" if data == last else f"I{spatial}"
    vector = Layout.parse(out).block("C")
    if vector == 1 and convolution.operator in CONVOLUTIONS and convolution.group_out_channels % 16 == 0:
        vector = 16
    lanes = f"O{window}{inner}{vector}o" if vector > 1 else f"{window}{inner}O"
    return ConvolutionLayouts(data, lanes, out)


def _transposed_kernel(convolution: Convolution, data: str, out: str) -> str:
    """The kernel layout of a transposed convolution: vectors of outputs innermost, as long as the result's
    block if that divides the outputs of a group.
    """
    spatial = convolution.spatial
    block, vector = Layout.parse(data).block("C"), Layout.parse(out).block("C")
    inner = f"{block}i" if block > 1 else ""
    if vector == 1 or convolution.out_channels // convolution.groups % vector:
        return f"{spatial}I{inner}O"
    return f"IO{spatial}{inner}{vector}o"


def _fitting_memory(convolution: Convolution, channels: int, layout: str) -> str:
    """``layout`` with its block halved until it divides ``channels``; channels last below the smallest
    block.
    """
    block = Layout.parse(layout).block("C")
    if block == 1:
        return layout
    while block >= SMALLEST_BLOCK and channels % block:
        block //= 2
    return f"{convolution.channels_first}{block}c" if block >= SMALLEST_BLOCK else convolution.channels_last


def packed_kernel(convolution: Convolution, kernel: str, out: str) -> str:
    """The layout in which lowering stores a constant kernel, given the layouts ``kernel`` and ``out``.

    Vectors of outputs are innermost; if the outputs of a group do not fill them, the last vector of each
    group is padded with zeros. Cost estimates and lowering both use this function.
    """
    spatial = convolution.spatial
    if convolution.operator in CONVOLUTIONS:
        if out != convolution.channels_last or convolution.groups == convolution.out_channels > 1:
            return kernel
        if kernel.isupper():
            kernel = f"{spatial}IO"
        if not kernel.endswith("O"):
            return kernel
        outputs = convolution.group_out_channels
        lanes = output_lanes(outputs)
        group = "G" if convolution.groups > 1 and outputs % lanes else ""
        return f"{group}O{kernel[:-1]}{lanes}o"
    return f"{spatial}IO" if out == convolution.channels_last and kernel.isupper() else kernel


def with_merged_groups(
    convolution: Convolution, layouts: ConvolutionLayouts
) -> tuple[Convolution, ConvolutionLayouts]:
    """A convolution with adjacent groups merged until the outputs of a group fill the blocks of the result.

    For constant weights: merging adds zeros where an output does not read an input. Without it, the lanes of
    a block would read different inputs. Transposed and depthwise convolutions are returned as they are.
    """
    groups, block = convolution.groups, Layout.parse(layouts.out).block("C")
    if groups == 1 or block == 1 or convolution.is_depthwise or convolution.is_transposed:
        return convolution, layouts
    outputs = convolution.out_channels // groups
    filling = [count for count in divisors(groups) if outputs * count % block == 0]
    factor = filling[0] if filling else groups
    if factor == 1 or factor > MOST_MERGED:
        return convolution, layouts
    whole = replace(convolution, groups=groups // factor)
    kernel = fitting_layouts(whole, layouts.data, layouts.out).kernel
    return whole, ConvolutionLayouts(layouts.data, packed_kernel(whole, kernel, layouts.out), layouts.out)


MOST_MERGED = 16
"""The most groups to merge, which is also the factor on multiply-adds, most of them by zeros."""


def output_lanes(channels: int) -> int:
    """Lanes of the vectors of outputs in a kernel for channels-last results; zeros fill the last vector.

    ``channels`` are the output channels of a group.
    """
    return next((lanes for lanes in (4, 8) if channels <= lanes), 16)
