"""A script on its way: what its names mean, and the edits and notes that gather."""

import ast
from dataclasses import dataclass
from functools import cached_property

from relay_layout.port.names import HasName, Names, is_ours, old_name, reason, shown
from relay_layout.port.scopes import Scope, Scopes
from relay_layout.port.source import Edit, Source


@dataclass(frozen=True, order=True)
class NotCarried:
    """A place that a person must look at: line and column from 1, the name, and what to do instead."""

    line: int
    column: int
    name: str
    reason: str


@dataclass(frozen=True)
class Chain:
    """A dotted name of a script, such as ``tvm.nd.array``: its nodes from the first name on.

    old: what it meant to the old TVM, more than one name where different imports may have bound it.
    """

    nodes: tuple[ast.Name | ast.Attribute, ...]
    old: tuple[str, ...]

    @property
    def root(self) -> ast.Name:
        """The first name."""
        assert isinstance(self.nodes[0], ast.Name)
        return self.nodes[0]

    @property
    def parts(self) -> list[str]:
        """Its words."""
        return [node.id if isinstance(node, ast.Name) else node.attr for node in self.nodes]


class Script:
    """A parsed script, with the edits made so far and the places that cannot be carried."""

    def __init__(self, source: Source, has_name: HasName) -> None:
        self.source = source
        self.scopes = Scopes(source.tree)
        self.names = Names(has_name, with_relay=_names_relay(source.tree))
        self.edits: list[Edit] = []
        self.done: set[int] = set()
        self._notes: dict[tuple[int, str], NotCarried] = {}
        self._text_around, literal = _nodes_in_text(source.tree)
        every = list(ast.walk(source.tree))
        # Before Python 3.12 the places of what stands in an f-string are not to be relied upon.
        lost = {
            id(node)
            for node in every
            if id(node) in self._text_around and id(node) not in literal and not source.is_at(node)
        }
        self.nodes = [node for node in every if id(node) not in lost]
        self.misplaced = [node for node in every if id(node) in lost]
        names = [node for node in self.nodes if isinstance(node, ast.Name)]
        self.words = {node.id for node in names}
        self.unbound = {node.id for node in names if self.scopes.of(node).owner(node.id) is None}

    @property
    def notes(self) -> list[NotCarried]:
        """What could not be carried, in the script's order, each name once per line."""
        return sorted(self._notes.values())

    def is_in_text(self, node: ast.expr) -> bool:
        """Whether a node stands in an f-string, where quotes cannot be written freely."""
        return id(node) in self._text_around

    def text_around(self, node: ast.expr) -> ast.JoinedStr:
        """The f-string that a node stands in."""
        return self._text_around[id(node)]

    def uses(self, today: str) -> bool:
        """Whether the script names something of today's, or in it."""
        return any(name == today or name.startswith(f"{today}.") for name in self._used)

    @cached_property
    def _used(self) -> set[str]:
        chains = (self.chain(node) for node in self.nodes if isinstance(node, ast.Attribute | ast.Name))
        return {name for chain in chains if chain is not None if (name := self.today(chain.old)) is not None}

    def replace(self, start: int, end: int, text: str) -> None:
        """Notes an edit, unless it changes nothing."""
        if self.source.text[start:end] != text:
            self.edits.append(Edit(start, end, text))

    def insert(self, index: int, text: str) -> None:
        """Notes an insertion."""
        self.edits.append(Edit(index, index, text))

    def note(self, node: ast.expr | ast.stmt | ast.alias, name: str, why: str) -> None:
        """Notes a place that cannot be carried."""
        line, column = self.source.place(self.source.span(node)[0])
        self._notes.setdefault((line, name), NotCarried(line, column, name, why))

    def note_gone(self, node: ast.expr | ast.stmt | ast.alias, old: str) -> None:
        """Notes an old name that has no name today."""
        self.note(node, shown(old), reason(old))

    def chain(self, node: ast.expr) -> Chain | None:
        """The dotted name that a node is, if an import of TVM or of this package binds its first name."""
        nodes: list[ast.Name | ast.Attribute] = []
        inner = node
        while isinstance(inner, ast.Attribute):
            nodes.append(inner)
            inner = inner.value
        if not isinstance(inner, ast.Name):
            return None
        origins = self.origins(self.scopes.of(inner), inner.id)
        if not origins:
            return None
        tail = "".join(f".{part.attr}" for part in reversed(nodes) if isinstance(part, ast.Attribute))
        old = tuple(dict.fromkeys(old_name(origin + tail) for origin in origins))
        return Chain((inner, *reversed(nodes)), old)

    def origins(self, scope: Scope, name: str) -> tuple[str, ...]:
        """What imports of TVM or this package bind the name to; nothing if anything else binds it too."""
        found = [binding.origin for binding in scope.resolve(name)]
        origins = tuple(dict.fromkeys(origin for origin in found if origin is not None and is_ours(origin)))
        return origins if origins and all(origin in origins for origin in found) else ()

    def today(self, old: tuple[str, ...]) -> str | None:
        """Today's name for what different imports may have bound; None if there is none, or no single one."""
        found = {self.names.today(old_name(name)) for name in old}
        return found.pop() if len(found) == 1 else None


def _names_relay(tree: ast.Module) -> bool:
    """Whether a script imports Relay, or something of it, or says ``tvm.relay``."""
    for node in ast.walk(tree):
        words: list[str] = [node.attr] if isinstance(node, ast.Attribute) else []
        if isinstance(node, ast.Import | ast.ImportFrom):
            words = [word for alias in node.names for word in alias.name.split(".")]
        if isinstance(node, ast.ImportFrom):
            words += (node.module or "").split(".")
        if "relay" in words:
            return True
    return False


def _nodes_in_text(tree: ast.Module) -> tuple[dict[int, ast.JoinedStr], set[int]]:
    """The nodes in f-strings, each with the outermost one, and which of them are its literal text."""
    around: dict[int, ast.JoinedStr] = {}
    literal: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            literal.update(id(value) for value in node.values if isinstance(value, ast.Constant))
            if id(node) not in around:
                around.update((id(inner), node) for value in node.values for inner in ast.walk(value))
    return around, literal
