"""Whether an expression has the form of a pattern, and which of its parts match which parts of it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from relay_layout.errors import ModelError
from relay_layout.relay.dataflow_pattern import patterns
from relay_layout.relay.dataflow_pattern.operator_kinds import operator_kind
from relay_layout.relay.dataflow_pattern.patterns import DFPattern
from relay_layout.relay.syntax import children, post_order, structurally_equal, tree
from relay_layout.relay.trees.matchable import as_matchable

Matched = dict[DFPattern, list[tree.Expression]]
"""The expressions that patterns matched; those of operators are their names."""

_LEAVES = (tree.Var, tree.Constant)
_COMMUTATIVE = ("add", "multiply")


def match(pattern: DFPattern, expr: Any) -> bool:
    """Whether an expression, an operator or a function has the form of a pattern."""
    if isinstance(expr, str):
        return Matcher(()).match(pattern, tree.OperatorName(expr))
    root = as_matchable(expr)
    return Matcher(post_order(root)).match(pattern, root)


class Matcher:
    """Matches expressions of one graph, whose parts are told, operands before their users."""

    def __init__(self, graph: Iterable[tree.Expression]) -> None:
        self.users: dict[int, list[tree.Expression]] = {}
        for part in graph:
            for operand in children(part):
                self.users.setdefault(id(operand), []).append(part)
        self.found: Matched = {}
        self.within: dict[DFPattern, list[tree.Expression]] = {}
        """Of patterns of domination, what lies from the parent to the child, the child left out."""
        self._order: list[DFPattern] = []

    def match(self, pattern: DFPattern, expression: Any) -> bool:
        """Whether an expression matches; ``found`` then tells what of it matches what."""
        self._forget(0)
        return self._visit(pattern, expression)

    def _visit(self, pattern: DFPattern, expression: Any) -> bool:
        if pattern in self.found:
            return _same(self.found[pattern][0], expression)
        mark = len(self._order)
        if _RULES[type(pattern)](self, pattern, expression):
            self.found[pattern] = [expression]
            self._order.append(pattern)
            return True
        self._forget(mark)
        return False

    def _forget(self, mark: int) -> None:
        for pattern in self._order[mark:]:
            del self.found[pattern]
            self.within.pop(pattern, None)
        del self._order[mark:]

    def _all(self, wanted: Sequence[DFPattern], expressions: Sequence[Any]) -> bool:
        if len(wanted) != len(expressions):
            return False
        mark = len(self._order)
        if all(self._visit(*pair) for pair in zip(wanted, expressions, strict=True)):
            return True
        self._forget(mark)
        return False

    def expression(self, pattern: patterns.ExprPattern, expression: Any) -> bool:
        """The operator of the name, or the same expression."""
        if isinstance(pattern.expr, str) or isinstance(expression, str):
            return isinstance(expression, str) and expression == pattern.expr
        return pattern.expr is expression or structurally_equal(pattern.expr, expression)

    def call(self, pattern: patterns.CallPattern, expression: Any) -> bool:
        """The operands of sums and products in either order."""
        if not isinstance(expression, tree.Call) or not self._visit(pattern.op, expression.op):
            return False
        if pattern.args is None or self._all(pattern.args, expression.args):
            return True
        return expression.op in _COMMUTATIVE and self._all(pattern.args, expression.args[::-1])

    def function(self, pattern: patterns.FunctionPattern, expression: Any) -> bool:
        """The parameters, and the body."""
        if not isinstance(expression, tree.Function):
            return False
        fits = pattern.params is None or self._all(pattern.params, expression.params)
        return fits and self._visit(pattern.body, expression.body)

    def branch(self, pattern: patterns.IfPattern, expression: Any) -> bool:
        """The condition and both sides."""
        return isinstance(expression, tree.If) and self._all(pattern.inputs, children(expression))

    def let(self, pattern: patterns.LetPattern, expression: Any) -> bool:
        """The variable, the value and the body."""
        if not isinstance(expression, tree.Let):
            return False
        return self._all(pattern.inputs, (expression.var, expression.value, expression.body))

    def tuple(self, pattern: patterns.TuplePattern, expression: Any) -> bool:
        """The fields."""
        if not isinstance(expression, tree.Tuple):
            return False
        return pattern.fields is None or self._all(pattern.fields, expression.fields)

    def tuple_get_item(self, pattern: patterns.TupleGetItemPattern, expression: Any) -> bool:
        """The place and the tuple."""
        if not isinstance(expression, tree.TupleGetItem):
            return False
        is_place = pattern.index is None or pattern.index == expression.index
        return is_place and self._visit(pattern.tuple, expression.tuple_value)

    def alternative(self, pattern: patterns.AltPattern, expression: Any) -> bool:
        """The first that matches."""
        return self._visit(pattern.left, expression) or self._visit(pattern.right, expression)

    def attributes(self, pattern: patterns.AttrPattern, expression: Any) -> bool:
        """The values, as they are written or by default."""
        if not self._visit(pattern.pattern, expression):
            return False
        return all(_has_attribute(expression, name, value) for name, value in pattern.attrs.items())

    def dominator(self, pattern: patterns.DominatorPattern, expression: Any) -> bool:
        """The child, and the nearest parent from which everything leads to it by way of the path.

        Nothing else leads there but variables and constants.
        """
        if isinstance(expression, str) or not self._visit(pattern.child, expression):
            return False
        before = [part for part in post_order(expression) if part is not expression]
        for parent in reversed(before):
            mark = len(self._order)
            if not self._visit(pattern.parent, parent):
                continue
            between = self._between(parent, expression, before)
            if between is not None and all(Matcher(()).match(pattern.path, part) for part in between):
                self.within[pattern] = [parent, *between]
                return True
            self._forget(mark)
        return False

    def _between(
        self, parent: tree.Expression, child: tree.Expression, before: Sequence[tree.Expression]
    ) -> list[tree.Expression] | None:
        """What reads the parent on the way to the child; None where it leads elsewhere, or more there."""
        reading, between = {id(parent)}, []
        for part in before:
            if any(id(operand) in reading for operand in children(part)):
                reading.add(id(part))
                between.append(part)
        inside = {*reading, id(child)}
        if not any(id(operand) in reading for operand in children(child)):
            return None
        operands = [operand for part in (*between, child) for operand in children(part)]
        if not all(id(operand) in inside or isinstance(operand, _LEAVES) for operand in operands):
            return None
        parts = (parent, *between)
        leads = all(id(user) in inside for part in parts for user in self.users.get(id(part), ()))
        return between if leads else None


def _typed(test: Callable[[Any, tree.RelayType], bool]) -> Callable[[Matcher, Any, Any], bool]:
    """A rule of patterns for the type; what has none does not match."""

    def rule(matcher: Matcher, pattern: Any, expression: Any) -> bool:
        if isinstance(expression, str) or not matcher._visit(pattern.pattern, expression):
            return False
        try:
            kind = expression.checked_type
        except ModelError:
            return False
        return test(pattern, kind)

    return rule


def _has_shape(pattern: patterns.ShapePattern, kind: tree.RelayType) -> bool:
    return isinstance(kind, tree.TensorType) and kind.shape == patterns.shape_of_pattern(pattern.shape)


_RULES: Mapping[type, Callable[[Matcher, Any, Any], bool]] = {
    patterns.AltPattern: Matcher.alternative,
    patterns.AttrPattern: Matcher.attributes,
    patterns.CallPattern: Matcher.call,
    patterns.ConstantPattern: lambda matcher, pattern, expression: isinstance(expression, tree.Constant),
    patterns.DataTypePattern: _typed(
        lambda pattern, kind: isinstance(kind, tree.TensorType) and kind.dtype == pattern.dtype
    ),
    patterns.DominatorPattern: Matcher.dominator,
    patterns.ExprPattern: Matcher.expression,
    patterns.FunctionPattern: Matcher.function,
    patterns.IfPattern: Matcher.branch,
    patterns.LetPattern: Matcher.let,
    patterns.ShapePattern: _typed(_has_shape),
    patterns.TupleGetItemPattern: Matcher.tuple_get_item,
    patterns.TuplePattern: Matcher.tuple,
    patterns.TypePattern: _typed(lambda pattern, kind: kind == pattern.type),
    patterns.VarPattern: lambda matcher, pattern, expression: (
        isinstance(expression, tree.Var) and pattern.name in ("", expression.name)
    ),
    patterns.WildcardPattern: lambda matcher, pattern, expression: True,
}


def _same(one: Any, other: Any) -> bool:
    return one is other or (isinstance(one, str) and isinstance(other, str) and one == other)


def _has_attribute(expression: Any, name: str, value: Any) -> bool:
    if name == "TOpPattern":
        operator = expression.op if isinstance(expression, tree.Call) else expression
        return isinstance(operator, str) and operator_kind(operator) == value
    if not isinstance(expression, tree.Call | tree.Function):
        return False
    try:
        found = expression.attrs[name]
    except KeyError:
        return False
    return bool(patterns.plain(found) == patterns.plain(value))
