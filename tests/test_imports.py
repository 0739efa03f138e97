"""Imports run in one direction: between packages, and between the modules of each."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("relay_layout", "topi_ext", "tuning_logs", "scripts")

FORBIDDEN = {
    "topi_ext": ("relay_layout", "tuning_logs", "scripts"),
    "tuning_logs": ("relay_layout", "topi_ext", "scripts"),
    "relay_layout": ("scripts",),
}
"""Packages that a package knows nothing of."""

_BASE = ("topi_ext.errors", "relay_layout.errors", "relay_layout.ir", "relay_layout.layout")
FOUNDATIONS = {
    "relay_layout.layout": ("relay_layout.errors",),
    "relay_layout.graph": _BASE,
    "relay_layout.ops": (*_BASE, "relay_layout.graph"),
    "relay_layout.targets": (
        *_BASE,
        "relay_layout.graph",
        "relay_layout.ops",
        "relay_layout.environment",
        "topi_ext",
        "tuning_logs",
    ),
    "relay_layout.relay.syntax": ("relay_layout.errors",),
    "relay_layout.relay.operators": (*_BASE, "relay_layout.relay.syntax", "topi_ext.compute"),
}
"""All that the folders at the bottom import beside their own modules."""

APART = {
    "relay_layout.runtime": ("relay_layout.bench",),
    "relay_layout.verify": ("relay_layout.rewrite",),
}
"""Folders that a folder imports nothing of."""

IN_PARTS = ("relay_layout.relay",)
"""Folders whose own folders stand at both ends: Relay's language below, its API above all else."""

ENTRY_POINTS = ("relay_layout.__main__",)
"""The modules of relay_layout outside of its command line that may import it."""


def imported(source: str, module: str, *, package: bool) -> Iterator[str]:
    """The modules that a module names in imports: at its top, in functions, and for type checkers alone.

    ``from a import b`` gives ``a.b``, whether that is a module or not.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = [] if not node.level else module.split(".")[: None if package else -1]
            parts = parts[: len(parts) + 1 - node.level] if node.level else parts
            base = ".".join([*parts, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def graph(sources: Mapping[str, tuple[str, bool]]) -> dict[str, list[str]]:
    """Which modules each imports, of those in ``sources``: module to its text and whether it is a package."""
    found: dict[str, list[str]] = {}
    for module, (source, package) in sources.items():
        names = {
            name if name in sources else name.rpartition(".")[0]
            for name in imported(source, module, package=package)
        }
        found[module] = sorted(name for name in names if name in sources and name != module)
    return found


def circle(edges: Mapping[str, list[str]]) -> list[str]:
    """Modules that import one another in turn, the first again at the end; none where there is no circle."""
    done: set[str] = set()
    for start in edges:
        path, pending = [start], [iter(edges[start])]
        while pending:
            following = next(pending[-1], None)
            if following is None:
                pending.pop()
                done.add(path.pop())
            elif following in path:
                return [*path[path.index(following) :], following]
            elif following not in done:
                path.append(following)
                pending.append(iter(edges[following]))
    return []


@cache
def project() -> dict[str, list[str]]:
    """The imports of every module of the project."""
    sources = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            is_package = parts[-1] == "__init__"
            module = ".".join(parts[:-1] if is_package else parts)
            sources[module] = (path.read_text(encoding="utf-8"), is_package)
    assert len(sources) > 400
    return graph(sources)


@cache
def folders() -> frozenset[str]:
    """The folders of the project that have folders."""
    packages = {path.parent.relative_to(ROOT) for top in PACKAGES for path in (ROOT / top).rglob("*.py")}
    return frozenset(".".join(path.parent.parts) for path in packages if path.parent.parts)


def by_folder(edges: Mapping[str, list[str]], folder: str) -> dict[str, list[str]]:
    """Imports with each folder in ``folder`` as one, and those of every other module."""
    depth = folder.count(".") + 2

    def place(module: str) -> str:
        part = ".".join(module.split(".")[:depth])
        inside = module.startswith(f"{folder}.") and part not in IN_PARTS
        return part if inside else module

    found: dict[str, set[str]] = {}
    for module, names in edges.items():
        found.setdefault(place(module), set()).update(place(name) for name in names)
    return {part: sorted(names - {part}) for part, names in found.items()}


def fail_for(what: str, found: list[str]) -> None:
    if found:
        pytest.fail(f"{what}: {found[0]}", pytrace=False)


def test_no_module_imports_itself_by_way_of_others() -> None:
    found = circle(project())
    fail_for("circular imports", [" -> ".join(found)] if found else [])


@pytest.mark.parametrize("folder", sorted(folders()))
def test_no_folder_imports_itself_by_way_of_others(folder: str) -> None:
    found = circle(by_folder(project(), folder))
    fail_for("circular imports of folders", [" -> ".join(found)] if found else [])


@pytest.mark.parametrize("package", FORBIDDEN)
def test_a_package_knows_nothing_of_those_above_it(package: str) -> None:
    wrong = [
        f"{module} -> {name}"
        for module, names in project().items()
        for name in names
        if module.split(".")[0] == package and name.split(".")[0] in FORBIDDEN[package]
    ]
    fail_for("an import in the wrong direction", wrong)


@pytest.mark.parametrize("folder", FOUNDATIONS)
def test_a_folder_at_the_bottom_stands_on_those_below_it_alone(folder: str) -> None:
    allowed = (folder, *FOUNDATIONS[folder])
    wrong = [
        f"{module} -> {name}"
        for module, names in project().items()
        for name in names
        if f"{module}.".startswith(f"{folder}.")
        and not any(f"{name}.".startswith(f"{below}.") for below in allowed)
    ]
    assert any(f"{module}.".startswith(f"{folder}.") for module in project())
    fail_for("an import in the wrong direction", wrong)


@pytest.mark.parametrize("folder", APART)
def test_a_folder_knows_nothing_of_those_it_is_apart_from(folder: str) -> None:
    wrong = [
        f"{module} -> {name}"
        for module, names in project().items()
        for name in names
        if f"{module}.".startswith(f"{folder}.")
        and any(f"{name}.".startswith(f"{other}.") for other in APART[folder])
    ]
    assert any(f"{module}.".startswith(f"{folder}.") for module in project())
    fail_for("an import in the wrong direction", wrong)


def test_only_the_command_line_knows_of_the_command_line() -> None:
    wrong = [
        f"{module} -> {name}"
        for module, names in project().items()
        for name in names
        if module.startswith("relay_layout")
        and not f"{module}.".startswith("relay_layout.cli.")
        and f"{name}.".startswith("relay_layout.cli.")
        and module not in ENTRY_POINTS
    ]
    fail_for("an import in the wrong direction", wrong)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("import p.b", ["p.b"]),
        ("from p import b", ["p.b"]),
        ("from p.b import name", ["p.b"]),
        ("from . import b", ["p.b"]),
        ("from .b import name", ["p.b"]),
        ("def f():\n    from p.b import name", ["p.b"]),
        ("if TYPE_CHECKING:\n    from p.b import name", ["p.b"]),
        ("import numpy", []),
    ],
)
def test_every_kind_of_import_counts(line: str, found: list[str]) -> None:
    sources = {"p": ("", True), "p.a": (line, False), "p.b": ("", False)}
    assert graph(sources)["p.a"] == found


def test_a_circle_is_named_from_one_module_round_to_itself() -> None:
    edges = {"a": ["b"], "b": ["c", "d"], "c": [], "d": ["e"], "e": ["b"]}
    assert circle(edges) == ["b", "d", "e", "b"]
    assert circle({**edges, "e": ["c"]}) == []


def test_a_folder_counts_as_one() -> None:
    edges = {"p.a.x": ["p.b.x"], "p.b.x": [], "p.b.y": ["p.a.y"], "p.a.y": [], "q": ["p.a.x"]}
    assert circle(edges) == []
    assert by_folder(edges, "p") == {"p.a": ["p.b"], "p.b": ["p.a"], "q": ["p.a"]}
    assert circle(by_folder(edges, "p")) == ["p.a", "p.b", "p.a"]
