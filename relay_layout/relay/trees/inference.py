"""Types of expressions while they are being built.

Scripts ask for types of parts of a network, which has no function around it yet: calls get theirs from Relax,
one operator after the other, and all are remembered.
"""

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from relay_layout.errors import ModelError
from relay_layout.relay.importing.function import FunctionImporter
from relay_layout.relay.importing.types import to_relay
from relay_layout.relay.syntax import free_variables, relay_types, tree

_KNOWN: WeakKeyDictionary[Any, relay_types.RelayType] = WeakKeyDictionary()
"""Types found so far, for as long as their expressions live; also those that operators tell of variables."""

_LABEL = "expression"


def type_of(root: tree.Expression) -> relay_types.RelayType:
    """The type of an expression whose free variables have types, or get them from operators.

    Remembered with each of its parts, so that asking while a network grows stays cheap. ModelError where
    there is none.
    """
    stack = [root]
    while stack:
        expression = stack[-1]
        if _known(expression) is not None:
            stack.pop()
            continue
        missing = [part for part in _needed(expression) if _known(part) is None]
        if missing:
            stack.extend(reversed(missing))
            continue
        stack.pop()
        _KNOWN[expression] = _infer(expression)
    found = _known(root)
    assert found is not None
    return found


def _known(expression: tree.Expression) -> relay_types.RelayType | None:
    if isinstance(expression, tree.Var) and expression.type is not None:
        return expression.type
    if isinstance(expression, tree.Constant):
        return relay_types.TensorType(expression.data.shape, str(expression.data.dtype))
    return _KNOWN.get(expression)


def _needed(expression: tree.Expression) -> Sequence[tree.Expression]:
    """The parts whose types come first: none for what is inferred as a whole."""
    if isinstance(expression, tree.Call) and isinstance(expression.op, str):
        return [part for part in _flat(expression.args) if not isinstance(part, tree.Var)]
    if isinstance(expression, tree.Tuple):
        return expression.fields
    if isinstance(expression, tree.TupleGetItem):
        return (expression.tuple_value,)
    return ()


def _flat(arguments: Sequence[tree.Expression]) -> list[tree.Expression]:
    """Operands, those in tuples written in place included."""
    flat: list[tree.Expression] = []
    for argument in arguments:
        flat.extend(argument.fields if isinstance(argument, tree.Tuple) else [argument])
    return flat


def _infer(expression: tree.Expression) -> relay_types.RelayType:
    if isinstance(expression, tree.Var):
        raise ModelError(f"%{expression.name} is declared without a type, and nothing tells one")
    if isinstance(expression, tree.Tuple):
        return relay_types.TupleType(tuple(type_of(entry) for entry in expression.fields))
    if isinstance(expression, tree.TupleGetItem):
        return _field(type_of(expression.tuple_value), expression.index)
    if isinstance(expression, tree.Function):
        return _function_type(expression)
    if (
        isinstance(expression, tree.Call)
        and isinstance(expression.op, str)
        and all(_is_static(_known(part)) for part in _flat(expression.args))
    ):
        return _call_type(expression)
    return _whole(tree.Function(free_variables(expression), expression)).result


def _field(kind: relay_types.RelayType, index: int) -> relay_types.RelayType:
    if not isinstance(kind, relay_types.TupleType):
        raise ModelError(f"field {index} is taken of what is not a tuple")
    if not 0 <= index < len(kind.fields):
        raise ModelError(f"field {index} is taken of a tuple of {len(kind.fields)}")
    return kind.fields[index]


def _function_type(function: tree.Function) -> relay_types.FuncType:
    captured = free_variables(function)
    kind = _whole(tree.Function((*captured, *function.params), function.body))
    return relay_types.FuncType(kind.parameters[len(captured) :], kind.result)


def _is_static(kind: relay_types.RelayType | None) -> bool:
    """Whether a variable of the type can stand for the operand: unknown extents lose that they are equal."""
    if isinstance(kind, relay_types.TupleType):
        return all(_is_static(entry) for entry in kind.fields)
    return kind is None or (isinstance(kind, relay_types.TensorType) and None not in kind.shape)


def _call_type(call: tree.Call) -> relay_types.RelayType:
    """The type of an operator's call, with variables for its operands."""
    parameters: dict[tree.Var, None] = {}

    def stand_in(operand: tree.Expression) -> tree.Expression:
        if isinstance(operand, tree.Constant):
            return operand
        if isinstance(operand, tree.Tuple):
            return tree.Tuple(tuple(map(stand_in, operand.fields)))
        kind = _known(operand)
        variable = operand if isinstance(operand, tree.Var) and kind is None else tree.Var("operand", kind)
        assert isinstance(variable, tree.Var)
        parameters[variable] = None
        return variable

    body = tree.Call(call.op, tuple(map(stand_in, call.args)), call.attrs)
    return _whole(tree.Function(tuple(parameters), body)).result


def _whole(function: tree.Function) -> relay_types.FuncType:
    """The type of a function without free variables; variables without a type learn theirs."""
    typed = tuple(
        tree.Var(parameter.name, _known(parameter)) if parameter.type is None else parameter
        for parameter in function.params
    )
    if any(new is not old and new.type is not None for new, old in zip(typed, function.params, strict=True)):
        function = tree.Function(typed, tree.Call(function, typed))
    imported = FunctionImporter(_LABEL, {"main": function}, {}).run(function)
    kinds = tuple(to_relay(parameter.ty) for parameter in imported.params)
    for parameter, kind in zip(function.params, kinds, strict=True):
        if parameter.type is None:
            _KNOWN[parameter] = kind
    # The type of the function itself does not say what extents are that are computed in it.
    return relay_types.FuncType(kinds, to_relay(imported.body.body.ty))
