"""Extents of tensors and loops: numbers, or symbolic expressions."""

from collections.abc import Sequence
from math import prod
from typing import Any

from tvm import sym, tirx


def fixed(extent: Any) -> int | None:
    """An extent or an index as a number, None where it is symbolic."""
    return int(extent) if isinstance(extent, int | tirx.IntImm) else None


def as_int(extent: Any) -> Any:
    """An int where the extent is static, the symbolic expression itself where it is not."""
    number = fixed(extent)
    return extent if number is None else number


def size_of(extents: Sequence[Any]) -> int | None:
    """The product of extents, None where any of them is symbolic."""
    numbers = [number for number in map(fixed, extents) if number is not None]
    return prod(numbers) if len(numbers) == len(extents) else None


def simplified(extent: Any) -> Any:
    """The extent in the form that Relax infers it in, so that both are known to be the same."""
    return as_int(sym.Analyzer().simplify(extent)) if isinstance(extent, tirx.Expr) else extent


def is_one(extent: Any) -> bool:
    """Whether an extent is static, and one."""
    return fixed(extent) == 1
