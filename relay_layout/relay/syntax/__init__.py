"""Relay's file formats: text, JSON and parameters, read into a syntax tree and written again.

Nothing here needs TVM.  Whatever a file holds, reading it ends in a tree or in a
:class:`relay_layout.errors.ModelError` of one line that says where.
"""

from relay_layout.relay.syntax.equality import structurally_equal
from relay_layout.relay.syntax.json_reader import read_json
from relay_layout.relay.syntax.params import read_params, read_tensor, write_params
from relay_layout.relay.syntax.printer import print_expression, print_text
from relay_layout.relay.syntax.relay_types import FuncType, RelayType, TensorType, TupleType
from relay_layout.relay.syntax.text_reader import read_expression, read_text
from relay_layout.relay.syntax.traversal import children, free_variables, module_of_expression, post_order
from relay_layout.relay.syntax.tree import (
    AttributeValue,
    Call,
    Constant,
    Expression,
    Function,
    GlobalVar,
    If,
    Let,
    Module,
    Span,
    Tuple,
    TupleGetItem,
    Var,
)

__all__ = [
    "AttributeValue",
    "Call",
    "Constant",
    "Expression",
    "FuncType",
    "Function",
    "GlobalVar",
    "If",
    "Let",
    "Module",
    "RelayType",
    "Span",
    "TensorType",
    "Tuple",
    "TupleGetItem",
    "TupleType",
    "Var",
    "children",
    "free_variables",
    "module_of_expression",
    "post_order",
    "print_expression",
    "print_text",
    "read_expression",
    "read_json",
    "read_params",
    "read_tensor",
    "read_text",
    "structurally_equal",
    "write_params",
]
