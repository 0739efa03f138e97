"""What of a decomposed PyTorch program cannot be imported, and what TVM's importer makes wrongly of it."""

from collections.abc import Container
from typing import Any

import torch

from relay_layout.errors import ModelError
from relay_layout.frontend.torch.arguments import outputs
from relay_layout.frontend.torch.control_flow import Call
from relay_layout.frontend.torch.graphs import all_graphs, all_nodes
from relay_layout.frontend.torch.node import dtype_name
from relay_layout.frontend.torch.operators.random_numbers import CONVERTERS as DRAWN
from relay_layout.ir import fields_of

_CHECKS = ("_assert_tensor_metadata", "_assert_scalar", "_assert_async", "sym_constrain_range")
"""Operations that compute nothing; what they check holds for the shapes that the program declares."""

_DROPOUTS = ("dropout.default", "dropout_.default", "native_dropout.default")
"""Operations that TVM's importer leaves out, whatever their arguments."""


def without_checks(program: Any) -> Any:
    """The program without operations that only check what its shapes say."""
    for graph in all_graphs(program):
        for node in list(graph.nodes):
            name = getattr(node.target, "__name__", "") if node.op == "call_function" else ""
            if name.startswith(_CHECKS) and not node.users:
                graph.erase_node(node)
        graph.eliminate_dead_code()
    return program


def check_outputs(program: Any, module: Any, label: str) -> None:
    """ModelError where an output was imported as a tensor of another type or shape than PyTorch's."""
    found = fields_of(module["main"].body.body.ty)
    for place, (value, ty) in enumerate(zip(outputs(program), found, strict=True)):
        if ty.shape is None:
            raise ModelError(
                f"{label}: the shape of output {place} is not known: it is computed of tensors whose extents "
                "need not be equal; give them extents that are, such as by masks that are computed once"
            )
        wanted = dtype_name(value.dtype)
        shape = [str(extent) if isinstance(extent, int) else "" for extent in value.shape]
        held = [str(extent) for extent in ty.shape]
        differs = len(held) != len(shape) or any(
            one and other.isdigit() and one != other for one, other in zip(shape, held, strict=True)
        )
        if str(ty.dtype) != wanted or differs:
            raise ModelError(
                f"{label}: output {place} is {wanted} {tuple(value.shape)} in PyTorch, and TVM's importer "
                f"makes {ty.dtype} ({', '.join(held)}) of it: one of its operations is not supported"
            )


def check_operations(program: Any, known: Container[str], label: str) -> None:
    """ModelError for operations other than those of ``known`` names, and for random ones.

    Operations that may end a program are wrapped, so that they stay in order.
    """
    lacking: dict[str, str] = {}
    for node in all_nodes(program):
        ordered = getattr(node.target, "__name__", "") == "with_effects"
        if not ordered:
            _check_operation(node, label)
        name = getattr(node.args[1] if ordered else node.target, "__name__", "")
        if node.op == "call_function" and name not in known:
            lacking.setdefault(name, node.name)
    if lacking:
        listed = ", ".join(f"{name} (node '{node}')" for name, node in lacking.items())
        raise ModelError(
            f"{label}: no support for {listed}; torch.onnx.export(dynamo=True) may write the module to ONNX "
            "by operators that are supported"
        )


def _check_operation(node: Any, label: str) -> None:
    """ModelError for what TVM's importer would take for something else."""
    if isinstance(node.target, torch._ops.HigherOrderOperator) and not isinstance(node.target, Call):
        raise ModelError(
            f"{label}: node '{node.name}' ({node.target.name()}) holds programs of its own, which is not "
            "supported; of such operations torch.cond, while_loop, map and scan are"
        )
    name = getattr(node.target, "__name__", "")
    if name in _DROPOUTS:
        if node.args[1] and node.args[2] is not False:
            raise ModelError(
                f"{label}: node '{node.name}' drops at random, as in training; call eval() before export"
            )
    elif name not in DRAWN and torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
        raise ModelError(
            f"{label}: node '{node.name}' ({name}) draws random numbers, which is not supported; call eval() "
            "before export, or make the numbers an input"
        )
