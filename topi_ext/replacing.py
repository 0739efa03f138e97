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
        return func.with_body(structural_map(func.body, (kind, replacement)))

    return tirx.transform.prim_func_pass(on_function, opt_level=0, name=f"topi_ext.{name}")


__all__ = ["replacing"]
