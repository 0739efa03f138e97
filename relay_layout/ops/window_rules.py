"""Windows and samples of images: pooling, resizing and regions of interest.

Each has an attribute that names its layout, so that it runs in any layout its lowering knows. Windows and
samples run along the spatial dimensions, which stay whole.
"""

from collections.abc import Mapping
from typing import Any

from relay_layout.graph import Node
from relay_layout.layout import Layout
from relay_layout.ops.axis_rule import Labels, letters


def pooled(node: Node) -> Labels | None:
    """Pooling: windows along the spatial dimensions, which stay whole; batch and channels are free."""
    text, out = str(node.attributes.layout), str(node.attributes.out_layout or node.attributes.layout)
    if out != text:
        return None
    return _sampled(node, text)


def pooled_attributes(node: Node, layout: Layout) -> Mapping[str, Any]:
    """``layout`` and ``out_layout`` in the operator's own letters."""
    own = _own_letters(node, layout)
    return {"layout": own, "out_layout": own}


def lowers_pooling(node: Node, layout: Layout) -> bool:
    """Whether each dimension has one block at most: TVM's layouts have no nested ones."""
    return len(layout.axes) == len(layout.primal) + len(layout.blocked_axes)


def sampled(node: Node) -> Labels | None:
    """Resizing and regions of interest: samples along the spatial dimensions, in layouts TVM lowers."""
    return _sampled(node, str(node.attributes.layout))


def sampled_attributes(node: Node, layout: Layout) -> Mapping[str, Any]:
    """``layout`` in the operator's own letters."""
    return {"layout": _own_letters(node, layout)}


def lowers_resize(node: Node, layout: Layout) -> bool:
    """Whether TVM resizes in this layout: channels first, last, or blocked."""
    own = Layout.parse(_own_letters(node, layout))
    spatial = "".join(axis for axis in own.primal if axis not in "NC")
    if own.is_plain:
        return str(own) in (f"NC{spatial}", f"N{spatial}C") and spatial in ("W", "HW", "DHW")
    return spatial in ("W", "HW") and str(own) == f"NC{spatial}{own.block('C')}c"


def lowers_roi_align(node: Node, layout: Layout) -> bool:
    """Whether TVM aligns regions of interest in this layout."""
    return _own_letters(node, layout) in ("NCHW", "NHWC")


def _sampled(node: Node, text: str) -> Labels | None:
    """The first operand and the result; further operands (sizes, regions) stay as they are."""
    data, result = node.operands[0], node.results[0]
    if not text.isupper() or data.shape is None or result.shape is None or data.rank != len(text):
        return None
    own = letters(len(text))
    whole = {label for label, axis in zip(own, text, strict=True) if axis not in "NC"}
    if len(node.operands) > 1:
        # There is a result for each region, not for each image.
        whole.add(own[text.index("N")])
    # The layout that the attribute names holds for an extent of one too.
    return Labels((own, *[None] * (len(node.operands) - 1)), (own,), frozenset(whole), frozenset(own))


def _own_letters(node: Node, layout: Layout) -> str:
    text = str(node.attributes.layout)
    return str(layout.in_letters(text))
