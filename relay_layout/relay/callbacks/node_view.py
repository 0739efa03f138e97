"""A node of the layout graph as Relay's callbacks see it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.graph import Node, Value
from relay_layout.ir import Expression
from relay_layout.relay.importing.function import emit_expression
from relay_layout.relay.importing.types import to_relay
from relay_layout.relay.operators import Attributes, Operator, declared, relay_form
from relay_layout.relay.syntax import relay_types, tree


@dataclass
class NodeView:
    """One operator call in Relay's terms.

    ``operands`` are expressions for the call's operands, made of ``placeholders``: one variable for each of
    the node's operand tensors, in order.
    """

    row: Operator
    attributes: Attributes
    operands: list[tree.Expression]
    placeholders: list[tree.Var]

    @property
    def types(self) -> list[relay_types.RelayType]:
        """The types of the operand tensors as they were, tuples flattened."""
        return [placeholder.type for placeholder in self.placeholders if placeholder.type is not None]

    def build(
        self, builder: relax.BlockBuilder, call: tree.Expression, operands: Sequence[Expression]
    ) -> Expression:
        """An expression of the placeholders as Relax, on new operands."""
        return emit_expression(builder, call, dict(zip(self.placeholders, operands, strict=True)))


def view(node: Node) -> NodeView | None:
    """The node in Relay's terms; None where Relay has no such operator, or a type is not known."""
    form = relay_form(node.expression) if node.operator else None
    if form is None:
        return None
    row, exported = form
    try:
        placeholders = [
            tree.Var(f"input{position}", to_relay(value.expression.ty)) if value.shape is not None else None
            for position, value in enumerate(node.operands)
        ]
    except ModelError:
        return None
    known = [placeholder for placeholder in placeholders if placeholder is not None]
    if len(known) != len(node.operands):
        return None
    variables = iter(known)
    trees = [_operand_tree(entry, variables) for entry in node.tree]
    by_argument = list(zip(node.expression.args, trees, strict=True))
    operands = [_operand(operand, by_argument) for operand in exported.operands]
    if any(operand is None for operand in operands):
        return None
    defaults = {name: attribute.default for name, attribute in declared(row.attributes).items()}
    attributes = Attributes(_with_extents({**defaults, **exported.attributes}, node))
    return NodeView(row, attributes, [operand for operand in operands if operand is not None], known)


def _operand_tree(entry: Any, variables: Any) -> tree.Expression | None:
    if isinstance(entry, Value):
        return next(variables)
    if isinstance(entry, tuple):
        fields = [_operand_tree(part, variables) for part in entry]
        return tree.Tuple(tuple(field for field in fields if field is not None))
    return None


def _operand(
    operand: Any, by_argument: Sequence[tuple[Any, tree.Expression | None]]
) -> tree.Expression | None:
    if isinstance(operand, np.ndarray):
        return tree.Constant(operand)
    for argument, expression in by_argument:
        if argument.same_as(operand):
            return expression
    return None


def _with_extents(attributes: dict[str, Any], node: Node) -> dict[str, Any]:
    """``channels`` and ``kernel_size``, which Relax leaves to the shapes."""
    if "channels" not in attributes or "kernel_size" not in attributes:
        return attributes
    result = node.results[0]
    data, kernel = attributes["out_layout"] or attributes["data_layout"], attributes["kernel_layout"]
    if data.isupper() and len(data) == result.rank and attributes["channels"] is None:
        attributes["channels"] = dict(zip(data, result.shape or (), strict=True))["C"]
    weights = [value for value in node.operands[1:] if value.rank == len(kernel)]
    if kernel.isupper() and weights and attributes["kernel_size"] is None:
        extents = zip(kernel, weights[-1].shape or (), strict=True)
        attributes["kernel_size"] = tuple(extent for axis, extent in extents if axis not in "OI")
    return attributes
