"""Which names of a script stand for something imported, by Python's rules of scope."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_LOOPS = (ast.For, ast.AsyncFor, ast.comprehension)
_BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.match_case)
_TRIES: Any = (ast.Try, getattr(ast, "TryStar", ast.Try))
_TYPE_PARAMETERS = ("TypeVar", "ParamSpec", "TypeVarTuple")


@dataclass(frozen=True)
class Binding:
    """One place where a name gets a value.

    origin: what an import binds it to, such as "tvm.relay"; None for everything else.
    statement: the import.
    value: what a plain assignment gives it, or a parameter where a call gives none.
    element_of: what a loop goes over and gives it the elements of.
    unconditional: whether the statement stands in its scope's body itself, not under an ``if`` or the like.
    """

    origin: str | None = None
    statement: ast.Import | ast.ImportFrom | None = None
    value: ast.expr | None = None
    element_of: ast.expr | None = None
    unconditional: bool = False


@dataclass(eq=False)
class Scope:
    """A module, class, function or comprehension, with the names that it binds."""

    kind: str
    parent: "Scope | None" = None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    declared_global: set[str] = field(default_factory=set)
    declared_nonlocal: set[str] = field(default_factory=set)

    def module(self) -> "Scope":
        """The outermost scope."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def owner(self, name: str) -> "Scope | None":
        """The scope whose ``name`` is meant by a use of it here; None for a builtin or unknown name."""
        if name in self.declared_global:
            return self.module()
        scope: Scope | None = self
        while scope is not None:
            # A class's names are seen by its own statements only.
            if name in scope.bindings and (scope is self or scope.kind != "class"):
                return scope
            scope = scope.parent
        return None

    def resolve(self, name: str) -> list[Binding]:
        """All bindings of the name that is meant by a use of it here."""
        owner = self.owner(name)
        return [] if owner is None else owner.bindings[name]


_Visit = tuple[ast.AST, Scope, bool]


class Scopes:
    """The scopes of a module, and the scope of every node."""

    def __init__(self, tree: ast.Module) -> None:
        self.module = Scope("module")
        self._scope_of: dict[int, Scope] = {}
        self._found: list[tuple[Scope, str, Binding]] = []
        self._assigned: set[int] = set()
        self._iterated = {
            id(target): iterated
            for loop in ast.walk(tree)
            if isinstance(loop, _LOOPS)
            for target, iterated in _iterations(loop.target, loop.iter)
        }
        # Not by recursion: generated scripts are deeper than Python's stack.
        stack: list[tuple[ast.AST, Scope, bool]] = [(tree, self.module, True)]
        while stack:
            node, scope, unconditional = stack.pop()
            self._scope_of[id(node)] = scope
            self._bind(node, scope, unconditional)
            stack.extend(self._children(node, scope, unconditional))
        # Only now, because a global statement may follow in the text.
        for scope, name, binding in self._found:
            _binding_scope(scope, name).bindings.setdefault(name, []).append(binding)

    @property
    def all(self) -> list[Scope]:
        """Every scope, the module's first."""
        return list(dict.fromkeys([self.module, *self._scope_of.values()]))

    def of(self, node: ast.expr | ast.stmt) -> Scope:
        """The scope in which a node is evaluated."""
        return self._scope_of[id(node)]

    def _children(self, node: ast.AST, scope: Scope, unconditional: bool) -> Iterator[_Visit]:
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            yield from self._definition(node, scope)
        elif isinstance(node, _COMPREHENSIONS):
            yield from _comprehension(node, scope)
        elif isinstance(node, _TRIES):
            yield from ((child, scope, unconditional) for child in node.body)
            yield from ((child, scope, False) for child in (*node.handlers, *node.orelse, *node.finalbody))
        else:
            inside = unconditional and not isinstance(node, _BLOCKS)
            yield from ((child, scope, inside) for child in ast.iter_child_nodes(node))

    def _definition(self, node: ast.AST, scope: Scope) -> Iterator[_Visit]:
        inner = Scope("class" if isinstance(node, ast.ClassDef) else "function", scope)
        body = getattr(node, "body", ())
        inside = {id(child) for child in (body if isinstance(body, list) else [body])}
        inside |= {id(child) for child in getattr(node, "type_params", ())}
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.arguments):
                defaults = _defaults(child)
                for part in ast.iter_child_nodes(child):
                    if isinstance(part, ast.arg):
                        self._found.append((inner, part.arg, Binding(value=defaults.get(part.arg))))
                    # Annotations and defaults belong to the scope outside.
                    yield part, scope, False
            else:
                yield child, inner if id(child) in inside else scope, True

    def _bind(self, node: ast.AST, scope: Scope, unconditional: bool) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                name, origin = _imported(node, alias)
                statement = node if origin else None
                self._found.append((scope, name, Binding(origin, statement, unconditional=unconditional)))
        elif isinstance(node, ast.Global):
            scope.declared_global.update(node.names)
        elif isinstance(node, ast.Nonlocal):
            scope.declared_nonlocal.update(node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    self._assigned.add(id(target))
                    self._found.append((scope, target.id, Binding(value=node.value)))
        elif isinstance(node, ast.NamedExpr):
            self._assigned.add(id(node.target))
            self._found.append((_not_comprehension(scope), node.target.id, Binding()))
        elif isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load) and id(node) not in self._assigned:
                binding = Binding(element_of=self._iterated.get(id(node)))
                self._found.append((scope, node.id, binding))
        else:
            bound = _name_bound_by(node)
            if bound is not None:
                self._found.append((scope, bound, Binding()))


def _imported(statement: ast.Import | ast.ImportFrom, alias: ast.alias) -> tuple[str, str | None]:
    """The name that an import binds, and what to."""
    if isinstance(statement, ast.ImportFrom):
        known = not statement.level and alias.name != "*"
        return alias.asname or alias.name, f"{statement.module}.{alias.name}" if known else None
    package = alias.name.partition(".")[0]
    return (alias.asname, alias.name) if alias.asname else (package, package)


def _defaults(arguments: ast.arguments) -> dict[str, ast.expr]:
    """The defaults of parameters by name."""
    by_place = [*arguments.posonlyargs, *arguments.args]
    given = by_place[len(by_place) - len(arguments.defaults) :]
    found = {one.arg: value for one, value in zip(given, arguments.defaults, strict=True)}
    by_name = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return found | {one.arg: value for one, value in by_name if value is not None}


def _name_bound_by(node: ast.AST) -> str | None:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return node.name
    if isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
        return node.name
    if isinstance(node, ast.MatchMapping):
        return node.rest
    return getattr(node, "name", None) if type(node).__name__ in _TYPE_PARAMETERS else None


def _iterations(target: ast.expr, iterated: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What a loop gives values, each with what it goes over; ``enumerate`` and ``zip`` taken apart."""
    yield target, iterated
    if not isinstance(target, ast.Tuple) or not isinstance(iterated, ast.Call):
        return
    name = iterated.func.id if isinstance(iterated.func, ast.Name) else ""
    if name == "enumerate" and len(target.elts) == 2 and iterated.args:
        yield from _iterations(target.elts[1], iterated.args[0])
    elif name == "zip" and len(target.elts) == len(iterated.args):
        for part, argument in zip(target.elts, iterated.args, strict=True):
            yield from _iterations(part, argument)


def _comprehension(node: ast.AST, scope: Scope) -> Iterator[_Visit]:
    inner = Scope("comprehension", scope)
    generators: list[ast.comprehension] = getattr(node, "generators", [])
    for child in ast.iter_child_nodes(node):
        if child is not generators[0]:
            yield child, inner, False
            continue
        for part in ast.iter_child_nodes(child):
            # The first iterable is evaluated outside.
            yield part, scope if part is generators[0].iter else inner, False


def _not_comprehension(scope: Scope) -> Scope:
    while scope.kind == "comprehension" and scope.parent is not None:
        scope = scope.parent
    return scope


def _binding_scope(scope: Scope, name: str) -> Scope:
    """The scope that a binding in ``scope`` belongs to."""
    if name in scope.declared_global:
        return scope.module()
    if name in scope.declared_nonlocal and scope.parent is not None:
        outer = scope.parent
        while outer.parent is not None and (outer.kind != "function" or name in outer.declared_nonlocal):
            outer = outer.parent
        return outer
    return scope
