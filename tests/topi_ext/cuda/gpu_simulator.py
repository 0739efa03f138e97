"""A GPU in numpy: runs lowered device functions, all threads of a grid in step.

Statements and arithmetic are here; instructions of tensor cores and copies in ``gpu_instructions``. Reads
outside a buffer, and accesses of shared memory by two warps without a barrier in between, are errors of
``gpu_memory``; products of four warps are in ``gpu_warpgroups``. Shared memory begins as NaN.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm_ffi
from gpu_banks import waits
from gpu_instructions import INSTRUCTIONS, LANES
from gpu_memory import Memory
from gpu_warpgroups import Warpgroups
from tvm import tirx
from tvm.ir import Call
from tvm.ir.expr import TensorLoad


class Grid:
    """One launch: registers are arrays with a row per thread, shared memory has a row per block."""

    def __init__(self, func: tirx.PrimFunc, arguments: dict[str, Any]) -> None:
        """``arguments``: flat arrays, and tensor maps of ``gpu_bulk``, by the name of the function's
        parameter.
        """
        self.func, self.arguments = func, arguments
        self.values: dict[Any, Any] = {}
        self.memory: dict[Any, Memory] = {}
        self.mask: np.ndarray | None = None
        self.groups: list[list[Callable[[], None]]] = []
        self.open: list[Callable[[], None]] = []
        self.warpgroups = Warpgroups()
        self.barriers: dict[int, Any] = {}
        self.fragments: dict[Any, dict[Any, np.ndarray]] = {}
        self.waits = dict.fromkeys(("ldmatrix", "cp.async", "load", "store"), 0)
        extents = {"blockIdx.x": 1, "blockIdx.y": 1, "blockIdx.z": 1, "threadIdx.x": 1, "threadIdx.y": 1}
        variables: dict[Any, str] = {}
        self._launches(func.body, extents, variables)
        self.threads = extents["threadIdx.x"] * extents["threadIdx.y"]
        self.blocks = extents["blockIdx.x"] * extents["blockIdx.y"] * extents["blockIdx.z"]
        lane = np.arange(self.threads * self.blocks)
        thread, self.block = lane % self.threads, lane // self.threads
        # The last warp of a block may have fewer threads.
        self.idle = -self.threads % LANES
        self.warp = self.block * ((self.threads + self.idle) // LANES) + thread // LANES
        places = {
            "threadIdx.x": thread % extents["threadIdx.x"],
            "threadIdx.y": thread // extents["threadIdx.x"],
            "blockIdx.x": self.block % extents["blockIdx.x"],
            "blockIdx.y": self.block // extents["blockIdx.x"] % extents["blockIdx.y"],
            "blockIdx.z": self.block // (extents["blockIdx.x"] * extents["blockIdx.y"]),
        }
        for variable, tag in variables.items():
            self.values[variable] = places[tag]
        for parameter in func.params:
            self.values[parameter] = parameter

    def meet(self, instruction: str, memory: Memory, places: Any, count: int) -> None:
        """Count the turns that shared memory needs beyond the first for ``count`` elements of each lane from
        ``places`` on.
        """
        if memory.scope != "shared":
            return
        addresses = np.broadcast_to(places, self.block.shape) * memory.array.itemsize
        active = np.ones(self.block.shape, bool) if self.mask is None else self.mask
        whole = [
            np.pad(values.reshape(self.blocks, self.threads), ((0, 0), (0, self.idle))).reshape(-1)
            for values in (addresses, active)
        ]
        self.waits[instruction] += waits(whole[0], count * memory.array.itemsize, whole[1])

    def run(self) -> None:
        with np.errstate(all="ignore"):
            self.execute(self.func.body)

    def _launches(self, body: Any, extents: dict[str, int], variables: dict[Any, str]) -> None:
        def launched(node: tirx.AttrStmt) -> None:
            if node.attr_key == "thread_extent":
                extents[str(node.node.thread_tag)] = int(node.value)
                variables[node.node.var] = str(node.node.thread_tag)

        tvm_ffi.structural_walk(body, (tirx.AttrStmt, launched))

    # Statements

    def execute(self, node: Any) -> None:
        handler = getattr(self, f"_{type(node).__name__}", None)
        if handler is None:
            raise NotImplementedError(f"{type(node).__name__}: {node}")
        handler(node)

    def _SeqStmt(self, node: Any) -> None:
        for part in node.seq:
            self.execute(part)

    def _For(self, node: Any) -> None:
        begin, extent = int(self.value(node.min)), int(self.value(node.extent))
        for index in range(begin, begin + extent):
            self.values[node.loop_var] = index
            self.execute(node.body)

    def _IfThenElse(self, node: Any) -> None:
        condition = self.value(node.condition)
        if np.ndim(condition) == 0:
            chosen = node.then_case if condition else node.else_case
            if chosen is not None:
                self.execute(chosen)
            return
        self.masked(condition, lambda: self.execute(node.then_case))
        if node.else_case is not None:
            self.masked(~condition, lambda: self.execute(node.else_case))

    def masked(self, condition: Any, run: Callable[[], Any]) -> Any:
        outer = self.mask
        self.mask = condition if outer is None else outer & condition
        try:
            return run()
        finally:
            self.mask = outer

    def _AttrStmt(self, node: Any) -> None:
        if node.attr_key == "async_wait_inflight_count":
            allowed = int(node.value)
            while len(self.groups) > allowed:
                for arrive in self.groups.pop(0):
                    arrive()
        self.execute(node.body)
        if node.attr_key == "async_commit_queue_scope":
            self.groups.append(self.open)
            self.open = []

    def _AllocBuffer(self, node: Any) -> None:
        self.memory[node.buffer] = Memory.allocate(self, node.buffer)

    def _DeclBuffer(self, node: Any) -> None:
        source = self.pointed(node.data)
        self.memory[node.buffer] = source.seen_as(str(node.buffer.dtype))

    def _Bind(self, node: Any) -> None:
        self.values[node.var] = self.value(node.value)

    def _Evaluate(self, node: Any) -> None:
        if isinstance(node.value, Call):
            self.value(node.value)

    def _BufferStore(self, node: Any) -> None:
        if _stores_itself(node):
            return
        memory, index = self.memory[node.buffer], self.value(node.indices[0])
        self._meet_elements("store", memory, index)
        memory.write(index, self.value(node.value))

    def _meet_elements(self, instruction: str, memory: Memory, index: Any) -> None:
        place = np.asarray(index)
        runs = place.ndim == 2
        count = memory.lanes * (place.shape[1] if runs else 1)
        self.meet(instruction, memory, (place[:, 0] if runs else place) * memory.lanes, count)

    # Expressions

    def value(self, node: Any) -> Any:
        if isinstance(node, (int, float, str)):
            return node
        handler = _BINARY.get(type(node).__name__)
        if handler is not None:
            return handler(*_together(self.value(node.a), self.value(node.b)))
        if node in self.values:
            return self.values[node]
        return getattr(self, f"_value_{type(node).__name__}")(node)

    def _value_IntImm(self, node: Any) -> Any:
        return int(node.value)

    def _value_FloatImm(self, node: Any) -> Any:
        return np.dtype(str(node.ty.dtype)).type(node.value)

    def _value_StringImm(self, node: Any) -> Any:
        return str(node.value)

    def _value_Not(self, node: Any) -> Any:
        return np.logical_not(self.value(node.a))

    def _value_Cast(self, node: Any) -> Any:
        scalar = str(node.ty.dtype).split("x")[0]
        return np.asarray(self.value(node.value)).astype(scalar)

    def _value_Select(self, node: Any) -> Any:
        parts = [self.value(part) for part in (node.condition, node.true_value, node.false_value)]
        return np.where(*parts)

    def _value_Ramp(self, node: Any) -> Any:
        base = np.atleast_1d(self.value(node.base))
        return base[..., None] + np.arange(int(node.lanes)) * int(self.value(node.stride))

    def _value_Broadcast(self, node: Any) -> Any:
        value = np.atleast_1d(self.value(node.value))
        return np.broadcast_to(value[..., None], (*value.shape, int(node.lanes)))

    def _value_TensorLoad(self, node: TensorLoad) -> Any:
        memory, index = self.memory[node.source], self.value(node.indices[0])
        self._meet_elements("load", memory, index)
        return memory.read(index)

    def _value_Call(self, node: Call) -> Any:
        name = str(node.op.name).removeprefix("tirx.").removeprefix("prim.")
        name = name.replace(".", "_")
        if name in INSTRUCTIONS:
            return INSTRUCTIONS[name](self, node)
        handler = getattr(self, f"call_{name}", None)
        if handler is None:
            raise NotImplementedError(f"{name}: {node}")
        return handler(node)

    def pointed(self, pointer: Any) -> Memory:
        """The memory that a pointer names: a parameter, or the address of a buffer."""
        if isinstance(pointer, Call):
            return self.memory[pointer.args[0]]
        return Memory(self, self.arguments[str(pointer.name).removesuffix("_ptr")], "global")

    def call_if_then_else(self, node: Call) -> Any:
        condition, first, second = node.args
        chosen = self.value(condition)
        if np.ndim(chosen) == 0:
            return self.value(first if chosen else second)
        one = self.masked(chosen if chosen.ndim == 1 else chosen.all(-1), lambda: self.value(first))
        two = self.masked(~chosen if chosen.ndim == 1 else ~chosen.any(-1), lambda: self.value(second))
        if max(np.ndim(one), np.ndim(two)) > chosen.ndim:
            chosen = chosen[:, None]
        return np.where(chosen, one, two)

    def call_likely(self, node: Call) -> Any:
        return self.value(node.args[0])

    def call_tvm_storage_sync(self, node: Call) -> None:
        for memory in self.memory.values():
            memory.synchronize()

    def call_bitwise_and(self, node: Call) -> Any:
        return np.bitwise_and(*(self.value(part) for part in node.args))

    def call_reinterpret(self, node: Call) -> Any:
        found, wanted = (str(part.ty.dtype).split("x")[0] for part in (node.args[0], node))
        return np.ascontiguousarray(self.value(node.args[0]), found).view(wanted)

    def call_shift_right(self, node: Call) -> Any:
        return np.right_shift(*(self.value(part) for part in node.args))

    def call_nearbyint(self, node: Call) -> Any:
        return np.rint(self.value(node.args[0]))

    def call_rsqrt(self, node: Call) -> Any:
        return 1 / np.sqrt(self.value(node.args[0]))

    def call_sigmoid(self, node: Call) -> Any:
        return 1 / (1 + np.exp(-self.value(node.args[0])))

    def call_exp(self, node: Call) -> Any:
        return np.exp(self.value(node.args[0]))


def _stores_itself(node: Any) -> bool:
    """TVM's sums across threads end in a store of an element to itself, which code generation drops."""
    value = node.value
    if not isinstance(value, TensorLoad) or not value.source.same_as(node.buffer):
        return False
    return bool(tvm_ffi.structural_equal(value.indices[0], node.indices[0]))


def _together(a: Any, b: Any) -> tuple[Any, Any]:
    """Scalars per thread beside vectors per thread."""
    if np.ndim(a) == 1 and np.ndim(b) == 2:
        return np.asarray(a)[:, None], b
    if np.ndim(b) == 1 and np.ndim(a) == 2:
        return a, np.asarray(b)[:, None]
    return a, b


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Div": lambda a, b: np.trunc(np.divide(a, b)).astype(int) if _whole(a, b) else a / b,
    "Mod": lambda a, b: np.fmod(a, b),
    "FloorDiv": lambda a, b: a // b,
    "FloorMod": lambda a, b: a % b,
    "Min": np.minimum,
    "Max": np.maximum,
    "EQ": lambda a, b: a == b,
    "NE": lambda a, b: a != b,
    "LT": lambda a, b: a < b,
    "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b,
    "GE": lambda a, b: a >= b,
    "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
    "RShift": np.right_shift,
    "And": np.logical_and,
    "Or": np.logical_or,
}


def _whole(a: Any, b: Any) -> bool:
    return np.asarray(a).dtype.kind in "iu" and np.asarray(b).dtype.kind in "iu"
