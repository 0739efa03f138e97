"""The layouts that convolutions may run in: all that the target has kernels for, or those the caller
names.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from relay_layout.errors import LayoutError
from relay_layout.graph import Node
from relay_layout.ir import out_layout, size_in_bytes
from relay_layout.layout import Layout
from relay_layout.ops import ConvolutionLayouts
from relay_layout.targets.convolutions import (
    CONVOLUTION_AXES,
    DEPTHWISE,
    Convolution,
    blocks_fit,
    convolution_of,
    desired_layouts,
    fitting_layouts,
)
from relay_layout.targets.fusion import MATMUL, fused_operand
from relay_layout.targets.target import BuildTarget

TRANSPOSE = "permute_dims"

VIEWS = ("reshape", "flatten", "nn.batch_flatten", "expand_dims", "squeeze")
"""Operators that only change the shape, and so move no data."""
POOLINGS = tuple(f"nn.{kind}_pool{rank}d" for kind in ("max", "avg", "adaptive_avg") for rank in (1, 2, 3))


class TargetOffers:
    """Every layout the target has kernels for, with estimated costs."""

    def __init__(self, target: BuildTarget) -> None:
        self.target = target

    def convolution_layouts(self, node: Node) -> Iterable[ConvolutionLayouts]:
        """Every combination, for data and result, of the target's channel blocks and of channels last."""
        convolution = convolution_of(node)
        if convolution is None:
            return
        first = convolution.channels_first
        memory = [f"{first}{block}c" for block in self.target.facts.channel_blocks]
        memory.append(convolution.channels_last)
        choices = [fitting_layouts(convolution, data, out) for data in memory for out in memory]
        for layouts in dict.fromkeys(choices):
            yield self.with_cost(node, convolution, layouts)

    def with_cost(
        self, node: Node, convolution: Convolution, layouts: ConvolutionLayouts
    ) -> ConvolutionLayouts:
        """The layouts with the estimated microseconds of their kernel; as they are if their blocks do not
        fit.
        """
        if not blocks_fit(convolution, layouts):
            return layouts
        cost = self.target.convolution_us(node, convolution, layouts)
        return ConvolutionLayouts(layouts.data, layouts.kernel, layouts.out, cost)

    def operator_cost(self, node: Node, operands: Sequence[Layout], results: Sequence[Layout]) -> float:
        """Estimated microseconds of an operator in these layouts: the time to move its bytes, for most.

        More if windows run along the innermost dimension. An operator that is fused into the kernel of one
        operand moves only its other operands.
        """
        if node.operator in CONVOLUTION_AXES:
            return self._original_cost(node)
        if node.operator == MATMUL:
            return self.target.matmul_us(node)
        if node.operator in VIEWS:
            return 0.0
        facts = self.target.facts
        fused = fused_operand(node)
        tensors = [*node.operands, *node.results]
        if fused is not None:
            tensors = [value for value in node.operands if value is not fused]
        moved = sum(
            size_in_bytes(value.shape or (), value.dtype) for value in tensors if value.constant is None
        )
        microseconds = facts.moving_us(moved)
        if operands and operands[0].axes and operands[0].axes[-1].name in _window_axes(node):
            microseconds *= facts.strided_window_penalty
        if node.operator == TRANSPOSE:
            microseconds += facts.launch_us
        return microseconds

    def _original_cost(self, node: Node) -> float:
        convolution = convolution_of(node)
        return (
            0.0 if convolution is None else self.target.convolution_us(node, convolution, _own_layouts(node))
        )


def _own_layouts(node: Node) -> ConvolutionLayouts:
    """The layouts that a convolution has in the module."""
    attributes = node.attributes
    return ConvolutionLayouts(
        str(attributes.data_layout), str(attributes.kernel_layout), out_layout(attributes)
    )


def _window_axes(node: Node) -> str:
    """The axes, in generic letters, that the windows of a pooling run along, where vectors are slower."""
    if node.operator not in POOLINGS:
        return ""
    text = str(node.attributes.layout)
    return "".join("ABCDE"[place] for place, axis in enumerate(text) if axis in "DHW")


@dataclass
class DesiredOffers:
    """The layouts of the caller's ``desired_layouts``, by operator.

    Keys are Relay's operator names ("nn.conv2d"); values have one layout per operand, where "default" for the
    kernel is the usual one for the data layout. ``convolutions`` are those of the graph; LayoutError if an
    entry does not fit one of them. ``followers`` are convolutions without an entry that may take the layouts
    named for others if that leaves fewer transforms. ``reasons`` collects, by node name, why a desired layout
    could not be offered.
    """

    desired: Mapping[str, Sequence[str]]
    base: TargetOffers
    convolutions: Sequence[Node] = ()
    followers: frozenset[str] = frozenset()
    reasons: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node in self.convolutions:
            entry = desired_entry(self.desired, node)
            if entry is not None:
                _check_fits(node, entry[0])
                if len(entry) > 1 and entry[1] != "default":
                    _check_kernel_fits(node, entry[1])

    def convolution_layouts(self, node: Node) -> Iterable[ConvolutionLayouts]:
        """The desired combination, if it fits; for a follower its own layouts and those named for others."""
        entry, convolution = desired_entry(self.desired, node), convolution_of(node)
        if node.operator in self.followers and convolution is not None:
            yield from self._followed(node, convolution)
        if entry is None or convolution is None:
            return
        data = Layout.parse(entry[0])
        kernel = entry[1] if len(entry) > 1 else "default"
        if kernel != "default":
            layouts = ConvolutionLayouts(entry[0], kernel, str(data))
            yield self.base.with_cost(node, convolution, layouts)
            return
        usual = desired_layouts(convolution, data)
        if usual is None:
            self.reasons[node.name] = f"there is no convolution kernel for data in {entry[0]}"
            return
        yield self.base.with_cost(node, convolution, usual)

    def _followed(self, node: Node, convolution: Convolution) -> Iterable[ConvolutionLayouts]:
        """The present layouts of the node, and those that are named for others."""
        yield self.base.with_cost(node, convolution, _own_layouts(node))
        for text in dict.fromkeys(entry[0] for entry in self.desired.values()):
            wanted = Layout.parse(text)
            if sorted(wanted.primal) == sorted(CONVOLUTION_AXES[node.operator]):
                layouts = desired_layouts(convolution, wanted)
                if layouts is not None:
                    yield self.base.with_cost(node, convolution, layouts)

    def operator_cost(self, node: Node, operands: Sequence[Layout], results: Sequence[Layout]) -> float:
        """As of :class:`TargetOffers`."""
        return self.base.operator_cost(node, operands, results)


def desired_entry(desired: Mapping[str, Sequence[str]], node: Node) -> Sequence[str] | None:
    """The desired layouts of a node, or None; depthwise nn.conv2d may have an entry of their own."""
    if DEPTHWISE in desired and node.operator == "nn.conv2d":
        convolution = convolution_of(node)
        if convolution is not None and convolution.is_depthwise:
            return desired[DEPTHWISE]
    return desired.get(node.operator)


def _check_fits(node: Node, layout: str) -> None:
    axes = CONVOLUTION_AXES[node.operator]
    given = Layout.parse(layout)
    if sorted(given.primal) != sorted(axes):
        raise LayoutError(
            f"layout '{layout}' does not fit {node.operator} '{node.name}', whose data has the axes "
            f"{', '.join(axes[:-1])} and {axes[-1]}; use e.g. '{_of_same_kind(given, axes)}'"
        )


def _check_kernel_fits(node: Node, layout: str) -> None:
    spatial = CONVOLUTION_AXES[node.operator][2:]
    if sorted(Layout.parse(layout).primal) != sorted(f"OI{spatial}"):
        raise LayoutError(
            f"layout '{layout}' does not fit the kernel of {node.operator} '{node.name}', which has the axes "
            f"O, I, {', '.join(spatial)}; use e.g. 'OI{spatial}', or 'default'"
        )


def _of_same_kind(given: Layout, axes: str) -> str:
    """The layout with ``axes`` that orders and blocks batch, channels and spatial axes as ``given`` does."""
    own = "".join(axis for axis in axes if axis not in "NC")
    others = [part for part in given.primal if part not in "NC"]
    text = str(given)
    if sorted(set(given.primal) - set(others)) != ["C", "N"] or "".join(others) not in text:
        return axes
    if not others or any(axis not in "DHW" or given.is_split(axis) for axis in others):
        return axes
    return text.replace("".join(others), own)
