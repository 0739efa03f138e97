"""Convolutions: the operators whose layouts others follow.

A convolution is asked of the target (or of the caller's ``desired_layouts``) and answers in its own
letters, N C H W for data and O I H W for weights; the module's layout attributes say which dimension
each letter stands for.
"""

from collections.abc import Iterable, Sequence

from relay_layout.graph import Node
from relay_layout.ir import Expression, with_attributes
from relay_layout.layout import Layout
from relay_layout.ops.axis_rules import letters, rebuild_arguments
from relay_layout.ops.signature import ConvolutionLayouts, Offers, Signature, Wanted


class ConvolutionRule:
    """Data and weight in, one result out; every attribute but the three layouts is kept.

    The rank, and which of O and I a transposed convolution names first, are those of its layout attributes.
    """

    decides = False

    @property
    def summary(self) -> str:
        """One line on how the dimensions correspond."""
        return "Chooses among the layouts that the target, or the caller, names for data, kernel and result."

    def signatures(self, node: Node, wanted: Wanted, offers: Offers) -> Iterable[Signature]:
        """One signature for each offered combination that fits the extents without padding."""
        del wanted
        for offered in offers.convolution_layouts(node):
            signature = self._signature(node, offered)
            if signature is not None:
                yield signature

    def _signature(self, node: Node, offered: ConvolutionLayouts) -> Signature | None:
        attributes = node.attributes
        data, weight, result = node.operands[0], node.operands[1], node.results[0]
        if data.shape is None or weight.shape is None or result.shape is None:
            return None
        layouts = []
        for text, original, value in (
            (offered.data, str(attributes.data_layout), data),
            (offered.kernel, str(attributes.kernel_layout), weight),
            (offered.out, str(attributes.out_layout or attributes.data_layout), result),
        ):
            own = Layout.parse(text)
            if not original.isupper() or sorted(own.primal) != sorted(original):
                return None
            layout = own.relabel(dict(zip(original, letters(len(original)), strict=True)))
            shape = value.shape or ()
            extents = dict(zip(letters(len(shape)), shape, strict=True))
            if any(not isinstance(extents[axis], int) for axis in layout.blocked_axes):
                return None
            if not layout.unaligned.fits(shape, Layout.generic(len(shape))):
                return None
            layouts.append(layout)
        names = ("data_layout", "kernel_layout", "out_layout")
        texts = (offered.data, offered.kernel, offered.out)
        # What alignment adds is zeros, in the data and in the kernel: to the operator they are channels.
        changes = {name: str(Layout.parse(text).unaligned) for name, text in zip(names, texts, strict=True)}
        return Signature((layouts[0], layouts[1]), (layouts[2],), changes, offered.cost)

    def rewrite(self, node: Node, signature: Signature, operands: Sequence[Expression]) -> Expression:
        """The same convolution with other layout attributes."""
        return with_attributes(node.expression, rebuild_arguments(node, operands), **signature.attributes)
