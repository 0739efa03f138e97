"""What one operand of a converted call is, what is said where it is wrong, and calls that must be equal.

Whatever is required of a call raises :class:`Mismatch` where it is not so.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax
from tvm_ffi import Array, structural_equal

from relay_layout.graph import MATCH_CAST, Node, Value
from relay_layout.verify.digits import Dims, describe, plain
from relay_layout.verify.symbols import Shape, extents


class Mismatch(Exception):
    """What is provided and what is expected, for the end of an error line."""


@dataclass(frozen=True)
class Provided:
    """An operand of a converted call beside the original one.

    ``dims`` is how it lies over the dimensions of the original operand, None for a constant, whose content
    :attr:`holds` compares for any such dims, and for a tensor without elements. ``origin`` names the bindings
    that decided how it lies.
    """

    value: Value
    original: Value
    dims: Dims | None
    origin: tuple[str, ...]
    holds: Callable[[Dims], bool]

    def lies_as(self, dims: Dims) -> bool:
        """Whether it lies in these dims, or holds what lies in them."""
        return self.dims == dims if self.dims is not None else self.holds(dims)

    @property
    def shown(self) -> str:
        """How it lies, for messages."""
        if self.dims is None:
            return "another constant"
        return describe(self.dims, extents(self.original.shape or ()))


def by_origin(name: str, origin: Sequence[str]) -> str:
    """Which bindings decided how a tensor lies, if that is not its own."""
    others = [f"'{other}'" for other in origin if other != name]
    return f" (by {', '.join(others)})" if others else ""


def lies_wrong(entry: Provided, expected: Dims) -> str:
    """What is said of a tensor that holds the right value in the wrong order."""
    shape: Shape = extents(entry.original.shape or ())
    provided = describe(entry.dims, shape) if entry.dims is not None else "a constant"
    by = by_origin(entry.value.name, entry.origin)
    return (
        f"tensor '{entry.value.name}' is provided as {provided} of '{entry.original.name}'{by}, "
        f"expected {describe(expected, shape)}"
    )


def kind_of(entry: Provided) -> str:
    """What a tensor is whose place in memory is not followed."""
    return "constant" if entry.value.constant is not None else "empty tensor"


def constant_differs(entry: Provided, expected: Dims) -> str:
    """What is said of a constant with other content."""
    shape: Shape = extents(entry.original.shape or ())
    return (
        f"{kind_of(entry)} '{entry.value.name}' of shape {entry.value.shape} is not the original "
        f"{kind_of(entry)} of shape {entry.original.shape} in layout {describe(expected, shape)}"
    )


def require_unchanged(
    old: Node, new: Node, provided: Sequence[Provided], variables: Callable[[Any], Any]
) -> None:
    """A call without a meaning must be the original one, on operands that lie as they were."""
    for entry in provided:
        shape = entry.original.shape
        if shape is None:
            continue
        expected = plain(extents(shape))
        if entry.dims is None:
            if not entry.holds(expected):
                raise Mismatch(constant_differs(entry, expected))
        elif entry.dims != expected or entry.value.rank != len(shape):
            raise Mismatch(lies_wrong(entry, expected))
    if old.operator == MATCH_CAST and not structural_equal(old.variable.ty, new.variable.ty):
        raise Mismatch(f"the type is provided as {new.variable.ty}, expected {old.variable.ty}")
    for before, after in zip(old.results, new.results, strict=True):
        # What a function computes of no tensors may depend on the shape alone.
        if extents(before.shape or ()) != extents(after.shape or ()):
            raise Mismatch(f"the result is provided as {after.shape}, expected {before.shape}")
    require_attributes(old, new, frozenset())
    require_arguments(old, new, variables)


def require_attributes(old: Node, new: Node, interpreted: frozenset[str]) -> None:
    """Attributes must be equal, but for those that ``interpreted`` names."""
    if old.operator == MATCH_CAST:
        return
    left, right = old.expression.attrs, new.expression.attrs
    if left is None or right is None or left.same_as(right):
        if (left is None) != (right is None):
            raise Mismatch("attributes are provided on one side only")
        return
    before, after = _fields(left), _fields(right)
    for name in dict.fromkeys((*before, *after)):
        if name not in interpreted and not _same(before.get(name), after.get(name)):
            raise Mismatch(
                f"attribute '{name}' is provided as {after.get(name)}, expected {before.get(name)}"
            )


def _fields(attributes: Any) -> dict[str, Any]:
    if isinstance(attributes, tvm.ir.DictAttrs):
        return {str(name): value for name, value in attributes.items()}
    information = type(attributes).__tvm_ffi_type_info__
    return {entry.name: getattr(attributes, entry.name) for entry in information.fields}


def _same(left: Any, right: Any) -> bool:
    if left is None or right is None:
        return left is right
    if isinstance(left, Array) and isinstance(right, Array):
        return len(left) == len(right) and all(_same(*pair) for pair in zip(left, right, strict=True))
    if isinstance(left, bool | int | float | str) or isinstance(right, bool | int | float | str):
        return type(left) is type(right) and bool(left == right or (left != left and right != right))
    return bool(structural_equal(left, right))


def require_arguments(old: Node, new: Node, variables: Callable[[Any], Any]) -> None:
    """All arguments that are no tensors, and how tensors are grouped into tuples."""
    if not same_tree(tuple(old.tree or ()), tuple(new.tree or ()), variables):
        before = [_shown(branch) for branch in old.tree or ()]
        after = [_shown(branch) for branch in new.tree or ()]
        raise Mismatch(f"arguments are provided as {', '.join(after)}, expected {', '.join(before)}")


def same_tree(old: Any, new: Any, variables: Callable[[Any], Any]) -> bool:
    """Whether two trees have tensors in the same places, and all else equal."""
    if isinstance(old, Value) or isinstance(new, Value):
        return isinstance(old, Value) and isinstance(new, Value)
    if isinstance(old, tuple) or isinstance(new, tuple):
        return (
            isinstance(old, tuple)
            and isinstance(new, tuple)
            and len(old) == len(new)
            and all(same_tree(left, right, variables) for left, right in zip(old, new, strict=True))
        )
    if isinstance(new, relax.Var):
        new = variables(new)
    return bool(old.same_as(new)) or bool(structural_equal(old, new))


def _shown(branch: Any) -> str:
    if isinstance(branch, Value):
        return f"'{branch.name}'"
    if isinstance(branch, tuple):
        return f"({', '.join(map(_shown, branch))})"
    return str(branch)
