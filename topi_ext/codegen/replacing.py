"""Passes that put something else in the place of each node of a kind."""

from collections.abc import Callable
from typing import Any

import tvm
from tvm import tirx
from tvm_ffi import structural_map


def replacing(name: str, kind: type[Any], replacement: Callable[[Any], Any]) -> tvm.transform.Pass:
    """The pass ``topi_ext.name``: every node of ``kind`` by what ``replacement`` makes of it, inner first."""

    def on_function(func: tirx.PrimFunc, module: tvm.IRModule, context: Any) -> tirx.PrimFunc:
        del module, context
        return replaced(func, (kind, replacement))

    return tirx.transform.prim_func_pass(on_function, opt_level=0, name=f"topi_ext.{name}")


def replaced(func: tirx.PrimFunc, callbacks: Any) -> tirx.PrimFunc:
    """``func`` with what ``callbacks`` of ``structural_map`` make of its body; itself where nothing changes.

    TVM looks through the whole body of a function to make it.
    """
    body = structural_map(func.body, callbacks)
    return func if body.same_as(func.body) else func.with_body(body)


__all__ = ["replaced", "replacing"]
