"""Import statements: each name from the module that has it today."""

import ast
import re
from dataclasses import dataclass

from relay_layout.port.names import is_ours, old_name
from relay_layout.port.script import Script

_COMMA = re.compile(r"[\s\\]*,")
_FROM = re.compile(r"from(?:[\s\\])+([\w.]+)")


@dataclass(frozen=True)
class _Name:
    """A name of a ``from`` import, and where it comes from today: as before if it cannot be carried."""

    alias: ast.alias
    module: str
    name: str

    @property
    def text(self) -> str:
        bound = self.alias.asname or self.alias.name
        if self.name != self.alias.name and self.name == bound:
            return self.name
        return _as(self.name, bound, self.alias)


def port_imports(script: Script) -> None:
    """Rewrites the imports of what has moved, and notes those of what is gone."""
    for node in script.nodes:
        if isinstance(node, ast.ImportFrom) and not node.level and is_ours(node.module or ""):
            _port_from(script, node)
        elif isinstance(node, ast.Import) and any(is_ours(alias.name) for alias in node.names):
            _port_import(script, node)


def _port_from(script: Script, statement: ast.ImportFrom) -> None:
    module = statement.module or ""
    names = [_ported_name(script, module, alias) for alias in statement.names]
    modules = list(dict.fromkeys(name.module for name in names))
    # What stays where it is keeps the statement; otherwise the first that moves does.
    kept = module if module in modules else modules[0]
    source = script.source
    start, _ = source.span(statement)
    found = _FROM.match(source.text, start)
    if found is None:  # spaces around the dots
        if any(name.module != module for name in names):
            script.note(statement, f"from {module}", "write the module's name without spaces")
        return
    if kept != module:
        script.replace(found.start(1), found.end(1), kept)
    moved = [name for name in names if name.module != kept]
    if moved:
        lines = [
            f"from {other} import {', '.join(name.text for name in moved if name.module == other)}"
            for other in modules
            if other != kept
        ]
        _insert_before(script, statement, lines)
    _remove(script, statement, [name.module != kept for name in names])
    for name in names:
        if name.module == kept and name.name != name.alias.name:
            script.replace(*source.span(name.alias), name.text)


def _ported_name(script: Script, module: str, alias: ast.alias) -> _Name:
    if alias.name == "*":
        today = script.names.today(old_name(module))
        if today is None:
            script.note_gone(alias, old_name(module))
        if module == "tvm":
            script.note(alias, "from tvm import *", "which names it brings is not known; import them by name")
        return _Name(alias, today or module, "*")
    today = script.names.to_import(old_name(f"{module}.{alias.name}"))
    if today is None:
        script.note_gone(alias, old_name(f"{module}.{alias.name}"))
        return _Name(alias, module, alias.name)
    if today == f"{module}.{alias.name}":
        return _Name(alias, module, alias.name)
    parent, _, leaf = today.rpartition(".")
    return _Name(alias, parent, leaf) if parent else _Name(alias, module, alias.name)


def _remove(script: Script, statement: ast.ImportFrom, going: list[bool]) -> None:
    """Takes names out of the list, of which at least one stays."""
    source = script.source
    spans = [source.span(alias) for alias in statement.names]
    in_parentheses = source.text[source.span(statement)[1] - 1] == ")"
    last_kept = max(index for index, goes in enumerate(going) if not goes)
    for index, (start, end) in enumerate(spans):
        if not going[index]:
            continue
        if in_parentheses:
            previous = spans[index - 1][1] if index and not going[index - 1] else None
            script.replace(*_with_comma(script, start, end, previous), "")
        elif index < last_kept:
            script.replace(start, spans[index + 1][0], "")
        else:
            script.replace(spans[index - 1][1], end, "")


def _with_comma(script: Script, start: int, end: int, previous: int | None) -> tuple[int, int]:
    """A name in parentheses with its comma; with its lines, if nothing else stands on them.

    previous: where a name that stays ends before it.
    """
    source = script.source
    comma = _COMMA.match(source.text, end)
    if comma is not None:
        end = comma.end()
    elif previous is not None and source.text[previous:start].strip() == ",":
        return previous, end
    line_start, line_end = source.line_start(start), source.line_end(end)
    after = source.text[end:line_end]
    if not after.strip() and not source.text[line_start:start].strip():
        return line_start, source.next_line(line_end)
    return start, end + len(after) - len(after.lstrip(" \t"))


def _port_import(script: Script, statement: ast.Import) -> None:
    kept: list[str] = []
    moved: list[str] = []
    changed = False
    for alias in statement.names:
        text = _as(alias.name, alias.asname or alias.name, alias)
        today = script.names.today(old_name(alias.name)) if is_ours(alias.name) else alias.name
        if today is None:
            script.note_gone(alias, old_name(alias.name))
            kept.append(text)
        elif today == alias.name:
            kept.append(text)
        elif alias.asname is not None:
            changed = True
            parent, _, leaf = today.rpartition(".")
            name = leaf if leaf == alias.asname else f"{leaf} as {alias.asname}"
            moved.append(f"from {parent} import {name}")
        else:
            changed = True
            line = "tvm" if not today.startswith("tvm.") else today
            if line != "tvm" or not _is_bound_before(script, statement, "tvm"):
                kept.append(line)
    if not changed:
        return
    start, end = script.source.span(statement)
    lines = moved + ([f"import {', '.join(dict.fromkeys(kept))}"] if kept else [])
    if lines:
        script.replace(start, end, _separator(script, statement).join(lines))
    else:
        _delete(script, statement)


def _is_bound_before(script: Script, statement: ast.Import, name: str) -> bool:
    """Whether an earlier import of the same scope binds the name, and nothing else does."""
    scope = script.scopes.of(statement)
    found = scope.bindings.get(name, [])
    return bool(script.origins(scope, name)) and any(
        binding.unconditional
        and binding.statement is not None
        and binding.statement.lineno < statement.lineno
        for binding in found
    )


def _delete(script: Script, statement: ast.stmt) -> None:
    """Takes a statement of no effect out, with its line if it has one of its own at the outermost level."""
    source = script.source
    start, end = source.span(statement)
    line_start, line_end = source.line_start(start), source.line_end(end)
    if start == line_start and line_end == end and statement in source.tree.body:
        script.replace(start, source.next_line(line_end), "")
    else:
        script.replace(start, end, "import tvm")


def _insert_before(script: Script, statement: ast.stmt, lines: list[str]) -> None:
    separator = _separator(script, statement)
    script.insert(script.source.span(statement)[0], "".join(line + separator for line in lines))


def _separator(script: Script, statement: ast.stmt) -> str:
    """What stands between two statements in the place of one."""
    source = script.source
    start, _ = source.span(statement)
    indentation = source.text[source.line_start(start) : start]
    return source.newline + indentation if not indentation.strip() else "; "


def _as(name: str, bound: str, alias: ast.alias) -> str:
    return f"{name} as {bound}" if alias.asname is not None or name != bound else name
