"""Convolutions: the operators whose layouts others follow.

A convolution is asked of the target (or of the caller's ``desired_layouts``) and answers in its own
letters, N C H W for data and O I H W for weights; the module's layout attributes say which dimension
each letter stands for.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from relay_layout.graph import Node, Value
from relay_layout.ir import out_layout
from relay_layout.layout import Layout, known_extent
from relay_layout.ops.signature import ConvolutionLayouts, Offers, Rule, Signature, Wanted


class ConvolutionTensor(NamedTuple):
    """Data, kernel or result of a convolution: the layout offered for it, and the one that the module names.

    Both are in the convolution's letters.
    """

    own: Layout
    original: str
    value: Value

    @property
    def has_same_axes(self) -> bool:
        """Whether the module's layout is plain and has the axes of the one that is offered."""
        return self.original.isupper() and sorted(self.own.primal) == sorted(self.original)

    @property
    def layout(self) -> Layout:
        """The offered layout over the dimensions of the tensor; the axes must be the same."""
        return self.own.over_dimensions(self.original)


def tensors_of(node: Node, offered: ConvolutionLayouts) -> Iterator[ConvolutionTensor]:
    """Data, kernel and result."""
    attributes = node.attributes
    originals = str(attributes.data_layout), str(attributes.kernel_layout), out_layout(attributes)
    texts = offered.data, offered.kernel, offered.out
    for text, original, value in zip(texts, originals, (*node.operands[:2], node.results[0]), strict=True):
        yield ConvolutionTensor(Layout.parse(text), original, value)


def alignment_misfit(node: Node, offered: ConvolutionLayouts) -> str:
    """Why a convolution cannot run on what alignments pad; "" where it can.

    Padded channels are channels to the operator: data and kernel, kernel and result must have as many, and
    they belong to no group. The window would see padded pixels, and make pixels of the result of them.
    """
    tensors = dict(zip(("data", "kernel", "result"), tensors_of(node, offered), strict=True))
    if not any(tensor.own.alignments for tensor in tensors.values()):
        return ""
    grouped = int(node.attributes.groups) > 1
    extents: dict[tuple[str, str], object] = {}
    for name, tensor in tensors.items():
        assert tensor.value.shape is not None
        for axis, extent in zip(tensor.original, tensor.value.shape, strict=True):
            unit, known = tensor.own.alignment(axis), known_extent(extent)
            added = -(known or 0) % unit
            if unit > 1 and known is None:
                return f"{tensor.own}: {axis} of the {name}, whose extent is open, is not aligned"
            if added and axis not in "NCOI":
                return f"{tensor.own}: {axis} of the {name} are pixels, which are not padded"
            if added and axis != "N" and grouped:
                return f"{tensor.own}: {axis} of the {name} are channels of groups, which are not padded"
            extents[name, axis] = extent if known is None else known + added
    pairs = [(("data", "N"), ("result", "N"))]
    if not grouped:
        pairs += [(("data", "C"), ("kernel", "I")), (("kernel", "O"), ("result", "C"))]
    for (one, axis), (other, same) in pairs:
        have, want = extents[one, axis], extents[other, same]
        if known_extent(have) != known_extent(want):
            return (
                f"{tensors[one].own}: {axis} of the {one} would be {have}, but {same} of the {other} {want}"
            )
    return ""


class ConvolutionRule(Rule):
    """Data and weight in, one result out; every attribute but the three layouts is kept.

    The rank, and which of O and I a transposed convolution names first, are those of its layout attributes.
    """

    summary = "Chooses among the layouts that the target, or the caller, names for data, kernel and result."
    is_anchor = True

    def signatures(self, node: Node, wanted: Wanted, offers: Offers) -> Iterable[Signature]:
        """One signature for each offered combination whose blocks divide and whose aligned channels agree."""
        for offered in offers.convolution_layouts(node):
            signature = self._signature(node, offered)
            if signature is not None:
                yield signature

    def _signature(self, node: Node, offered: ConvolutionLayouts) -> Signature | None:
        layouts = []
        for tensor in tensors_of(node, offered):
            if tensor.value.shape is None or not tensor.has_same_axes:
                return None
            if tensor.own.uneven_axis(dict(zip(tensor.original, tensor.value.shape, strict=True))):
                return None
            layouts.append(tensor.layout)
        if alignment_misfit(node, offered):
            return None
        names = ("data_layout", "kernel_layout", "out_layout")
        texts = (offered.data, offered.kernel, offered.out)
        # What alignment adds is zeros, in the data and in the kernel: to the operator they are channels.
        changes = {name: str(Layout.parse(text).unaligned) for name, text in zip(names, texts, strict=True)}
        return Signature((layouts[0], layouts[1]), (layouts[2],), changes, offered.cost)
