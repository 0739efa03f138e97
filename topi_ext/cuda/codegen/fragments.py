"""Fragments of tensor-core operands as registers of each lane.

Schedules keep fragments in buffers of scope "warp" whose two innermost axes are the lane and the elements
that the lane owns. Every lane only touches its own elements, so the lane drops out of the index, and what is
left is an array of each thread. TVM's LowerWarpMemory does the same for one buffer of a function, and only
where it can prove what is its own.
"""

from typing import Any

import tvm
from tvm import tirx
from tvm.ir import Call, Op
from tvm.ir.expr import TensorLoad
from tvm_ffi import structural_map, structural_walk

from topi_ext.codegen.passes import function_pass
from topi_ext.cuda.multiprocessor import LANES

THREAD_EXTENT = "thread_extent"

_ADDRESS = Op.get("tirx.buffer_data")


@function_pass
def lower_fragments(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Buffers of scope "warp" become buffers of scope "local", a 32nd of the size.

    Expects flat buffers of device functions, accessed at ``(fragment * 32 + threadIdx.x) * owned + element``.
    """
    return func.with_body(_Fragments(func.body).lowered(func.body))


class _Fragments:
    """The fragments of one function."""

    def __init__(self, body: Any) -> None:
        self.buffers: dict[Any, Any] = {}
        self.lanes: set[Any] = set()
        structural_walk(body, [(tirx.AllocBuffer, self._allocated), (tirx.AttrStmt, self._launched)])
        self.new = list(self.buffers.values())

    def _allocated(self, allocation: tirx.AllocBuffer) -> None:
        old = allocation.buffer
        if old.scope() == "warp":
            (size,) = old.shape
            self.buffers[old] = tirx.decl_buffer(
                (int(size) // LANES,), str(old.dtype), old.name, scope="local", data_alignment=16
            )

    def _launched(self, launch: tirx.AttrStmt) -> None:
        if launch.attr_key == THREAD_EXTENT and launch.node.thread_tag == "threadIdx.x":
            self.lanes.add(launch.node.var)

    def lowered(self, body: Any) -> Any:
        if not self.buffers:
            return body
        return structural_map(
            body,
            [
                (tirx.AllocBuffer, self._allocation),
                (TensorLoad, self._load),
                (tirx.BufferStore, self._store),
                (Call, self._call),
                (tirx.Var, lambda variable: self.buffers.get(variable, variable)),
            ],
        )

    def _is_fragment(self, buffer: Any) -> bool:
        return any(buffer.same_as(found) for found in self.new)

    def _allocation(self, allocation: tirx.AllocBuffer) -> Any:
        new = self.buffers.get(allocation.buffer)
        return allocation if new is None else tirx.AllocBuffer(new, annotations=allocation.annotations)

    def _load(self, load: TensorLoad) -> Any:
        if not self._is_fragment(load.source):
            return load
        return tirx.BufferLoad(load.source, [self._own(load.indices[0])])

    def _store(self, store: tirx.BufferStore) -> Any:
        if not self._is_fragment(store.buffer):
            return store
        return tirx.BufferStore(store.buffer, store.value, [self._own(store.indices[0])])

    def _call(self, call: Call) -> Any:
        """An instruction takes the address of a buffer, followed by where in it the fragment begins."""
        arguments, changed = list(call.args), False
        for place, argument in enumerate(call.args):
            if (
                isinstance(argument, Call)
                and argument.op.same_as(_ADDRESS)
                and self._is_fragment(argument.args[0])
            ):
                arguments[place + 1] = self._own(arguments[place + 1])
                changed = True
        return Call(call.op, arguments, call.attrs, call.ty_args, ret_ty=call.ty) if changed else call

    def _own(self, index: Any) -> Any:
        """The place in a lane's own registers of an element of a fragment, or of several side by side."""
        if isinstance(index, tirx.Ramp):
            return tirx.Ramp(self._own(index.base), index.stride, index.lanes)
        first, second = (self._of_lane(index, lane) for lane in range(2))
        analyzer = tvm.sym.Analyzer()
        owned = analyzer.simplify(second - first)
        whole = tirx.floordiv(first, LANES * owned) * owned + tirx.floormod(first, owned)
        return analyzer.simplify(whole)

    def _of_lane(self, index: Any, lane: int) -> Any:
        number = tirx.const(lane, "int32")
        return structural_map(index, (tirx.Var, lambda found: number if found in self.lanes else found))
