"""Mutually recursive procedures that do not use the interpreter's stack."""

from collections.abc import Generator
from typing import Any, TypeVar

Result = TypeVar("Result")
Step = Generator[Any, Any, Result]
"""A procedure: it yields the step whose result it waits for, and returns its own."""


def run(step: Step[Result]) -> Result:
    """Run a step and all the steps it waits for; how deep they nest is limited by memory alone."""
    stack: list[Step[Any]] = [step]
    value: Any = None
    while stack:
        try:
            waited_for = stack[-1].send(value)
        except StopIteration as stop:
            stack.pop()
            value = stop.value
        else:
            stack.append(waited_for)
            value = None
    result: Result = value
    return result
