"""Checks of an ONNX model before it is imported, each with a message that says what is wrong and where."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from relay_layout.errors import ModelError
from relay_layout.frontend import onnx_fallback
from relay_layout.frontend.input_shapes import Input
from relay_layout.frontend.onnx_import import first_line
from relay_layout.frontend.onnx_operators import CONVERTERS

if TYPE_CHECKING:
    import onnx

_STRING = 8
"""TensorProto.STRING, which is only at hand once onnx is imported."""

_STILL_READ = frozenset({"GroupNormalization"})
_STILL_READ_DOMAIN = "relay_layout.still_read"
"""Operators that the checker refuses in some opsets as deprecated, although files have them."""

_WALKED = frozenset({"Constant", "If"})
"""Operators the importer handles while walking the graph."""


def check_operators(model: "onnx.ModelProto", label: str) -> None:
    """ModelError that lists every node whose operator cannot be imported."""
    defined = {(function.domain, function.name) for function in model.functions}
    unknown: dict[str, list[str]] = {}
    for node in _nodes(model):
        if (node.domain, node.op_type) not in defined and not supports(node.domain, node.op_type):
            operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
            unknown.setdefault(operator, []).append(node.name or next(iter(node.output), ""))
    if unknown:
        listed = "; ".join(f"{operator} (node {_listed(names)})" for operator, names in unknown.items())
        raise ModelError(f"{label}: these operators are not supported: {listed}")


def supports(domain: str, operator: str) -> bool:
    """Whether nodes of an operator can be imported."""
    if domain in ("", "ai.onnx") and (operator in CONVERTERS or operator in _WALKED):
        return True
    return operator in onnx_fallback.operators(domain)


def _listed(names: Sequence[str], most: int = 3) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _nodes(model: "onnx.ModelProto") -> Iterator["onnx.NodeProto"]:
    pending = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    while pending:
        node = pending.pop(0)
        yield node
        for attribute in node.attribute:
            for graph in [attribute.g, *attribute.graphs]:
                pending.extend(graph.node)


def check_structure(model: "onnx.ModelProto", label: str) -> None:
    """ModelError where the ONNX package finds the model invalid."""
    from onnx import checker

    try:
        checker.check_model(_without_weights(model))
    except Exception as error:
        raise ModelError(f"{label} is not a valid ONNX model: {first_line(error)}") from None


def _without_weights(model: "onnx.ModelProto") -> "onnx.ModelProto":
    """The model with its initializers turned into inputs: weights can exceed what protobuf serializes."""
    from onnx import ModelProto, helper

    light = ModelProto()
    light.ir_version = model.ir_version
    light.opset_import.extend(model.opset_import)
    light.functions.extend(model.functions)
    light.graph.name = model.graph.name
    light.graph.node.extend(model.graph.node)
    light.graph.input.extend(model.graph.input)
    light.graph.output.extend(model.graph.output)
    for node in light.graph.node:
        if node.op_type in _STILL_READ and not node.domain:
            # A domain the checker does not know: it looks at the node's place only.
            node.domain = _STILL_READ_DOMAIN
    light.opset_import.add(domain=_STILL_READ_DOMAIN, version=1)
    for value in [*light.graph.input, *light.graph.output]:
        if value.type.HasField("tensor_type"):
            # Other readers take a tensor of undeclared rank, only the checker does not.
            value.type.tensor_type.shape.SetInParent()
    declared = {value.name for value in model.graph.input}
    for tensor in model.graph.initializer:
        if tensor.name not in declared:
            light.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    return light


def read_inputs(graph: "onnx.GraphProto", label: str) -> dict[str, Input]:
    """The true inputs of a graph by name, in order; initializers are none.

    An extent without number or name gets the name "INPUT_dim_AXIS".
    """
    weights = {tensor.name for tensor in graph.initializer}
    result = {}
    for value in graph.input:
        if value.name in weights:
            continue
        tensor = value.type.tensor_type
        if not value.type.HasField("tensor_type") or tensor.elem_type in (0, _STRING):
            raise ModelError(f"{label}: input '{value.name}' is not a numeric tensor, which is not supported")
        shape: tuple[int | str, ...] | None = None
        if tensor.HasField("shape"):
            shape = tuple(
                extent.dim_value if extent.dim_value > 0 else extent.dim_param or f"{value.name}_dim_{axis}"
                for axis, extent in enumerate(tensor.shape.dim)
            )
        result[value.name] = Input(value.name, tensor.elem_type, shape)
    return result
