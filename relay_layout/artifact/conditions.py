"""What the sizes of inputs have to be, beside the bounds of each: text such as ``x.shape[2] % 4 == 0``.

An input whose name is no identifier is written ``input('x.1').shape[2]``.
"""

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from relay_layout.errors import ArtifactError, InputError

Shapes = Mapping[str, Sequence[int]]
"""Shapes of inputs by name."""

_OPERATIONS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
}

_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "ceil": math.ceil,
    "float": float,
    "floor": math.floor,
    "trunc": math.trunc,
}
_EXTREMES: dict[str, Callable[[Any], Any]] = {"max": max, "min": min}


class Condition:
    """Numbers, sizes of inputs, + - * / // %, ceil floor trunc float max min, comparisons, and, or, not.

    Raises ArtifactError, on construction, for text that is anything else, or for a size that no input of
    ``ranks``, by name, has.
    """

    def __init__(self, text: str, ranks: Mapping[str, int]) -> None:
        self.text = text
        self._ranks = ranks
        self._read: dict[str, tuple[str, int]] = {}
        try:
            self._holds = self._compiled(ast.parse(text, mode="eval").body)
        except ArtifactError:
            raise
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise ArtifactError(f"{text!r} is no condition") from None

    @property
    def inputs(self) -> set[str]:
        """Names of the inputs whose sizes it is about."""
        return {name for name, _ in self._read.values()}

    def check(self, shapes: Shapes) -> None:
        """InputError where the condition does not hold for these shapes."""
        try:
            holds = self._holds(shapes)
        except ArithmeticError:
            holds = False
        if not holds:
            sizes = ", ".join(f"{name} = {shapes[owner][axis]}" for name, (owner, axis) in self._read.items())
            raise InputError(f"the model was exported for inputs of which {self.text}, got {sizes}")

    def _compiled(self, node: ast.AST) -> Callable[[Shapes], Any]:
        match node:
            case ast.Constant(value=int(number) | float(number)):
                return lambda shapes: number
            case ast.Subscript(
                value=ast.Attribute(
                    value=ast.Name(id=name)
                    | ast.Call(func=ast.Name(id="input"), args=[ast.Constant(value=str(name))], keywords=[]),
                    attr="shape",
                ),
                slice=ast.Constant(value=int(axis)),
            ) if 0 <= axis < self._ranks.get(name, 0):
                self._read[ast.unparse(node)] = name, axis
                return lambda shapes: shapes[name][axis]
            case ast.BinOp(left=left, op=operation, right=right) if type(operation) in _OPERATIONS:
                return self._applied(_OPERATIONS[type(operation)], [left, right])
            case ast.Compare(left=left, ops=[operation], comparators=[right]) if (
                type(operation) in _OPERATIONS
            ):
                return self._applied(_OPERATIONS[type(operation)], [left, right])
            case ast.UnaryOp(op=operation, operand=operand) if type(operation) in _OPERATIONS:
                return self._applied(_OPERATIONS[type(operation)], [operand])
            case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in _FUNCTIONS:
                return self._applied(_FUNCTIONS[name], [argument])
            case ast.Call(func=ast.Name(id=name), args=[_, *_] as arguments, keywords=[]) if (
                name in _EXTREMES
            ):
                extreme = _EXTREMES[name]
                return self._applied(lambda *values: extreme(values), arguments)
            case ast.BoolOp(op=operation, values=values):
                every = all if isinstance(operation, ast.And) else any
                return self._applied(lambda *found: every(found), values)
        raise ArtifactError(f"{self.text!r} is no condition on the sizes of inputs: {ast.unparse(node)}")

    def _applied(self, function: Callable[..., Any], operands: Sequence[ast.AST]) -> Callable[[Shapes], Any]:
        compiled = [self._compiled(operand) for operand in operands]
        return lambda shapes: function(*[operand(shapes) for operand in compiled])


__all__ = ["Condition", "Shapes"]
