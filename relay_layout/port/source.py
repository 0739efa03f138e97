"""A script's text: where its nodes stand in it, and how it is changed without touching the rest."""

import ast
import bisect
import io
import re
import tokenize
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

from relay_layout.errors import InputError

_LINE_END = re.compile(r"\r\n|\r|\n")
_BETWEEN = re.compile(r"(?:[\s\\)]|#[^\r\n]*)*")


@dataclass(frozen=True)
class Edit:
    """The characters from ``start`` to ``end`` become ``text``; an insertion where the two are equal."""

    start: int
    end: int
    text: str


class Source:
    """A script, parsed.

    Raises InputError, with the place after ``name``, for what is no Python of this interpreter.
    """

    def __init__(self, data: bytes, name: str = "script") -> None:
        self.text, self.encoding = _decoded(data, name)
        self._line_starts = [0, *(match.end() for match in _LINE_END.finditer(self.text))]
        self.tree = self._parsed(name)
        first = _LINE_END.search(self.text)
        self.newline = first.group() if first else "\n"

    def _parsed(self, name: str) -> ast.Module:
        try:
            with warnings.catch_warnings():
                # Of the script, such as "\d" in a string: none of our business.
                warnings.simplefilter("ignore")
                return ast.parse(self.text)
        except SyntaxError as error:
            place = f"{name}:{error.lineno or 1}:{max(error.offset or 1, 1)}"
            raise InputError(f"{place}: this is no Python 3: {error.msg}") from None
        except (ValueError, RecursionError, MemoryError) as error:
            reason = "it is nested too deeply" if not isinstance(error, ValueError) else str(error)
            raise InputError(f"{name}: cannot be parsed: {reason}") from None

    def offset(self, line: int, column: int) -> int:
        """The index of a character, from ``ast``'s line (from 1) and column (in UTF-8 bytes)."""
        start = self._line_starts[line - 1]
        # Every character has at least one byte.
        piece = self.text[start : start + column]
        if piece.isascii():
            return start + column
        return start + len(piece.encode()[:column].decode())

    def span(self, node: ast.expr | ast.stmt | ast.alias | ast.keyword) -> tuple[int, int]:
        """Where a node begins and ends."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset)

    def is_at(self, node: ast.AST) -> bool:
        """Whether a node is where it says: the text there is the node's."""
        if not isinstance(node, ast.expr | ast.keyword) or isinstance(
            node, ast.JoinedStr | ast.FormattedValue
        ):
            return True
        try:
            start, end = self.span(node)
            text = self.text[start:end]
            if isinstance(node, ast.keyword):
                return text.startswith(node.arg or "**")
            return ast.dump(ast.parse(f"({text})", mode="eval").body) == ast.dump(node)
        except (SyntaxError, ValueError, IndexError, RecursionError, MemoryError):
            return False

    def place(self, index: int) -> tuple[int, int]:
        """Line and column of a character, both from 1, in characters."""
        line = bisect.bisect_right(self._line_starts, index)
        return line, index - self._line_starts[line - 1] + 1

    def line_start(self, index: int) -> int:
        """Where the line begins that the character stands in."""
        return self._line_starts[self.place(index)[0] - 1]

    def line_end(self, index: int) -> int:
        """Where that line ends, before its line break."""
        match = _LINE_END.search(self.text, index)
        return match.start() if match else len(self.text)

    def next_line(self, line_end: int) -> int:
        """Where the line after the one that ends here begins."""
        match = _LINE_END.match(self.text, line_end)
        return match.end() if match else line_end

    def after_gap(self, index: int) -> int:
        """The next character from ``index`` on that is no space, comment or closing parenthesis."""
        match = _BETWEEN.match(self.text, index)
        assert match is not None
        return match.end()

    def applied(self, edits: Iterable[Edit]) -> bytes:
        """The script with the edits, which must not overlap, in its own encoding."""
        pieces, position = [], 0
        for edit in _in_order(edits):
            assert edit.start >= position, f"overlapping edits at {self.place(edit.start)}: {edit}"
            pieces += [self.text[position : edit.start], edit.text]
            position = edit.end
        pieces.append(self.text[position:])
        return "".join(pieces).encode(self.encoding)

    def changed_lines(self, edits: Iterable[Edit]) -> int:
        """How many of the script's lines the edits touch."""
        lines: set[int] = set()
        for edit in edits:
            lines.update(range(self.place(edit.start)[0], self.place(edit.end)[0] + 1))
        return len(lines)


def _in_order(edits: Iterable[Edit]) -> list[Edit]:
    # Sorting is stable: of several insertions at one place the first made comes first.
    return sorted(edits, key=lambda edit: (edit.start, edit.end))


def _decoded(data: bytes, name: str) -> tuple[str, str]:
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
        unchanged = text.encode(encoding) == data
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{name}:{line}: this is no {error.encoding} text: {error.reason}") from None
    except (SyntaxError, LookupError, ValueError) as error:
        raise InputError(f"{name}: its encoding cannot be told: {error}") from None
    if not unchanged:
        raise InputError(f"{name}: text in the encoding {encoding} cannot be changed byte for byte")
    return text, encoding
