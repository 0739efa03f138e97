"""Chains of elementwise functions with ``let`` bindings, such as exponentials, cut to a length TVM can
analyse.

Fused, the argument of each is the expression of all before it, which its polynomial uses a dozen times. The
binding evaluates it once, but TVM's expression analysis substitutes bound values, so that each further
function of a chain multiplies compile time by twenty.
"""

import tvm
from tvm import relax, tirx

from relay_layout.ir import function_attributes
from relay_layout.lower.fusion.function_calls import function_calls
from relay_layout.lower.fusion.patterns import INJECTIVE, OPAQUE, PATTERN, with_pattern
from topi_ext.ir import nodes_of

LONGEST = 3
"""Most consecutive functions with ``let`` bindings in one kernel."""


def limit_chain_length(module: tvm.IRModule) -> tvm.IRModule:
    """Mark every fourth call of a chain as opaque, so that nothing is fused with it.

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
