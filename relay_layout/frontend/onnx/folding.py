"""Folding of nodes whose inputs are all constants."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from relay_layout.frontend.folding import LARGEST_FOLDED
from relay_layout.frontend.onnx.slices import sliced
from relay_layout.frontend.values import Array, Unsupported, Value

if TYPE_CHECKING:
    import onnx

_NOT_FOLDED = frozenset(
    {
        "AveragePool",
        "Bernoulli",
        "Conv",
        "ConvTranspose",
        "DeformConv",
        "DequantizeLinear",
        "GRU",
        "GlobalMaxPool",
        "GridSample",
        "If",
        "LRN",
        "LSTM",
        "LogSoftmax",
        "Loop",
        "LpNormalization",
        "LpPool",
        "MaxPool",
        "Multinomial",
        "NonMaxSuppression",
        "Optional",
        "RNN",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
        "Resize",
        "RoiAlign",
        "Scan",
        "SequenceConstruct",
        "SequenceEmpty",
        "SplitToSequence",
        "Upsample",
    }
)
"""Operators too slow in numpy, random, with subgraphs, whose results are no tensors, with integers worth
keeping as they are, or that onnx's reference implementation has wrong: GlobalMaxPool of anything but images,
LRN, LogSoftmax of small probabilities, LpNormalization of numbers below zero."""

_FLATTENING = frozenset({"Hardmax", "LogSoftmax", "Softmax"})
"""Operators of all axes from one on before opset 13, which onnx's reference implementation takes for one."""


def fold(
    proto: "onnx.NodeProto", inputs: tuple[Value, ...], opsets: Mapping[str, int]
) -> list[Array | None] | None:
    """The outputs of a node whose inputs are all constants, by onnx's reference implementation.

    An output without a name is None. None where there is no implementation for this node; Unsupported where
    the result is out of proportion.
    """
    fixed = all(value is None or isinstance(value, np.ndarray) for value in inputs)
    flattened = proto.op_type in _FLATTENING and opsets.get("", 1) < 13
    if proto.op_type in _NOT_FOLDED or flattened or not fixed:
        return None
    _check_size(proto.op_type, inputs)
    from onnx.reference import ReferenceEvaluator

    if proto.op_type == "Slice" and len(inputs) > 1:
        # Of the reference implementation going back from before the first element picks nothing.
        data, *bounds = inputs
        numbers = [[] if bound is None else bound.reshape(-1).tolist() for bound in bounds]
        try:
            return [sliced(data, *[*numbers, [], []][:4])]
        except (IndexError, ValueError):
            return None
    feeds = {name: value for name, value in zip(proto.input, inputs, strict=True) if name}
    with np.errstate(all="ignore"):
        try:
            results = ReferenceEvaluator(_as_function(proto, feeds, opsets)).run(None, feeds, {})
        except Exception:
            # Whatever it cannot do is left to the converters, which report on their own.
            return None
    arrays = [np.asarray(result) for result in results if isinstance(result, np.ndarray | np.generic)]
    if len(arrays) != len(results) or any(array.dtype.kind in "OSU" for array in arrays):
        return None
    computed = iter(arrays)
    return [next(computed) if name else None for name in proto.output]


def _as_function(
    proto: "onnx.NodeProto", feeds: Mapping[str, Array], opsets: Mapping[str, int]
) -> "onnx.FunctionProto":
    """A function of one node: a node alone would be evaluated as the newest opset has it."""
    from onnx import helper

    versions = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    outputs = [name for name in proto.output if name]
    return helper.make_function("", "folded", list(feeds), outputs, [proto], versions)


def _check_size(operator: str, inputs: tuple[Value, ...]) -> None:
    if operator not in _GROWING:
        return
    try:
        size = _GROWING[operator](*inputs)
    except (TypeError, ValueError, IndexError, ZeroDivisionError, OverflowError):
        return
    if size > LARGEST_FOLDED:
        raise Unsupported(f"makes a constant of {size} elements")


def _product(shape: Array) -> int:
    total = 1
    for extent in shape.reshape(-1).tolist():
        total *= max(int(extent), 1)
    return total


_GROWING: dict[str, Callable[..., int]] = {
    "ConstantOfShape": lambda shape: _product(shape),
    "Expand": lambda data, shape: _product(np.array(np.broadcast_shapes(data.shape, tuple(shape)))),
    "OneHot": lambda indices, depth, values: indices.size * int(depth.reshape(-1)[0]),
    "Pad": lambda data, pads, *rest: _product(np.array(data.shape) + np.abs(pads[pads.size // 2 :])),
    "Range": lambda start, limit, delta: int((limit - start) / delta),
    "Tile": lambda data, repeats: data.size * _product(repeats),
}
"""Elements of the result of operators whose result may be far larger than their inputs."""
