"""An ONNX graph as a ``torch.nn.Module``, the way a torch user would run it for inference.

Weights are stored channels_last and batch norms are folded into the convolutions before them.
The operators are in :mod:`relay_layout.bench.onnx_to_torch.operators`.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import Tensor

from relay_layout.bench.onnx_to_torch.node import Node, Operation
from relay_layout.bench.onnx_to_torch.operators import BUILDERS
from relay_layout.errors import ModelError
from relay_layout.frontend.onnx.graphs import OWN_DOMAINS, opset_version

Array = np.ndarray[Any, Any]


class OnnxModule(torch.nn.Module):
    """Runs the nodes of an ONNX graph in order; takes and returns tensors in the graph's order."""

    def __init__(self, graph: onnx.GraphProto, opset: int) -> None:
        super().__init__()
        constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
        nodes = list(_read_nodes(graph, constants, opset))
        nodes = _fold_batch_norms(nodes, constants, {value.name for value in graph.output})
        self.input_names = [value.name for value in graph.input if value.name not in constants]
        self.output_names = [value.name for value in graph.output]
        self._steps: list[tuple[Operation, tuple[str, ...], tuple[str, ...]]] = [
            (BUILDERS[node.op_type](node), node.inputs, node.outputs) for node in nodes
        ]
        used = {name for _, inputs, _ in self._steps for name in inputs} | set(self.output_names)
        self._buffer_of: dict[str, str] = {}
        for index, name in enumerate(sorted(used & set(constants))):
            # A buffer's name may not hold the dots and slashes that ONNX names are full of.
            self._buffer_of[name] = f"constant_{index}"
            self.register_buffer(f"constant_{index}", to_channels_last(constants[name]))

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        values: dict[str, Any] = {name: getattr(self, buffer) for name, buffer in self._buffer_of.items()}
        values.update(zip(self.input_names, inputs, strict=True))
        values[""] = None
        for operation, input_names, output_names in self._steps:
            result = operation(*(values[name] for name in input_names))
            if isinstance(result, tuple):
                values.update(zip(output_names, result, strict=False))
            else:
                values[output_names[0]] = result
        return tuple(values[name] for name in self.output_names)


def to_channels_last(array: Array) -> Tensor:
    """A tensor with the array's values; four-dimensional ones are stored channels_last."""
    tensor = torch.from_numpy(np.array(array, order="C"))  # a copy: ONNX's arrays may be read-only
    return tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor


def convert(onnx_path: str | Path) -> OnnxModule:
    """Read an ONNX file into a module in inference mode.

    Raises ModelError where the file cannot be read, or has an operator that the table lacks.
    """
    path = Path(onnx_path)
    try:
        model = onnx.load(path)
    except Exception as error:  # onnx raises whatever its parser or the file system raise
        raise ModelError(f"{path}: not a readable ONNX model: {error}") from error
    try:
        return OnnxModule(model.graph, opset_version(model) or 1).eval()
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error


def _read_nodes(graph: onnx.GraphProto, constants: dict[str, Array], opset: int) -> Iterator[Node]:
    """The graph's nodes; Constant nodes move their values to ``constants`` instead."""
    for proto in graph.node:
        attributes = {entry.name: _attribute_value(entry) for entry in proto.attribute}
        if proto.op_type == "Constant":
            constants[proto.output[0]] = _constant_value(attributes)
            continue
        node = Node(
            proto.op_type, proto.name, tuple(proto.input), tuple(proto.output), attributes, constants, opset
        )
        if proto.domain not in OWN_DOMAINS or proto.op_type not in BUILDERS:
            domain = f"{proto.domain}." if proto.domain else ""
            raise node.unsupported(f"operator {domain}{proto.op_type}")
        yield node


def _attribute_value(attribute: onnx.AttributeProto) -> Any:
    value = onnx.helper.get_attribute_value(attribute)
    return value.decode() if isinstance(value, bytes) else value


def _constant_value(attributes: dict[str, Any]) -> Array:
    ((kind, value),) = attributes.items()
    if kind == "value":
        return numpy_helper.to_array(value)
    if kind in ("value_float", "value_floats"):
        return np.asarray(value, dtype=np.float32)
    if kind in ("value_int", "value_ints"):
        return np.asarray(value, dtype=np.int64)
    raise ModelError(f"a Constant node with attribute {kind} is not covered by the torch converter of bench")


def _fold_batch_norms(nodes: list[Node], constants: dict[str, Array], graph_outputs: set[str]) -> list[Node]:
    """Scale and shift weights of convolutions that feed nothing but a batch norm; add to ``constants``."""
    uses = Counter(name for node in nodes for name in node.inputs)
    producer = {node.outputs[0]: index for index, node in enumerate(nodes)}
    result: list[Node | None] = list(nodes)
    for index, norm in enumerate(nodes):
        if norm.op_type != "BatchNormalization" or norm.attributes.get("training_mode", 0):
            continue
        convolution_index = producer.get(norm.inputs[0])
        if convolution_index is None:
            continue
        convolution = result[convolution_index]
        if convolution is None or convolution.op_type != "Conv":
            continue
        between = convolution.outputs[0]
        stored = [norm.constant(position) for position in range(1, 5)]
        weight = convolution.constant(1)
        bias = convolution.constant(2)
        if uses[between] != 1 or between in graph_outputs or weight is None:
            continue
        if any(array is None for array in stored) or (convolution.has_input(2) and bias is None):
            continue
        scale, shift, mean, variance = (np.asarray(array, np.float64) for array in stored)
        factor = scale / np.sqrt(variance + float(norm.attributes.get("epsilon", 1e-5)))
        folded_weight = weight * factor.reshape(-1, *[1] * (weight.ndim - 1))
        folded_bias = ((0.0 if bias is None else bias) - mean) * factor + shift
        names = (f"{norm.outputs[0]}/folded_weight", f"{norm.outputs[0]}/folded_bias")
        constants[names[0]] = folded_weight.astype(weight.dtype)
        constants[names[1]] = folded_bias.astype(weight.dtype)
        result[convolution_index] = Node(
            convolution.op_type,
            convolution.name,
            (convolution.inputs[0], *names),
            (norm.outputs[0],),
            convolution.attributes,
            constants,
            convolution.opset,
        )
        result[index] = None
    return [node for node in result if node is not None]
