"""What matches put apart as functions that are called in its place."""

from collections.abc import Callable, Mapping
from typing import Any

from relay_layout.errors import ModelError
from relay_layout.relay.dataflow_pattern.attributes import plain
from relay_layout.relay.dataflow_pattern.groups import Group, find_groups
from relay_layout.relay.dataflow_pattern.matching import Pattern
from relay_layout.relay.expression import Function
from relay_layout.relay.registries.asking import ask
from relay_layout.relay.syntax import children, post_order, relay_types, tree
from relay_layout.relay.trees.matchable import as_matchable
from relay_layout.relay.trees.rebuilding import with_children, with_new_operands

PARTITIONED = "PartitionedFromPattern"
"""The attribute of such functions that names their operators."""


def partition(
    pattern: Pattern,
    expr: Any,
    attrs: Mapping[str, Any] | None = None,
    check: Callable[[Any], bool] = lambda expr: True,
) -> Any:
    """An expression, or a function of a module, with calls of functions in the place of what matches.

    The functions have the attributes ``attrs`` (such as ``{"Composite": "name"}``) and
    ``PartitionedFromPattern``, the names of their operators. ``check`` is given the last expression of a
    match and says whether to take it. ModelError where it raises.
    """
    root = as_matchable(expr)

    def taken(last: tree.Expression) -> bool:
        return bool(ask("the check of partition", ModelError, check, last))

    groups = {id(group.root): group for group in find_groups(pattern, root, taken)}
    places = {
        id(last): place for place, last in enumerate(reversed([group.root for group in groups.values()]))
    }
    new: dict[int, tree.Expression] = {}
    for part in post_order(root):
        new[id(part)] = with_new_operands(part, new)
        if id(part) in groups:
            group = groups[id(part)]
            function = _function(group, places[id(part)], attrs or {})
            new[id(part)] = tree.Call(function, [new[id(operand)] for operand in group.inputs])
    return new[id(root)]


def _function(group: Group, place: int, attrs: Mapping[str, Any]) -> Function:
    """The function that computes a match of its inputs."""
    inputs = {
        id(operand): tree.Var(f"FunctionVar_{place}_{position}", _type(operand))
        for position, operand in enumerate(group.inputs)
    }
    new: dict[int, tree.Expression] = dict(inputs)
    names = ""
    stack = [group.root]
    while stack:
        part = stack[-1]
        missing = [operand for operand in children(part) if id(operand) not in new]
        if id(part) in new:
            stack.pop()
        elif missing:
            stack.extend(reversed(missing))
        else:
            stack.pop()
            new[id(part)] = with_children(part, lambda operand: new[id(operand)])
            if isinstance(part, tree.Call) and isinstance(part.op, str):
                names += f"{part.op}_"
    told = {name: plain(value) for name, value in attrs.items()}
    return Function(list(inputs.values()), new[id(group.root)], attrs={PARTITIONED: names, **told})


def _type(operand: tree.Expression) -> relay_types.RelayType | None:
    try:
        return operand.checked_type
    except ModelError:
        return operand.type if isinstance(operand, tree.Var) else None
