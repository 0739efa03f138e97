"""Rows for Relay operators that Relax has too: both directions from one list of attributes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import relax

from relay_layout.ir import Expression, operator_name
from relay_layout.relay.operators.attributes import Attributes
from relay_layout.relay.operators.operator import Operator, Scope


@dataclass(frozen=True)
class Field:
    """One attribute under its name in Relax, and its value in either direction."""

    relax_name: str
    to_relax: Callable[[Any], Any] = lambda value: value
    to_relay: Callable[[Any], Any] = lambda value: plain(value)


def plain(value: Any) -> Any:
    """An attribute of a Relax call as Python has it: tuples, ints, floats, text."""
    if value is None or isinstance(value, bool | str):
        return value if not isinstance(value, str) else str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if hasattr(value, "value"):
        return plain(value.value)
    if hasattr(value, "__len__"):
        return tuple(plain(element) for element in value)
    return str(value)


def named_attributes(call: relax.Call, *names: str) -> dict[str, Any]:
    """Attributes of a Relax call that Relay calls and means the same."""
    return {name: plain(getattr(call.attrs, name)) for name in names}


def relax_function(name: str) -> Callable[..., Expression]:
    """The Python function behind ``"nn.conv2d"``."""
    function: Any = relax.op
    for part in name.split("."):
        function = getattr(function, part)
    return function


def direct(
    name: str,
    operands: str,
    attributes: str | None = None,
    *,
    relax_name: str | None = None,
    fields: Mapping[str, Field | str] | None = None,
    fixed: Mapping[str, Any] | None = None,
    accepts: Callable[[relax.Call], bool] = lambda call: True,
    omit: Callable[[dict[str, Any], relax.Call], dict[str, Any]] = lambda values, call: values,
    **row: Any,
) -> Operator:
    """A row for an operator with the same operands and, but for names, the same attributes.

    ``fields`` maps Relay's attribute names to those of Relax (a text for another name alone); attributes
    that it leaves out do not matter to Relax. ``fixed`` are further keyword arguments of the Relax function,
    always the same; ``accepts`` tells which Relax calls print as this operator, and ``omit`` may change
    the attributes that are printed.
    """
    target = relax_name or name
    mapped = {
        relay_name: Field(entry) if isinstance(entry, str) else entry
        for relay_name, entry in (fields or {}).items()
    }

    def build(scope: Scope, values: Sequence[Expression], given: Attributes) -> Expression:
        keywords = {
            field.relax_name: field.to_relax(given[relay_name]) for relay_name, field in mapped.items()
        }
        return relax_function(target)(*values, **keywords, **(fixed or {}))

    def export(call: relax.Call) -> Mapping[str, Any] | None:
        if operator_name(call) != target or not accepts(call):
            return None
        values = {
            relay_name: field.to_relay(getattr(call.attrs, field.relax_name))
            for relay_name, field in mapped.items()
        }
        return omit(values, call)

    return Operator(
        name,
        tuple(operands.split()),
        build,
        attributes,
        relax_names=(target,),
        export=export,
        **row,
    )
