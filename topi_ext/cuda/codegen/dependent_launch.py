"""Kernels that are launched while the one before them still runs: programmatic dependent launch of sm_90.

By itself a GPU begins with a kernel when the one before it has ended, which costs about a microsecond between
two of them. Each kernel here allows the next one to be launched as soon as all of its own blocks run, and
waits for the one before it before it touches memory: what that has written is there then, and what it read
may be overwritten. Waits add up, so that memory is used in the order of the launches: a kernel that has begun
while two others before it still run waits for the second one, which does not end before its own wait for the
first has, since no thread ends without it. Nor does anything wait for ever: a block begins when all blocks of
the kernel before have, and needs no place that these wait for. Constants, which no kernel writes, need no
waiting for: the first tiles of a product's weights are on their way before the wait.

CUDA C++ Programming Guide, "Programmatic Dependent Launch and Synchronization"; PTX ISA, "griddepcontrol".
"""

from typing import Any

import tvm
from tvm import tirx
from tvm_ffi import structural_map, structural_walk

from topi_ext.codegen.passes import function_pass
from topi_ext.cuda.codegen.copy_order import COMMIT_COPIES
from topi_ext.cuda.codegen.device_functions import call_void
from topi_ext.cuda.codegen.statements import flat, holds, is_call
from topi_ext.cuda.multiprocessor import multiprocessor_of
from topi_ext.ir import changed, nodes_of, sequence

_LAUNCH_PARAMETERS = "tirx.kernel_launch_params"
_DEPENDENT = "tirx.use_programtic_dependent_launch"
"""TVM's name, as it is spelled there."""

ALLOW, WAIT = "topi_ext_allow_next_kernel", "topi_ext_wait_for_kernel_before"
CONSTANT = "topi_ext_constant_operand"
"""Device functions; ``CONSTANT`` is none, and says only what it is called with."""


def constant_operand(pointer: Any) -> Any:
    """The call that says, in front of a loop over tiles, that what ``pointer`` or a tensor map leads to is
    never written while a network runs.
    """
    return call_void(CONSTANT, [pointer], "")


@function_pass
def launch_early(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Lets TVM launch kernels so, of functions that are not split into host and device yet.

    Each of them must begin with what :func:`wait_for_kernel_before` inserts.
    """
    return func.with_attr(_LAUNCH_PARAMETERS, [_DEPENDENT]) if _launches_early(func) else func


@function_pass
def wait_for_kernel_before(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Inserts the wait where device functions begin; behind the first copies of what :func:`constant_operand`
    names, where it names something.
    """
    has_constant = holds(func.body, tirx.Evaluate, lambda found: is_call(found, CONSTANT))
    if not _launches_early(func):
        assert not has_constant
        return func
    if not has_constant:
        return func.with_body(tirx.SeqStmt([_allow(), _wait(func), func.body]))
    wait, memory = _wait(func), _memory(func)
    body = structural_map(func.body, (tirx.SeqStmt, lambda found: _waiting_late(found, wait, memory)))
    return func.with_body(tirx.SeqStmt([_allow(), body]))


def _allow() -> tirx.Evaluate:
    source = f"""
__device__ __forceinline__ void {ALLOW}() {{ asm volatile("griddepcontrol.launch_dependents;"); }}
"""
    return tirx.Evaluate(call_void(ALLOW, [], source))


def _wait(func: tirx.PrimFunc) -> tirx.Evaluate:
    # Nothing exits here. What no function writes is loaded by ld.global.nc, which ptxas moves in front of the
    # wait, although the kernel before may write it; it moves no load in front of a branch that it may not
    # come to. The branch asks for the place of the thread and for a parameter, so that both are read while
    # the kernel before runs. That is a result: what is read through a pointer whose bits are looked at counts
    # as written for nvcc, and ptxas would move its loads in front of no store any more.
    source = f"""
__device__ __forceinline__ void {WAIT}(const void* parameter) {{
  int above = reinterpret_cast<unsigned long long>(parameter) >> 48;
  int place = threadIdx.x + threadIdx.y + blockIdx.x + above;
  asm volatile(
    "{{\\n.reg .pred there;\\nsetp.ge.s32 there, %0, 0;\\n"
    "@there griddepcontrol.wait;\\n@!there exit;\\n}}\\n" : : "r"(place) : "memory");
}}
"""
    return tirx.Evaluate(call_void(WAIT, [_result(func)], source))


def _result(func: tirx.PrimFunc) -> Any:
    """The pointer to what a device function writes, the first of several; any where calls alone write."""
    stored = {store.buffer for store in nodes_of(func.body, tirx.BufferStore)}
    declared = nodes_of(func.body, tirx.DeclBuffer)
    results = {found.data for found in declared if found.buffer in stored}
    pointers = [found for found in func.params if not isinstance(found.ty.element_type, tirx.TensorMapType)]
    return next((found for found in pointers if found in results), pointers[0])


def _memory(func: tirx.PrimFunc) -> set[Any]:
    """What a device function is given, and its buffers there."""
    found = set(func.params)

    def declared(node: tirx.DeclBuffer) -> None:
        if node.data in found:
            found.add(node.buffer)

    structural_walk(func.body, (tirx.DeclBuffer, declared))
    return found


def _waiting_late(sequence: tirx.SeqStmt, wait: tirx.Evaluate, memory: set[Any]) -> Any:
    """The sequence that names a constant, its copies of that before the wait and all others behind it."""
    parts = flat(sequence)
    places = [place for place, part in enumerate(parts) if is_call(part, CONSTANT)]
    if not places:
        return sequence
    (place,) = places
    assert not any(_used(part, memory) for part in parts[:place])
    constant = _used(parts[place], memory)
    early, late = [], []
    rest = parts[place + 1 :]
    while rest and _is_group(rest[0]):
        group = rest.pop(0)
        copies = flat(_body(group))
        known = [copy for copy in copies if _used(copy, memory) == constant]
        early += _around(group, known) if isinstance(group, tirx.IfThenElse) else known
        late += _around(group, [copy for copy in copies if copy not in known])
    return tirx.SeqStmt([*parts[:place], *early, wait, *late, *rest])


def _is_group(statement: Any) -> bool:
    """Are these the copies of a tile, by all threads or by one?"""
    if isinstance(statement, tirx.AttrStmt):
        return bool(statement.attr_key == COMMIT_COPIES)
    return isinstance(statement, tirx.IfThenElse)


def _body(group: Any) -> Any:
    return group.then_case if isinstance(group, tirx.IfThenElse) else group.body


def _around(group: Any, copies: list[Any]) -> list[Any]:
    """The group of these copies alone. One of no copies is committed all the same: groups are counted."""
    body = sequence(copies or [tirx.Evaluate(0)])
    if isinstance(group, tirx.AttrStmt):
        return [changed(group, body=body)]
    return [tirx.IfThenElse(group.condition, body, None)] if copies else []


def _used(statement: Any, memory: set[Any]) -> set[Any]:
    """What of the function's memory a statement has to do with."""
    found: set[Any] = set()
    structural_walk(
        statement, (tirx.Var, lambda variable: found.add(variable) if variable in memory else None)
    )
    return found


def _launches_early(func: tirx.PrimFunc) -> bool:
    """Is a function for an architecture that launches so?"""
    target = func.attrs.get("target") or tvm.target.Target.current()
    if target is None or target.kind.name != "cuda":
        return False
    return multiprocessor_of(target).has_dependent_launch
