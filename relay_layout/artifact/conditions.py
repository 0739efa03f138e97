"""What the sizes of inputs have to be, beside the bounds of each: text such as ``x.shape[2] % 4 == 0``.

An input whose name is no identifier is written ``input('x.1').shape[2]``.
"""

import ast
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from relay_layout.artifact.fields import shown
from relay_layout.errors import ArtifactError, InputError
from relay_layout.long_expressions import cut

Shapes = Mapping[str, Sequence[int]]
"""Shapes of inputs by name."""

_OPERATIONS: dict[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.USub: "negative",
    ast.Not: "not",
    ast.And: "and",
    ast.Or: "or",
}

_UNARY: dict[str, Callable[[Any], Any]] = {
    "negative": operator.neg,
    "not": operator.not_,
    "ceil": math.ceil,
    "float": float,
    "floor": math.floor,
    "trunc": math.trunc,
}

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "and": lambda left, right: bool(left and right),
    "or": lambda left, right: bool(left or right),
    "max": max,
    "min": min,
}

_FUNCTIONS = frozenset(("ceil", "float", "floor", "trunc"))
_EXTREMES = frozenset(("max", "min"))

BROADCASTING = "; to broadcast the 1, compile the model for these sizes (--input-shape)"
"""What to do about an extent of 1 where another one is due, in a message."""

_LETTERS = 200
"""The most letters that a message shows of what is no condition."""

Step = float | int | str | tuple[str, int]
"""One step of a condition in postfix order: a number, the size of an input in a dimension, or what is done
with the last two values, or the last one."""


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
            self.steps: tuple[Step, ...] = tuple(self._postfix(ast.parse(text, mode="eval").body))
        except ArtifactError:
            raise
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise ArtifactError(f"{shown(text, _LETTERS)} is no condition") from None

    @property
    def inputs(self) -> set[str]:
        """Names of the inputs whose sizes it is about."""
        return {name for name, _ in self._read.values()}

    def check(self, shapes: Shapes) -> None:
        """InputError where the condition does not hold for these shapes."""
        advice = ""
        try:
            (holds,) = self._values(self.steps, shapes)
            if not holds:
                advice = self._broadcasting(shapes)
        except (ArithmeticError, ValueError):
            # By zero, or an integer of what is no number.
            holds = False
        if not holds:
            sizes = ", ".join(f"{name} = {shapes[owner][axis]}" for name, (owner, axis) in self._read.items())
            raise InputError(
                f"the model was exported for inputs of which {cut(self.text)}, got {sizes}{advice}"
            )

    def _broadcasting(self, shapes: Shapes) -> str:
        """What to do where one of two extents that have to be equal is 1, which others broadcast."""
        *sides, comparison = self.steps
        if comparison != "==" or isinstance(sides[-1], int | float):
            return ""
        return BROADCASTING if 1 in self._values(sides, shapes) else ""

    @staticmethod
    def _values(steps: Sequence[Step], shapes: Shapes) -> Sequence[Any]:
        values: list[Any] = []
        for step in steps:
            if isinstance(step, tuple):
                name, axis = step
                values.append(shapes[name][axis])
            elif not isinstance(step, str):
                values.append(step)
            elif step in _UNARY:
                values.append(_UNARY[step](values.pop()))
            else:
                right, left = values.pop(), values.pop()
                values.append(_BINARY[step](left, right))
        return values

    def _postfix(self, node: ast.AST) -> Iterator[Step]:
        match node:
            case ast.Constant(value=int(number) | float(number)):
                yield number
            case ast.Subscript(
                value=ast.Attribute(
                    value=ast.Name(id=name)
                    | ast.Call(func=ast.Name(id="input"), args=[ast.Constant(value=str(name))], keywords=[]),
                    attr="shape",
                ),
                slice=ast.Constant(value=int(axis)),
            ) if 0 <= axis < self._ranks.get(name, 0):
                self._read[ast.unparse(node)] = name, axis
                yield name, axis
            case ast.BinOp(left=left, op=operation, right=right) if type(operation) in _OPERATIONS:
                yield from self._folded(_OPERATIONS[type(operation)], [left, right])
            case ast.Compare(left=left, ops=[operation], comparators=[right]) if (
                type(operation) in _OPERATIONS
            ):
                yield from self._folded(_OPERATIONS[type(operation)], [left, right])
            case ast.UnaryOp(op=operation, operand=operand) if type(operation) in _OPERATIONS:
                yield from self._folded(_OPERATIONS[type(operation)], [operand])
            case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in _FUNCTIONS:
                yield from self._folded(name, [argument])
            case ast.Call(func=ast.Name(id=name), args=[_, _, *_] as arguments, keywords=[]) if (
                name in _EXTREMES
            ):
                yield from self._folded(name, arguments)
            case ast.BoolOp(op=operation, values=values):
                yield from self._folded(_OPERATIONS[type(operation)], values)
            case _:
                text, part = shown(self.text, _LETTERS), ast.unparse(node)[:_LETTERS]
                raise ArtifactError(f"{text} is no condition on the sizes of inputs: {part}")

    def _folded(self, operation: str, operands: Sequence[ast.AST]) -> Iterator[Step]:
        """One operand without a second, or each after the first with what came before."""
        first, *others = operands
        yield from self._postfix(first)
        if not others:
            yield operation
        for operand in others:
            yield from self._postfix(operand)
            yield operation
