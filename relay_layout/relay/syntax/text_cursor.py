"""Relay text read token by token: the position, and the parts that hold no expressions."""

from functools import partial
from typing import NoReturn

from relay_layout.errors import ModelError
from relay_layout.relay.syntax import data_types
from relay_layout.relay.syntax.lexer import Token, describe, tokenize
from relay_layout.relay.syntax.literals import LiteralError, parse_number
from relay_layout.relay.syntax.metadata_section import MetadataSection
from relay_layout.relay.syntax.relay_types import MAX_TYPE_NESTING, FuncType, RelayType, TensorType, TupleType
from relay_layout.relay.syntax.source import Source
from relay_layout.relay.syntax.tree import AttributeValue

# A tensor's size in bytes must fit a signed 64-bit integer, whatever its data type.
_MAX_ELEMENTS = 2**59


class Cursor:
    """A position within the tokens of a text."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.tokens = tokenize(source)
        self._index = 0
        self.metadata = MetadataSection.absent()
        if len(self.tokens) > 1 and self.tokens[-2].kind == "metadata":
            section = self.tokens[-2]
            self.metadata = MetadataSection.read(section.text, source.name, source.span(section.offset).line)

    @property
    def token(self) -> Token:
        """The token to be read next."""
        return self.tokens[self._index]

    def advance(self) -> Token:
        """Read a token, which is not the end."""
        token = self.tokens[self._index]
        self._index += 1
        return token

    def is_symbol(self, text: str) -> bool:
        """Whether the next token is this symbol."""
        return self.token.kind == "symbol" and self.token.text == text

    def is_word(self, text: str) -> bool:
        """Whether the next token is this keyword."""
        return self.token.kind == "name" and self.token.text == text

    def is_attribute(self) -> bool:
        """Whether ``name =`` comes next."""
        return self.token.kind == "name" and self.next_is("=")

    def next_is(self, text: str) -> bool:
        """Whether the token after the next one is this symbol."""
        if self.token.kind == "end":
            return False
        following = self.tokens[self._index + 1]
        return following.kind == "symbol" and following.text == text

    def accept(self, text: str) -> bool:
        """Read a symbol if it comes next."""
        if self.is_symbol(text):
            self._index += 1
            return True
        return False

    def expect(self, *symbols: str) -> None:
        """Read the first of the symbols; the others are what a message says could stand here as well."""
        if not self.accept(symbols[0]):
            self.fail(" or ".join(f"'{symbol}'" for symbol in symbols))

    def expect_word(self, text: str) -> None:
        """Read a keyword."""
        if not self.is_word(text):
            self.fail(f"'{text}'")
        self._index += 1

    def expect_kind(self, kind: str, what: str) -> Token:
        """Read a token of a kind; ``what`` is its name in a message."""
        if self.token.kind != kind:
            self.fail(what)
        return self.advance()

    def fail(self, expected: str) -> NoReturn:
        """Raise the error that something else was expected here."""
        raise self.error(self.token, f"expected {expected}, found {describe(self.token)}")

    def error(self, token: Token, message: str) -> ModelError:
        """The error to raise for a token."""
        return self.source.error(token.offset, message)

    def number(self, attribute: bool = False) -> tuple[int | float, str]:
        """Read a number, as it stands in an expression or in an attribute: its value and its data type."""
        token = self.expect_kind("number", "a number")
        try:
            return parse_number(token.text, attribute)
        except LiteralError as error:
            raise self.error(token, f"{error}, found {describe(token)}") from None


def read_type(cursor: Cursor, nesting: int = 0) -> RelayType:
    """Read a type."""
    token = cursor.token
    if nesting > MAX_TYPE_NESTING:
        raise cursor.error(token, f"expected a type that nests at most {MAX_TYPE_NESTING} deep")
    if cursor.accept("("):
        return TupleType(_read_type_list(cursor, nesting))
    if token.kind != "name":
        cursor.fail("a type such as Tensor[(1, 3), float32], float32, (float32, float32) or fn (...) -> ...")
    cursor.advance()
    if token.text == "fn":
        cursor.expect("(")
        parameters = _read_type_list(cursor, nesting)
        cursor.expect("->")
        return FuncType(parameters, read_type(cursor, nesting + 1))
    if token.text == "Tensor":
        cursor.expect("[")
        shape = _read_shape(cursor)
        cursor.expect(",")
        dtype = _data_type(cursor, cursor.expect_kind("name", "a data type"))
        cursor.expect("]")
        return TensorType(shape, dtype)
    return TensorType((), _data_type(cursor, token))


def _read_type_list(cursor: Cursor, nesting: int) -> tuple[RelayType, ...]:
    types: list[RelayType] = []
    while not cursor.is_symbol(")"):
        types.append(read_type(cursor, nesting + 1))
        if not cursor.accept(","):
            break
    cursor.expect(")", ",")
    return tuple(types)


def _data_type(cursor: Cursor, token: Token) -> str:
    if token.text not in data_types.NAMES:
        raise cursor.error(
            token, f"expected a data type, found {describe(token)}; known are {data_types.listed()}"
        )
    return token.text


def _read_shape(cursor: Cursor) -> tuple[int | None, ...]:
    start = cursor.token
    cursor.expect("(")
    shape: list[int | None] = []
    elements = 1
    while not cursor.is_symbol(")"):
        dimension = _read_dimension(cursor)
        shape.append(dimension)
        # A dimension of zero must not hide that the others are impossible.
        elements *= dimension or 1
        if elements > _MAX_ELEMENTS:
            raise cursor.error(
                start, "expected a shape whose tensor can exist: this one has too many elements"
            )
        if not cursor.accept(","):
            break
    cursor.expect(")", ",")
    return tuple(shape)


def _read_dimension(cursor: Cursor) -> int | None:
    token = cursor.token
    # The metadata section has dimensions that are computed from others.
    if token.kind == "meta" or cursor.is_symbol("?"):
        cursor.advance()
        return None
    if token.kind != "number":
        cursor.fail("a dimension: a number or '?'")
    value, _ = cursor.number()
    if not isinstance(value, int) or value < 0:
        raise cursor.error(token, f"expected a dimension of zero or more, found {describe(token)}")
    return value


def read_attribute(cursor: Cursor, attrs: dict[str, AttributeValue]) -> None:
    """Read ``name=value`` into ``attrs``."""
    token = cursor.advance()
    cursor.expect("=")
    if token.text in attrs:
        raise cursor.error(token, f"attribute '{token.text}' is given twice")
    attrs[token.text] = read_attribute_value(cursor)


def read_attribute_value(cursor: Cursor, nesting: int = 0) -> AttributeValue:
    """Read the value of an attribute; a list is a tuple."""
    token = cursor.token
    if nesting > MAX_TYPE_NESTING:
        raise cursor.error(token, f"expected a list that nests at most {MAX_TYPE_NESTING} deep")
    if token.kind == "number":
        return cursor.number(attribute=True)[0]
    if token.kind == "string":
        return cursor.advance().text
    if token.kind == "meta":
        cursor.advance()
        return cursor.metadata.attribute(token.text, partial(cursor.error, token))
    if token.kind == "name" and token.text in _NAMED_VALUES:
        return _NAMED_VALUES[cursor.advance().text]
    if cursor.accept("?"):
        return None
    for opening, closing in (("[", "]"), ("(", ")")):
        if cursor.accept(opening):
            values: list[AttributeValue] = []
            comma = False
            while not cursor.is_symbol(closing):
                values.append(read_attribute_value(cursor, nesting + 1))
                comma = cursor.accept(",")
                if not comma:
                    break
            cursor.expect(closing, ",")
            grouping = opening == "(" and len(values) == 1 and not comma
            return values[0] if grouping else tuple(values)
    cursor.fail('the value of an attribute: a number, a "string", True, False, None or a [list]')


_NAMED_VALUES: dict[str, bool | None] = {"True": True, "False": False, "None": None, "nullptr": None}
