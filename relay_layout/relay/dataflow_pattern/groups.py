"""The parts of an expression that match a pattern and can be replaced, none of which overlap."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from relay_layout.relay.dataflow_pattern.matching import Matched, Matcher, Pattern
from relay_layout.relay.syntax import children, post_order, tree


@dataclass(frozen=True)
class Group:
    """One match: its last expression, what matched what, and the operands that the pattern leaves open."""

    root: tree.Expression
    matched: Matched
    inputs: tuple[tree.Expression, ...]


def find_groups(
    pattern: Pattern, root: tree.Expression, check: Callable[[tree.Expression], bool] = lambda expr: True
) -> list[Group]:
    """Matches from the end of ``root`` to its beginning, as far as they can be replaced.

    Nothing within a match but its last expression may be read from outside, or belong to another match.
    """
    parts = list(post_order(root))
    matcher = Matcher(parts)
    taken: set[int] = set()
    groups: list[Group] = []
    for part in reversed(parts):
        if id(part) in taken or not matcher.match(pattern, part):
            continue
        inputs = tuple(_inputs(pattern, matcher))
        body = _body(part, {id(expression) for expression in inputs})
        inside = {id(expression) for expression in body}
        shared = any(
            id(expression) in taken
            or (
                expression is not part
                and any(id(user) not in inside for user in matcher.users.get(id(expression), ()))
            )
            for expression in body
        )
        if shared or not check(part):
            continue
        taken |= inside
        groups.append(Group(part, {key: list(found) for key, found in matcher.found.items()}, inputs))
    return groups


def _body(root: tree.Expression, inputs: set[int]) -> list[tree.Expression]:
    """What a match computes: the expressions from its inputs to its end, but for constants and functions."""
    found: dict[int, tree.Expression] = {}
    stack = [root]
    while stack:
        part = stack.pop()
        if id(part) in found or (id(part) in inputs and part is not root):
            continue
        if isinstance(part, tree.Constant | tree.Var | tree.GlobalVar | tree.Function) and part is not root:
            continue
        found[id(part)] = part
        stack.extend(children(part))
    return list(found.values())


def _inputs(pattern: Pattern, matcher: Matcher) -> Iterator[tree.Expression]:
    """The operands of a match, each once, in the order in which the pattern names them."""
    inner = {id(part) for parts in matcher.within.values() for part in parts}
    seen: set[int] = set(inner)
    for expression in _open(pattern, matcher, inner):
        if id(expression) not in seen:
            seen.add(id(expression))
            yield expression


def _open(pattern: Pattern, matcher: Matcher, inner: set[int]) -> Iterator[tree.Expression]:
    stack, beside = [pattern], []
    while stack:
        current = stack.pop()
        if current not in matcher.found:
            continue
        (found,) = matcher.found[current]
        stack.extend(reversed(current.inputs))
        if isinstance(found, str):
            continue
        if current.takes_input(found):
            yield found
        elif current.is_open:
            yield from children(found)
        # Beside what leads from the parent to the child; the parent has a pattern of its own.
        for part in matcher.within.get(current, [])[1:]:
            beside += [operand for operand in children(part) if id(operand) not in inner]
    yield from beside
