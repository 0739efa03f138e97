"""Sizes for which a table has rows: embeddings of positions, which a program counts from its inputs' sizes.

PyTorch finds a position without a row when it runs, so that neither export nor its guards say anything.
"""

from collections.abc import Mapping
from typing import Any

import torch

from relay_layout.frontend.torch.arguments import open_sizes

aten = torch.ops.aten

_SAME_NUMBERS = frozenset(
    (
        aten._to_copy.default,
        aten.alias.default,
        aten.clone.default,
        aten.expand.default,
        aten.repeat.default,
        aten.reshape.default,
        aten.squeeze.dim,
        aten.squeeze.dims,
        aten.unsqueeze.default,
        aten.view.default,
    )
)
"""Operations whose results hold all numbers of their first argument, and no others."""


def row_conditions(program: Any) -> list[str]:
    """Conditions such as ``x.shape[1] <= 512`` of a decomposed program."""
    sizes = {symbol: f"{name}.shape[{axis}]" for (name, axis), symbol in open_sizes(program).items()}
    found: dict[str, None] = {}
    for node in program.graph.nodes:
        if node.target is not aten.embedding.default:
            continue
        table, positions = node.args[:2]
        end, rows = _end(positions), table.meta["val"].shape[0]
        if isinstance(end, torch.SymInt) and isinstance(rows, int):
            written = _written(end, sizes)
            if written is not None:
                found[f"{written} <= {rows}"] = None
    return list(found)


def _end(positions: Any) -> Any:
    """One more than the last of positions that count one by one; None for others."""
    while positions.target in _SAME_NUMBERS:
        positions = positions.args[0]
    match positions.target, positions.args:
        case aten.arange.default, (end,):
            pass
        case aten.arange.start, (_, end):
            pass
        case aten.arange.start_step, (_, end, *step) if step in ([], [1]):
            pass
        case _:
            return None
    return end.meta["val"] if isinstance(end, torch.fx.Node) else end


def _written(extent: torch.SymInt, sizes: Mapping[str, str]) -> str | None:
    """An extent by the sizes of inputs; None where these do not tell it."""
    expression = extent.node.expr
    is_known = all(str(symbol) in sizes for symbol in expression.free_symbols)
    if not is_known or not expression.is_polynomial():
        return None
    names = {symbol: type(symbol)(sizes[str(symbol)]) for symbol in expression.free_symbols}
    return str(expression.xreplace(names))
