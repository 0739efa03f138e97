"""Passes over functions, one at a time, and replacing nodes of one."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec

import tvm
from tvm import tirx
from tvm_ffi import structural_map

Options = ParamSpec("Options")


def function_pass(
    change: Callable[Concatenate[tirx.PrimFunc, Options], tirx.PrimFunc],
) -> Callable[Options, tvm.transform.Pass]:
    """``change`` of one function as what makes a pass, ``topi_ext.`` and its name, of the other arguments."""

    @wraps(change)
    def make(*args: Options.args, **keywords: Options.kwargs) -> tvm.transform.Pass:
        def on_function(func: tirx.PrimFunc, module: tvm.IRModule, context: Any) -> tirx.PrimFunc:
            return change(func, *args, **keywords)

        return tirx.transform.prim_func_pass(on_function, opt_level=0, name=f"topi_ext.{change.__name__}")

    return make


def replaced(func: tirx.PrimFunc, callbacks: Any) -> tirx.PrimFunc:
    """``func`` with what ``callbacks`` of ``structural_map`` make of its body; itself where nothing changes.

    TVM looks through the whole body of a function to make it.
    """
    body = structural_map(func.body, callbacks)
    return func if body.same_as(func.body) else func.with_body(body)
