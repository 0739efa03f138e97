"""A kernel that was built, as whatever runs it needs to know it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

ENTRY = "main"
"""The function of a library that holds one kernel."""


@dataclass(frozen=True)
class Library:
    """A kernel's library, and shape and dtype of each argument.

    ``calls`` are its functions in the order in which they are called, each with the places of its arguments;
    without any, :data:`ENTRY` takes all.
    """

    path: str
    arguments: Sequence[tuple[Sequence[int], str]]
    calls: Sequence[tuple[str, Sequence[int]]] = ()
    device: Literal["cpu", "cuda"] = "cpu"
