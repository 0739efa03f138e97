"""Chains of functions that bind variables, such as exponentials, in pieces of a length that TVM can analyse.

Fused, each one's argument is the expression of all before it, and its polynomial uses it a dozen times. What
is bound is computed once; but TVM's analysis of expressions puts it in the place of its variable, so that its
time is multiplied by twenty with each function of a chain.
"""

import tvm
from tvm import relax, tirx

from relay_layout.ir import function_attributes
from relay_layout.lower.fusion.function_calls import function_calls
from relay_layout.lower.fusion.patterns import INJECTIVE, OPAQUE, PATTERN, with_pattern
from topi_ext.ir import nodes_of

LONGEST = 3
"""Functions that bind variables, one of the result of the other, in one kernel."""


def keep_chains_short(module: tvm.IRModule) -> tvm.IRModule:
    """Mark every fourth call of a chain as one that nothing is fused with.

    Expects ``call_tir`` in "main" of functions with their patterns.
    """
    depths: dict[relax.Var, int] = {}
    cut: dict[relax.Var, relax.Call] = {}
    binds = {name: _binds(function) for name, function in module.functions_items()}
    for variable, call in function_calls(module["main"]).items():
        function = call.args[0]
        if not binds[function] and not _is_elementwise(module[function]):
            continue
        read = [depths.get(operand, 0) for operand in call.args[1].fields if isinstance(operand, relax.Var)]
        depth = max(read, default=0) + binds[function]
        if depth > LONGEST:
            depth = 0
            cut[variable] = call
        depths[variable] = depth
    return with_pattern(module, cut, OPAQUE)


def _binds(function: tvm.ir.BaseFunc) -> bool:
    return isinstance(function, tirx.PrimFunc) and bool(nodes_of(function.body, tirx.Let))


def _is_elementwise(function: tirx.PrimFunc) -> bool:
    return int(function_attributes(function).get(PATTERN, OPAQUE)) <= INJECTIVE


__all__ = ["keep_chains_short"]
