"""Functions of loops that nothing calls any more, as their results are computed in place, or by a variant."""

from typing import Any

import tvm
from tvm import tirx

from relay_layout.ir import with_functions
from topi_ext.ir import nodes_of


def drop_uncalled(module: tvm.IRModule) -> tvm.IRModule:
    """The module without the functions of loops that neither a Relax function nor a function of those calls.

    To be run once memory is planned. Functions that have a symbol already are for others to call, and stay.
    """
    functions = dict(module.functions_items())
    left = [variable for variable, function in functions.items() if _is_entry(function)]
    called = set(left)
    while left:
        found = nodes_of(functions[left.pop()], tvm.ir.GlobalVar)
        left += [variable for variable in dict.fromkeys(found) if variable not in called]
        called.update(found)
    if len(called) == len(functions):
        return module
    kept = {variable: function for variable, function in functions.items() if variable in called}
    return with_functions(module, kept)


def _is_entry(function: Any) -> bool:
    if not isinstance(function, tirx.PrimFunc):
        return True
    return function.attrs is not None and "global_symbol" in function.attrs
