"""What a program of PyTorch was exported for: sizes by which it branched, which it then took as decided.

``if x.shape[2] % 4`` leaves one branch in the program and a guard, in Python, beside it.
"""

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any

from relay_layout.artifact import Condition
from relay_layout.errors import ArtifactError, InputError, ModelError

_OF_MEMORY = "stride", "storage_offset"
"""What a guard may ask of a tensor that conditions do not say: inputs are put in order."""


_NAMED = {
    **{("math", name): name for name in ("ceil", "floor", "trunc")},
    **{("torch", f"sym_{name}"): name for name in ("float", "max", "min")},
    ("torch", "sym_int"): "trunc",
}
"""Functions that guards call, by the names that conditions have for them."""


def conditions(
    program: Any,
    names: Sequence[str],
    ranks: Mapping[str, int],
    given: Mapping[str, Sequence[int]],
    label: str,
    known: Sequence[str] = (),
) -> list[str]:
    """The guards of an exported program, as :class:`relay_layout.artifact.Condition` has them.

    They follow conditions that are ``known``. ``names`` of all inputs, ``ranks`` of tensors by name, and
    shapes that are ``given`` for some. ModelError for other guards, and where the given shapes do not fit.
    """
    found: list[str] = []
    for guard in (*known, *(getattr(program, "_guards_code", None) or ())):
        if any(f".{method}()" in guard for method in _OF_MEMORY):
            continue
        try:
            text = rewritten(guard, names)
            condition = Condition(text, ranks)
        except (ArtifactError, ValueError, SyntaxError):
            raise ModelError(
                f"{label} was exported for inputs of which {guard}, which cannot be checked: "
                "export it with fixed sizes"
            ) from None
        if condition.inputs <= given.keys():
            try:
                condition.check(given)
            except InputError as error:
                raise ModelError(f"{label}: {error}") from None
        found.append(text)
    return found


def rewritten(guard: str, names: Sequence[str]) -> str:
    """``L['x'].size()[2]`` as ``x.shape[2]``; ValueError for an input that is not known."""

    class Sources(ast.NodeTransformer):
        def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
            match node.value:
                case ast.Call(func=ast.Attribute(value=source, attr="size"), args=[], keywords=[]):
                    name = ast.Name(_input(_path(source), names))
                    return ast.Subscript(ast.Attribute(name, "shape"), node.slice)
            return node

        def visit_Call(self, node: ast.Call) -> ast.AST:
            self.generic_visit(node)
            match node.func:
                case ast.Attribute(value=ast.Name(id=module), attr=name) if (module, name) in _NAMED:
                    return ast.Call(ast.Name(_NAMED[module, name]), node.args, node.keywords)
            return node

    return ast.unparse(ast.fix_missing_locations(Sources().visit(ast.parse(guard, mode="eval"))))


def _path(source: ast.AST) -> list[Any]:
    """The keys of ``L['d']['q'][0]``."""
    match source:
        case ast.Name(id="L"):
            return []
        case ast.Subscript(value=inner, slice=ast.Constant(value=key)):
            return [*_path(inner), key]
        case ast.Attribute(value=inner, attr=key):
            return [*_path(inner), key]
    raise ValueError(ast.unparse(source))


def _input(path: Sequence[Any], names: Sequence[str]) -> str:
    """The input at a path of the program's arguments: torch joins what leads to it to a name."""
    if len(path) == 2 and path[0] == "flat_args":
        return names[path[1]]
    name = re.sub(r"\W", "_", "_".join(map(str, path)))
    if name not in names:
        raise ValueError(name)
    return name
