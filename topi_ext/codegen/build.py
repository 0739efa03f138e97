"""Code generation for scheduled functions: TVM's own passes and ours, and small buffers on the stack.

TVM puts the accumulators of a register tile on the heap if they take more than 1 KB, and then they stay in
registers only where LLVM can prove that nothing else reads them.
"""

import logging
from typing import Any

import tvm
from tvm import tirx
from tvm.error import InternalError
from tvm.ir import Call, TensorLoad, register_op_attr
from tvm.s_tir.pipeline import default_s_tir_pipeline, finalize_host_passes
from tvm.target import Target
from tvm.tirx.buffer import buffer_data_pointer_type
from tvm_ffi import structural_walk

from topi_ext.codegen.bfloat16 import lower_bfloat16
from topi_ext.codegen.byte_lookups import lower_byte_lookups
from topi_ext.codegen.comparisons import exact_comparisons
from topi_ext.codegen.deinterleave import deinterleave_loads
from topi_ext.codegen.differences import keep_differences
from topi_ext.codegen.dot_lowering import lower_dot_products
from topi_ext.codegen.falling_places import rising_places
from topi_ext.codegen.infinite_extremes import begin_with_infinity
from topi_ext.codegen.interleave import interleave_stores
from topi_ext.codegen.let_bindings import choose_numbers, flatten_bindings, hide_floats
from topi_ext.codegen.llvm_functions import import_functions
from topi_ext.codegen.partial_sums import sum_in_parts
from topi_ext.codegen.passes import function_pass, replaced
from topi_ext.codegen.remainders import hide_remainders
from topi_ext.codegen.rounded_bytes import lower_rounded_bytes
from topi_ext.codegen.scopes import START, SUMS
from topi_ext.codegen.task_memory import KEEP, allocate_once
from topi_ext.codegen.zero_divisors import divide_by_no_zero
from topi_ext.ir import VOLATILE, holds, nodes_of
from topi_ext.machine.architecture import is_aarch64

_LOG = logging.getLogger(__name__)

PIPELINE = "topi_ext"
"""For ``tvm.compile(..., tir_pipeline=PIPELINE)`` and ``relax.build(..., tir_pipeline=PIPELINE)``."""

STACK_BYTES = 8 << 10
"""The largest buffer that is kept on the stack: enough for all registers, and for a Winograd tile."""

_LINE_BYTES, _STACK_ALIGNMENT = 64, 16
"""The alignment that buffers of matrices need, and the largest that TVM gives to buffers on the stack."""

_PROMISE = "storage_alignment"
"""TVM's attribute for the alignment of parameters."""

_SKIP_ASSERTS = "tirx.disable_assert"
"""TVM's option to omit argument checks; on its own it takes effect only when LLVM code is generated."""


def _pipeline() -> tuple[Any, Any, Any]:
    passes, _, finalize_device = default_s_tir_pipeline()

    def lower(module: tvm.IRModule, context: tvm.transform.PassContext) -> tvm.IRModule:
        ours = [
            keep_differences(),
            begin_with_infinity(),
            flatten_bindings(),
            choose_numbers(),
            rising_places(),
        ]
        module = tvm.transform.Sequential(ours)(module)
        try:
            lowered = passes(module)
        except InternalError:
            _LOG.debug("functions one by one", exc_info=True)
            return _one_by_one(passes, module, context)
        return lowered if _is_closed(lowered) else _one_by_one(passes, module, context)

    return (
        tvm.transform.module_pass(lower, 0, PIPELINE),
        lambda: tvm.transform.Sequential(
            [
                # First, because argument checks are most of what the other passes would have to walk.
                *([tirx.transform.SkipAssert()] if _skips_asserts() else []),
                hide_floats(),
                sum_in_parts(),
                interleave_stores(),
                lower_dot_products(),
                deinterleave_loads(),
                lower_bfloat16(),
                exact_comparisons(),
                lower_rounded_bytes(),
                lower_byte_lookups(),
                hide_remainders(),
                divide_by_no_zero(),
                import_functions(),
                keep_on_stack(),
                allocate_once(),
                accept_any_address(),
                finalize_host_passes(),
            ]
        ),
        finalize_device,
    )


def _skips_asserts() -> bool:
    return bool(tvm.transform.PassContext.current().config.get(_SKIP_ASSERTS, False))


def _one_by_one(
    passes: tvm.transform.Pass, module: tvm.IRModule, context: tvm.transform.PassContext
) -> tvm.IRModule:
    """Run ``passes`` per function, without common subexpression elimination where TVM gets that wrong.

    It may use a variable outside of its scope: in another loop, or where an expression binds a variable. LLVM
    eliminates common subexpressions as well, but some of them later than would be best.
    """
    config = {**dict(context.config), "tirx.disable_cse_tir": True}
    lowered = tvm.IRModule({}, attrs=module.attrs, global_infos=module.global_infos)
    for variable, function in module.functions_items():
        single = tvm.IRModule({variable: function}, attrs=module.attrs, global_infos=module.global_infos)
        try:
            found = passes(single)
        except InternalError:
            found = None
        if found is None or not _is_closed(found):
            with tvm.transform.PassContext(opt_level=context.opt_level, config=config):
                found = passes(single)
        lowered.update(found)
    return lowered


def _is_closed(module: tvm.IRModule) -> bool:
    """Do all functions use variables only within their scopes?"""
    return all(
        tirx.analysis.verify_well_formed(function, assert_mode=False)
        for _, function in module.functions_items()
        if isinstance(function, tirx.PrimFunc)
    )


@function_pass
def accept_any_address(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Accept parameters at any address that is a multiple of the element size.

    TVM promises LLVM an alignment of 64 bytes, so that arrays of numpy would have to be copied. Unaligned
    vector loads are as fast as aligned ones if the address happens to be aligned.
    """
    return replaced(func, (tirx.AttrStmt, _without_promise))


def _without_promise(statement: tirx.AttrStmt) -> Any:
    return statement.body if statement.attr_key == _PROMISE else statement


@function_pass
def keep_on_stack(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Turn small allocations of constant size into local variables."""
    allocations = nodes_of(func.body, tirx.AllocBuffer)
    if not allocations:
        return func
    loads_again = is_aarch64(func.attrs["target"])
    # On ARM the alignment that TVM gives is enough for a vector.
    walked = [] if loads_again else _walked(func.body)

    def on_allocation(allocation: tirx.AllocBuffer) -> Any:
        kept = _kept(allocation, loads_again)
        in_memory = kept.buffer.scope() == SUMS or holds(walked, kept.buffer)
        return _aligned(kept) if in_memory and KEEP in kept.annotations else kept

    return replaced(func, (tirx.AllocBuffer, on_allocation))


def _walked(body: Any) -> list[Any]:
    """Scalar buffers that are indexed by loops: these stay in memory, while others end up in registers.

    Vector buffers are left out, as they have the alignment of their vectors.
    """
    found: list[Any] = []

    def on_access(access: Any) -> None:
        buffer = access.buffer if isinstance(access, tirx.BufferStore) else access.source
        walked = buffer.dtype.lanes == 1 and not all(map(_is_constant, access.indices))
        if walked and not holds(found, buffer):
            found.append(buffer)

    structural_walk(body, ((TensorLoad, tirx.BufferStore), on_access))
    return found


def _is_constant(index: Any) -> bool:
    return isinstance(index.base if isinstance(index, tirx.Ramp) else index, int | tirx.IntImm)


def _kept(allocation: tirx.AllocBuffer, loads_again: bool) -> tirx.AllocBuffer:
    """The allocation on the stack, if it is small enough.

    With ``loads_again``, the value that sums start from is loaded for each sum instead of copied.
    """
    buffer = allocation.buffer
    size = buffer.dtype.bits * buffer.dtype.lanes // 8
    for extent in buffer.shape:
        if not isinstance(extent, int | tirx.IntImm):
            return allocation
        size *= int(extent)
    if not 0 < size <= STACK_BYTES or buffer.scope() not in ("global", "local", START, SUMS):
        return allocation
    marks = {KEEP: tirx.const(1, "int32")}
    if loads_again and buffer.scope() == START:
        marks[VOLATILE] = tirx.const(1, "int32")
    return tirx.AllocBuffer(buffer, {**allocation.annotations, **marks})


def _aligned(allocation: tirx.AllocBuffer) -> Any:
    """The buffer inside a longer one, at the start of a cache line."""
    buffer = allocation.buffer
    size = buffer.dtype.bits // 8
    (extent,) = buffer.shape
    longer = tirx.decl_buffer(
        (extent + _LINE_BYTES // size,), str(buffer.dtype), buffer.name, scope=buffer.scope()
    )
    last = tirx.address_of(tirx.BufferLoad(longer, [(_LINE_BYTES - _STACK_ALIGNMENT) // size]))
    start = tirx.call_llvm_intrin("handle", "llvm.ptrmask", last, tirx.const(-_LINE_BYTES, "int64"))
    pointer = buffer_data_pointer_type(buffer)
    data = Call(start.op, start.args, start.attrs, start.ty_args, ret_ty=pointer)
    return tirx.SeqStmt(
        [tirx.AllocBuffer(longer, allocation.annotations), tirx.DeclBuffer(buffer, data=data)]
    )


def unchecked() -> tvm.transform.PassContext:
    """The current pass context, in which functions do not check their arguments.

    For functions that are only called with tensors allocated for them. The checks are most of a small
    function's machine code, and of the time it takes to generate.
    """
    current = tvm.transform.PassContext.current()
    return tvm.transform.PassContext(
        opt_level=current.opt_level,
        required_pass=list(current.required_pass),
        disabled_pass=list(current.disabled_pass),
        instruments=list(current.instruments),
        config={**dict(current.config), _SKIP_ASSERTS: True},
    )


def compile_kernel(func: tirx.PrimFunc, target: Target) -> Any:
    """A scheduled function compiled to a runtime module, under the name "main"."""
    scheduled = func.with_attr({"global_symbol": "main", "tirx.is_scheduled": True})
    return tvm.compile(tvm.IRModule({"main": scheduled}), target, tir_pipeline=PIPELINE)


# Otherwise TVM scalarises these operators, although LLVM has vector instructions for them.
register_op_attr("tirx.nearbyint", "TVectorizable", True)
register_op_attr("tirx.isnan", "TVectorizable", True)

tirx.register_tir_pipeline(PIPELINE, _pipeline)
