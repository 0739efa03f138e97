"""``relay.dataflow_pattern``: parts of networks found by their form, rewritten, or put apart as functions.

>>> pattern = is_op("nn.relu")(is_op("nn.conv2d")(wildcard(), is_constant()))
>>> pattern.match(expression)

Expressions of scripts are taken as they are written. Functions of modules are taken as Relay, in which
``relay.nn.bias_add`` is itself again; the result of :func:`rewrite` and :func:`partition` is a function that
``module["main"] = result`` takes.
"""

from relay_layout.relay.dataflow_pattern.constructors import (
    dominates,
    has_attr,
    has_dtype,
    has_shape,
    has_type,
    is_constant,
    is_expr,
    is_if,
    is_let,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    wildcard,
)
from relay_layout.relay.dataflow_pattern.matching import match
from relay_layout.relay.dataflow_pattern.partitioning import partition
from relay_layout.relay.dataflow_pattern.patterns import (
    AltPattern,
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DataTypePattern,
    DFPattern,
    DominatorPattern,
    ExprPattern,
    FunctionPattern,
    IfPattern,
    LetPattern,
    ShapePattern,
    TupleGetItemPattern,
    TuplePattern,
    TypePattern,
    VarPattern,
    WildcardPattern,
)
from relay_layout.relay.dataflow_pattern.rewriting import DFPatternCallback, rewrite

__all__ = [
    "AltPattern",
    "AttrPattern",
    "CallPattern",
    "ConstantPattern",
    "DFPattern",
    "DFPatternCallback",
    "DataTypePattern",
    "DominatorPattern",
    "ExprPattern",
    "FunctionPattern",
    "IfPattern",
    "LetPattern",
    "ShapePattern",
    "TupleGetItemPattern",
    "TuplePattern",
    "TypePattern",
    "VarPattern",
    "WildcardPattern",
    "dominates",
    "has_attr",
    "has_dtype",
    "has_shape",
    "has_type",
    "is_constant",
    "is_expr",
    "is_if",
    "is_let",
    "is_op",
    "is_tuple",
    "is_tuple_get_item",
    "is_var",
    "match",
    "partition",
    "rewrite",
    "wildcard",
]
