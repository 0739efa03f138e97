"""Operators of the domain com.microsoft, in which ONNX Runtime writes quantized and optimized networks.

Their definitions are in ONNX Runtime's ``docs/ContribOperators.md``.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from tvm import relax

from relay_layout.frontend.extents.arithmetic import least
from relay_layout.frontend.onnx.agreement import added, agreeing
from relay_layout.frontend.onnx.node import Converter, Node
from relay_layout.frontend.onnx.operators import (
    attention,
    contributed_parts,
    diffusion,
    experts,
    grouped_attention,
    linear,
    own,
    packed_weights,
    rotary,
)
from relay_layout.frontend.onnx.operators.channels_last import channels_last, maybe_channels_last
from relay_layout.frontend.onnx.operators.dynamic_quantization import product_to_real
from relay_layout.frontend.onnx.operators.quantization import dequantized, quantized, zero_point
from relay_layout.frontend.operators.scattering import block
from relay_layout.frontend.values import Unsupported, Value, dtype_of, shape_of

_OPSET = 13
"""The version of ONNX's own operators that these are made of."""


def _inner(node: Node, operator: str, inputs: Sequence[Value | None], opset: int = _OPSET) -> Value:
    """The value of an operator of ONNX's own, with the node's attributes."""
    found = agreeing(replace(node, operator=operator, inputs=tuple(inputs), opset=opset))
    return node.emit(node.expression(own.CONVERTERS[operator](found)), operator.lower())


def _real(node: Node, place: int, axis: int = 0) -> Value:
    """The numbers that an input stands for; its scale and its zero point are the inputs after it."""
    data = node.input(place)
    point = zero_point(node, place + 2, dtype_of(data))
    return node.emit(dequantized(node, data, node.input(place + 1), point, axis), "real")


def _quantized(node: Node, value: Value, place: int, dtype: str) -> Value:
    """The integers for a number; their scale is an input, and their zero point the one after it."""
    return quantized(node, value, node.input(place), zero_point(node, place + 1, dtype))


def _between(operator: str, operands: int = 1) -> Converter:
    """An operator of ONNX's own between dequantized operands and a quantized result."""

    def convert(node: Node) -> Value:
        places = [3 * place for place in range(operands)]
        opset = node.attributes.get("opset", _OPSET)
        result = _inner(node, operator, [_real(node, place) for place in places], opset)
        return _quantized(node, result, 3 * operands, dtype_of(node.input(0)))

    return convert


def _own(operator: str) -> Converter:
    """An operator that was here before ONNX had it."""
    return lambda node: own.CONVERTERS[operator](replace(node, operator=operator, opset=_OPSET))


def _quantized_concatenation(node: Node) -> Value:
    places = range(2, len(node.inputs), 3)
    result = _inner(node, "Concat", [_real(node, place) for place in places])
    return _quantized(node, result, 0, dtype_of(node.input(2)))


def _quantized_choice(node: Node) -> Value:
    """A choice between the numbers of two tensors, by a condition."""
    chosen = _inner(node, "Where", [node.input(0), _real(node, 1), _real(node, 4)])
    return _quantized(node, chosen, 7, dtype_of(node.input(1)))


def _quantized_product(node: Node) -> Value:
    """A general product of matrices; its bias is int32, in units of the operands' scales."""
    columns = 0 if node.attributes.get("transB", 0) else 1
    operands = [_real(node, 0), _real(node, 3, columns)]
    result = _inner(node, "Gemm", operands)
    if node.has(6):
        unit = np.asarray(node.constant(1) * node.constant(4) * np.float32(node.attributes.get("alpha", 1.0)))
        unit = unit.reshape(()) if unit.size == 1 else unit
        zero = np.zeros(unit.shape, "int32")
        bias = node.emit(dequantized(node, node.input(6), unit.astype("float32"), zero, 0), "bias")
        result = added(node, result, bias)
    return _quantized(node, result, 7, dtype_of(node.input(0))) if node.has(7) else result


def _dynamic_product(node: Node) -> Value:
    """A product of data that are quantized here by a matrix of bytes, in float32."""
    integers, scale, point = own.CONVERTERS["DynamicQuantizeLinear"](node)
    given = [node.emit(node.expression(value), "quantized") for value in (integers, scale, point)]
    operands = given[0], node.input(1), given[1], node.input(2), given[2], node.optional(3)
    return product_to_real(replace(node, inputs=(*operands, node.optional(4))))


def _lstm(node: Node) -> Value:
    """By the numbers that its weights stand for; ONNX Runtime rounds data and states to bytes as well."""
    weights = []
    for place, scale in ((1, 8), (2, 10)):
        integers = node.constant(place)
        scales, points = (
            node.constant(at).reshape((len(integers), 1, -1)).astype("float32") for at in (scale, scale + 1)
        )
        numbers = (integers.astype("float32") - points) * scales
        weights.append(np.ascontiguousarray(numbers.swapaxes(1, 2)))
    others = [node.optional(place) for place in range(3, 8)]
    inner = replace(node, operator="LSTM", inputs=(node.input(0), *weights, *others), opset=_OPSET)
    return own.CONVERTERS["LSTM"](inner)


_ACTIVATIONS = {
    "Clip": ("min", "max"),
    "HardSigmoid": ("alpha", "beta"),
    "HardSwish": (),
    "LeakyRelu": ("alpha",),
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
}


def _fused(operator: str) -> Converter:
    """An operator, for convolutions a sum with another tensor, and an activation."""

    def convert(node: Node) -> Value:
        result = _inner(node, operator, [node.optional(place) for place in range(3)])
        if operator == "Conv" and node.has(3):
            result = added(node, result, node.input(3))
        activation = node.attributes.get("activation", "")
        if not activation:
            return result
        if activation not in _ACTIVATIONS:
            raise Unsupported(
                f"has the activation '{activation}', which is not supported; {', '.join(_ACTIVATIONS)} are"
            )
        numbers = list(node.attributes.get("activation_params", ()))
        # Gemm has an attribute for each of them.
        numbers += [
            node.attributes[f"activation_{name}"]
            for name in _ACTIVATIONS[activation]
            if f"activation_{name}" in node.attributes
        ]
        named = dict(zip(_ACTIVATIONS[activation], numbers, strict=False))
        return _inner(replace(node, attributes=named), activation, [result], 6)

    return convert


def _fused_matrix_product(node: Node) -> Value:
    operands = []
    for place, side in enumerate("AB"):
        value, rank = node.tensor(place), len(shape_of(node.input(place)))
        axes = list(range(rank))
        if node.attributes.get(f"transBatch{side}", 0) and rank > 2:
            # The first dimension is of the matrix, those up to the last one are of the batch.
            axes = [*axes[1:-1], 0, axes[-1]]
        if node.attributes.get(f"trans{side}", 0) and rank > 1:
            axes[-2:] = axes[:-3:-1]
        is_turned = axes != sorted(axes)
        operands.append(node.emit(relax.op.permute_dims(value, axes), "turned") if is_turned else value)
    result = relax.op.matmul(*operands)
    alpha = node.attributes.get("alpha", 1.0)
    if alpha == 1.0:
        return result
    return relax.op.multiply(node.emit(result, "product"), node.like(alpha, node.input(0)))


def _normalized_sum(operator: str, weights: int) -> Converter:
    """A norm of a sum by so many weights, what of it is in use, and the sum, whose bias follows the weights.

    Of layers there is the mean, and of both norms the reciprocal of the deviation.
    """

    def convert(node: Node) -> Value:
        has_mean = operator == "LayerNormalization"
        if any(node.outputs[1:2]) and not has_mean:
            raise Unsupported("has its mean in use, which this norm has not: leave it out")
        total = added(node, node.input(0), node.input(1))
        if node.has(2 + weights):
            total = added(node, total, node.input(2 + weights))
        outputs = node.outputs[:3] if has_mean else (*node.outputs[:1], *node.outputs[2:3])
        given = [total, *map(node.optional, range(2, 2 + weights))]
        if not any(outputs[1:]):
            return [_norm(node, operator, given), None, None, total]
        found = own.CONVERTERS[operator](_norm_node(node, operator, given, outputs))
        return [*found, total] if has_mean else [found[0], None, found[1], total]

    return convert


def _norm(node: Node, operator: str, inputs: Sequence[Value | None]) -> Value:
    """A norm over the last dimension, with the node's epsilon."""
    inner = _norm_node(node, operator, inputs, node.outputs[:1])
    return node.emit(node.expression(own.CONVERTERS[operator](inner)), operator.lower())


def _norm_node(node: Node, operator: str, inputs: Sequence[Value | None], outputs: Sequence[str]) -> Node:
    """A node of ONNX's own that gives a norm, and ``outputs`` besides it."""
    named = {"axis": -1, "epsilon": node.attributes.get("epsilon", 1e-12)}
    inner = replace(node, operator=operator, attributes=named, inputs=tuple(inputs), outputs=tuple(outputs))
    return agreeing(replace(inner, opset=23))


def _embedding_norm(node: Node) -> Value:
    """The norm of a word's, its position's and its segment's vector; how many words the mask has; the sum.

    Positions are those in the sequence, from 0 on, unless they are given.
    """
    identifiers = shape_of(node.input(0))
    total = _rows(node, 2, node.tensor(0))
    if node.has(8):
        positions = _rows(node, 3, node.tensor(8))
    else:
        rows, width = shape_of(node.input(3))
        node.requirements.assume_equal(identifiers[1], least(identifiers[1], rows))
        positions = block(node.emit, node.tensor(3), [0, 0], [node.plain(identifiers[1]), width])
    total = added(node, total, positions)
    if node.has(1):
        total = added(node, total, _rows(node, 4, node.tensor(1)))
    words: Value = None
    if any(node.outputs[1:2]):
        mask = node.cast(node.input(7), "int32") if node.has(7) else node.like(0, np.zeros((), "int32"))
        spread = node.emit(relax.op.broadcast_to(mask, relax.ShapeExpr(identifiers)), "mask")
        words = node.emit(relax.op.sum(spread, 1), "words")
    normalized = _norm(node, "LayerNormalization", [total, node.input(5), node.input(6)])
    return [normalized, words, total][: max(2, len(node.outputs))]


def _quantized_embedding_norm(node: Node) -> Value:
    """An embedding norm with tables and weights of bytes, whose scales and zero points follow all of them."""
    parts: list[Value] = []
    for place in range(2, 7):
        data, scale = node.optional(place), node.optional(place + 6)
        point = node.optional(place + 11)
        real = None if data is None else dequantized(node, data, scale, point)
        parts.append(None if real is None else node.emit(real, "real"))
    inputs = (*map(node.optional, range(2)), *parts, node.optional(7))
    return _embedding_norm(replace(node, inputs=inputs))


def _rows(node: Node, table: int, places: Value) -> Value:
    """Rows of the input ``table``; places outside of it, where ONNX Runtime fails, stay within memory."""
    return node.emit(relax.op.take(node.tensor(table), places, 0, mode="clip"), "rows")


def _wide_product(node: Node) -> Value:
    """A product of matrices of int16, in int32."""
    return relax.op.matmul(*(node.emit(node.cast(node.input(place), "int32"), "wide") for place in range(2)))


def _quick_gelu(node: Node) -> Value:
    data = node.tensor(0)
    scaled = relax.op.multiply(data, node.like(node.attributes.get("alpha", 1.702), data))
    return relax.op.multiply(data, node.emit(relax.op.sigmoid(node.emit(scaled, "scaled")), "gate"))


CONVERTERS: dict[str, Converter] = {
    **attention.CONVERTERS,
    **contributed_parts.CONVERTERS,
    **diffusion.CONVERTERS,
    **experts.CONVERTERS,
    **grouped_attention.CONVERTERS,
    **packed_weights.CONVERTERS,
    **rotary.CONVERTERS,
    "DequantizeLinear": own.CONVERTERS["DequantizeLinear"],
    "DynamicQuantizeLSTM": _lstm,
    "DynamicQuantizeMatMul": _dynamic_product,
    "EmbedLayerNormalization": _embedding_norm,
    "ExpandDims": _own("Unsqueeze"),
    "FusedConv": _fused("Conv"),
    "FusedGemm": _fused("Gemm"),
    "FusedMatMul": _fused_matrix_product,
    "GatherND": _own("GatherND"),
    "GridSample": _own("GridSample"),
    "Inverse": linear.inverse,
    "MatMulInteger16": _wide_product,
    "MatMulIntegerToFloat": product_to_real,
    "NhwcMaxPool": channels_last(own.CONVERTERS["MaxPool"]),
    "Pad": _own("Pad"),
    "QEmbedLayerNormalization": _quantized_embedding_norm,
    "QGemm": _quantized_product,
    "QLinearAdd": _between("Add", 2),
    "QLinearAveragePool": maybe_channels_last(_between("AveragePool")),
    "QLinearConcat": _quantized_concatenation,
    "QLinearConv": maybe_channels_last(own.CONVERTERS["QLinearConv"]),
    "QLinearGlobalAveragePool": maybe_channels_last(_between("GlobalAveragePool")),
    "QLinearLeakyRelu": _between("LeakyRelu"),
    "QLinearMul": _between("Mul", 2),
    "QLinearReduceMean": _between("ReduceMean"),
    "QLinearSigmoid": _between("Sigmoid"),
    "QLinearSoftmax": _between("Softmax"),
    "QLinearWhere": _quantized_choice,
    "QuantizeLinear": own.CONVERTERS["QuantizeLinear"],
    "QuickGelu": _quick_gelu,
    "Range": _own("Range"),
    "SkipLayerNormalization": _normalized_sum("LayerNormalization", 2),
    "SkipSimplifiedLayerNormalization": _normalized_sum("RMSNormalization", 1),
    "TransposeMatMul": _fused_matrix_product,
}
