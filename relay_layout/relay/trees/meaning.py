"""What the expressions of the syntax tree mean: their defaults, operands, types, functions and text."""

from typing import Any

from relay_layout.relay.expression import astext, operand_beside, to_relax_function
from relay_layout.relay.operators import TABLE, declared
from relay_layout.relay.syntax import AttributeValue
from relay_layout.relay.syntax.attribute_kinds import REQUIRED
from relay_layout.relay.syntax.tree import Meaning
from relay_layout.relay.trees.inference import type_of


def _default_of(operator: str, name: str) -> AttributeValue:
    """The declared default of an operator's attribute. KeyError where there is none."""
    row = TABLE.get(operator)
    attribute = declared(row.attributes).get(name) if row is not None else None
    if attribute is None or attribute.default is REQUIRED:
        raise KeyError(name)
    default: Any = attribute.default
    return default


MEANING = Meaning(_default_of, operand_beside, type_of, to_relax_function, astext)
