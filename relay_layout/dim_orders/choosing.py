"""Which way of running an operator fits given memory orders; no costs, no search."""

from collections.abc import Iterable, Mapping, Sequence
from string import ascii_uppercase

from relay_layout.dim_order_marker import order_asked
from relay_layout.graph import Node, Value
from relay_layout.ir import out_layout
from relay_layout.layout import Layout
from relay_layout.layout.transform import from_dim_order
from relay_layout.ops import TABLE, ConvolutionLayouts, Signature, Wanted, unchanged
from relay_layout.targets.convolutions import CONVOLUTION_AXES, convolution_of

Order = tuple[int, ...]

DEPTHWISE_WEIGHT = "HWCM"
"""Rows, columns, channels, multiplier: weights of a depthwise convolution where channels are last."""


def layout_of(order: Sequence[int]) -> Layout:
    """An order as a layout over a value's own dimensions."""
    return from_dim_order(order, Layout.generic(len(order)))


def order_of(layout: Layout) -> Order:
    """The inverse of :func:`layout_of`."""
    return tuple(ascii_uppercase.index(axis.name) for axis in layout.axes)


def weight_order(node: Node, data: Sequence[int]) -> tuple[Order, str] | None:
    """The order of a convolution's weights that goes with that of its data, and its name.

    Channels last, weights are O H W I as data is N H W C; of a depthwise convolution H W C M. None where data
    lies in another order, and for weights whose own order is not known.
    """
    convolution = convolution_of(node)
    if convolution is None or convolution.is_transposed:
        return None
    texts = str(node.attributes.data_layout), str(node.attributes.kernel_layout)
    lying = "".join(texts[0][axis] for axis in data)
    if lying != convolution.channels_last:
        return None
    spatial = convolution.spatial
    # M is the fastest part of O, and I has one element.
    wanted = f"{spatial}OI" if convolution.is_depthwise else f"O{spatial}I"
    name = DEPTHWISE_WEIGHT if convolution.is_depthwise and spatial == "HW" else wanted
    return tuple(texts[1].index(letter) for letter in wanted), name


class _Given:
    """What a rule is offered: one combination for a convolution, nothing that costs."""

    def __init__(self, layouts: ConvolutionLayouts | None) -> None:
        self._layouts = layouts

    def convolution_layouts(self, node: Node) -> Iterable[ConvolutionLayouts]:
        if self._layouts is not None:
            yield self._layouts

    def operator_cost(self, node: Node, operands: Sequence[Layout], results: Sequence[Layout]) -> float:
        return 0.0


def following(node: Node, held: Mapping[Value, Layout]) -> Signature:
    """How the node runs where it follows the order of what it reads first.

    An operator that cannot runs as the module has it.
    """
    operands = [held.get(value, value.identity) for value in node.operands]
    ways = _ways(node, operands, None, None)
    return min(ways, key=lambda way: _distance(node, way, operands))


def giving(
    node: Node, results: Sequence[Layout], held: Mapping[Value, Layout], weight: Layout | None
) -> Signature | None:
    """How the node runs where its results lie as said, with the fewest operands to be moved; None: it cannot.

    ``weight`` is the order of a convolution's weights.
    """
    operands = [held.get(value, value.identity) for value in node.operands]
    ways = [way for way in _ways(node, operands, results, weight) if list(way.results) == list(results)]
    return min(ways, key=lambda way: _distance(node, way, operands), default=None)


def _ways(
    node: Node, operands: Sequence[Layout], results: Sequence[Layout] | None, weight: Layout | None
) -> list[Signature]:
    original = unchanged(node)
    asked = order_asked(node.expression)
    if asked is not None:
        layout = layout_of(asked) if results is None else results[0]
        return [Signature((layout,), (layout,), replacement=lambda builder, moved: moved[0])]
    rule = TABLE.get(node.operator)
    if rule is None or not node.has_known_ranks:
        return [original]
    wanted = Wanted(
        tuple((layout,) for layout in operands),
        tuple((layout,) for layout in results) if results is not None else ((),) * len(node.results),
    )
    layouts = None
    if node.operator in CONVOLUTION_AXES:
        layouts = _convolution(node, operands[0], results[0] if results else None, weight)
    found = [original, *rule.signatures(node, wanted, _Given(layouts))]
    return [way for way in found if all(layout.is_plain for layout in (*way.operands, *way.results))]


def _convolution(
    node: Node, data: Layout, result: Layout | None, weight: Layout | None
) -> ConvolutionLayouts | None:
    letters, kernel = str(node.attributes.data_layout), str(node.attributes.kernel_layout)
    out = out_layout(node.attributes)
    if not (letters.isupper() and kernel.isupper() and out.isupper()):
        return None
    lying = "".join(letters[axis] for axis in order_of(data))
    left = lying if result is None else "".join(out[axis] for axis in order_of(result))
    if weight is None:
        found = weight_order(node, order_of(data))
        weight = layout_of(found[0] if found is not None else range(len(kernel)))
    return ConvolutionLayouts(lying, "".join(kernel[axis] for axis in order_of(weight)), left)


def _distance(node: Node, way: Signature, operands: Sequence[Layout]) -> tuple[bool, int]:
    """Whether the operand that others follow is to be moved, and how many are; constants move for nothing."""
    moved = [
        held != wanted
        for value, held, wanted in zip(node.operands, operands, way.operands, strict=True)
        if value.constant is None
    ]
    return (any(moved[:1]), sum(moved))
