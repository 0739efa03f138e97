"""Readers of operators whose attributes spell the layouts of their tensors."""

from relay_layout.graph import Node
from relay_layout.verify.reading import Labels, Reader, Reading, of_text, own, ranks_of


def convolution(kernel: int = 1, *, also_data: int = 0) -> Reader:
    """Data, a kernel as operand ``kernel``, perhaps one laid out as the data; the rest as they were."""

    def read(node: Node) -> Reading | None:
        ranks = ranks_of(node)
        attributes = node.attributes
        data_text = str(attributes.data_layout)
        labels: list[Labels | None] = []
        for place, rank in enumerate(ranks.operands):
            if place == kernel:
                labels.append(of_text(str(attributes.kernel_layout), rank, "kernel "))
            elif place == 0 or place == also_data:
                labels.append(of_text(data_text, rank))
            else:
                labels.append(own(place, rank))
        out_text = getattr(attributes, "out_layout", None)
        labels.append(of_text(str(out_text) if out_text else data_text, ranks.results[0], "result "))
        found = tuple(label for label in labels if label is not None)
        if len(found) != len(labels):
            return None
        interpreted = frozenset({"data_layout", "kernel_layout", "out_layout"})
        return Reading(found[:-1], found[-1:], interpreted)

    return read


def windowed(node: Node) -> Reading | None:
    """One tensor in ``layout``, the result in ``out_layout``; further operands as they were."""
    ranks = ranks_of(node)
    attributes = node.attributes
    text = str(attributes.layout)
    out_text = getattr(attributes, "out_layout", None)
    data = of_text(text, ranks.operands[0])
    result = of_text(str(out_text) if out_text else text, ranks.results[0])
    if data is None or result is None:
        return None
    rest = ranks.own()
    return Reading((data, *rest), (result,) * len(ranks.results), frozenset({"layout", "out_layout"}))
