"""Memory between the kernels of one function, which is planned as that between functions is.

TVM takes it from a pool in each call, and gives it back to the GPU when something else in the process asks
the pool for more, although a graph that was recorded still leads to it.
"""

import tvm
from tvm import relax, tirx
from tvm.s_tir import SBlock, SBlockRealize

from relay_layout.ir import (
    as_extent,
    bindings_of,
    calls_global,
    is_static,
    with_bindings,
    with_main,
    without_functions,
)


def plan_buffers(module: tvm.IRModule) -> tvm.IRModule:
    """Let functions take the buffers of known shape that their kernels share as their last arguments, which
    "main" allocates.

    Expects scheduled functions, calls that pass them their results, and no memory planned.
    """
    given = {
        variable: buffers
        for variable, function in module.functions_items()
        if isinstance(function, tirx.PrimFunc) and (buffers := _buffers(function))
    }
    if not given:
        return module
    builder = relax.BlockBuilder(without_functions(module, given))
    taking = {
        variable: builder.add_func(_taking(module[variable], buffers), str(variable.name_hint))
        for variable, buffers in given.items()
    }
    main = module["main"]
    bindings: list[relax.Binding] = []
    for binding in bindings_of(main):
        call = binding.value
        if not calls_global(call) or call.op not in given:
            bindings.append(binding)
            continue
        made = [_allocation(builder, buffer) for buffer in given[call.op]]
        arguments = [*call.args, *(each.var for each in made)]
        changed = relax.Call(taking[call.op], arguments, call.attrs, call.ty_args)
        bindings += [*made, relax.VarBinding(binding.var, changed)]
    return with_main(builder.get(), with_bindings(main, bindings))


def _buffers(function: tirx.PrimFunc) -> list[tirx.Var]:
    """What a scheduled function allocates in the memory that all its kernels see."""
    if not isinstance(function.body, SBlockRealize):
        return []
    return [
        buffer
        for buffer in function.body.block.alloc_buffers
        if str(buffer.scope()) == "global" and is_static([as_extent(extent) for extent in buffer.shape])
    ]


def _taking(function: tirx.PrimFunc, buffers: list[tirx.Var]) -> tirx.PrimFunc:
    root = function.body.block
    kept = [buffer for buffer in root.alloc_buffers if not any(buffer.same_as(one) for one in buffers)]
    block = SBlock([], root.reads, root.writes, root.name_hint, root.body, alloc_buffers=kept)
    body = SBlockRealize([], tirx.const(True, "bool"), block)
    return tirx.PrimFunc([*function.params, *buffers], body, function.ret_type, function.attrs)


def _allocation(builder: relax.BlockBuilder, buffer: tirx.Var) -> relax.VarBinding:
    shape = relax.ShapeExpr([as_extent(extent) for extent in buffer.shape])
    call = builder.normalize(relax.op.builtin.alloc_tensor(shape, str(buffer.dtype), 0))
    return relax.VarBinding(relax.Var(f"{buffer.name}_memory", call.ty), call)
