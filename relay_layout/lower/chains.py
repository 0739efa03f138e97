"""Chains of functions that bind variables, such as exponentials, in pieces of a length that TVM can analyse.

Fused, each one's argument is the expression of all before it, and its polynomial uses it a dozen times. What
is bound is computed once; but TVM's analysis of expressions puts it in the place of its variable, so that its
time is multiplied by twenty with each function of a chain.
"""

import tvm
from tvm import relax, tirx
from tvm_ffi import structural_walk

from relay_layout.ir import operator_name, with_values
from relay_layout.lower.patterns import INJECTIVE, OPAQUE, PATTERN

LONGEST = 3
"""Functions that bind variables, one of the result of the other, in one kernel."""


def keep_chains_short(module: tvm.IRModule) -> tvm.IRModule:
    """Mark every fourth function of a chain as one that nothing is fused with.

    Expects ``call_tir`` in "main" of functions with their patterns.
    """
    depths: dict[relax.Var, int] = {}
    cut: dict[relax.Var, relax.Call] = {}
    builder = relax.BlockBuilder(module)
    binds = {variable: _binds(function) for variable, function in module.functions_items()}
    apart: dict[tvm.ir.GlobalVar, tvm.ir.GlobalVar] = {}
    for binding in (binding for block in module["main"].body.blocks for binding in block.bindings):
        call = binding.value
        if operator_name(call) != "call_tir":
            continue
        function = call.args[0]
        if not binds[function] and not _is_elementwise(module[function]):
            continue
        read = [depths.get(operand, 0) for operand in call.args[1].fields if isinstance(operand, relax.Var)]
        depth = max(read, default=0) + binds[function]
        if depth > LONGEST:
            depth = 0
            if function not in apart:
                alone = module[function].with_attr(PATTERN, OPAQUE)
                apart[function] = builder.add_func(alone, f"{function.name_hint}_apart")
            cut[binding.var] = relax.Call(
                call.op, [apart[function], *call.args[1:]], call.attrs, call.ty_args
            )
        depths[binding.var] = depth
    if not cut:
        return module
    updated = builder.get()
    updated.update_func(module.get_global_var("main"), with_values(module["main"], cut))
    return updated


def _binds(function: tvm.ir.BaseFunc) -> bool:
    found: list[tirx.Let] = []
    if isinstance(function, tirx.PrimFunc):
        structural_walk(function.body, (tirx.Let, found.append))
    return bool(found)


def _is_elementwise(function: tirx.PrimFunc) -> bool:
    attributes = function.attrs
    return attributes is not None and int(attributes.get(PATTERN, OPAQUE)) <= INJECTIVE


__all__ = ["keep_chains_short"]
