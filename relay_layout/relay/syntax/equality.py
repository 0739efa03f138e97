"""Whether two syntax trees say the same, whatever their variables are called.

Without recursion, as networks are thousands of expressions deep.
"""

from collections.abc import Mapping

import numpy as np

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
    Tuple,
    TupleGetItem,
    Var,
)


def structurally_equal(left: Module | Expression, right: Module | Expression) -> bool:
    """Whether two modules or expressions are the same but for the names of local variables.

    Variables correspond by where they are bound; those that are not bound, by name. An expression that is
    used twice equals one that is used twice, not two equal ones: a copy would be computed twice. Spans and
    the metadata of modules do not count.
    """
    if isinstance(left, Module) or isinstance(right, Module):
        return (
            isinstance(left, Module)
            and isinstance(right, Module)
            and left.functions.keys() == right.functions.keys()
            and all(
                _Comparison().equal(function, right.functions[name])
                for name, function in left.functions.items()
            )
        )
    return _Comparison().equal(left, right)


def attributes_equal(left: AttributeValue, right: AttributeValue) -> bool:
    """Whether two values of attributes are the same, types included; a NaN equals a NaN."""
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(attributes_equal, left, right))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(attributes_equal(left[key], right[key]) for key in left)
    if isinstance(left, Constant) and isinstance(right, Constant):
        return arrays_equal(left.data, right.data)
    if type(left) is not type(right):
        return False
    return left == right or (left != left and right != right)


def arrays_equal(left: np.ndarray, right: np.ndarray) -> bool:
    """Whether two arrays have the same type, shape and bits."""
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    return left is right or bool(
        np.array_equal(
            np.ascontiguousarray(left).reshape(-1).view(np.uint8),
            np.ascontiguousarray(right).reshape(-1).view(np.uint8),
        )
    )


class _Comparison:
    """Pairs of expressions still to compare, and the correspondence found so far."""

    def __init__(self) -> None:
        self._pending: list[tuple[Expression, Expression]] = []
        self._right_of: dict[int, Expression] = {}
        self._left_of: dict[int, Expression] = {}

    def equal(self, left: Expression, right: Expression) -> bool:
        self._pending = [(left, right)]
        while self._pending:
            if not self._pair_equal(*self._pending.pop()):
                return False
        return True

    def _pair_equal(self, left: Expression, right: Expression) -> bool:
        if isinstance(left, GlobalVar):
            return left == right
        # Text repeats a constant wherever it is used.
        if isinstance(left, Constant) and isinstance(right, Constant):
            return arrays_equal(left.data, right.data)
        if id(left) in self._right_of or id(right) in self._left_of:
            return self._right_of.get(id(left)) is right
        self._match(left, right)
        if isinstance(left, Var) and isinstance(right, Var):
            return left.name == right.name and left.type == right.type
        return self._nodes_equal(left, right)

    def _match(self, left: Expression, right: Expression) -> None:
        self._right_of[id(left)] = right
        self._left_of[id(right)] = left

    def _bind(self, left: Var, right: Var) -> bool:
        if id(left) in self._right_of or id(right) in self._left_of:
            return self._right_of.get(id(left)) is right
        self._match(left, right)
        return left.type == right.type

    def _nodes_equal(self, left: Expression, right: Expression) -> bool:
        if isinstance(left, Call) and isinstance(right, Call):
            return self._calls_equal(left, right)
        if isinstance(left, Tuple) and isinstance(right, Tuple):
            return self._push(left.fields, right.fields)
        if isinstance(left, TupleGetItem) and isinstance(right, TupleGetItem):
            return left.index == right.index and self._push((left.tuple_value,), (right.tuple_value,))
        if isinstance(left, Let) and isinstance(right, Let):
            return self._bind(left.var, right.var) and self._push(
                (left.value, left.body), (right.value, right.body)
            )
        if isinstance(left, If) and isinstance(right, If):
            return self._push(
                (left.condition, left.true_branch, left.false_branch),
                (right.condition, right.true_branch, right.false_branch),
            )
        if isinstance(left, Function) and isinstance(right, Function):
            return (
                len(left.params) == len(right.params)
                and all(map(self._bind, left.params, right.params))
                and left.ret_type == right.ret_type
                and attributes_equal(left.attrs, right.attrs)
                and self._push((left.body,), (right.body,))
            )
        return False

    def _calls_equal(self, left: Call, right: Call) -> bool:
        if not attributes_equal(left.attrs.given, right.attrs.given) or not self._push(left.args, right.args):
            return False
        if isinstance(left.op, str) or isinstance(right.op, str):
            return left.op == right.op
        return self._push((left.op,), (right.op,))

    def _push(self, left: tuple[Expression, ...], right: tuple[Expression, ...]) -> bool:
        self._pending.extend(zip(left, right, strict=False))
        return len(left) == len(right)
