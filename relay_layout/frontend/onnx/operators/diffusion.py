"""Operators of com.microsoft in which the optimizer of diffusion models writes their U-Nets.

ONNX Runtime has kernels for them on GPUs alone. Letters of shapes: N images [N, H, W, C], S rows.
"""

from dataclasses import replace

import numpy as np
from tvm import relax

from relay_layout.frontend.onnx.agreement import added
from relay_layout.frontend.onnx.node import Converter, Node
from relay_layout.frontend.onnx.operators import elementwise, linear, normalization
from relay_layout.frontend.onnx.operators.channels_last import channels_last
from relay_layout.frontend.values import Unsupported, Value, dtype_of, shape_of, written


def _group_norm(node: Node) -> Value:
    """Group norm of [N, H, W, C], or [N, C, H, W] unless ``channels_last``; SiLU if ``activation`` is 1."""
    data = node.tensor(0)
    # Sums of halves are not rounded to halves.
    wide = node.emit(node.cast(data, "float32"), "wide")
    named = {
        "num_groups": int(node.attributes["groups"]),
        "epsilon": node.attributes.get("epsilon", 1e-5),
    }
    operands = (wide, *(node.cast(node.input(place), "float32") for place in (1, 2)))
    inner = replace(node, attributes=named, inputs=operands)
    convert = normalization.CONVERTERS["GroupNormalization"]
    if node.attributes.get("channels_last", 1):
        convert = channels_last(convert)
    result = node.emit(node.expression(convert(inner)), "normalized")
    if node.attributes["activation"]:
        result = node.emit(relax.op.nn.silu(result), "activated")
    return node.cast(result, dtype_of(data))


def _group_norm_of_sum(node: Node) -> Value:
    """The norm of a sum with a tensor, of one number for each channel too, and with a bias; and the sum."""
    if not node.attributes.get("channels_last", 1):
        raise Unsupported("has channels_last=0, which is not supported: transpose its data around it")
    skip = node.input(3)
    if len(shape_of(skip)) == 2:
        images, channels = shape_of(skip)
        skip = node.reshaped(skip, [images, 1, 1, channels])
    total = added(node, node.input(0), skip)
    if node.has(4):
        total = added(node, total, node.input(4))
    return [_group_norm(replace(node, inputs=(total, *node.inputs[1:3]))), total][: len(node.outputs)]


def _gated_gelu(node: Node) -> Value:
    """The first half of the columns of a sum with a bias, times GELU of the second half."""
    total = added(node, node.input(0), node.input(1))
    columns = shape_of(total)[-1]
    if not isinstance(columns, int) or columns % 2:
        raise Unsupported(f"halves the columns of {written(shape_of(total))}")
    halves = node.emit(relax.op.split(total, 2, len(shape_of(total)) - 1), "halves")
    kept, gate = (node.emit(relax.TupleGetItem(halves, place), "half") for place in (0, 1))
    inner = replace(node, attributes={}, inputs=(gate,))
    return relax.op.multiply(kept, node.emit(elementwise.CONVERTERS["Gelu"](inner), "gate"))


def _bias_and_sum(node: Node) -> Value:
    return added(node, added(node, node.input(0), node.input(1)), node.input(2))


def _convolution(node: Node) -> Value:
    """A convolution of [N, H, W, C] by weights [O, KH, KW, C]."""
    weight = node.input(1)
    if len(shape_of(weight)) != 4 or len(shape_of(node.input(0))) != 4:
        raise Unsupported(f"convolves {written(shape_of(node.input(0)))} by {written(shape_of(weight))}")
    if isinstance(weight, relax.Expr):
        turned: Value = node.emit(relax.op.permute_dims(weight, [0, 3, 1, 2]), "weight")
    else:
        turned = np.ascontiguousarray(weight.transpose(0, 3, 1, 2))
    inner = replace(node, inputs=(node.input(0), turned, *node.inputs[2:]))
    return channels_last(linear.CONVERTERS["Conv"])(inner)


CONVERTERS: dict[str, Converter] = {
    "BiasAdd": _bias_and_sum,
    "BiasSplitGelu": _gated_gelu,
    "GroupNorm": _group_norm,
    "NhwcConv": _convolution,
    "SkipGroupNorm": _group_norm_of_sum,
}
