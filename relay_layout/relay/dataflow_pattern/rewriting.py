"""What matches replaced by what callbacks return."""

from collections.abc import Sequence
from typing import Any

import tvm

from relay_layout.errors import ModelError
from relay_layout.relay.dataflow_pattern.groups import find_groups
from relay_layout.relay.dataflow_pattern.patterns import DFPattern
from relay_layout.relay.expression import as_expression
from relay_layout.relay.registries.asking import ask
from relay_layout.relay.syntax import post_order, tree
from relay_layout.relay.trees.matchable import as_matchable
from relay_layout.relay.trees.rebuilding import with_new_operands

MOST_ROUNDS = 100
"""How often an expression is rewritten before callbacks are held to undo one another."""

MOST_PARTS = 200_000
"""How many parts an expression may grow to."""


class DFPatternCallback:
    """A pattern, as the attribute ``pattern``, and what takes the place of what matches it.

    With ``rewrite_once`` what a callback returned is not looked at again. ``require_type`` is taken as in
    Relay; types are always known here.
    """

    def __init__(self, require_type: bool = False, rewrite_once: bool = False) -> None:
        self.pattern: DFPattern | None = None
        self.require_type = require_type
        self.rewrite_once = rewrite_once

    def rewrite(self, expr: Any) -> Any:
        """An expression with all that matches replaced."""
        return rewrite(self, expr)

    def callback(self, pre: Any, post: Any, node_map: dict[DFPattern, list[Any]]) -> Any:
        """What takes the place of a match: ``pre`` as it was, ``post`` with its operands rewritten.

        ``node_map[pattern][0]`` is what matched a part of the pattern, rewritten.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method callback(pre, post, node_map)")


def rewrite(
    callbacks: DFPatternCallback | Sequence[DFPatternCallback], expr: Any, mod: tvm.IRModule | None = None
) -> Any:
    """An expression, or a function of a module, rewritten until no callback changes it.

    ModelError for a callback that raises, or returns no expression, and where they never come to an end.
    """
    remaining = [callbacks] if isinstance(callbacks, DFPatternCallback) else list(callbacks)
    for callback in remaining:
        if not isinstance(callback.pattern, DFPattern):
            raise ModelError(f"{type(callback).__name__} has no pattern; set self.pattern to one")
    current = as_matchable(expr)
    for _ in range(MOST_ROUNDS):
        changed = False
        for callback in list(remaining):
            new = _rewritten(callback, current)
            if new is current:
                continue
            current, changed = new, True
            if sum(1 for _ in post_order(current)) > MOST_PARTS:
                raise _endless(f"the expression has grown beyond {MOST_PARTS} parts")
            if callback.rewrite_once:
                remaining.remove(callback)
        if not changed:
            return current
    raise _endless(f"after {MOST_ROUNDS} rounds callbacks still change the expression")


def _endless(what: str) -> ModelError:
    return ModelError(f"rewrite: {what}; give rewrite_once=True, or return post where nothing is to change")


def _rewritten(callback: DFPatternCallback, root: tree.Expression) -> tree.Expression:
    assert callback.pattern is not None
    groups = {id(group.root): group for group in find_groups(callback.pattern, root)}
    if not groups:
        return root
    what = f"the callback of {type(callback).__name__}"
    new: dict[int, tree.Expression] = {}
    for part in post_order(root):
        post = with_new_operands(part, new)
        new[id(part)] = post
        group = groups.get(id(part))
        if group is None:
            continue
        node_map: dict[DFPattern, list[Any]] = {
            pattern: [new.get(id(found), found) for found in expressions]
            for pattern, expressions in group.matched.items()
        }
        result = ask(what, ModelError, callback.callback, part, post, node_map)
        try:
            new[id(part)] = as_expression(result)
        except TypeError as error:
            raise ModelError(f"{what} returned {result!r}: {error}") from None
    return new[id(root)]
