"""Operators: which layouts each can run in, and how its call changes with them.

:mod:`.table` has a row for each: an operator is added there. Most rows say how dimensions correspond, by the
rule of :mod:`.axis_rule`, and the modules that end in ``_rules`` have what they say, by what operators do;
the modules that end in ``_rule``, and :mod:`.index_rules`, have rules of their own. What a row promises the
solver is a :mod:`.signature`. :mod:`.kept` says of all other operators why they keep their layouts.
"""

from relay_layout.ops.kept import KEEPS
from relay_layout.ops.signature import (
    ConvolutionLayouts,
    Offers,
    Placement,
    Rule,
    Signature,
    Wanted,
    unchanged,
)
from relay_layout.ops.table import TABLE, Rules, is_elementwise, table_rule

__all__ = [
    "KEEPS",
    "TABLE",
    "ConvolutionLayouts",
    "Offers",
    "Placement",
    "Rule",
    "Rules",
    "Signature",
    "Wanted",
    "is_elementwise",
    "table_rule",
    "unchanged",
]
