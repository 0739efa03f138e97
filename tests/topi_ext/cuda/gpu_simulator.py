"""A GPU in numpy: runs lowered device functions, all threads of a grid in step.

Instructions of tensor cores and asynchronous copies do what the PTX ISA says of them: a copy only arrives
when it is waited for. Reads outside a buffer, and accesses of shared memory by two warps without a barrier
in between, are errors. Shared memory begins as NaN.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm_ffi
from tvm import tirx
from tvm.ir import Call
from tvm.ir.expr import TensorLoad

LANES = 32


class SimulationError(AssertionError):
    """A program that a GPU would run to an undefined result."""


class Grid:
    """One launch: registers are arrays with a row per thread, shared memory has a row per block."""

    def __init__(self, func: tirx.PrimFunc, arguments: dict[str, np.ndarray]) -> None:
        """``arguments``: flat arrays by the name of the function's parameter."""
        self.func, self.arguments = func, arguments
        self.values: dict[Any, Any] = {}
        self.memory: dict[Any, _Memory] = {}
        self.mask: np.ndarray | None = None
        self.groups: list[list[Callable[[], None]]] = []
        self.open: list[Callable[[], None]] = []
        self.fragments: dict[Any, dict[Any, np.ndarray]] = {}
        extents = {"blockIdx.x": 1, "blockIdx.y": 1, "blockIdx.z": 1, "threadIdx.x": 1, "threadIdx.y": 1}
        variables: dict[Any, str] = {}
        self._launches(func.body, extents, variables)
        self.threads = extents["threadIdx.x"] * extents["threadIdx.y"]
        self.blocks = extents["blockIdx.x"] * extents["blockIdx.y"] * extents["blockIdx.z"]
        lane = np.arange(self.threads * self.blocks)
        thread, self.block = lane % self.threads, lane // self.threads
        self.warp = lane // LANES
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
        self._masked(condition, lambda: self.execute(node.then_case))
        if node.else_case is not None:
            self._masked(~condition, lambda: self.execute(node.else_case))

    def _masked(self, condition: Any, run: Callable[[], Any]) -> Any:
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
        self.memory[node.buffer] = _Memory.allocate(self, node.buffer)

    def _DeclBuffer(self, node: Any) -> None:
        source = self.pointed(node.data)
        self.memory[node.buffer] = source.seen_as(str(node.buffer.dtype))

    def _Bind(self, node: Any) -> None:
        self.values[node.var] = self.value(node.value)

    def _Evaluate(self, node: Any) -> None:
        if isinstance(node.value, Call):
            self.value(node.value)

    def _BufferStore(self, node: Any) -> None:
        self.memory[node.buffer].write(self.value(node.indices[0]), self.value(node.value))

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
        return self.memory[node.source].read(self.value(node.indices[0]))

    def _value_Call(self, node: Call) -> Any:
        name = str(node.op.name).removeprefix("tirx.").removeprefix("prim.")
        handler = getattr(self, "call_" + name.replace(".", "_"), None)
        if handler is None:
            raise NotImplementedError(f"{name}: {node}")
        return handler(node)

    def pointed(self, pointer: Any) -> "_Memory":
        """The memory that a pointer names: a parameter, or the address of a buffer."""
        if isinstance(pointer, Call):
            return self.memory[pointer.args[0]]
        return _Memory(self, self.arguments[str(pointer.name).removesuffix("_ptr")], "global")

    def call_if_then_else(self, node: Call) -> Any:
        condition, first, second = node.args
        chosen = self.value(condition)
        if np.ndim(chosen) == 0:
            return self.value(first if chosen else second)
        one = self._masked(chosen if chosen.ndim == 1 else chosen.all(-1), lambda: self.value(first))
        two = self.value(second)
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

    def call_shift_right(self, node: Call) -> Any:
        return np.right_shift(*(self.value(part) for part in node.args))

    def call_exp(self, node: Call) -> Any:
        return np.exp(self.value(node.args[0]))

    def call_mma_fill_legacy(self, node: Call) -> None:
        size, pointer, offset = node.args
        self.pointed(pointer).write(self.value(offset) + np.arange(int(size))[None], np.float32(0))

    def call_tvm_access_ptr(self, node: Call) -> tuple["_Memory", Any]:
        # The offset counts elements of the dtype that the access names.
        return self.pointed(node.args[1]).seen_as(str(node.args[0].ty.dtype)), self.value(node.args[2])

    def call_s_tir_cp_async_raw(self, node: Call) -> None:
        to, to_offset, origin, from_offset, size = node.args[:5]
        target, source = self.pointed(to), self.pointed(origin)
        count = int(self.value(size)) // source.array.itemsize
        places = np.asarray(self.value(to_offset))[:, None] + np.arange(count)
        wanted = np.asarray(self.value(from_offset))[:, None] + np.arange(count)
        if (wanted[:, 0] * source.array.itemsize % int(self.value(size))).any() and len(node.args) == 5:
            raise SimulationError(f"{node} reads from an address that is no multiple of its size")
        if len(node.args) > 5:
            chosen = np.broadcast_to(self.value(node.args[5]), self.block.shape)
            data = self._masked(chosen, lambda: source.read(wanted))
            data = np.where(chosen[:, None], data, 0)
        else:
            data = source.read(wanted)
        mask = self.mask
        target.touch(places)

        def arrive() -> None:
            outer, self.mask = self.mask, mask
            target.write(places, data)
            self.mask = outer

        self.open.append(arrive)

    def call_ptx_legacy_ldmatrix(self, node: Call) -> None:
        transposed, count, _, to, offset, source, rows = node.args
        memory, base = self.value(source)
        address = np.broadcast_to(base + self.value(rows), self.block.shape)
        if ((address * memory.array.itemsize) % 16).any():
            raise SimulationError(f"{node} reads a row at an address that is no multiple of 16")
        width = 16 // memory.array.itemsize
        matrix = memory.read(address[:, None] + np.arange(width)).reshape(-1, 4, 8, width)
        if self.value(transposed):
            matrix = matrix.swapaxes(2, 3)
        own = width // 4
        parts = matrix.reshape(-1, 4, LANES, own)[:, : int(self.value(count))]
        values = parts.transpose(0, 2, 1, 3).reshape(self.block.size, -1)
        self.pointed(to).write(self.value(offset) + np.arange(values.shape[1])[None], values)

    def _fragments(self, buffer: Any) -> dict[Any, np.ndarray]:
        return self.fragments.setdefault(buffer.args[0], {})

    def call_tvm_fill_fragment(self, node: Call) -> None:
        pointer, _, _, _, index, value = node.args
        matrix = np.full((self.block.size // LANES, 16, 16), self.value(value), np.float32)
        self._fragments(pointer)[self.value(index)] = matrix

    def _matrix(self, source: Call, stride: Any, layout: Any) -> tuple["_Memory", Any]:
        memory, base = self.value(source)
        base = np.broadcast_to(base, self.block.shape)[:, None]
        row, column = np.divmod(np.arange(LANES)[:, None] * 8 + np.arange(8), 16)
        if self.value(layout) == "col_major":
            row, column = column, row
        place = np.tile(row * self.value(stride) + column, (self.block.size // LANES, 1))
        return memory, base + place

    def call_tvm_load_matrix_sync(self, node: Call) -> None:
        pointer, _, _, _, index, source, stride, layout = node.args
        memory, places = self._matrix(source, stride, layout)
        self._fragments(pointer)[self.value(index)] = memory.read(places).reshape(-1, 16, 16)

    def call_tvm_store_matrix_sync(self, node: Call) -> None:
        pointer, _, _, _, index, source, stride, layout = node.args
        memory, places = self._matrix(source, stride, layout)
        memory.write(places, self._fragments(pointer)[self.value(index)].reshape(places.shape))

    def call_tvm_mma_sync(self, node: Call) -> None:
        out, to, a, left, b, right, c, sums = node.args
        found = [self._fragments(p)[self.value(i)] for p, i in ((a, left), (b, right), (c, sums))]
        one, two = (part.astype(np.float32) for part in found[:2])
        self._fragments(out)[self.value(to)] = found[2] + np.matmul(one, two)

    def call_ptx_legacy_mma(self, node: Call) -> None:
        shape = str(self.value(node.args[0]))
        m, n, k = (int(part) for part in shape.replace("m", " ").replace("n", " ").replace("k", " ").split())
        operands = [
            (self.pointed(node.args[place]), self.value(node.args[place + 1])) for place in (6, 8, 10)
        ]
        sizes = (m * k // LANES, k * n // LANES, m * n // LANES)
        loaded = [
            memory.read(
                np.broadcast_to(np.asarray(offset), self.block.shape)[:, None] + np.arange(size)
            ).reshape(-1, LANES, size)
            for (memory, offset), size in zip(operands, sizes, strict=True)
        ]
        lane = np.arange(LANES)[:, None]
        run = sizes[1] // 2 if k > 8 else 1
        left, right, sums = (np.arange(size)[None] for size in sizes)
        a_row = lane // 4 + left // run % 2 * 8
        a_col = lane % 4 * run + left % run + left // (2 * run) * 4 * run
        b_row = lane % 4 * run + right % run + right // run * 4 * run
        c_row, c_col = lane // 4 + sums // 2 * 8, lane % 4 * 2 + sums % 2
        warps = loaded[0].shape[0]
        a, b = np.zeros((warps, m, k), np.float32), np.zeros((warps, k, n), np.float32)
        a[:, a_row, a_col] = loaded[0]
        b[:, b_row, np.broadcast_to(lane // 4, b_row.shape)] = loaded[1]
        product = loaded[2] + np.matmul(a, b)[:, c_row, c_col]
        memory, offset = operands[2]
        memory.write(offset + np.arange(sizes[2])[None], product.reshape(self.block.size, -1))


class _Memory:
    """A buffer: "global" is one array, "shared.dyn" has a row per block, "local" a row per thread."""

    def __init__(self, grid: Grid, array: np.ndarray, scope: str) -> None:
        self.grid, self.array, self.scope = grid, array, scope
        self.written = self.seen = None
        self.lanes = 1

    @staticmethod
    def allocate(grid: Grid, buffer: Any) -> "_Memory":
        (size,) = (int(extent) for extent in buffer.shape)
        scalar, _, lanes = str(buffer.dtype).partition("x")
        dtype, scope, size = np.dtype(scalar), str(buffer.scope()), size * int(lanes or 1)
        rows = grid.blocks if scope.startswith("shared") else grid.block.size
        bits = np.full((rows, size * dtype.itemsize), 0xFF, np.uint8)
        memory = _Memory(grid, bits.view(dtype), "shared" if scope.startswith("shared") else "local")
        memory.lanes = int(lanes or 1)
        if memory.scope == "shared":
            # Per two bytes: the warp that wrote or read it since the last barrier, -1 none, -2 several.
            memory.written = np.full((rows, bits.shape[1] // 2), -1)
            memory.seen = memory.written.copy()
        return memory

    def seen_as(self, dtype: str) -> "_Memory":
        same = _Memory(self.grid, self.array, self.scope)
        if str(self.array.dtype) != dtype:
            same.array = self.array.view(dtype)
        same.written, same.seen = self.written, self.seen
        return same

    def synchronize(self) -> None:
        for marks in (self.written, self.seen):
            if marks is not None:
                marks.fill(-1)

    def read(self, index: Any) -> Any:
        row, place, active = self._where(index)
        if self.scope == "global":
            return self.array[place]
        if self.written is not None:
            self._check(self.written, row, place, active, "reads what another wrote")
            self._mark(self.seen, row, place, active)
        return self.array[row, place]

    def write(self, index: Any, value: Any) -> None:
        row, place, active = self._where(index)
        value = np.broadcast_to(np.asarray(value), place.shape).astype(self.array.dtype)
        if self.written is not None:
            self._hazard(row, place, active)
            self._mark(self.written, row, place, active)
        if self.scope == "global":
            self.array[place[active]] = value[active]
        else:
            self.array[np.broadcast_to(row, place.shape)[active], place[active]] = value[active]

    def touch(self, index: Any) -> None:
        """A write that begins now and ends later."""
        row, place, active = self._where(index)
        self._hazard(row, place, active)

    def _hazard(self, row: Any, place: Any, active: Any) -> None:
        self._check(self.seen, row, place, active, "overwrites what another read")
        self._check(self.written, row, place, active, "overwrites what another wrote")

    def _where(self, index: Any) -> tuple[Any, Any, Any]:
        """Rows, places, and which of them are accessed; places of idle threads are moved to 0."""
        size = self.grid.block.size
        place = np.asarray(index)
        if self.lanes > 1:
            place = np.atleast_1d(place)[:, None] * self.lanes + np.arange(self.lanes)
        place = np.broadcast_to(place, (size, *place.shape[1:]) if place.ndim else (size,))
        mask = np.ones(size, bool) if self.grid.mask is None else self.grid.mask
        if place.ndim == 2:
            mask = mask[:, None]
        active = np.broadcast_to(mask, place.shape)
        length = self.array.shape[-1]
        wrong = active & ((place < 0) | (place >= length))
        if wrong.any():
            raise SimulationError(f"{self.scope} memory of {length}: access at {place[wrong][0]}")
        place = np.where(active, place, 0)
        row = self.grid.block if self.scope == "shared" else np.arange(size)
        return (row[:, None] if place.ndim == 2 else row), place, active

    def _units(self, row: Any, place: Any, active: Any) -> tuple[Any, Any, Any]:
        rows, warps = np.broadcast_to(row, place.shape)[active], self.grid.warp
        warps = np.broadcast_to(warps[:, None] if place.ndim == 2 else warps, place.shape)[active]
        return rows, place[active] * self.array.itemsize // 2, warps

    def _check(self, marks: Any, row: Any, place: Any, active: Any, what: str) -> None:
        rows, units, warps = self._units(row, place, active)
        found = marks[rows, units]
        bad = (found != -1) & (found != warps)
        if bad.any():
            raise SimulationError(f"a warp {what} at byte {units[bad][0] * 2} without a barrier in between")

    def _mark(self, marks: Any, row: Any, place: Any, active: Any) -> None:
        rows, units, warps = self._units(row, place, active)
        before = marks[rows, units]
        marks[rows, units] = np.where((before == -1) | (before == warps), warps, -2)
        # Several warps of one step may have met at one place.
        after = marks[rows, units]
        marks[rows[after != warps], units[after != warps]] = -2


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
    "And": np.logical_and,
    "Or": np.logical_or,
}


def _whole(a: Any, b: Any) -> bool:
    return np.asarray(a).dtype.kind in "iu" and np.asarray(b).dtype.kind in "iu"


__all__ = ["Grid", "SimulationError"]
