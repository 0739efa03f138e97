"""The fields of a JSON node, once the nodes that they refer to have been made, checked as they are read."""

from collections.abc import Mapping
from dataclasses import dataclass

from relay_layout.errors import ModelError
from relay_layout.relay.syntax import data_types
from relay_layout.relay.syntax.json_nodes import NodeTable
from relay_layout.relay.syntax.relay_types import TYPES, RelayType
from relay_layout.relay.syntax.source import shorten
from relay_layout.relay.syntax.tree import EXPRESSIONS, AttributeValue, Expression, Var


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator, which can stand as what a call calls only."""

    name: str


@dataclass(frozen=True, slots=True)
class Attributes:
    """The attributes of a call, or those of a function or a module."""

    values: Mapping[str, AttributeValue]


@dataclass(frozen=True, slots=True)
class Pairs:
    """A map whose keys are not strings."""

    entries: tuple[tuple[object, object], ...]


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A node that may stand where nobody looks, such as the device of an expression."""

    type_key: str


class NodeView:
    """A node whose fields have been made."""

    def __init__(self, table: NodeTable, index: int, made: Mapping[int, object]) -> None:
        self.table = table
        self.index = index
        self._made = made

    def error(self, message: str) -> ModelError:
        """The error to raise for this node."""
        return self.table.error(self.index, message)

    def value(self, field: str) -> object:
        """What a field refers to."""
        return self._made[self.table.reference(self.index, field)]

    def items(self) -> tuple[object, ...]:
        """What the entries of a list or a map refer to."""
        return tuple(self._made[entry] for entry in self.table.data(self.index))

    def expression(self, field: str) -> Expression:
        """A field that is an expression."""
        value = self.value(field)
        if not isinstance(value, EXPRESSIONS):
            raise self.mismatch(field, "an expression", value)
        return value

    def expressions(self, field: str) -> tuple[Expression, ...]:
        """A field that is a list of expressions."""
        value = self.value(field)
        if not isinstance(value, tuple):
            raise self.mismatch(field, "a list of expressions", value)
        for item in value:
            if not isinstance(item, EXPRESSIONS):
                raise self.mismatch(field, "a list of expressions", item)
        return value

    def variables(self, field: str) -> tuple[Var, ...]:
        """A field that is a list of variables, each there once."""
        value = self.value(field)
        if not isinstance(value, tuple):
            raise self.mismatch(field, "a list of variables", value)
        for item in value:
            if not isinstance(item, Var):
                raise self.mismatch(field, "a list of variables", item)
        if len(set(value)) != len(value):
            raise self.error(f"a variable is there twice in field '{field}'")
        return value

    def type(self, field: str) -> RelayType | None:
        """A field that is a type; None when it is null or not yet inferred."""
        value = self.value(field)
        if value is None or (isinstance(value, Unsupported) and value.type_key == "IncompleteType"):
            return None
        if not isinstance(value, TYPES):
            raise self.mismatch(field, "a type", value)
        return value

    def types(self, field: str) -> tuple[RelayType, ...]:
        """A field that is a list of types."""
        value = self.value(field)
        if not isinstance(value, tuple):
            raise self.mismatch(field, "a list of types", value)
        for item in value:
            if not isinstance(item, TYPES):
                raise self.mismatch(field, "a list of types", item)
        return value

    def attributes(self, field: str) -> Mapping[str, AttributeValue]:
        """A field that holds attributes, or is null."""
        value = self.value(field) if field in self.table.fields(self.index) else None
        if value is None:
            return {}
        if not isinstance(value, Attributes):
            raise self.mismatch(field, "attributes", value)
        return value.values

    def string(self, field: str) -> str:
        """A field that refers to text."""
        value = self.value(field)
        if not isinstance(value, str):
            raise self.mismatch(field, "text", value)
        return value

    def text(self, field: str) -> str:
        """A field that holds text or refers to it."""
        node = self.table.text_reference(self.index, field)
        if node is None:
            return self.table.field(self.index, field)
        value = self._made[node]
        if not isinstance(value, str):
            raise self.mismatch(field, "text", value)
        return value

    def data_type(self, field: str) -> str | None:
        """A field that names a data type, or none."""
        name = self.table.field(self.index, field)
        if name in ("", "void"):
            return None
        if name not in data_types.NAMES:
            raise self.error(
                f"unknown data type '{shorten(name)}' in field '{field}'; known are {data_types.listed()}"
            )
        return name

    def empty(self, field: str, what: str) -> None:
        """Refuse a field that is there and not empty."""
        if field in self.table.fields(self.index) and self.value(field):
            raise self.error(f"{what} are not supported")

    def mismatch(self, field: str, expected: str, value: object) -> ModelError:
        """The error to raise for a field of the wrong type."""
        found = "null" if value is None else type(value).__name__
        if isinstance(value, Unsupported):
            found = f"a {shorten(value.type_key)}"
        return self.error(f"expected field '{field}' to be {expected}, found {found}")
