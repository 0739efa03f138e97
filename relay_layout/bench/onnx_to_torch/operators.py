"""ONNX operators as torch functions: one table row per operator.

A row maps an operator's name to a builder. The builder reads a node's attributes once and returns the
function that runs every time; that function takes the node's input tensors (``None`` for an omitted
one) and returns one tensor, or a tuple for an operator with several outputs.

Inputs that only steer an operator (a shape, axes, pads) are read as integers through
:meth:`Node.integers`, at build time where the model stores them as constants.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor

from relay_layout.bench.onnx_to_torch.node import Builder, Node, Operation
from relay_layout.bench.onnx_to_torch.resize import resize
from relay_layout.bench.onnx_to_torch.windows import (
    average_pool,
    convolution,
    global_pool,
    max_pool,
    pad_argument,
    transposed_convolution,
)

# Normalisation ---------------------------------------------------------------------------------------


def _batch_normalization(node: Node) -> Operation:
    if node.attributes.get("training_mode", 0):
        raise node.unsupported("BatchNormalization in training mode")
    epsilon = float(node.attributes.get("epsilon", 1e-5))

    def run(data: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return functional.batch_norm(data, mean, variance, scale, bias, False, 0.0, epsilon)

    return run


def _instance_normalization(node: Node) -> Operation:
    epsilon = float(node.attributes.get("epsilon", 1e-5))
    return lambda data, scale, bias: functional.instance_norm(data, None, None, scale, bias, eps=epsilon)


def _layer_normalization(node: Node) -> Operation:
    if len(node.outputs) > 1:
        raise node.unsupported("LayerNormalization with its Mean or InvStdDev output")
    axis = int(node.attributes.get("axis", -1))
    epsilon = float(node.attributes.get("epsilon", 1e-5))

    def run(data: Tensor, scale: Tensor, bias: Tensor | None = None) -> Tensor:
        normalized = list(data.shape[axis:] if axis < 0 else data.shape[axis - data.dim() :])
        return functional.layer_norm(data, normalized, scale, bias, epsilon)

    return run


def _local_response_normalization(node: Node) -> Operation:
    attributes = node.attributes
    size = int(attributes["size"])
    alpha, beta = float(attributes.get("alpha", 1e-4)), float(attributes.get("beta", 0.75))
    bias = float(attributes.get("bias", 1.0))
    return lambda data: functional.local_response_norm(data, size, alpha, beta, bias)


# Element by element ----------------------------------------------------------------------------------


def _plain(function: Callable[..., Any]) -> Builder:
    """An operator without attributes that torch has under another name."""
    return lambda node: function


def _folded(function: Callable[[Tensor, Tensor], Tensor]) -> Builder:
    """An operator over any number of inputs, applied from left to right."""

    def build(node: Node) -> Operation:
        def run(first: Tensor, *others: Tensor) -> Tensor:
            for other in others:
                first = function(first, other)
            return first

        return run

    return build


def _divide(node: Node) -> Operation:
    def run(left: Tensor, right: Tensor) -> Tensor:
        # ONNX truncates integer quotients towards zero.
        rounding = None if left.is_floating_point() else "trunc"
        return torch.div(left, right, rounding_mode=rounding)

    return run


def _clip(node: Node) -> Operation:
    if "min" in node.attributes or "max" in node.attributes:
        low, high = node.attributes.get("min"), node.attributes.get("max")
        return lambda data: torch.clamp(data, low, high)
    limits: list[float | None] = []
    for index in (1, 2):
        stored = node.constant(index)
        if node.has_input(index) and stored is None:
            return lambda data, low=None, high=None: torch.clamp(data, low, high)
        limits.append(None if stored is None else stored.item())
    if limits == [None, None]:
        return lambda data, *_: data
    if limits == [0, 6]:
        return lambda data, *_: functional.relu6(data)
    return lambda data, *_: torch.clamp(data, *limits)


def _leaky_relu(node: Node) -> Operation:
    alpha = float(node.attributes.get("alpha", 0.01))
    return lambda data: functional.leaky_relu(data, alpha)


def _elu(node: Node) -> Operation:
    alpha = float(node.attributes.get("alpha", 1.0))
    return lambda data: functional.elu(data, alpha)


def _hard_sigmoid(node: Node) -> Operation:
    alpha, beta = float(node.attributes.get("alpha", 0.2)), float(node.attributes.get("beta", 0.5))
    if math.isclose(alpha, 1 / 6, rel_tol=1e-6) and beta == 0.5:
        return functional.hardsigmoid
    return lambda data: torch.clamp(alpha * data + beta, 0.0, 1.0)


def _gelu(node: Node) -> Operation:
    approximate = node.attributes.get("approximate", "none")
    return lambda data: functional.gelu(data, approximate=approximate)


def _softmax(node: Node) -> Operation:
    if node.opset >= 13:
        axis = int(node.attributes.get("axis", -1))
        return lambda data: torch.softmax(data, axis)
    axis = int(node.attributes.get("axis", 1))

    def over_all_trailing_axes(data: Tensor) -> Tensor:
        return torch.softmax(data.flatten(axis), -1).reshape(data.shape)

    return over_all_trailing_axes


_DTYPES = {
    1: torch.float32,
    2: torch.uint8,
    3: torch.int8,
    5: torch.int16,
    6: torch.int32,
    7: torch.int64,
    9: torch.bool,
    10: torch.float16,
    11: torch.float64,
    16: torch.bfloat16,
}


def _cast(node: Node) -> Operation:
    if node.attributes["to"] not in _DTYPES:
        raise node.unsupported(f"Cast to ONNX data type {node.attributes['to']}")
    dtype = _DTYPES[node.attributes["to"]]
    return lambda data: data.to(dtype)


# Matrix products -------------------------------------------------------------------------------------


def _gemm(node: Node) -> Operation:
    alpha, beta = float(node.attributes.get("alpha", 1.0)), float(node.attributes.get("beta", 1.0))
    transpose_left = bool(node.attributes.get("transA", 0))
    transpose_right = bool(node.attributes.get("transB", 0))

    def run(left: Tensor, right: Tensor, addend: Tensor | None = None) -> Tensor:
        left = left.t() if transpose_left else left
        weight = right if transpose_right else right.t()
        if alpha == 1.0 and (addend is None or (beta == 1.0 and addend.dim() == 1)):
            bias = addend if addend is None or addend.shape[0] == weight.shape[0] else None
            if addend is None or bias is not None:
                return functional.linear(left, weight, bias)
        product = alpha * functional.linear(left, weight)
        return product if addend is None else product + beta * addend

    return run


# Shape and data movement -----------------------------------------------------------------------------


def _concat(node: Node) -> Operation:
    axis = int(node.attributes["axis"])
    return lambda *tensors: torch.cat(tensors, axis)


def _flatten(node: Node) -> Operation:
    axis = int(node.attributes.get("axis", 1))

    def run(data: Tensor) -> Tensor:
        rows = math.prod(data.shape[:axis])
        return data.reshape(rows, -1)

    return run


def _reshape(node: Node) -> Operation:
    keep_zero = bool(node.attributes.get("allowzero", 0))

    def run(*tensors: Tensor) -> Tensor:
        data = tensors[0]
        shape = node.attribute_or_integers("shape", 1, tensors) or []
        if not keep_zero:
            shape = [data.shape[axis] if size == 0 else size for axis, size in enumerate(shape)]
        return data.reshape(shape)

    return run


def _squeeze(node: Node) -> Operation:
    def run(*tensors: Tensor) -> Tensor:
        axes = node.attribute_or_integers("axes", 1, tensors)
        return tensors[0].squeeze() if axes is None else tensors[0].squeeze(axes)

    return run


def _unsqueeze(node: Node) -> Operation:
    def run(*tensors: Tensor) -> Tensor:
        data = tensors[0]
        axes = node.attribute_or_integers("axes", 1, tensors) or []
        rank = data.dim() + len(axes)
        for axis in sorted(axis % rank for axis in axes):
            data = data.unsqueeze(axis)
        return data

    return run


def _transpose(node: Node) -> Operation:
    permutation = node.attributes.get("perm")
    return lambda data: data.permute(permutation or tuple(reversed(range(data.dim()))))


_PAD_MODES = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}


def _pad(node: Node) -> Operation:
    onnx_mode = node.attributes.get("mode", "constant")
    if onnx_mode not in _PAD_MODES:
        raise node.unsupported(f"Pad with mode {onnx_mode}")
    mode = _PAD_MODES[onnx_mode]
    stored = node.constant(2)
    value = float(node.attributes.get("value", 0.0) if stored is None else stored.item())
    if node.has_input(2) and stored is None:
        raise node.unsupported("Pad with a constant_value that is computed")

    def run(*tensors: Tensor) -> Tensor:
        data = tensors[0]
        amounts = node.attribute_or_integers("pads", 1, tensors) or []
        axes = node.integers(3, tensors) if node.has_input(3) else list(range(data.dim()))
        padding = [(0, 0)] * data.dim()
        for position, axis in enumerate(axes):
            padding[axis] = (amounts[position], amounts[position + len(axes)])
        if mode == "constant":
            return functional.pad(data, pad_argument(padding), value=value)
        # torch's other modes take the spatial axes only.
        if any(pair != (0, 0) for pair in padding[:2]):
            raise node.unsupported(f"Pad of the first two axes with mode {onnx_mode}")
        return functional.pad(data, pad_argument(padding[2:]), mode=mode)

    return run


def _reduce(function: Callable[[Tensor, list[int], bool], Tensor]) -> Builder:
    def build(node: Node) -> Operation:
        keep = bool(node.attributes.get("keepdims", 1))
        without_axes_do_nothing = bool(node.attributes.get("noop_with_empty_axes", 0))

        def run(*tensors: Tensor) -> Tensor:
            data = tensors[0]
            axes = node.attribute_or_integers("axes", 1, tensors)
            if not axes:
                if without_axes_do_nothing:
                    return data
                axes = list(range(data.dim()))
            return function(data, axes, keep)

        return run

    return build


def _gather(node: Node) -> Operation:
    axis = int(node.attributes.get("axis", 0))

    def run(data: Tensor, indices: Tensor) -> Tensor:
        flat = indices.reshape(-1).long() % data.shape[axis]
        positive = axis % data.dim()
        shape = (*data.shape[:positive], *indices.shape, *data.shape[positive + 1 :])
        return data.index_select(axis, flat).reshape(shape)

    return run


def _slice(node: Node) -> Operation:
    def run(*tensors: Tensor) -> Tensor:
        data = tensors[0]
        starts = node.attribute_or_integers("starts", 1, tensors) or []
        ends = node.attribute_or_integers("ends", 2, tensors) or []
        axes = node.attribute_or_integers("axes", 3, tensors) or list(range(len(starts)))
        steps = node.integers(4, tensors) if node.has_input(4) else [1] * len(starts)
        for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
            positions = range(data.shape[axis])[start:end:step]
            if step > 0:
                data = data.narrow(axis, positions.start, max(positions.stop - positions.start, 0))
                data = data[(slice(None),) * (axis % data.dim()) + (slice(None, None, step),)]
            else:
                data = data.index_select(axis, torch.tensor(list(positions), dtype=torch.int64))
        return data

    return run


def _split(node: Node) -> Operation:
    axis = int(node.attributes.get("axis", 0))

    def run(*tensors: Tensor) -> tuple[Tensor, ...]:
        data = tensors[0]
        sizes = node.attribute_or_integers("split", 1, tensors)
        if sizes is None:
            each = math.ceil(data.shape[axis] / len(node.outputs))
            return torch.split(data, each, axis)
        return torch.split(data, sizes, axis)

    return run


BUILDERS: dict[str, Builder] = {
    "Abs": _plain(torch.abs),
    "Add": _plain(torch.add),
    "AveragePool": average_pool,
    "BatchNormalization": _batch_normalization,
    "Cast": _cast,
    "Clip": _clip,
    "Concat": _concat,
    "Conv": convolution,
    "ConvTranspose": transposed_convolution,
    "Div": _divide,
    "Dropout": _plain(lambda data, *_: data),
    "Elu": _elu,
    "Erf": _plain(torch.erf),
    "Exp": _plain(torch.exp),
    "Flatten": _flatten,
    "Gather": _gather,
    "Gelu": _gelu,
    "Gemm": _gemm,
    "GlobalAveragePool": global_pool(lambda data, axes: torch.mean(data, axes, keepdim=True)),
    "GlobalMaxPool": global_pool(lambda data, axes: torch.amax(data, axes, keepdim=True)),
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _plain(functional.hardswish),
    "Identity": _plain(lambda data: data),
    "InstanceNormalization": _instance_normalization,
    "LRN": _local_response_normalization,
    "LayerNormalization": _layer_normalization,
    "LeakyRelu": _leaky_relu,
    "MatMul": _plain(torch.matmul),
    "Max": _folded(torch.maximum),
    "MaxPool": max_pool,
    "Min": _folded(torch.minimum),
    "Mish": _plain(functional.mish),
    "Mul": _plain(torch.mul),
    "Neg": _plain(torch.neg),
    "PRelu": _plain(lambda data, slope: torch.where(data >= 0, data, data * slope)),
    "Pad": _pad,
    "Pow": _plain(torch.pow),
    "ReduceMax": _reduce(lambda data, axes, keep: torch.amax(data, axes, keepdim=keep)),
    "ReduceMean": _reduce(lambda data, axes, keep: torch.mean(data, axes, keepdim=keep)),
    "ReduceSum": _reduce(lambda data, axes, keep: torch.sum(data, axes, keepdim=keep)),
    "Relu": _plain(torch.relu),
    "Reshape": _reshape,
    "Resize": resize,
    "Shape": _plain(lambda data: torch.tensor(data.shape, dtype=torch.int64)),
    "Sigmoid": _plain(torch.sigmoid),
    "Slice": _slice,
    "Softmax": _softmax,
    "Softplus": _plain(functional.softplus),
    "Split": _split,
    "Sqrt": _plain(torch.sqrt),
    "Squeeze": _squeeze,
    "Sub": _plain(torch.sub),
    "Sum": _folded(torch.add),
    "Tanh": _plain(torch.tanh),
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Upsample": resize,
}
"""Every operator but Constant, which the converter turns into stored values."""
