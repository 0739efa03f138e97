"""Relay text cut into tokens."""

import re
from typing import NamedTuple

from relay_layout.errors import ModelError
from relay_layout.relay.syntax.source import Source, shorten

# A dot, slash, dollar or hyphen joins a name only where another character of the name follows at once; a
# colon only before a digit (`%input:0`), because `%x:float32` has a type.
VARIABLE_NAME = r"[^\W\d]\w*(?:[./$-]\w+|:[0-9]\w*)*"
OPERATOR_NAME = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"

_TOKEN = re.compile(
    rf"""
      (?P<space>\s+|//[^\n]*)
    | (?P<comment>/\*)
    | (?P<metadata>\#\[\s*metadata\s*\])
    | (?P<version>\#\[\s*version\s*=\s*"[^"\n]*"\s*\])
    | (?P<local>%{VARIABLE_NAME})
    | (?P<graph>%[0-9]+(?!\w))
    | (?P<global>@{VARIABLE_NAME})
    | (?P<meta>meta\[[^\]\n]*\]\[[0-9]+\])
    | (?P<string>"[^"]*")
    | (?P<number>
        -?(?:inf|nan)f(?:16|32|64)?(?![\w.]|\s*[=(])
        | -?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?:[fiu][0-9]*)?(?!\w)
      )
    | (?P<name>{OPERATOR_NAME})
    | (?P<projection>\.[0-9]+(?!\w))
    | (?P<symbol>->|[<>=!]=|[(){{}}\[\],:;=?+*/<>-])
    """,
    re.VERBOSE,
)
_COMMENT_MARK = re.compile(r"/\*|\*/")


class Token(NamedTuple):
    """A token: what it is, its text without ``%``, ``@`` or quotes, and where it starts.

    Kinds: local, graph, global, meta, string, number, name, projection, symbol, version, metadata, end.
    The text of ``metadata`` is all that follows it.
    """

    kind: str
    text: str
    offset: int


def describe(token: Token) -> str:
    """What a message says was found."""
    if token.kind == "end":
        return "the end of the file"
    if token.kind == "metadata":
        return "#[metadata]"
    if token.kind == "version":
        return "#[version]"
    if token.kind == "string":
        return f'the string "{shorten(token.text)}"'
    mark = {"local": "%", "global": "@"}.get(token.kind, "")
    return f"'{mark}{shorten(token.text)}'"


def _end_of_comment(source: Source, start: int) -> int:
    depth = 0
    for mark in _COMMENT_MARK.finditer(source.text, start):
        depth += 1 if mark.group() == "/*" else -1
        if depth == 0:
            return mark.end()
    raise source.error(start, "expected '*/' to end this comment, found the end of the file")


def _bad_character(source: Source, offset: int) -> ModelError:
    text = source.text
    character = text[offset]
    if character == '"':
        return source.error(offset, "expected '\"' to end this string, found the end of the file")
    if character.isdigit() or (character == "-" and text[offset + 1 : offset + 2].isdigit()):
        found = re.compile(r"[-\w.+]+").match(text, offset)
        literal = shorten(found.group() if found else character)
        return source.error(offset, f"expected a number such as 1, 1i64, 2f or 1e-05f, found '{literal}'")
    if character == "#":
        return source.error(offset, "expected #[version = \"0.0.5\"] or #[metadata], found '#'")
    if character in "%@":
        return source.error(offset, f"expected a name after '{character}'")
    return source.error(offset, f"expected Relay text, found the character {character!a}")


def tokenize(source: Source) -> list[Token]:
    """All tokens of a text, the last of kind ``end``.

    Raises ModelError with the position of what is no token: a stray character, a malformed number, a
    comment or string without an end.
    """
    text = source.text
    tokens: list[Token] = []
    offset = 0
    while offset < len(text):
        match = _TOKEN.match(text, offset)
        kind = match.lastgroup if match else None
        if match is None or kind is None:
            raise _bad_character(source, offset)
        if kind == "comment":
            offset = _end_of_comment(source, offset)
            continue
        if kind == "metadata":
            tokens.append(Token(kind, text[match.end() :], match.end()))
            break
        if kind == "number" and match.group()[0] == "-" and tokens and _ends_operand(tokens[-1]):
            tokens.append(Token("symbol", "-", offset))
            offset += 1
            continue
        if kind != "space":
            tokens.append(Token(kind, _token_text(kind, match.group()), offset))
        offset = match.end()
    tokens.append(Token("end", "", len(text)))
    return tokens


def _ends_operand(token: Token) -> bool:
    """Whether a minus behind a token subtracts."""
    return token.kind in ("local", "graph", "meta", "number", "projection") or token.text == ")"


def _token_text(kind: str, text: str) -> str:
    if kind in ("local", "global", "projection"):
        return text[1:]
    if kind == "string":
        return text[1:-1]
    if kind == "version":
        return text.split('"')[1]
    return text
