"""Extents that PyTorch computes of open ones, and that views or guards of a program say to be numbers."""

from collections.abc import Iterator, Mapping
from typing import Any

import sympy
import torch
from torch.fx.node import map_arg

from relay_layout.frontend.torch.graphs import all_graphs, all_nodes

_VIEWS = (torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default, torch.ops.aten.reshape.default)

Numbers = Mapping[sympy.Expr, sympy.Integer]


def known_numbers(program: Any) -> Numbers:
    """What expressions of open extents come to in every call of a decomposed program.

    Where ``h`` rows are viewed as ``h // 4`` times 4, PyTorch has ``h // (h // 4)`` instead of the 4, and all
    that is computed of it; the view holds for these sizes alone. Where the rows of an example shrink to one,
    a guard says so.
    """
    return dict(_of_views(program)) | dict(_of_guards(program))


def put_known_numbers(program: Any, numbers: Numbers) -> None:
    """Give a decomposed program, in place, :func:`known_numbers` for the sizes that it computes."""
    if not numbers:
        return
    for node in list(all_nodes(program)):
        number = known(node.meta.get("val"), numbers)
        if not isinstance(number, int):
            continue
        for user in list(node.users):
            user.args, user.kwargs = map_arg(
                (user.args, user.kwargs), lambda one, node=node, number=number: number if one is node else one
            )
    for graph in all_graphs(program):
        graph.eliminate_dead_code()


def known(size: Any, numbers: Numbers) -> Any:
    """An int where an extent or another size is known, else what was given."""
    if not _is_computed(size):
        return size
    found = size.node.expr.xreplace(numbers)
    return int(found) if found.is_Integer else size


def _of_views(program: Any) -> Iterator[tuple[sympy.Expr, sympy.Integer]]:
    for node in all_nodes(program):
        if node.target not in _VIEWS:
            continue
        for asked, extent in zip(node.args[1], node.meta["val"].shape, strict=True):
            if isinstance(asked, int) and asked >= 0 and _is_computed(extent):
                yield extent.node.expr, sympy.Integer(asked)


def _of_guards(program: Any) -> Iterator[tuple[sympy.Expr, sympy.Integer]]:
    sizes = (node.meta.get("val") for node in program.graph.nodes)
    size = next((one for one in sizes if isinstance(one, torch.SymInt)), None)
    for guard in size.node.shape_env.guards if size is not None else ():
        if isinstance(guard.expr, sympy.Eq) and guard.expr.rhs.is_Integer:
            addend, rest = guard.expr.lhs.as_coeff_Add()
            if not rest.is_Symbol:
                yield rest, guard.expr.rhs - addend


def _is_computed(size: Any) -> bool:
    """Whether a size is open, and not one of an input."""
    return isinstance(size, torch.SymInt) and not (size.node.expr.is_Symbol or size.node.expr.is_Integer)
