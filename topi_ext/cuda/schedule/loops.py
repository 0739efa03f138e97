"""Loops of a thread that stay loops no longer."""

from collections.abc import Sequence
from typing import Any

from tvm.s_tir import Schedule


def unrolled(sch: Schedule, loops: Sequence[Any]) -> None:
    """All of ``loops``, so that what they index may be registers."""
    for loop in loops:
        sch.unroll(loop)


def in_vectors(sch: Schedule, loops: Sequence[Any]) -> None:
    """The last of ``loops`` as a vector, the others unrolled."""
    unrolled(sch, loops[:-1])
    sch.vectorize(loops[-1])
