"""Kernels that are launched while the one before them still runs: programmatic dependent launch of sm_90.

By itself a GPU begins with a kernel when the one before it has ended, which costs about a microsecond between
two of them. Each kernel here allows the next one to be launched as soon as all of its own blocks run, and
waits for the one before it before it touches memory: what that has written is there then, and what it read
may be overwritten. Waits add up, so that memory is used in the order of the launches.

CUDA C++ Programming Guide, "Programmatic Dependent Launch and Synchronization"; PTX ISA, "griddepcontrol".
"""

from typing import Any

import tvm
from tvm import tirx

from topi_ext.cuda.device_functions import call_void
from topi_ext.cuda.multiprocessor import multiprocessor_of

_LAUNCH_PARAMETERS = "tirx.kernel_launch_params"
_DEPENDENT = "tirx.use_programtic_dependent_launch"
"""TVM's name, as it is spelled there."""

WAIT = "topi_ext_wait_for_kernel_before"
_SOURCE = f"""
__device__ __forceinline__ void {WAIT}() {{
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
}}
"""


def launch_early() -> tvm.transform.Pass:
    """Lets TVM launch kernels so, of functions that are not split into host and device yet.

    Each of them must begin with what :func:`wait_for_kernel_before` inserts.
    """

    def on_function(func: tirx.PrimFunc, module: tvm.IRModule, context: Any) -> tirx.PrimFunc:
        del module, context
        return func.with_attr(_LAUNCH_PARAMETERS, [_DEPENDENT]) if _launches_early(func) else func

    return tirx.transform.prim_func_pass(on_function, opt_level=0, name="topi_ext.launch_early")


def wait_for_kernel_before() -> tvm.transform.Pass:
    """Inserts the wait where device functions begin."""

    def on_function(func: tirx.PrimFunc, module: tvm.IRModule, context: Any) -> tirx.PrimFunc:
        del module, context
        if not _launches_early(func):
            return func
        return func.with_body(tirx.SeqStmt([tirx.Evaluate(call_void(WAIT, [], _SOURCE)), func.body]))

    return tirx.transform.prim_func_pass(on_function, opt_level=0, name="topi_ext.wait_for_kernel_before")


def _launches_early(func: tirx.PrimFunc) -> bool:
    """Is a function for an architecture that launches so?"""
    target = func.attrs.get("target") or tvm.target.Target.current()
    if target is None or target.kind.name != "cuda":
        return False
    return multiprocessor_of(target).has_dependent_launch


__all__ = ["WAIT", "launch_early", "wait_for_kernel_before"]
