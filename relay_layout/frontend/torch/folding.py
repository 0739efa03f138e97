"""Operations of constants alone, computed by PyTorch while a program is imported.

Such are the weights of convolutions that standardize them, tables of relative positions, and grids.
"""

from collections.abc import Iterator, Mapping
from operator import getitem
from typing import Any

import torch
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument

from relay_layout.frontend.folding import LARGEST_FOLDED

_HELD = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)

_KEPT = ("quantized_decomposed", "torchao", "relay_layout")
"""Namespaces of integers that are worth keeping as they are, and of what PyTorch cannot compute."""


def fold_constants(program: Any) -> Any:
    """The program with the results of operations of constants alone as constants, changed in place."""
    # Taking a program's operations apart leaves its constants shared with the one that was given. One that is
    # there by a second name has no input, and TVM would take it for the input of the constant before it.
    read = {spec.target for spec in program.graph_signature.input_specs}
    program._constants = {name: value for name, value in program.constants.items() if name in read}
    values: dict[Any, Any] = dict(constants_of(program))
    given = set(values)
    for node in program.graph.nodes:
        result = folded(node, values)
        if result is not None:
            values[node] = result
    for place, node in enumerate(node for node in values if node not in given):
        if isinstance(values[node], torch.Tensor) and any(user not in values for user in node.users):
            _replace(program, node, values[node], f"folded_{place}")
    program.graph.eliminate_dead_code()
    _drop_unread(program)
    program._constants = _in_plain_order(program.constants)
    program._state_dict = _in_plain_order(program.state_dict)
    return program


def _in_plain_order(held: Mapping[str, Any]) -> dict[str, Any]:
    """Tensors in plain order: what is channels last, TVM reads by way of numpy, which lacks bfloat16."""
    return {
        name: one.detach().contiguous()
        if isinstance(one, torch.Tensor) and one.layout is torch.strided
        else one
        for name, one in held.items()
    }


def _drop_unread(program: Any) -> None:
    """Takes constants away that nothing reads any longer, which may be of types that cannot be imported."""
    signature = program.graph_signature
    specs = {spec.arg.name: spec for spec in signature.input_specs if spec.kind in _HELD}
    for node in list(program.graph.nodes):
        if node.op == "placeholder" and node.name in specs and not node.users:
            spec = specs[node.name]
            program.graph.erase_node(node)
            signature.input_specs.remove(spec)
            program.constants.pop(spec.target, None)


def constants_of(program: Any) -> Iterator[tuple[Any, torch.Tensor]]:
    """The placeholders of tensors that the program holds, with their values."""
    specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
    for node in program.graph.nodes:
        spec = specs.get(node.name) if node.op == "placeholder" else None
        if spec is None or spec.kind not in _HELD:
            continue
        held = program.constants if spec.target in program.constants else program.state_dict
        if isinstance(held.get(spec.target), torch.Tensor):
            yield node, held[spec.target].detach()


def folded(node: Any, values: Mapping[Any, Any]) -> Any:
    """What an operation of nodes with ``values`` gives, a tensor or several; None where it is to stay."""
    if node.op != "call_function":
        return None
    if node.target is torch.ops.aten.full_like.default and not isinstance(node.args[1], torch.fx.Node):
        # What counts trips, mostly: it takes of its operand the type alone.
        kind = node.meta["val"]
        return torch.full((), node.args[1], dtype=kind.dtype) if kind.ndim == 0 else None
    if not _is_foldable(node, values):
        return None
    result = _computed(node, values)
    tensors = result if isinstance(result, tuple | list) else [result]
    small = all(isinstance(one, torch.Tensor) and one.numel() <= LARGEST_FOLDED for one in tensors)
    return result if small else None


def _is_foldable(node: Any, values: Mapping[Any, Any]) -> bool:
    operation = node.target
    if operation is getitem:
        return node.args[0] in values
    if not isinstance(operation, torch._ops.OpOverload) or operation.namespace in _KEPT:
        return False
    random = torch.Tag.nondeterministic_seeded in operation.tags
    return (
        not random and not operation._schema.is_mutable and all(one in values for one in node.all_input_nodes)
    )


def _computed(node: Any, values: Mapping[Any, Any]) -> Any:
    arguments, options = torch.fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
    with torch.no_grad():
        return node.target(*arguments, **options)


def _replace(program: Any, node: Any, value: torch.Tensor, name: str) -> None:
    """A constant in the place of a node."""
    graph, specs = program.graph, program.graph_signature.input_specs
    first = next(iter(graph.nodes))
    with graph.inserting_before(first):
        placeholder = graph.placeholder(name)
    placeholder.meta = dict(node.meta)
    specs.insert(0, InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(placeholder.name), placeholder.name))
    program.constants[placeholder.name] = value.contiguous()
    node.replace_all_uses_with(placeholder)
    graph.erase_node(node)
