"""Operators of com.microsoft whose images have their channels last: transposed around the usual ones.

ONNX Runtime writes them where it saves a quantized network that it has optimized. Layouts are decided later,
and the transposes between such operators cancel out.
"""

from dataclasses import replace

from tvm import relax

from relay_layout.frontend.onnx.node import Converter, Node
from relay_layout.frontend.values import Unsupported, Value, shape_of, written


def channels_last(converter: Converter) -> Converter:
    """An operator whose first input and whose output have the channels last."""

    def convert(node: Node) -> Value:
        shape = shape_of(node.input(0))
        rank = len(shape)
        if rank < 3:
            raise Unsupported(f"has channels last in {written(shape)}, which has no spatial dimensions")
        first = relax.op.permute_dims(node.tensor(0), [0, rank - 1, *range(1, rank - 1)])
        inner = replace(node, inputs=(node.emit(first, "channels_first"), *node.inputs[1:]))
        result = node.emit(node.expression(converter(inner)), "of_channels_first")
        return relax.op.permute_dims(result, [0, *range(2, rank), 1])

    return convert


def maybe_channels_last(converter: Converter) -> Converter:
    """An operator whose attribute ``channels_last`` says where the channels are."""
    last = channels_last(converter)
    return lambda node: (last if node.attributes.get("channels_last", 0) else converter)(node)
