"""The attributes of one Relay call, complete: what was given, and the operator's defaults for the rest."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from relay_layout.errors import ModelError
from relay_layout.relay.syntax.attribute_kinds import (
    BOOLEAN,
    DATA_TYPE,
    DOUBLE,
    INTEGER,
    REQUIRED,
    TEXT,
    Attribute,
    Declaration,
)
from relay_layout.relay.syntax.attribute_table import declaration
from relay_layout.relay.syntax.data_types import NAMES
from relay_layout.relay.syntax.tree import AttributeValue

_BOOKKEEPING = frozenset({"auto_scheduler_rewritten_layout", "meta_schedule_original_shape"})
"""What Relay's own tuners noted on a call; it changes nothing that the call computes."""

_MOST_ELEMENTS = 65536
"""The longest list that an attribute may hold."""

_LARGEST = 2**63

OPEN = "DictAttrs"
"""The declaration of operators that take attributes of any name."""


class Attributes(Mapping[str, Any]):
    """Attributes by name, also as Python attributes: ``attrs["strides"]`` and ``attrs.strides``.

    Lists are tuples; an attribute that is absent and has no other default is None. ``dict(attrs)`` is a
    copy that a layout callback may change and hand to the operator again.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._values[name]
        except KeyError:
            known = ", ".join(self._values) or "none"
            raise AttributeError(f"no attribute '{name}'; there are {known}") from None

    def __repr__(self) -> str:
        return f"Attributes({self._values!r})"

    def get_int(self, name: str) -> int:
        """One number, as Relay's ``Attrs`` gives it."""
        return int(self._values[name])

    def get_int_tuple(self, name: str) -> tuple[int, ...]:
        """A list of numbers, as Relay's ``Attrs`` gives it."""
        return tuple(int(value) for value in self._values[name])

    def get_str(self, name: str) -> str:
        """A text, as Relay's ``Attrs`` gives it."""
        return str(self._values[name])


def declared(key: str | None) -> Declaration:
    """The declaration behind a key such as ``"Conv2DAttrs"``; nothing for None and OPEN."""
    return (declaration(f"relay.attrs.{key}") or {}) if key else {}


def complete(operator: str, key: str | None, given: Mapping[str, AttributeValue]) -> Attributes:
    """``given`` checked against the declaration, with defaults filled in.

    ModelError for an attribute that the operator does not have, lacks, or that is of another kind.
    """
    if key == OPEN:
        return Attributes({name: _checked_node(operator, name, value) for name, value in given.items()})
    known = declared(key)
    for name in given:
        if name not in known and name not in _BOOKKEEPING:
            raise ModelError(
                f"{operator} has no attribute '{name}'; it has {', '.join(known) if known else 'none'}"
            )
    values: dict[str, Any] = {}
    for name, attribute in known.items():
        if name in given:
            values[name] = _checked(operator, name, attribute, given[name])
        elif attribute.default is not REQUIRED:
            values[name] = attribute.default
        elif attribute.before is not REQUIRED:
            values[name] = attribute.before
        else:
            raise ModelError(f"{operator} needs the attribute '{name}'")
    return Attributes(values)


def changed(key: str | None, attributes: Mapping[str, Any]) -> dict[str, AttributeValue]:
    """The attributes that differ from their default: what Relay prints."""
    if key == OPEN:
        return dict(attributes)
    return {
        name: attributes[name]
        for name, attribute in declared(key).items()
        if name in attributes and not _equal(attributes[name], attribute.default)
    }


def _equal(value: Any, default: Any) -> bool:
    if default is REQUIRED:
        return False
    return (type(value) is type(default) and value == default) or (value is None and default is None)


def _checked(operator: str, name: str, attribute: Attribute, value: Any) -> Any:
    kind = attribute.kind
    if isinstance(value, bool | np.bool_) and kind in (INTEGER, BOOLEAN):
        return bool(value) if kind == BOOLEAN else int(value)
    if kind in (INTEGER, BOOLEAN) and isinstance(value, int) and abs(value) < _LARGEST:
        return bool(value) if kind == BOOLEAN else value
    if kind == DOUBLE and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if kind == TEXT and isinstance(value, str):
        return value
    if kind == DATA_TYPE and (value in (None, "") or (isinstance(value, str) and value in NAMES)):
        return value or None
    if kind == DATA_TYPE and isinstance(value, str):
        raise ModelError(f"{operator}: there is no data type {shown(value)}")
    if kind not in (INTEGER, BOOLEAN, DOUBLE, TEXT, DATA_TYPE):
        return _checked_node(operator, name, value)
    raise ModelError(f"{operator}: attribute '{name}' is of kind {kind}, not {shown(value)}")


def _checked_node(operator: str, name: str, value: Any) -> Any:
    if isinstance(value, int) and abs(value) >= _LARGEST:
        raise ModelError(f"{operator}: attribute '{name}' is {value}, which has more than 64 bits")
    if isinstance(value, tuple):
        if len(value) > _MOST_ELEMENTS:
            raise ModelError(
                f"{operator}: attribute '{name}' has {len(value)} elements, over {_MOST_ELEMENTS}"
            )
        for element in value:
            _checked_node(operator, name, element)
    return value


def shown(value: Any) -> str:
    """A value of an attribute in messages, at most 40 characters of it."""
    text = "a mapping" if isinstance(value, Mapping) else repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
