"""Modules of one Relax function, as most tests need them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tvm
from tvm import relax


class Main(relax.BlockBuilder):
    """Builds "main", which gives what ``result`` is set to."""

    result: Any


@contextmanager
def main_of(*parameters: relax.Var, attrs: dict[str, Any] | None = None) -> Iterator[Main]:
    """A builder of a function of ``parameters``; ``finalize`` gives its module after the block."""
    builder = Main()
    with builder.function("main", list(parameters), attrs):
        with builder.dataflow():
            yield builder
            result = builder.emit_output(builder.result)
        builder.emit_func_output(result)


def module_giving(result: Any, *parameters: relax.Var) -> tvm.IRModule:
    """The module of a function that gives an expression of its parameters; each call in it is bound."""
    with main_of(*parameters) as builder:
        builder.result = result
    return builder.finalize()
