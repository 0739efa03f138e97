"""Small conveniences over TIR's statements and expressions that schedules and passes need."""

from collections.abc import Callable, Sequence
from typing import Any

from tvm import tirx
from tvm.ir import TensorLoad
from tvm_ffi import structural_map, structural_walk

IF_THEN_ELSE = "prim.if_then_else"
"""The operator that computes one of two expressions only."""

VOLATILE = "tirx.volatile"
"""Annotation of allocations that are read from memory each time, and not kept in registers."""


def nodes_of(root: Any, kinds: Any) -> list[Any]:
    """All nodes of a class, or of a tuple of classes, in ``root``; inner ones come first."""
    found: list[Any] = []
    structural_walk(root, (kinds, found.append))
    return found


def loads_of(body: Any) -> list[Any]:
    """All loads in a statement or an expression, including those in indices of other loads."""
    return nodes_of(body, TensorLoad)


def stored_by(nest: Any) -> list[Any]:
    """The buffers that a statement stores to."""
    return [store.buffer for store in nodes_of(nest, tirx.BufferStore)]


def holds(buffers: Any, buffer: Any) -> bool:
    """Is ``buffer`` one of ``buffers``?"""
    return any(buffer.same_as(other) for other in buffers)


def uses(expression: Any, variable: tirx.Var) -> bool:
    """Does a variable occur anywhere in ``expression``, which may be a statement?"""
    return occurrences(expression, variable) > 0


def occurrences(expression: Any, variable: tirx.Var) -> int:
    """How often a variable occurs in ``expression``, which may be a statement."""
    return sum(other.same_as(variable) for other in nodes_of(expression, tirx.Var))


def with_loops(func: tirx.PrimFunc, change: Callable[[tirx.For], Any]) -> tirx.PrimFunc:
    """``func`` with what ``change`` makes of each loop; itself where no loop changes."""
    body = structural_map(func.body, (tirx.For, change))
    return func if body.same_as(func.body) else func.with_body(body)


def strides_along(access: Any, variable: tirx.Var) -> bool:
    """Is ``variable`` in any index of a load or store but the last, so that neighbours along it lie apart?"""
    return any(uses(index, variable) for index in access.indices[:-1])


def substitute(expression: Any, mapping: dict[tirx.Var, Any]) -> Any:
    """``expression`` with its variables replaced."""

    def replace(variable: tirx.Var) -> Any:
        for key, value in mapping.items():
            if variable.same_as(key):
                return value
        return variable

    return structural_map(expression, (tirx.Var, replace))


def conjuncts(predicate: Any) -> list[Any]:
    """The conditions that a predicate joins by "and"; ``a <= b`` of integers is given as ``a < b + 1``."""
    if isinstance(predicate, tirx.And):
        return conjuncts(predicate.a) + conjuncts(predicate.b)
    if isinstance(predicate, tirx.LE) and str(predicate.a.ty.dtype).startswith("int"):
        return [tirx.LT(predicate.a, predicate.b + 1)]
    return [predicate]


def conjunction(conditions: Sequence[Any]) -> Any:
    """What holds where all ``conditions`` do."""
    return tirx.all(*conditions) if conditions else tirx.const(True, "bool")


def repeated(value: Any) -> Any:
    """What a vector has in all of its lanes; other values as they are."""
    return value.value if isinstance(value, tirx.Broadcast) else value


def unmarked(loop: tirx.For, mark: str, body: Any, extent: Any = None) -> tirx.For:
    """``loop`` without the annotation ``mark``, with another body and, if given, another extent."""
    annotations = {key: value for key, value in loop.annotations.items() if key != mark}
    turns = loop.extent if extent is None else extent
    return changed(loop, body=body, annotations=annotations, extent=turns)


def changed(statement: Any, **fields: Any) -> Any:
    """A loop, a block or a statement with an attribute, with some of its fields changed."""
    kind = type(statement)
    kept = {field.name: getattr(statement, field.name) for field in kind.__tvm_ffi_type_info__.fields}
    return kind(**{**kept, **fields})


def sequence(statements: Sequence[Any]) -> Any:
    """One statement that executes one or more in order."""
    return tirx.SeqStmt(statements) if len(statements) > 1 else statements[0]
