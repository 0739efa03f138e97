"""Names to write ``relay`` and ``tvm`` with, at any place of a script; imports that it needs for them."""

import ast

from relay_layout.port.names import RELAY, is_ours
from relay_layout.port.scopes import Binding, Scope
from relay_layout.port.script import Script

_LOADED_ON_DEMAND = ("tvm.contrib.", "tvm.exec.", "tvm.support.", "tvm.testing.")
_LOADED_WITH_TVM = tuple(f"tvm.support.{name}." for name in ("cc", "libinfo", "nvcc", "rocm", "tar", "utils"))


class Bases:
    """Spells today's names in the words that a script has imported, and adds the imports that it lacks."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._added: dict[str, str] = {}
        self._lines: list[str] = []
        self._modules = _imported_modules(script)

    def spell(self, today: str, node: ast.expr) -> str:
        """How ``today``, a name dotted from the top, is written at the place of ``node``."""
        package = RELAY if f"{today}.".startswith(f"{RELAY}.") else today.partition(".")[0]
        return self._base(package, node) + today[len(package) :]

    def need_module_of(self, today: str) -> None:
        """Adds an import of the module that a name of TVM is in, if ``import tvm`` does not load it."""
        if not today.startswith(_LOADED_ON_DEMAND) or today.startswith(_LOADED_WITH_TVM):
            return
        depth = 2 if today.startswith("tvm.testing.") else 3
        module = ".".join(today.split(".")[:depth])
        if module not in self._modules:
            self._modules.add(module)
            self._lines.append(f"import {module}")

    def add_imports(self) -> None:
        """Notes the edit that adds the imports, all at one place."""
        if self._lines:
            _insert_lines(self._script, self._lines)

    def _base(self, package: str, node: ast.expr) -> str:
        scope = self._script.scopes.of(node)
        visible: Scope | None = scope
        while visible is not None:
            for name in visible.bindings:
                if scope.owner(name) is visible and self._means(scope, name, package, node):
                    return name
            visible = visible.parent
        if package not in self._added:
            name = self._free_name(package)
            self._added[package] = name
            self._lines.append(_import_line(package, name))
        return self._added[package]

    def _means(self, scope: Scope, name: str, package: str, node: ast.expr) -> bool:
        origins = self._script.origins(scope, name)
        if not origins or self._script.today(origins) != package:
            return False
        owner = scope.owner(name)
        return any(self._is_bound_at(binding, owner, scope, node) for binding in scope.resolve(name))

    def _is_bound_at(self, binding: Binding, owner: Scope | None, scope: Scope, node: ast.expr) -> bool:
        """Whether an import has certainly been done when ``node`` is evaluated."""
        statement = binding.statement
        if statement is None or not binding.unconditional or self._script.scopes.of(statement) is not owner:
            return False
        inner: Scope | None = scope
        while inner is not None and inner is not owner:
            if inner.kind == "function":
                # Called when the scope outside has been run, as far as it goes.
                return True
            inner = inner.parent
        return statement.lineno < node.lineno

    def _free_name(self, package: str) -> str:
        short = package.rpartition(".")[2]
        script = self._script
        taken = {name for found in script.scopes.all for name in found.bindings}
        # A name that nothing in the script binds has come from elsewhere, and must not mean the package now.
        if short not in script.unbound and (short not in taken or self._bound_to(short, package)):
            return short
        number = 0
        candidate = f"{short}_today"
        while candidate in taken or candidate in script.words:
            number += 1
            candidate = f"{short}_today{number}"
        return candidate

    def _bound_to(self, name: str, package: str) -> bool:
        """Whether wherever the name is bound it is bound to the package."""
        for scope in self._script.scopes.all:
            if name in scope.bindings:
                origins = self._script.origins(scope, name)
                if not origins or self._script.today(origins) != package:
                    return False
        return True


def _imported_modules(script: Script) -> set[str]:
    """The modules that the script imports, by today's names."""
    modules: set[str] = set()
    for node in script.nodes:
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            if is_ours(name):
                today = script.names.today(name)
                modules.update((today,) if today else ())
    return modules


def _import_line(package: str, name: str) -> str:
    parent, _, leaf = package.rpartition(".")
    line = f"from {parent} import {leaf}" if parent else f"import {leaf}"
    return line if name == leaf else f"{line} as {name}"


def _insert_lines(script: Script, lines: list[str]) -> None:
    """Adds statements after the script's first import of TVM, or before all others."""
    source = script.source
    body = source.tree.body
    for statement in body:
        if _imports_ours(statement):
            _, end = source.span(statement)
            rest = source.text[end : source.line_end(end)].strip()
            if not rest or rest.startswith("#"):
                at = source.line_end(end)
                script.insert(at, "".join(source.newline + line for line in lines))
                return
            _insert_before(script, statement, lines)
            return
    first = next(statement for statement in body if not _comes_first(statement, body))
    _insert_before(script, first, lines)


def _insert_before(script: Script, statement: ast.stmt, lines: list[str]) -> None:
    source = script.source
    decorators = getattr(statement, "decorator_list", [])
    start = source.span(decorators[0])[0] if decorators else source.span(statement)[0]
    line_start = source.line_start(start)
    alone = not source.text[line_start:start].strip(" \t\f@")
    separator = source.newline if alone else "; "
    script.insert(line_start if alone else start, "".join(line + separator for line in lines))


def _imports_ours(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Import):
        return any(is_ours(alias.name) for alias in statement.names)
    return isinstance(statement, ast.ImportFrom) and not statement.level and is_ours(statement.module or "")


def _comes_first(statement: ast.stmt, body: list[ast.stmt]) -> bool:
    """Whether a statement must stay before all others: the docstring, imports from the future."""
    if isinstance(statement, ast.ImportFrom):
        return statement.module == "__future__"
    docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return docstring and statement is body[0]
