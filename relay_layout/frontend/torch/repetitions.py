"""Operations that a program has several times, of the same operands."""

from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols


def once(program: Any) -> Any:
    """The program with each operation once, changed in place, if the data decide extents in it.

    Else ``x[x > 0] * y[x > 0]`` would count twice, and multiply tensors of extents that differ.
    """
    if not any(map(free_unbacked_symbols, program.range_constraints)):
        return program
    known: dict[Any, Any] = {}
    for node in list(program.graph.nodes):
        if node.op != "call_function" or not _is_pure(node.target):
            continue
        # Nodes are written by their names, and have one each.
        first = known.setdefault((node.target, str(node.args), str(node.kwargs)), node)
        if first is not node:
            node.replace_all_uses_with(first)
            program.graph.erase_node(node)
    return program


def _is_pure(operation: Any) -> bool:
    if not isinstance(operation, torch._ops.OpOverload):
        # Functions of Python, of numbers and tuples.
        return not isinstance(operation, torch._ops.HigherOrderOperator)
    random = torch.Tag.nondeterministic_seeded in operation.tags
    return not random and not operation._schema.is_mutable
