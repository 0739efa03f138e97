"""Extents that a program writes as numbers, and that PyTorch computes of open ones."""

from typing import Any

import sympy
import torch
from torch.fx.node import map_arg

_VIEWS = (torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default, torch.ops.aten.reshape.default)


def with_written_extents(program: Any) -> Any:
    """The decomposed program with numbers where its views say what sizes come to, changed in place.

    Where ``h`` rows are viewed as ``h // 4`` times 4, PyTorch has ``h // (h // 4)`` instead of the 4, and all
    that is computed of it. The view holds for these sizes alone, so it is that number everywhere.
    """
    numbers = {
        extent.node.expr: sympy.Integer(asked)
        for node in program.graph.nodes
        if node.target in _VIEWS
        for asked, extent in zip(node.args[1], node.meta["val"].shape, strict=True)
        if isinstance(asked, int) and asked >= 0 and _is_computed(extent)
    }
    if not numbers:
        return program
    for node in list(program.graph.nodes):
        size = node.meta.get("val")
        if not _is_computed(size):
            continue
        found = size.node.expr.xreplace(numbers)
        if not found.is_Integer:
            continue
        number = int(found)
        for user in list(node.users):
            user.args, user.kwargs = map_arg(
                (user.args, user.kwargs), lambda one, node=node, number=number: number if one is node else one
            )
    program.graph.eliminate_dead_code()
    return program


def _is_computed(size: Any) -> bool:
    """Whether a size is open, and not one of an input."""
    return isinstance(size, torch.SymInt) and not (size.node.expr.is_Symbol or size.node.expr.is_Integer)


__all__ = ["with_written_extents"]
