"""Functions that a model brings along: their nodes in place of the calls, in the model's opset.

The inliner of the ONNX package leaves out defaults that attributes have in functions which others call, and
converts no function to another opset whose calls read results of others.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from relay_layout.errors import ModelError
from relay_layout.frontend.messages import reason
from relay_layout.frontend.onnx.graphs import OWN_DOMAINS, opset_version, place_of, subgraphs, with_subgraphs

if TYPE_CHECKING:
    import onnx

    Functions: TypeAlias = Mapping[tuple[str, str, str], onnx.FunctionProto]
    Types: TypeAlias = Mapping[str, onnx.TypeProto]


def inline_functions(light: "onnx.ModelProto", label: str) -> None:
    """Replace a model's calls of its own functions by their nodes, and drop the functions.

    ModelError, which begins with ``label``, for functions that call themselves, for calls that give too much,
    and where a function's opset cannot be converted to the model's.
    """
    functions = {_key(function): function for function in light.functions}
    imported = {entry.domain for entry in light.opset_import}
    for entry in (entry for function in light.functions for entry in function.opset_import):
        if entry.domain not in imported and entry.domain not in OWN_DOMAINS:
            imported.add(entry.domain)
            light.opset_import.append(entry)
    inlining = _Inlining(light, functions, label)
    # Each pass does without the calls of one level, so that the types of what the next ones read are known.
    for _ in range(len(functions) + 1):
        if not any(_key(node) in functions for node in with_subgraphs(light.graph.node)):
            break
        inlining.inline_calls()
    else:
        raise ModelError(f"{label} is not a valid ONNX model: its functions call themselves")
    del light.functions[:]


def types_of(graph: "onnx.GraphProto") -> dict[str, "onnx.TypeProto"]:
    """The types of a graph's tensors by name, those of its subgraphs included."""
    found = {value.name: value.type for value in (*graph.input, *graph.value_info, *graph.output)}
    for node in graph.node:
        for inner in subgraphs(node):
            found |= types_of(inner)
    return found


def _key(proto: "onnx.NodeProto | onnx.FunctionProto") -> tuple[str, str, str]:
    """What tells functions apart, of one or of a call."""
    name = getattr(proto, "op_type", "") or proto.name
    return proto.domain, name, proto.overload


class _Inlining:
    """Calls of ``functions`` in a model's graph, replaced level by level."""

    def __init__(self, light: "onnx.ModelProto", functions: "Functions", label: str) -> None:
        self._light = light
        self._functions = functions
        self._label = label
        self._version = opset_version(light) or 1
        self._taken = _names(light.graph)
        self._calls = 0

    def inline_calls(self) -> None:
        """Replace the calls that the graph itself and its subgraphs hold."""
        from onnx import shape_inference

        types: Types = {}
        if any(self._changed(function) for function in self._functions.values()):
            types = types_of(shape_inference.infer_shapes(self._light).graph)
        self._inline_into(self._light.graph, types)

    def _inline_into(self, graph: "onnx.GraphProto", types: "Types") -> None:
        nodes: list[onnx.NodeProto] = []
        for node in graph.node:
            for inner in subgraphs(node):
                self._inline_into(inner, types)
            function = self._functions.get(_key(node))
            nodes += [node] if function is None else self._body(node, function, types)
        kept = [type(node).FromString(node.SerializeToString()) for node in nodes]
        del graph.node[:]
        graph.node.extend(kept)

    def _body(
        self, call: "onnx.NodeProto", function: "onnx.FunctionProto", types: "Types"
    ) -> list["onnx.NodeProto"]:
        """The nodes of a function with a call's attributes, inputs and outputs."""
        from onnx import helper

        if len(call.input) > len(function.input) or len(call.output) > len(function.output):
            raise ModelError(
                f"{self._label} is not a valid ONNX model: {place_of(call)} gives the function more inputs, "
                "or takes more outputs, than it has"
            )
        given = {attribute.name: attribute for attribute in (*function.attribute_proto, *call.attribute)}
        nodes = [_with_attributes(node, given) for node in function.node]
        given_inputs = dict(zip(function.input, call.input, strict=False))
        if self._changed(function):
            nodes = self._in_models_opset(
                nodes,
                function,
                {name: types[outer] for name, outer in given_inputs.items() if outer in types},
            )
        names = {"": ""} | dict.fromkeys(function.input, "") | given_inputs
        made = {name for node in nodes for name in node.output}
        again = []
        for name, outer in zip(function.output, call.output, strict=False):
            if name in made and name not in names:
                names[name] = outer or self._free(name)
            elif outer:
                # A result that is an input, or another result as well.
                again.append((name, outer))
        self._calls += 1
        for node in nodes:
            self._rename(node, names)
        return nodes + [helper.make_node("Identity", [names[name]], [outer]) for name, outer in again]

    def _rename(self, node: "onnx.NodeProto", names: dict[str, str]) -> None:
        """Give a function's node, and what its subgraphs hold, the names of the graph around."""

        def outer(name: str) -> str:
            # Of a name that nothing gives too: the graph around may have another value of that name.
            return names[name] if name in names else names.setdefault(name, self._free(name))

        node.input[:], node.output[:] = map(outer, node.input), map(outer, node.output)
        if node.name:
            node.name = f"{node.name}__{self._calls}"
        for graph in subgraphs(node):
            sparse = (tensor.values for tensor in graph.sparse_initializer)
            for value in (*graph.input, *graph.output, *graph.initializer, *graph.value_info, *sparse):
                value.name = outer(value.name)
            for inner in graph.node:
                self._rename(inner, names)

    def _free(self, name: str) -> str:
        """A name like this one, which nothing in the model has."""
        free = f"{name}__{self._calls + 1}"
        while free in self._taken:
            free += "_"
        self._taken.add(free)
        return free

    def _changed(self, function: "onnx.FunctionProto") -> list[str]:
        """The function's operators that are others in the model's opset."""
        version = opset_version(function)
        if version is None or version == self._version:
            return []
        operators = {node.op_type for node in with_subgraphs(function.node) if node.domain in OWN_DOMAINS}
        return sorted(name for name in operators if _since(name, version) != _since(name, self._version))

    def _in_models_opset(
        self, nodes: list["onnx.NodeProto"], function: "onnx.FunctionProto", types: "Types"
    ) -> list["onnx.NodeProto"]:
        """A function's nodes as the model's opset writes them; ``types`` has those of its inputs."""
        from onnx import helper, version_converter

        inputs = [helper.make_value_info(name, types.get(name) or _tensor()) for name in function.input]
        outputs = [helper.make_value_info(name, _tensor()) for name in function.output]
        graph = helper.make_graph(nodes, function.name, inputs, outputs)
        model = helper.make_model(graph, opset_imports=function.opset_import)
        model.ir_version = self._light.ir_version
        try:
            found = version_converter.convert_version(model, self._version).graph
        except Exception as error:
            raise ModelError(
                f"{self._label}: its function '{function.name}' is of opset "
                f"{opset_version(function)}, and {', '.join(self._changed(function))} in it "
                f"cannot be converted to the model's opset {self._version}: {reason(error)}"
            ) from None
        tensors = [
            helper.make_node("Constant", [], [tensor.name], value=tensor) for tensor in found.initializer
        ]
        return [*tensors, *found.node]


def _with_attributes(node: "onnx.NodeProto", given: Mapping[str, "onnx.AttributeProto"]) -> "onnx.NodeProto":
    """A copy whose attributes are those that it refers to; without those that are not given."""
    copy = type(node).FromString(node.SerializeToString())
    _state_attributes(copy, given)
    return copy


def _state_attributes(node: "onnx.NodeProto", given: Mapping[str, "onnx.AttributeProto"]) -> None:
    attributes = list(node.attribute)
    del node.attribute[:]
    for attribute in attributes:
        referred = given.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
        if referred is not None:
            node.attribute.add().CopyFrom(referred)
            node.attribute[-1].name = attribute.name
    for graph in subgraphs(node):
        for inner in graph.node:
            _state_attributes(inner, given)


def _names(graph: "onnx.GraphProto") -> set[str]:
    """All names of a graph's values, and of its subgraphs' ones."""
    found = {value.name for value in (*graph.input, *graph.output, *graph.initializer)}
    for node in graph.node:
        found.update(node.input, node.output)
        for inner in subgraphs(node):
            found |= _names(inner)
    return found


def _tensor() -> "onnx.TypeProto":
    """The type of a tensor of which nothing is known."""
    from onnx import TypeProto

    found = TypeProto()
    found.tensor_type.SetInParent()
    return found


def _since(operator: str, version: int) -> int:
    """The opset that brought an operator as it is in ``version``; 0 where there is none."""
    from onnx import defs

    try:
        return int(defs.get_schema(operator, version, "").since_version)
    except Exception:
        return 0
