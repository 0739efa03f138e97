"""The Python function of an operator, made from its row of the table."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import tvm

from relay_layout.relay.expression import TupleWrapper, as_expression, const, operand_beside
from relay_layout.relay.functions.told_values import NotTold, told_value
from relay_layout.relay.operators import OPEN, TABLE, Operator, changed, complete, declared
from relay_layout.relay.syntax import tree
from relay_layout.relay.syntax.attribute_kinds import DATA_TYPE, NODE, REQUIRED, Attribute
from relay_layout.relay.ty import dtype_text

_BESIDE = ("lhs", "rhs", "x", "y")
"""Operands of elementwise operators: a number there takes the dtype of the other one."""

_MORE = "_attributes"
"""The parameter that takes attributes of any name."""


def operator_function(name: str) -> Callable[..., Any]:
    """The function that makes calls of an operator. KeyError for an operator that Relay does not have.

    It takes the arguments of Relay's function of that name and returns an expression, or a
    :class:`relay_layout.relay.expression.TupleWrapper` for several results. TypeError for arguments that
    do not fit its parameters, ModelError for attributes of the wrong kind.
    """
    return _function_of(TABLE[name])


@cache
def _function_of(row: Operator) -> Callable[..., Any]:
    name = row.name
    text = row.signature if row.signature is not None else _default_signature(row)
    # Binding with a function of its own gives Python's messages, with the operator's name.
    bind = eval(f"lambda {text}: locals()", {"__builtins__": {"locals": locals}})
    bind.__name__ = bind.__qualname__ = name

    def make(*args: Any, **kwargs: Any) -> Any:
        arguments = bind(*args, **kwargs)
        return _call(row, {**arguments.pop(_MORE, {}), **arguments})

    make.__name__ = make.__qualname__ = name.rsplit(".", 1)[-1]
    make.__module__ = "relay_layout.relay"
    make.__doc__ = _documentation(row)
    make.__signature__ = inspect.signature(bind)  # type: ignore[attr-defined]
    return make


def _call(row: Operator, arguments: dict[str, Any]) -> Any:
    operand_names = {operand.strip("*?") for operand in row.operands}
    attribute_names = declared(row.attributes).keys() - operand_names
    try:
        values = {
            name: told_value(value, f"{row.name}() argument '{name}'")
            if name in attribute_names and isinstance(value, tree.EXPRESSIONS)
            else _plain(value)
            for name, value in arguments.items()
        }
    except NotTold:
        if f"dyn.{row.name}" not in TABLE:
            raise
        return _call(TABLE[f"dyn.{row.name}"], arguments)
    if row.prepare is not None:
        given, attributes = row.prepare(**values)
    else:
        names = [operand.strip("*?") for operand in row.operands]
        given = [values.get(name) for name in names]
        attributes = {name: value for name, value in values.items() if name not in names}
    operands = _operands(row, list(given))
    settled = _attributes(row, attributes)
    call = tree.Call(row.name, operands, settled)
    count = row.results(given, settled) if callable(row.results) else row.results
    return call if count is None else TupleWrapper(call, count)


def _plain(value: Any) -> Any:
    """An argument with lists as tuples, and with numbers, dtypes and expressions as the tree has them."""
    if value is None or isinstance(value, bool | int | float | tree.Expression):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, TupleWrapper):
        return value.tuple_value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tvm.tirx.IntImm | tvm.tirx.FloatImm):
        return value.value
    if isinstance(value, type | np.dtype | tvm.DataType):
        return dtype_text(value)
    if isinstance(value, tvm.runtime.Tensor):
        return value.numpy()
    if isinstance(value, list | tuple | tvm.ir.Array):
        return tuple(map(_plain, value))
    return value


def _operands(row: Operator, given: list[Any]) -> tuple[tree.Expression, ...]:
    while given and given[-1] is None and len(given) > row.fewest_operands:
        given.pop()
    return tuple(_operand(row, name, value, given) for name, value in zip(row.operands, given, strict=False))


def _operand(row: Operator, name: str, value: Any, given: Sequence[Any]) -> tree.Expression:
    if isinstance(value, tree.EXPRESSIONS):
        return value
    shown = f"{row.name}() operand '{name.strip('*?')}'"
    if value is None:
        raise TypeError(f"{shown} is missing")
    if isinstance(value, tuple) and not name.startswith("*"):
        if not all(isinstance(entry, bool | int | float) for entry in value):
            raise TypeError(f"{shown} is one tensor, not a list of them")
        return const(np.array(value))
    if isinstance(value, bool | int | float) and name in _BESIDE:
        others = [
            entry
            for position, entry in zip(row.operands, given, strict=False)
            if position in _BESIDE and position != name and isinstance(entry, tree.EXPRESSIONS)
        ]
        if others:
            beside: tree.Expression = operand_beside(others[0], value)
            return beside
    try:
        return as_expression(value)
    except TypeError as error:
        raise TypeError(f"{shown}: {error}") from None


def _attributes(row: Operator, given: Mapping[str, Any]) -> dict[str, tree.AttributeValue]:
    """The attributes that differ from their defaults, checked."""
    known = declared(row.attributes)
    values = {
        name: _attribute(known.get(name), value)
        for name, value in given.items()
        if value is not None or name not in known or _takes_none(known[name])
    }
    return changed(row.attributes, complete(row.name, row.attributes, values))


def _takes_none(attribute: Attribute) -> bool:
    """Whether None is a value of an attribute rather than a wish for its default."""
    return attribute.default is None or (attribute.default is REQUIRED and attribute.kind == NODE)


def _attribute(attribute: Attribute | None, value: Any) -> Any:
    if attribute is None:
        return value
    default: Any = attribute.default
    if isinstance(default, tuple) and default and isinstance(value, int) and not isinstance(value, bool):
        return (value,) * len(default)
    if attribute.kind == DATA_TYPE and value is not None:
        return dtype_text(value)
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    return value


def _default_signature(row: Operator) -> str:
    """The operands, then the attributes with their defaults."""
    parameters = [f"{name.strip('*?')}{'=None' if name.endswith('?') else ''}" for name in row.operands]
    optional = any(name.endswith("?") for name in row.operands)
    for name, attribute in declared(row.attributes).items():
        required = attribute.default is REQUIRED
        if required and not optional:
            parameters.append(name)
        else:
            # Python allows no parameter without a default after one with; leaving it out fails all the same.
            optional = True
            parameters.append(f"{name}={None if required else attribute.default!r}")
    if row.attributes == OPEN:
        parameters.append(f"**{_MORE}")
    return ", ".join(parameters)


def _documentation(row: Operator) -> str:
    lines = [f"A call of Relay's operator {row.name}."]
    if row.operands:
        lines += ["", "Operands:"]
        for operand in row.operands:
            note = " (a list of tensors)" if operand.startswith("*") else ""
            lines.append(f"    {operand.strip('*?')}{note}{' (optional)' if operand.endswith('?') else ''}")
    if row.attributes:
        lines += ["", "Attributes and their declared defaults:"]
        for name, attribute in declared(row.attributes).items():
            default = "required" if attribute.default is REQUIRED else repr(attribute.default)
            lines.append(f"    {name} ({attribute.kind}): {default}")
    if row.results is not None:
        lines += ["", "Gives a tuple, which can be indexed and unpacked."]
    return "\n".join(lines)
