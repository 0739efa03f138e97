"""Relay's file formats: text, JSON and parameters, read into a syntax tree and written again.

Nothing here needs TVM.  Whatever a file holds, reading it ends in a tree or in a
:class:`relay_layout.errors.ModelError` of one line that says where.
"""

from .equality import structurally_equal
from .json_reader import read_json
from .params import read_params, read_tensor, write_params
from .printer import print_expression, print_text
from .relay_types import FuncType, RelayType, TensorType, TupleType
from .text_reader import read_expression, read_text
from .traversal import children, free_variables, module_of_expression, post_order
from .tree import (
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
