"""What the expressions of the syntax tree mean: their defaults, operands, types, functions and text."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from relay_layout.relay.expression import astext, operand_beside, to_relax_function
from relay_layout.relay.operators import TABLE, declared
from relay_layout.relay.syntax import AttributeValue
from relay_layout.relay.syntax.attribute_kinds import REQUIRED
from relay_layout.relay.syntax.tree import Meaning
from relay_layout.relay.trees.inference import type_of


@lru_cache(maxsize=1024)
def _defaults_of(operator: str) -> Mapping[str, AttributeValue]:
    """The attributes of an operator that have a declared default, in the order of their declaration."""
    row = TABLE.get(operator)
    attributes = declared(row.attributes) if row is not None else {}
    found: dict[str, Any] = {
        name: attribute.default for name, attribute in attributes.items() if attribute.default is not REQUIRED
    }
    return found


MEANING = Meaning(_defaults_of, operand_beside, type_of, to_relax_function, astext)
