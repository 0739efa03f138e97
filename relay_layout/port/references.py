"""Dotted names in expressions: each by today's name, as short as the script's imports allow."""

import ast

from relay_layout.port.bases import Bases
from relay_layout.port.script import Chain, Script


def port_references(script: Script, bases: Bases) -> None:
    """Rewrites the names that have moved, and notes those that are gone."""
    inner = {id(node.value) for node in script.nodes if isinstance(node, ast.Attribute)}
    for node in script.nodes:
        if not isinstance(node, ast.Attribute | ast.Name) or id(node) in inner or id(node) in script.done:
            continue
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            continue
        chain = script.chain(node)
        if chain is None:
            continue
        today = script.today(chain.old)
        if today is not None:
            rename(script, bases, chain, today)
        elif len({script.names.today(name) for name in chain.old}) == 1:
            script.note_gone(chain.root, chain.old[0])


def rename(script: Script, bases: Bases, chain: Chain, today: str) -> None:
    """Writes a dotted name as ``today``, changing no more of it than is needed."""
    script.done.add(id(chain.nodes[-1]))
    bases.need_module_of(today)
    root = chain.root
    bound = script.today(script.origins(script.scopes.of(root), root.id))
    if bound is not None and (today == bound or today.startswith(f"{bound}.")):
        new = (root.id + today[len(bound) :]).split(".")
    elif len(chain.nodes) == 1:
        # The import has been rewritten to bind this very name.
        return
    else:
        new = bases.spell(today, root).split(".")
    old = chain.parts
    same = 0
    while same < min(len(old), len(new)) and old[-1 - same] == new[-1 - same]:
        same += 1
    if old == new:
        return
    # At least the first word stands for itself.
    same = min(same, len(old) - 1, len(new) - 1)
    node = chain.nodes[len(old) - 1 - same]
    start, end = script.source.span(node)
    script.replace(start, end, ".".join(new[: len(new) - same]))


__all__ = ["port_references", "rename"]
