"""Operators that are defined by others: functions a model brings along, and those ONNX itself defines so."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from relay_layout.errors import ModelError
from relay_layout.frontend.messages import reason
from relay_layout.frontend.onnx.graphs import (
    OWN_DOMAINS,
    in_order,
    opset_version,
    place_of,
    with_subgraphs,
)
from relay_layout.frontend.onnx.local_functions import inline_functions, types_of

if TYPE_CHECKING:
    import onnx

_DOMAIN = "relay_layout.expanded"
"""The domain of functions made for nodes that leave out inputs."""


def expandable(node: "onnx.NodeProto", version: int) -> bool:
    """Whether ONNX defines an operator of its own domain by other operators."""
    from onnx import defs

    if node.domain not in OWN_DOMAINS:
        return False
    try:
        schema: Any = defs.get_schema(node.op_type, version, "")
    except Exception:
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)


def expanded(
    model: "onnx.ModelProto", label: str, wanted: Callable[["onnx.NodeProto"], bool]
) -> Sequence["onnx.NodeProto"]:
    """The nodes of a model without its own functions, and without operators that are ``wanted`` expanded.

    ModelError, which begins with ``label``, for functions that cannot be expanded.
    """
    from onnx import inliner

    operators = _operators(model, wanted)
    if not model.functions and not operators:
        return in_order(model.graph.node)
    light = model
    try:
        light = weightless(model)
        if model.functions:
            inline_functions(light, label)
            operators = _operators(light, wanted)
        # Some are defined by others that are defined so as well, and some for some shapes alone.
        expanded_before: list[str] = []
        while operators != expanded_before:
            version = opset_version(light) or 1
            found = list(filter(wanted, with_subgraphs(light.graph.node)))
            for node in found:
                _state_defaults(node, version)
            gaps = [node for node in found if "" in node.input]
            if gaps:
                light = _without_gaps(light, gaps, version)
            selected = [("", operator) for operator in operators]
            light = inliner.inline_selected_functions(light, selected, False, True)
            expanded_before = operators
            operators = _operators(light, wanted)
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"{label}: its functions cannot be expanded: {reason(error)}") from None
    for node in filter(wanted, with_subgraphs(light.graph.node)):
        raise ModelError(
            f"{label}: {place_of(node)} is defined by other operators for known shapes alone: "
            "export the model with fixed shapes"
        )
    return light.graph.node


def _operators(model: "onnx.ModelProto", wanted: Callable[["onnx.NodeProto"], bool]) -> list[str]:
    return sorted({node.op_type for node in with_subgraphs(model.graph.node) if wanted(node)})


def _without_gaps(
    model: "onnx.ModelProto", nodes: Sequence["onnx.NodeProto"], version: int
) -> "onnx.ModelProto":
    """``model`` without ``nodes`` that leave out inputs before others that they have.

    The inliner asks for the type of every input, so that each of these gets a function of those it has.
    """
    from onnx import FunctionProto, TypeProto, defs, helper, inliner, shape_inference

    types = types_of(shape_inference.infer_shapes(model).graph)
    model.opset_import.append(helper.make_opsetid(_DOMAIN, 1))
    for number, node in enumerate(nodes):
        schema: Any = defs.get_schema(node.op_type, version, "")
        given = [types.get(name, TypeProto()).SerializeToString() for name in node.input]
        text = (
            schema.get_context_dependent_function_with_opset_version(version, node.SerializeToString(), given)
            if schema.has_context_dependent_function
            else schema.get_function_with_opset_version(version)
        )
        function = model.functions.add()
        function.CopyFrom(FunctionProto.FromString(text))
        function.domain, function.name = _DOMAIN, f"{node.op_type}_{number}"
        pairs = list(zip(function.input, node.input, strict=False))
        del function.input[:], function.output[len(node.output) :]
        function.input.extend(inner for inner, outer in pairs if outer)
        del node.input[:], node.attribute[:]
        node.input.extend(outer for _, outer in pairs if outer)
        node.domain, node.op_type = _DOMAIN, function.name
    return inliner.inline_local_functions(model)


def _state_defaults(node: "onnx.NodeProto", version: int) -> None:
    """Give a node the attributes that it leaves out: the function that defines it refers to them."""
    from onnx import defs

    given = {attribute.name for attribute in node.attribute}
    for name, attribute in defs.get_schema(node.op_type, version, "").attributes.items():
        if name not in given and attribute.default_value.name:
            node.attribute.append(attribute.default_value)


def weightless(model: "onnx.ModelProto") -> "onnx.ModelProto":
    """A copy in order and with inputs in place of initializers, which can exceed what protobuf serializes."""
    from onnx import ModelProto, helper

    light = ModelProto()
    light.ir_version = model.ir_version
    light.opset_import.extend(model.opset_import)
    light.functions.extend(model.functions)
    light.graph.name = model.graph.name
    light.graph.node.extend(in_order(model.graph.node))
    light.graph.input.extend(model.graph.input)
    light.graph.output.extend(model.graph.output)
    declared = {value.name for value in model.graph.input}
    weights = [(tensor, tensor.dims) for tensor in model.graph.initializer]
    weights += [(tensor.values, tensor.dims) for tensor in model.graph.sparse_initializer]
    for tensor, shape in weights:
        if tensor.name not in declared:
            light.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, shape))
    return light
