"""Whether an expression has the form of a pattern, and which of its parts match which parts of it."""

from collections.abc import Iterable, Sequence
from typing import Any

from relay_layout.relay.syntax import children, post_order, tree
from relay_layout.relay.trees.matchable import as_matchable

Matched = dict[Any, list[tree.Expression]]
"""The expressions that patterns matched; those of operators are their names."""

_LEAVES = (tree.Var, tree.Constant)


class Pattern:
    """What matching asks of a pattern."""

    @property
    def inputs(self) -> "tuple[Pattern, ...]":
        """The patterns that it is made of, in the order in which they are matched."""
        return ()

    @property
    def is_open(self) -> bool:
        """Does it leave open what the operands are?"""
        return False

    def matches(self, matcher: "Matcher", expression: Any) -> bool:
        """Whether an expression, or the name of an operator, has this form."""
        raise NotImplementedError

    def takes_input(self, found: tree.Expression) -> bool:
        """Is what it matched an input of a match as a whole?"""
        return False


def match(pattern: Pattern, expr: Any) -> bool:
    """Whether an expression, an operator or a function has the form of a pattern."""
    if isinstance(expr, str):
        return Matcher(()).match(pattern, tree.OperatorName(expr))
    root = as_matchable(expr)
    return Matcher(post_order(root)).match(pattern, root)


class Matcher:
    """Matches expressions of one graph, whose parts are told, operands before their users."""

    def __init__(self, graph: Iterable[tree.Expression]) -> None:
        self.users: dict[int, list[tree.Expression]] = {}
        for part in graph:
            for operand in children(part):
                self.users.setdefault(id(operand), []).append(part)
        self.found: Matched = {}
        self.within: dict[Any, list[tree.Expression]] = {}
        """For patterns of domination, what lies from the parent to the child, the child left out."""
        self._order: list[Pattern] = []

    def match(self, pattern: Pattern, expression: Any) -> bool:
        """Whether an expression matches; ``found`` then tells what of it matches what."""
        self._forget(0)
        return self.visit(pattern, expression)

    def visit(self, pattern: Pattern, expression: Any) -> bool:
        """Whether a part matches a part of the pattern; nothing is found of it where it does not."""
        if pattern in self.found:
            return _same(self.found[pattern][0], expression)
        mark = len(self._order)
        if pattern.matches(self, expression):
            self.found[pattern] = [expression]
            self._order.append(pattern)
            return True
        self._forget(mark)
        return False

    def _forget(self, mark: int) -> None:
        for pattern in self._order[mark:]:
            del self.found[pattern]
            self.within.pop(pattern, None)
        del self._order[mark:]

    def visit_all(self, wanted: Sequence[Pattern], expressions: Sequence[Any]) -> bool:
        """Whether as many parts match, each its own pattern."""
        if len(wanted) != len(expressions):
            return False
        mark = len(self._order)
        if all(self.visit(*pair) for pair in zip(wanted, expressions, strict=True)):
            return True
        self._forget(mark)
        return False

    def dominated(
        self, pattern: Pattern, parent_pattern: Pattern, path: Pattern, child: tree.Expression
    ) -> bool:
        """Whether there is a parent from which everything leads to ``child`` by way of the path: the nearest.

        Nothing else leads there but variables and constants. ``pattern`` is that of all.
        """
        before = [part for part in post_order(child) if part is not child]
        for parent in reversed(before):
            mark = len(self._order)
            if not self.visit(parent_pattern, parent):
                continue
            between = self._between(parent, child, before)
            if between is not None and all(Matcher(()).match(path, part) for part in between):
                self.within[pattern] = [parent, *between]
                return True
            self._forget(mark)
        return False

    def _between(
        self, parent: tree.Expression, child: tree.Expression, before: Sequence[tree.Expression]
    ) -> list[tree.Expression] | None:
        """What reads the parent on the way to the child; None where it leads elsewhere, or more there."""
        reading, between = {id(parent)}, []
        for part in before:
            if any(id(operand) in reading for operand in children(part)):
                reading.add(id(part))
                between.append(part)
        inside = {*reading, id(child)}
        if not any(id(operand) in reading for operand in children(child)):
            return None
        operands = [operand for part in (*between, child) for operand in children(part)]
        if not all(id(operand) in inside or isinstance(operand, _LEAVES) for operand in operands):
            return None
        parts = (parent, *between)
        leads = all(id(user) in inside for part in parts for user in self.users.get(id(part), ()))
        return between if leads else None


def _same(one: Any, other: Any) -> bool:
    return one is other or (isinstance(one, str) and isinstance(other, str) and one == other)
