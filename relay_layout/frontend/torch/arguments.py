"""What a program takes and gives: tensors, and beside them flags, numbers and None that export has fixed."""

from collections.abc import Collection, Iterator
from typing import Any

import torch
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind

from relay_layout.errors import ModelError

_WRITTEN = {
    OutputKind.BUFFER_MUTATION: "the buffer '{}' as it runs, which is not supported; call eval() before "
    "export, or make the buffer an input and an output",
    OutputKind.USER_INPUT_MUTATION: "its input '{}', which is not supported; let it write to a clone() of it",
}
"""What a program writes to that is not its own."""

_TYPES = frozenset(
    getattr(torch, name)
    for name in (
        "bool",
        *("int8", "int16", "int32", "int64"),
        *("uint8", "uint16", "uint32", "uint64"),
        *("float16", "bfloat16", "float32", "float64"),
    )
)
"""The types of elements that TVM's importer knows."""


def input_names(program: Any) -> list[str]:
    """The names of the inputs that are tensors."""
    return [
        spec.arg.name
        for spec in program.graph_signature.input_specs
        if spec.kind is InputKind.USER_INPUT and not isinstance(spec.arg, ConstantArgument)
    ]


def all_names(program: Any) -> list[str]:
    """The names of all inputs, in the order in which guards count them."""
    return [
        spec.arg.name for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT
    ]


def input_tensors(program: Any) -> list[Any]:
    """The nodes of the inputs that are tensors."""
    names = set(input_names(program))
    return [
        node
        for node in program.graph.find_nodes(op="placeholder")
        if node.name in names and isinstance(node.meta.get("val"), torch.Tensor)
    ]


def open_sizes(program: Any) -> dict[tuple[str, int], str]:
    """By input and axis the symbol that stands for its size, where the program leaves it open."""
    return {
        (node.name, axis): str(extent)
        for node in input_tensors(program)
        for axis, extent in enumerate(node.meta["val"].shape)
        if isinstance(extent, torch.SymInt) and str(extent).isidentifier()
    }


def outputs(program: Any) -> Iterator[Any]:
    """What the outputs hold that are not None: tensors without memory, or numbers."""
    (node,) = (node for node in program.graph.nodes if node.op == "output")
    for argument in node.args[0]:
        if argument is not None:
            yield argument.meta.get("val") if isinstance(argument, torch.fx.Node) else argument


_KEPT = OutputKind.PARAMETER_MUTATION, OutputKind.BUFFER_MUTATION
"""Outputs that parameters and buffers hold from then on."""

_RENORMALIZING = torch.ops.aten.embedding_renorm.default, torch.ops.aten.embedding_renorm_.default

_SAME = torch.ops.aten.detach.default, torch.ops.aten.alias.default


def renormalized(program: Any) -> set[str]:
    """The names of tables whose rows a look-up brings to a largest norm, which once is the same as twice."""
    signature = program.graph_signature
    names = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    found: set[str] = set()
    for node in program.graph.nodes:
        if node.target in _RENORMALIZING:
            table = node.args[0]
            while table.target in _SAME:
                table = table.args[0]
            found |= {names[table.name]} if table.name in names else set()
    return found


def without_constants(program: Any, tables: Collection[str] = ()) -> Any:
    """The program without inputs that are fixed, which nothing reads, and without outputs that are None.

    Nor has it those that keep ``tables``, by their names, for the next call.
    """
    signature = program.graph_signature
    fixed = {spec.arg.name for spec in signature.input_specs if isinstance(spec.arg, ConstantArgument)}
    for node in list(program.graph.nodes):
        if node.op == "placeholder" and node.name in fixed:
            program.graph.erase_node(node)
        elif node.op == "output":
            given = node.args[0]
            kept = [
                place
                for place, (value, spec) in enumerate(zip(given, signature.output_specs, strict=True))
                if value is not None and not (spec.kind in _KEPT and spec.target in tables)
            ]
            node.args = (tuple(given[place] for place in kept),)
            signature.output_specs[:] = [signature.output_specs[place] for place in kept]
    signature.input_specs[:] = [spec for spec in signature.input_specs if spec.arg.name not in fixed]
    return program


def check_arguments(program: Any, label: str) -> None:
    """ModelError where the program takes or gives anything but tensors, or writes to what is not its own."""
    held = {node.name: node.meta.get("val") for node in program.graph.find_nodes(op="placeholder")}
    for name in input_names(program):
        if not isinstance(held.get(name), torch.Tensor):
            raise ModelError(
                f"{label}: input '{name}' is no tensor; make it part of the module and export again"
            )
    for spec in program.graph_signature.output_specs:
        name = spec.target or spec.arg.name
        if spec.kind in _WRITTEN:
            raise ModelError(f"{label}: it writes to {_WRITTEN[spec.kind].format(name)}")
        if spec.kind is not OutputKind.USER_OUTPUT:
            what = spec.kind.name.lower().replace("_", " ")
            raise ModelError(f"{label}: it has a {what} ('{name}'), not supported")
    for value in outputs(program):
        if not isinstance(value, torch.Tensor):
            raise ModelError(
                f"{label}: an output is {type(value).__name__}, not a tensor; leave it out, or give it as one"
            )


def written(program: Any) -> list[str]:
    """The names of inputs and buffers that an exported program writes to."""
    if not any(node.op == "call_function" and _may_write(node) for node in program.graph.nodes):
        return []
    # Only where operations are told apart from what they write does the signature name it.
    signature = program.run_decompositions({}).graph_signature
    return [*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()]


def _may_write(node: Any) -> bool:
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    # The schemas of norms do not say that they keep statistics.
    return node.target._schema.is_mutable or (node.target in _NORMS and bool(node.args[5]))


_NORMS = torch.ops.aten.batch_norm.default, torch.ops.aten.instance_norm.default
"""Their fifth argument is whether they compute statistics."""


def check_types(program: Any, label: str) -> None:
    """ModelError where a value has elements of another type than TVM's importer knows, such as float8."""
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and value.dtype not in _TYPES:
            what = "input" if node.op == "placeholder" else "node"
            raise ModelError(
                f"{label}: {what} '{node.name}' is {str(value.dtype).removeprefix('torch.')}, which is not "
                "supported; make it float16 or float32 and export again"
            )
