"""Dotted names in expressions: each by today's name, as short as the script's imports allow."""

import ast

from relay_layout.port.bases import Bases
from relay_layout.port.names import shown
from relay_layout.port.script import Chain, Script


def port_references(script: Script, bases: Bases) -> None:
    """Rewrites the names that have moved, and notes those that are gone."""
    every = [*script.nodes, *script.misplaced]
    inner = {id(node.value) for node in every if isinstance(node, ast.Attribute)}
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

    _note_misplaced(script, inner)


def rename(script: Script, bases: Bases, chain: Chain, today: str) -> None:
    """Writes a dotted name as ``today``, changing no more of it than is needed."""
    script.done.add(id(chain.nodes[-1]))
    bases.need_module_of(today)
    old = chain.parts
    new = _in_own_words(script, chain, today) or bases.spell(today, chain.root).split(".")
    if old == new:
        return
    same = 0
    # At least the first word stands for itself.
    while same < min(len(old), len(new)) - 1 and old[-1 - same] == new[-1 - same]:
        same += 1
    start, end = script.source.span(chain.nodes[len(old) - 1 - same])
    script.replace(start, end, ".".join(new[: len(new) - same]))


def _in_own_words(script: Script, chain: Chain, today: str) -> list[str] | None:
    """Today's name, with the first word that the chain has; None if that word is not where the name is."""
    root = chain.root
    if len(chain.nodes) == 1:
        # The import has been rewritten to bind this very name.
        return [root.id]
    bound = script.today(script.origins(script.scopes.of(root), root.id))
    if bound is None or not today.startswith(f"{bound}."):
        return None
    return [root.id, *today[len(bound) + 1 :].split(".")]


def _note_misplaced(script: Script, inner: set[int]) -> None:
    """Notes the names that must change, but stand at an unknown place in an f-string."""
    for node in script.misplaced:
        if not isinstance(node, ast.Attribute) or id(node) in inner:
            continue
        chain = script.chain(node)
        today = None if chain is None else script.today(chain.old)
        if chain is None:
            changes = node.attr in ("asnumpy", "astext")
        else:
            changes = today is None or _in_own_words(script, chain, today) != chain.parts
        if changes:
            name = node.attr if chain is None else shown(chain.old[0])
            script.note(script.text_around(node), name, "rewrite this f-string by hand")
