"""The graphs of a PyTorch program: its own, and those of branches and loops."""

from collections.abc import Iterator
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

_HIGHER = torch.ops.higher_order
CONTROL_FLOW = (_HIGHER.cond, _HIGHER.while_loop, _HIGHER.map_impl, _HIGHER.scan, _HIGHER.associative_scan)
"""Operations that run graphs of their own."""


def held_graph(node: Any) -> Any:
    """The graph module that a node stands for, None for other nodes."""
    held = getattr(node.graph.owning_module, node.target, None) if node.op == "get_attr" else None
    return held if isinstance(held, torch.fx.GraphModule) else None


def all_graphs(program: Any) -> Iterator[Any]:
    """The graph of a program, and all that it holds, at any depth."""
    yield from _graphs(program.graph_module)


def all_nodes(program: Any) -> Iterator[Any]:
    """The nodes of :func:`all_graphs`, in order."""
    for graph in all_graphs(program):
        yield from graph.nodes


def counted_by_data(program: Any) -> bool:
    """Whether the data decide extents of a program, other than numbers that its loops carry."""
    if not any(map(free_unbacked_symbols, program.range_constraints)):
        return False
    found: set[Any] = set()
    carried: set[Any] = set()
    for graph in all_graphs(program):
        for node in graph.nodes:
            value = node.meta.get("val")
            symbols = free_unbacked_symbols(value) if value is not None else set()
            found |= symbols
            # Export leaves symbols that nothing has.
            if node.target in CONTROL_FLOW or (node.op == "placeholder" and isinstance(value, torch.SymInt)):
                carried |= symbols
    return bool(found - carried)


def _graphs(module: Any) -> Iterator[Any]:
    yield module.graph
    for node in module.graph.nodes:
        held = held_graph(node)
        if held is not None:
            yield from _graphs(held)
