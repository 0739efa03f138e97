"""What a convolution may run in: offered by the target, or pinned by the caller."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from relay_layout.errors import LayoutError
from relay_layout.graph import Node
from relay_layout.ir import is_static, size_in_bytes
from relay_layout.layout import Layout
from relay_layout.ops import ConvolutionLayouts
from relay_layout.targets.target import BuildTarget
from topi_ext.knobs import estimated_cycles
from topi_ext.workload import ConvolutionWorkload

CONVOLUTION_AXES = {"nn.conv1d": "NCW", "nn.conv2d": "NCHW", "nn.conv3d": "NCDHW"}
"""Operators whose layouts a caller may name, with the axes of their data."""

DEPTHWISE = "nn.depthwise_conv2d"
"""The key of desired layouts for depthwise nn.conv2d alone."""

FEWEST_FIRST_US = 1e6
"""Added to each transform where the caller names the layouts, who then wants as few transforms as possible.

More than all operators of a network cost together, so that costs only decide between equal numbers.
"""

TRANSPOSE = "permute_dims"

REDUCTIONS = ("sum", "mean", "max", "min", "prod", "variance", "std")
VIEWS = ("reshape", "flatten", "nn.batch_flatten", "expand_dims", "squeeze")
"""Operators that move nothing."""
WINDOWED = ("nn.max_pool2d", "nn.avg_pool2d", "nn.adaptive_avg_pool2d")


@dataclass(frozen=True)
class Convolution:
    """Extents of a convolution node in its own letters."""

    batch: object
    in_channels: int
    out_channels: int
    height: object
    width: object
    kernel: tuple[int, int]
    groups: int

    @property
    def is_depthwise(self) -> bool:
        return self.groups > 1 and self.groups == self.in_channels


def convolution_of(node: Node) -> Convolution | None:
    """The extents of ``node``; None where channels or kernel are symbolic, or a layout is blocked."""
    attributes = node.attributes
    texts = [str(attributes.data_layout), str(attributes.kernel_layout)]
    shapes = node.operand_shapes()
    if any(not text.isupper() or len(shape) != len(text) for text, shape in zip(texts, shapes, strict=False)):
        return None
    data = dict(zip(texts[0], shapes[0], strict=True))
    weight = dict(zip(texts[1], shapes[1], strict=True))
    if not is_static([data["C"], *weight.values()]):
        return None
    return Convolution(
        data["N"],
        data["C"],
        weight["O"],
        data["H"],
        data["W"],
        (weight["H"], weight["W"]),
        int(attributes.groups),
    )


class TargetOffers:
    """Every layout the target has kernels for, with estimated costs."""

    def __init__(self, target: BuildTarget) -> None:
        self.target = target

    def convolution_layouts(self, node: Node) -> Iterable[ConvolutionLayouts]:
        """NCHW{n}c for the target's blocks and NHWC, on either side of the convolution."""
        convolution = convolution_of(node) if node.operator == "nn.conv2d" else None
        if convolution is None:
            return
        memory = [f"NCHW{block}c" for block in self.target.facts.channel_blocks] + ["NHWC"]
        choices = [fitting_layouts(convolution, data, out) for data in memory for out in memory]
        for layouts in dict.fromkeys(choices):
            cost = self.convolution_cost(node, convolution, layouts)
            yield ConvolutionLayouts(layouts.data, layouts.kernel, layouts.out, cost)

    def convolution_cost(self, node: Node, convolution: Convolution, layouts: ConvolutionLayouts) -> float:
        """Estimated microseconds of the default kernel."""
        attributes = node.attributes
        if not is_static([convolution.height, convolution.width]):
            return 0.0
        packed = packed_kernel(layouts.kernel, convolution.out_channels, convolution.is_depthwise)
        workload = ConvolutionWorkload(
            batch=convolution.batch if isinstance(convolution.batch, int) else 1,
            in_channels=convolution.in_channels,
            out_channels=convolution.out_channels,
            in_height=convolution.height,
            in_width=convolution.width,
            kernel=convolution.kernel,
            strides=_pair(attributes.strides),
            padding=(*_pair(attributes.padding), *_pair(attributes.padding[2:])),
            dilation=_pair(attributes.dilation),
            groups=convolution.groups,
            data_layout=layouts.data,
            kernel_layout=packed,
            out_layout=layouts.out,
            dtype=node.operands[0].dtype,
            out_dtype=node.results[0].dtype,
        )
        facts = self.target.facts
        microseconds = estimated_cycles(workload, self.target.processor) / (facts.gigahertz * 1e3)
        plain = (layouts.data, layouts.out).count("NHWC")
        return microseconds * (1.0 + plain * facts.channels_last_penalty) + facts.launch_us

    def operator_cost(self, node: Node, operands: Sequence[Layout], results: Sequence[Layout]) -> float:
        """Bytes moved at the target's bandwidth; windows and reductions along a vector cost more."""
        if node.operator == "nn.conv2d":
            return self._original_cost(node)
        if node.operator in VIEWS:
            return 0.0
        facts = self.target.facts
        moved = sum(
            size_in_bytes(value.shape or (), value.dtype)
            for value in (*node.operands, *node.results)
            if value.constant is None
        )
        microseconds = moved / (facts.gigabytes_per_second * 1e3)
        if operands and operands[0].axes and operands[0].axes[-1].name in _swept_axes(node):
            microseconds *= facts.strided_window_penalty
        if node.operator == TRANSPOSE:
            microseconds += facts.launch_us
        return microseconds

    def _original_cost(self, node: Node) -> float:
        convolution, attributes = convolution_of(node), node.attributes
        if convolution is None:
            return 0.0
        data, kernel = str(attributes.data_layout), str(attributes.kernel_layout)
        out = str(attributes.out_layout or data)
        return self.convolution_cost(node, convolution, ConvolutionLayouts(data, kernel, out))


def _pair(values: Any) -> tuple[int, int]:
    return int(values[0]), int(values[1])


def _swept_axes(node: Node) -> str:
    """The axes that a window or a reduction runs along; a vector must not."""
    rank = node.operands[0].rank
    if node.operator in WINDOWED:
        text = str(node.attributes.layout)
        return "".join("ABCDE"[place] for place, axis in enumerate(text) if axis in "DHW")
    if node.operator in REDUCTIONS and node.attributes.axis is not None:
        return "".join(chr(ord("A") + int(axis) % rank) for axis in node.attributes.axis)
    return ""


@dataclass
class DesiredOffers:
    """The caller's ``desired_layouts``: one entry for each operator that is to be converted.

    Keys are Relay's operator names ("nn.conv2d"), values one layout for each operand, "default"
    for the kernel standing for the one that goes with the data layout. ``skip_layers`` leaves out
    convolutions by their position. Operators without an entry follow at least cost.
    """

    desired: Mapping[str, Sequence[str]]
    base: TargetOffers
    skip_layers: frozenset[int] = frozenset()
    reasons: dict[str, str] = field(default_factory=dict)
    positions: dict[Node, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node in self.positions:
            entry = self._entry(node)
            if entry is not None:
                _check_fits(node, entry[0])

    def convolution_layouts(self, node: Node) -> Iterable[ConvolutionLayouts]:
        """The desired combination, or nothing where it does not fit."""
        entry = self._entry(node)
        if node.operator != "nn.conv2d":
            if entry is not None:
                self.reasons[node.name] = f"there is no {node.operator} kernel in {entry[0]}"
            return
        convolution = convolution_of(node)
        if entry is None or convolution is None or self.positions.get(node) in self.skip_layers:
            return
        data = Layout.parse(entry[0])
        kernel = entry[1] if len(entry) > 1 else "default"
        if kernel != "default":
            out = str(data)
            yield self._with_cost(node, convolution, ConvolutionLayouts(entry[0], kernel, out))
            return
        layouts = desired_layouts(convolution, data)
        if layouts is None:
            self.reasons[node.name] = f"there is no convolution kernel for data in {entry[0]}"
            return
        yield self._with_cost(node, convolution, layouts)

    def _entry(self, node: Node) -> Sequence[str] | None:
        """The desired layouts of a node; depthwise convolutions may have an entry of their own."""
        convolution = (
            convolution_of(node) if DEPTHWISE in self.desired and node.operator == "nn.conv2d" else None
        )
        if convolution is not None and convolution.is_depthwise:
            return self.desired[DEPTHWISE]
        return self.desired.get(node.operator)

    def _with_cost(
        self, node: Node, convolution: Convolution, layouts: ConvolutionLayouts
    ) -> ConvolutionLayouts:
        cost = self.base.convolution_cost(node, convolution, layouts)
        return ConvolutionLayouts(layouts.data, layouts.kernel, layouts.out, cost)

    def operator_cost(self, node: Node, operands: Sequence[Layout], results: Sequence[Layout]) -> float:
        """That of the target; a transpose that the module holds counts as much as one that is inserted."""
        cost = self.base.operator_cost(node, operands, results)
        return cost + FEWEST_FIRST_US if node.operator == TRANSPOSE else cost


def _check_fits(node: Node, layout: str) -> None:
    axes = CONVOLUTION_AXES[node.operator]
    if sorted(Layout.parse(layout).primal) != sorted(axes):
        raise LayoutError(
            f"layout '{layout}' does not fit {node.operator} '{node.name}', whose data has the axes "
            f"{', '.join(axes[:-1])} and {axes[-1]}; use e.g. '{axes}'"
        )


def desired_layouts(convolution: Convolution, data: Layout) -> ConvolutionLayouts | None:
    """The usual combination for a data layout; a smaller block where the asked one does not divide."""
    if not data.is_blocked:
        return plain_layouts(convolution, str(data))
    if data.blocked_axes != ("C",) or str(data.primal_layout) != "NCHW":
        return None
    return fitting_layouts(convolution, str(data), str(data))


def plain_layouts(convolution: Convolution, data: str) -> ConvolutionLayouts:
    """NCHW with OIHW, NHWC with HWIO, or HWOI for depthwise, as in Relay; others keep their order."""
    kernel = "".join({"N": "O", "C": "I"}.get(axis, axis) for axis in data)
    if data == "NHWC":
        kernel = "HWOI" if convolution.is_depthwise else "HWIO"
    return ConvolutionLayouts(data, kernel, data)


def fitting_layouts(convolution: Convolution, data: str, out: str) -> ConvolutionLayouts:
    """The combination nearest to ``data`` and ``out`` that fits the channels, with its kernel layout.

    A block that does not divide becomes the next smaller one; channels without any block of at least
    4 are stored as NHWC, whose kernels take any number. Few input channels (a first layer) stay NCHW:
    the kernel broadcasts single elements, so another layout would only add a transform.
    """
    out = _fitting_memory(convolution.out_channels, out)
    if convolution.is_depthwise:
        if convolution.out_channels != convolution.in_channels:
            out = "NHWC"
        block = Layout.parse(out).block("C")
        return ConvolutionLayouts(out, f"OIHW{block}o" if block > 1 else "HWOI", out)
    if convolution.in_channels < SMALLEST_BLOCK and data != "NHWC":
        data = "NCHW"
    else:
        data = _fitting_memory(convolution.in_channels, data)
    block = Layout.parse(data).block("C")
    group_channels = convolution.in_channels // convolution.groups
    inner = f"{block}i" if block > 1 and group_channels % block == 0 else ""
    window = "HWI" if data == "NHWC" else "IHW"
    vector = Layout.parse(out).block("C")
    if vector == 1:
        vector = _output_lanes(convolution.out_channels)
    return ConvolutionLayouts(data, _kernel_layout(window + inner, vector), out)


SMALLEST_BLOCK = 4


def _fitting_memory(channels: int, layout: str) -> str:
    """``layout`` with the largest block that divides ``channels``, NHWC where none of at least 4 does."""
    block = Layout.parse(layout).block("C")
    if block == 1:
        return layout
    while block >= SMALLEST_BLOCK and channels % block:
        block //= 2
    return f"NCHW{block}c" if block >= SMALLEST_BLOCK else "NHWC"


def packed_kernel(kernel: str, out_channels: int, is_depthwise: bool) -> str:
    """The layout in which lowering stores a constant kernel of NHWC: a vector of outputs innermost.

    Costs are estimated for this layout and lowering packs into it, so both ask here.
    """
    if kernel not in ("HWIO", "OHWI") or is_depthwise:
        return kernel
    return _kernel_layout("HWI", _output_lanes(out_channels))


def _output_lanes(out_channels: int) -> int:
    """Output channels in one vector of a kernel for NHWC results; 1 where they stay one run.

    Full vectors of which the last two overlap beat whole vectors of half the width.
    """
    if out_channels % 16 == 0:
        return 16
    return 8 if out_channels == 8 else 1


def _kernel_layout(window: str, lanes: int) -> str:
    return f"O{window}{lanes}o" if lanes > 1 else f"{window}O"
