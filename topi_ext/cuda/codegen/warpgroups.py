"""The order that products of warpgroups need, which no pass of TVM's knows of.

They run on while their warps go on (PTX ISA, "Async Proxy" of wgmma). So that no tile is overwritten while it
is read, and no sum read before it is there, all are waited for at every barrier; a fence lets them see what
was copied before it. Copies of later tiles are issued behind the products of a turn, not in front of them,
and arrive in the tile that the turn before has read: one barrier is enough for both.
"""

from typing import Any

import tvm
from tvm import tirx
from tvm.ir import Call, Op
from tvm.ir.expr import TensorLoad
from tvm_ffi import structural_map, structural_walk

from topi_ext.codegen.passes import function_pass
from topi_ext.cuda.codegen.bulk_copies import is_copy
from topi_ext.cuda.codegen.bulk_order import order_bulk_copies
from topi_ext.cuda.codegen.copy_order import before_copies, copies_and_products
from topi_ext.cuda.codegen.fragments import THREAD_EXTENT
from topi_ext.cuda.codegen.statements import flat, holds, is_barrier, is_call, with_body
from topi_ext.cuda.codegen.tensor_functions import SHARED
from topi_ext.cuda.codegen.wgmma import (
    COMMIT,
    FENCE,
    GROUP,
    MULTIPLY,
    SHARED_ALIGNMENT,
    commit,
    fence,
    is_product,
    proxy_fence,
    wait,
)
from topi_ext.cuda.multiprocessor import multiprocessor_of
from topi_ext.ir import changed, nodes_of

_REGISTERS = Op.get("tirx.buffer_data")


@function_pass
def order_warpgroups(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Fences, commits and waits around products by wgmma, and memory as they want it aligned.

    All kernels of a module have one name for dynamic shared memory, and nvcc takes the alignment that comes
    first: so on architectures with wgmma those without products have theirs aligned, too.

    Expects device functions with flat buffers, in which sums are registers of each lane.
    """
    if not _has_wgmma(func):
        return func
    products = list(filter(is_product, nodes_of(func.body, Call)))
    body = _ordered(func.body, products[0]) if products else func.body
    return func.with_body(_aligned(body))


def _ordered(body: Any, product: Call) -> Any:
    threads: dict[str, Any] = {}

    def launched(launch: tirx.AttrStmt) -> None:
        if launch.attr_key == THREAD_EXTENT:
            threads[str(launch.node.thread_tag)] = launch.node.var

    structural_walk(body, (tirx.AttrStmt, launched))
    lane, warp = threads["threadIdx.x"], threads["threadIdx.y"]
    if holds(body, Call, is_copy):
        first = tirx.all(tirx.EQ(lane, 0), tirx.EQ(warp, 0))
        body = structural_map(body, (tirx.SeqStmt, lambda found: order_bulk_copies(found, product, first)))
    else:
        body = structural_map(body, (tirx.For, _copying_behind))
        body = structural_map(body, (tirx.Evaluate, lambda found: _waiting(found, product)))
    body = structural_map(body, (tirx.Evaluate, lambda found: _around(found, warp)))
    return structural_map(body, (tirx.SeqStmt, lambda found: _joined(found, product)))


def _has_wgmma(func: tirx.PrimFunc) -> bool:
    target = func.attrs.get("target") or tvm.target.Target.current()
    return target is not None and target.kind.name == "cuda" and multiprocessor_of(target).wgmma_gain > 0


def _copying_behind(loop: tirx.For) -> Any:
    """The loop over tiles with its copies last, without the barrier in front of them."""
    parts = copies_and_products(loop)
    if parts is None:
        return loop
    copies, products = parts
    kept = [part for part in copies.body.seq if not is_barrier(part)]
    copies = changed(copies, body=tirx.SeqStmt(kept))
    return with_body(loop, tirx.SeqStmt([before_copies(products, products.body.body), copies]))


def _waiting(statement: tirx.Evaluate, product: Call) -> Any:
    """A barrier that waits for all products."""
    if not is_barrier(statement):
        return statement
    return tirx.SeqStmt([tirx.Evaluate(wait(product)), tirx.Evaluate(proxy_fence()), statement])


def _around(statement: tirx.Evaluate, warp: Any) -> Any:
    """A product with its fence and as a group of its own."""
    if not is_call(statement, MULTIPLY):
        return statement
    found = statement.value
    calls = [fence(found, _loaded(found)), _of_first_warp(found, warp), commit()]
    return tirx.SeqStmt([tirx.Evaluate(call) for call in calls])


def _loaded(product: Call) -> int:
    """Registers that hold left operands, of all products of a turn."""
    left = product.args[5]
    return int(left.args[0].shape[0]) if isinstance(left, Call) and left.op.same_as(_REGISTERS) else 0


def _of_first_warp(product: Call, warp: Any) -> Call:
    """The product of a warp's rows as that of its group, which begins with the first warp's."""
    arguments, first = list(product.args), tirx.floordiv(warp, GROUP) * GROUP
    arguments[5] = structural_map(
        arguments[5], (tirx.Var, lambda found: first if found.same_as(warp) else found)
    )
    return Call(product.op, arguments, product.attrs, product.ty_args, ret_ty=product.ty)


def _joined(sequence: tirx.SeqStmt, product: Call) -> Any:
    """Neighbouring products as one group, and a wait in front of what reads sums without a barrier."""
    joined: list[Any] = []
    pending = False
    for part in flat(sequence):
        if joined and is_call(joined[-1], COMMIT) and is_call(part, FENCE):
            joined.pop()
            continue
        if pending and _reads(part, product.args[1].args[0]):
            joined.append(tirx.Evaluate(wait(product)))
            pending = False
        pending = not is_barrier(part) and (pending or holds(part, Call, is_product))
        joined.append(part)
    return tirx.SeqStmt(joined)


def _reads(statement: Any, sums: Any) -> bool:
    return holds(statement, TensorLoad, lambda load: load.source.same_as(sums))


def _aligned(body: Any) -> Any:
    """Dynamic shared memory from a multiple of what the descriptors' permutations repeat after."""
    buffers: dict[Any, Any] = {}

    def allocated(allocation: tirx.AllocBuffer) -> None:
        old = allocation.buffer
        if old.scope() == SHARED:
            buffers[old] = tirx.decl_buffer(
                old.shape, str(old.dtype), old.name, scope=old.scope(), data_alignment=SHARED_ALIGNMENT
            )

    def moved(allocation: tirx.AllocBuffer) -> Any:
        new = buffers.get(allocation.buffer)
        return allocation if new is None else tirx.AllocBuffer(new, annotations=allocation.annotations)

    structural_walk(body, (tirx.AllocBuffer, allocated))
    return structural_map(
        body,
        [(tirx.AllocBuffer, moved), (tirx.Var, lambda variable: buffers.get(variable, variable))],
    )
