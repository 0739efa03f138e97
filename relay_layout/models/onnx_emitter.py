"""A network as an ONNX model, and as a file of one."""

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from relay_layout.errors import ModelError
from relay_layout.models.catalog import build
from relay_layout.models.network import Network, Value
from relay_layout.models.operations import (
    Add,
    BatchNormalization,
    Clip,
    Concatenate,
    Convolution,
    Dense,
    Flatten,
    GlobalAveragePool,
    MaxPool,
    Operation,
    Relu,
)

if TYPE_CHECKING:
    import onnx

OPSET = 17
IR_VERSION = 8
"""The ONNX file version that came with opset 17: readers of that age can open the file."""


def to_onnx(network: Network) -> "onnx.ModelProto":
    """An ONNX model of opset 17: float32 weights as initializers in raw_data, BatchNormalization kept.

    Inputs, outputs, nodes and initializers carry the network's names. ModelError without the onnx
    package.
    """
    try:
        from onnx import TensorProto, helper, numpy_helper
    except ImportError:
        raise ModelError("writing ONNX needs the onnx package: pip install 'relay-layout[onnx]'") from None

    def declared(values: tuple[Value, ...]) -> list["onnx.ValueInfoProto"]:
        return [
            helper.make_tensor_value_info(value.name, TensorProto.FLOAT, list(value.shape))
            for value in values
        ]

    nodes = []
    scalars: dict[str, float] = {}
    for node in network.nodes:
        kind, attributes = _operator(node.operation)
        inputs = [*node.inputs, *(parameter.name for parameter in node.parameters)]
        if isinstance(node.operation, Clip):
            bounds = {
                f"{node.name}.minimum": node.operation.minimum,
                f"{node.name}.maximum": node.operation.maximum,
            }
            scalars.update(bounds)
            inputs.extend(bounds)
        nodes.append(helper.make_node(kind, inputs, [node.output.name], name=node.name, **attributes))
    model = helper.make_model(
        helper.make_graph(
            nodes,
            network.name,
            declared(network.inputs),
            declared(network.outputs),
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="relay_layout",
    )
    # One by one into the finished model: make_graph would hold all weights twice.
    for parameter in network.parameters():
        model.graph.initializer.append(numpy_helper.from_array(parameter.values(), parameter.name))
    for name, scalar in scalars.items():
        model.graph.initializer.append(numpy_helper.from_array(np.array(scalar, dtype=np.float32), name))
    return model


def export_onnx(network: Network | str, path: str | os.PathLike[str]) -> None:
    """Write a network, or the built-in one of this name with its default options, to an .onnx file.

    The file appears complete or not at all. ModelError for an unknown name, without the onnx package,
    or where the file cannot be written.
    """
    model = to_onnx(build(network) if isinstance(network, str) else network)
    target = Path(path)
    # Beside the target, since os.replace is atomic only within one file system.
    unfinished = target.parent / f".{target.name}.{os.getpid()}.unfinished"
    try:
        unfinished.write_bytes(model.SerializeToString(deterministic=True))
        os.replace(unfinished, target)
    except OSError as error:
        raise ModelError(f"cannot write '{target}': {error.strerror}") from None
    finally:
        with suppress(OSError):
            unfinished.unlink()


def _operator(operation: Operation) -> tuple[str, dict[str, Any]]:
    match operation:
        case Convolution():
            return "Conv", {
                "kernel_shape": operation.kernel,
                "strides": operation.strides,
                "pads": operation.padding,
                "dilations": operation.dilation,
                "group": operation.groups,
            }
        case BatchNormalization():
            return "BatchNormalization", {"epsilon": operation.epsilon}
        case Relu():
            return "Relu", {}
        case Clip():
            return "Clip", {}
        case MaxPool():
            return "MaxPool", {
                "kernel_shape": operation.kernel,
                "strides": operation.strides,
                "pads": operation.padding,
                "dilations": operation.dilation,
                "ceil_mode": int(operation.ceil_mode),
            }
        case GlobalAveragePool():
            return "GlobalAveragePool", {}
        case Add():
            return "Add", {}
        case Concatenate():
            return "Concat", {"axis": 1}
        case Flatten():
            return "Flatten", {"axis": 1}
        case Dense():
            return "Gemm", {"transB": 1}
