"""One Relay function to one Relax function: what it calls is taken into it, what it binds is shared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tvm import relax

from relay_layout.errors import ModelError, printable
from relay_layout.graph.border import CONDITIONS
from relay_layout.ir import Constant, Expression, constant
from relay_layout.relay.importing.operation import Operations
from relay_layout.relay.importing.types import show, to_relax, to_relay
from relay_layout.relay.operators.shapes import split_conditions
from relay_layout.relay.syntax import post_order, relay_types, tree
from relay_layout.relay.syntax.trampoline import Step, run

MOST_OPERATORS = 200_000
"""How many operators a module may have once its functions are taken into main."""

DEEPEST_CALL = 1_000
"""How many calls of functions may be under way at once."""


@dataclass(eq=False)
class Pending:
    """A parameter of main without a type, until the first operator that tells one."""

    variable: tree.Var
    value: relax.Var | None = None


@dataclass(frozen=True, eq=False)
class Closure:
    """A function that is called somewhere, and where its free variables have their values."""

    function: tree.Function
    frame: Frame


Value = Any
"""A typed Relax expression, a tuple of values, a :class:`Closure`, or a :class:`Pending` parameter."""


@dataclass(eq=False)
class Frame:
    """The values of expressions where they are evaluated: main, a call under way, or a branch."""

    outer: Frame | None = None
    depth: int = 0
    values: dict[int, Value] = field(default_factory=dict)

    def find(self, expression: tree.Expression) -> Value | None:
        """The value of an expression that was evaluated here or around here."""
        frame: Frame | None = self
        while frame is not None:
            value = frame.values.get(id(expression))
            if value is not None:
                return value
            frame = frame.outer
        return None


class FunctionImporter:
    """Evaluates Relay's main with Relax expressions as values."""

    def __init__(
        self,
        name: str,
        functions: Mapping[str, tree.Function],
        bound: Mapping[str, Constant],
        builder: relax.BlockBuilder | None = None,
    ) -> None:
        self.name = name
        self.functions = functions
        self.bound = bound
        self.globals = Frame()
        self.builder = builder or relax.BlockBuilder()
        self.operations = Operations(self.builder)
        self.open_blocks = 0
        self.names: dict[int, str] = {}
        self.has_branches = any(_has_branches(function) for function in functions.values())

    def run(self, main: tree.Function) -> relax.Function:
        """The Relax function of main."""
        frame = Frame()
        self.names = _distinct_names([param for param in main.params if param.name not in self.bound])
        parameters = [(parameter, self._parameter(parameter)) for parameter in main.params]
        for parameter, value in parameters:
            frame.values[id(parameter)] = value
        typed = [value for _, value in parameters if isinstance(value, relax.Var)]
        self.builder.begin_scope(typed)
        self._begin_block()
        try:
            result = self._expression(run(self._evaluate(main.body, frame)))
            output = self.builder.emit(result) if self.has_branches else self.builder.emit_output(result)
        finally:
            # TVM complains aloud about a builder that is dropped with blocks open.
            while self.open_blocks:
                block = self._end_block()
        body = self.builder.normalize(relax.SeqExpr([block], output))
        self.builder.end_scope()
        inputs = [self._declared(value) for _, value in parameters if not isinstance(value, Constant)]
        equalities = self.operations.scope.equalities
        function = equalities.applied(relax.Function(inputs, body))
        conditions = [*split_conditions(function), *equalities.conditions(function)]
        return function.with_attr(CONDITIONS, conditions) if conditions else function

    @property
    def is_one_expression(self) -> bool:
        """Whether all that the function computes follows from its result, without branches and checks."""
        return not self.has_branches and not self.operations.scope.equalities.counts

    def value(self, expression: tree.Expression, values: Mapping[tree.Var, Expression]) -> Expression:
        """An expression whose free variables have values, emitted into the builder's open block."""
        frame = Frame(values={id(variable): value for variable, value in values.items()})
        return self._expression(run(self._evaluate(expression, frame)))

    def _parameter(self, parameter: tree.Var) -> Value:
        if parameter.name in self.bound:
            return self.bound[parameter.name]
        if parameter.type is None:
            return Pending(parameter)
        try:
            return relax.Var(self.names[id(parameter)], to_relax(parameter.type, f"%{parameter.name}"))
        except ModelError as error:
            raise self._error(None, str(error)) from None

    def _begin_block(self) -> None:
        self.open_blocks += 1
        if self.has_branches:
            self.builder._begin_binding_block()
        else:
            self.builder._begin_dataflow_block()

    def _end_block(self) -> relax.BindingBlock:
        self.open_blocks -= 1
        return self.builder._end_block()

    def _evaluate(self, expression: tree.Expression, frame: Frame) -> Step[Value]:
        while isinstance(expression, tree.Let):
            value = expression.value
            if isinstance(value, tree.Function):
                # A function may name the variable that it is bound to; calling itself is refused there.
                frame.values[id(expression.var)] = Closure(value, frame)
            else:
                frame.values[id(expression.var)] = yield self._evaluate(value, frame)
            expression = expression.body
        found = frame.find(expression)
        if found is None:
            found = yield self._compute(expression, frame)
            frame.values[id(expression)] = found
        return found

    def _compute(self, expression: tree.Expression, frame: Frame) -> Step[Value]:
        if isinstance(expression, tree.Constant):
            return constant(expression.data)
        if isinstance(expression, tree.Var):
            raise self._error(None, f"%{expression.name} has no value where it is used")
        if isinstance(expression, tree.GlobalVar):
            function = self.functions.get(expression.name)
            if function is None:
                raise self._error(
                    None,
                    f"there is no function @{expression.name}; call the function itself, or give the "
                    "whole module as text to relay.fromtext",
                )
            return Closure(function, self.globals)
        if isinstance(expression, tree.Function):
            return Closure(expression, frame)
        if isinstance(expression, tree.Tuple):
            fields = []
            for entry in expression.fields:
                fields.append((yield self._evaluate(entry, frame)))
            return tuple(fields)
        if isinstance(expression, tree.TupleGetItem):
            return self._field((yield self._evaluate(expression.tuple_value, frame)), expression.index)
        if isinstance(expression, tree.If):
            return (yield self._branch(expression, frame))
        assert isinstance(expression, tree.Call)
        return (yield self._call(expression, frame))

    def _field(self, value: Value, index: int) -> Value:
        if isinstance(value, tuple):
            count = len(value)
        elif isinstance(value, relax.Expr) and isinstance(value.ty, relax.TupleType):
            count = len(value.ty.fields)
        else:
            raise self._error(None, f"field {index} is taken of what is not a tuple")
        if not 0 <= index < count:
            raise self._error(None, f"field {index} is taken of a tuple of {count}")
        return (
            value[index] if isinstance(value, tuple) else self.builder.emit(relax.TupleGetItem(value, index))
        )

    def _call(self, call: tree.Call, frame: Frame) -> Step[Value]:
        arguments = []
        for argument in call.args:
            arguments.append((yield self._evaluate(argument, frame)))
        if isinstance(call.op, str):
            return self._operator(call, arguments)
        callee = yield self._evaluate(call.op, frame)
        if not isinstance(callee, Closure):
            raise self._error(call, "what is called here is not a function")
        parameters = callee.function.params
        if len(parameters) != len(arguments):
            raise self._error(
                call, f"the function takes {len(parameters)} arguments, but is called with {len(arguments)}"
            )
        if frame.depth >= DEEPEST_CALL:
            raise self._error(
                call,
                f"calls nest deeper than {DEEPEST_CALL}; a function cannot call itself",
            )
        inner = Frame(callee.frame, frame.depth + 1)
        for parameter, argument in zip(parameters, arguments, strict=True):
            inner.values[id(parameter)] = argument
        return (yield self._evaluate(callee.function.body, inner))

    def _operator(self, call: tree.Call, arguments: list[Value]) -> Value:
        assert isinstance(call.op, str)
        if self.operations.count >= MOST_OPERATORS:
            raise self._error(
                call,
                f"there are over {MOST_OPERATORS} operators with functions taken in where called",
            )
        try:
            self._resolve(call, arguments)
            values = [self._expression(argument) for argument in arguments]
            return self.operations.emit(call.op, values, call.attrs.given)
        except ModelError as error:
            raise self._error(call, str(error)) from None

    def _resolve(self, call: tree.Call, arguments: list[Value]) -> None:
        """Give types to parameters without one that an operator takes."""
        pending = [value for value in arguments if isinstance(value, Pending) and value.value is None]
        if not pending:
            return
        types = [None if argument in pending else self._relay_type(argument) for argument in arguments]
        found = self.operations.operand_types(str(call.op), types, call.attrs.given)
        for position, value in enumerate(arguments):
            if isinstance(value, Pending) and value.value is None:
                name = value.variable.name
                if position not in found:
                    raise ModelError(f"%{name} is declared without a type, and {call.op} does not tell one")
                kind = to_relax(found[position], f"%{name}")
                value.value = relax.Var(self.names[id(value.variable)], kind)

    def _relay_type(self, value: Value) -> relay_types.RelayType | None:
        return None if isinstance(value, Closure) else to_relay(self._expression(value).ty)

    def _branch(self, branch: tree.If, frame: Frame) -> Step[Value]:
        condition = self._expression((yield self._evaluate(branch.condition, frame)))
        kind = to_relay(condition.ty)
        if kind != relay_types.TensorType((), "bool"):
            raise self._error(None, f"the condition of an if is a scalar of bool, not {show(kind)}")
        bodies = []
        for side in (branch.true_branch, branch.false_branch):
            self._begin_block()
            value = yield self._evaluate(side, Frame(frame, frame.depth))
            result = self.builder.emit(self._expression(value))
            bodies.append(relax.SeqExpr([self._end_block()], result))
        types = [to_relay(body.body.ty) for body in bodies]
        if types[0] != types[1]:
            raise self._error(
                None,
                f"the branches of an if give {show(types[0])} and {show(types[1])}, not the same",
            )
        return self.builder.emit(relax.If(condition, *bodies))

    def _expression(self, value: Value) -> Expression:
        """A value as one Relax expression."""
        if isinstance(value, Closure):
            raise self._error(None, "a function is used as a value; functions can only be called")
        if isinstance(value, Pending):
            return self._declared(value)
        if isinstance(value, tuple):
            return self.builder.normalize(relax.Tuple([self._expression(entry) for entry in value]))
        return value

    def _declared(self, value: Value) -> relax.Var:
        if not isinstance(value, Pending):
            return value
        if value.value is None:
            raise self._error(
                None, f"%{value.variable.name} is declared without a type, and nothing tells one"
            )
        return value.value

    def _error(self, call: tree.Call | None, message: str) -> ModelError:
        span = call.span if call is not None else None
        place = f":{span.line}:{span.column}" if span is not None else ""
        # Messages quote attributes of files, which may hold anything.
        return ModelError(f"{self.name}{place}: {printable(message)}")


def emit_expression(
    builder: relax.BlockBuilder, expression: tree.Expression, values: Mapping[tree.Var, Expression]
) -> Expression:
    """A Relay expression as Relax in a builder's open block, its free variables being ``values``.

    ModelError for what cannot be imported.
    """
    return FunctionImporter("expression", {}, {}, builder).value(expression, values)


def _distinct_names(parameters: Sequence[tree.Var]) -> dict[int, str]:
    """Names of inputs by parameter: of several ``x``, which Relay allows, later ones are ``x_1``, ``x_2``."""
    taken = {parameter.name for parameter in parameters}
    names: dict[int, str] = {}
    first: set[str] = set()
    for parameter in parameters:
        name = parameter.name
        if name in first:
            name = next(new for index in count(1) if (new := f"{name}_{index}") not in taken)
            taken.add(name)
        first.add(parameter.name)
        names[id(parameter)] = name
    return names


def _has_branches(function: tree.Function) -> bool:
    return any(isinstance(part, tree.If) for part in post_order(function))
