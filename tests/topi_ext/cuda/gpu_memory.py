"""Memory of a simulated GPU, which knows who touched it since the last barrier."""

from typing import Any

import numpy as np

PATTERN_BYTES = 1024
"""After which the permutations of wgmma's descriptors repeat."""


class SimulationError(AssertionError):
    """A program that a GPU would run to an undefined result."""


class Memory:
    """A buffer: "global" is one array, "shared.dyn" has a row per block, "local" a row per thread.

    ``begin`` is the address of shared memory, which is aligned to no more than was asked for. ``in_flight``:
    registers are sums or operands of products by wgmma; ``fenced``: it may take them.
    """

    WRITTEN, FENCED = 1, 2

    def __init__(self, grid: Any, array: np.ndarray, scope: str) -> None:
        """``grid`` is the launch, a ``gpu_simulator.Grid``: its threads, blocks and mask."""
        self.grid, self.array, self.scope = grid, array, scope
        self.written = self.seen = self.proxy = self.reading = self.arriving = self.kept = None
        self.lanes = 1
        self.begin = 0
        self.in_flight = self.fenced = False

    @staticmethod
    def allocate(grid: Any, buffer: Any) -> "Memory":
        (size,) = (int(extent) for extent in buffer.shape)
        scalar, _, lanes = str(buffer.dtype).partition("x")
        dtype, scope, size = np.dtype(scalar), str(buffer.scope()), size * int(lanes or 1)
        rows = grid.blocks if scope.startswith("shared") else grid.block.size
        bits = np.full((rows, size * dtype.itemsize), 0xFF, np.uint8)
        memory = Memory(grid, bits.view(dtype), "shared" if scope.startswith("shared") else "local")
        memory.lanes = int(lanes or 1)
        if memory.scope == "shared":
            # Per two bytes: the warp that wrote or read it since the last barrier, -1 none, -2 several.
            memory.written = np.full((rows, bits.shape[1] // 2), -1)
            memory.seen = memory.written.copy()
            # Whether wgmma may see what was written, and the last group of products that is reading.
            memory.proxy = np.zeros(memory.written.shape, np.int8)
            memory.reading = np.zeros(memory.written.shape, int)
            # What bulk copies are writing, and where barriers are that count their bytes.
            memory.arriving = np.zeros(memory.written.shape, bool)
            memory.kept = np.zeros(memory.written.shape, bool)
            memory.begin = int(buffer.data_alignment) % PATTERN_BYTES
        return memory

    def seen_as(self, dtype: str) -> "Memory":
        same = Memory(self.grid, self.array, self.scope)
        scalar, _, lanes = dtype.partition("x")
        same.lanes = int(lanes or 1)
        if str(self.array.dtype) != scalar:
            same.array = self.array.view(scalar)
        same.written, same.seen = self.written, self.seen
        same.proxy, same.reading, same.begin = self.proxy, self.reading, self.begin
        same.arriving, same.kept = self.arriving, self.kept
        return same

    def synchronize(self) -> None:
        for marks in (self.written, self.seen):
            if marks is not None:
                marks.fill(-1)
        if self.proxy is not None:
            self.proxy[self.proxy == self.FENCED] = 0

    def multiplied(self, row: Any, place: Any) -> np.ndarray:
        """Elements of shared memory that wgmma takes, by block and place, and goes on reading."""
        assert self.written is not None and self.proxy is not None and self.reading is not None
        if place.min() < 0 or place.max() >= self.array.shape[1]:
            raise SimulationError(f"wgmma reads outside shared memory of {self.array.shape[1]}")
        units = place * self.array.itemsize // 2
        self._arrived(row, units, "wgmma")
        if (self.written[row, units] != -1).any():
            raise SimulationError("wgmma reads what was written without a barrier in between")
        if self.proxy[row, units].any():
            raise SimulationError("wgmma reads what no fence.proxy.async came behind before the barrier")
        self.seen[row, units] = -2
        self.reading[row, units] = self.grid.warpgroups.group
        return self.array[row, place]

    def arrives(self, row: Any, units: Any) -> None:
        """A bulk copy begins to write."""
        assert self.reading is not None and self.arriving is not None and self.kept is not None
        assert self.written is not None and self.seen is not None and self.proxy is not None
        if units.min() < 0 or units.max() >= self.reading.shape[1]:
            raise SimulationError("a bulk copy writes outside shared memory")
        self._arrived(row, units, "a bulk copy")
        for marks, what in (
            (self.reading[row, units] > 0, "wgmma is reading before wgmma.wait_group"),
            (self.kept[row, units], "a barrier is kept in"),
            (self.seen[row, units] != -1, "was read without a barrier in between"),
            (self.written[row, units] != -1, "was written without a barrier in between"),
            (self.proxy[row, units] > 0, "was written without fence.proxy.async"),
        ):
            if marks.any():
                raise SimulationError(f"a bulk copy overwrites what {what}")
        self.arriving[row, units] = True

    def landed(self, row: Any, units: Any) -> None:
        """A bulk copy has written, and who waited for it may read."""
        assert self.arriving is not None
        self.arriving[row, units] = False

    def _arrived(self, row: Any, units: Any, who: str) -> None:
        if self.arriving is not None and self.arriving[row, units].any():
            raise SimulationError(f"{who} touches what a bulk copy is writing")

    def _use(self) -> None:
        """Registers are read or written by their thread."""
        if self.in_flight:
            raise SimulationError("registers of wgmma are used before wgmma.wait_group")
        self.fenced = False

    def read(self, index: Any) -> Any:
        self._use()
        row, place, active = self._where(index)
        if self.scope == "global":
            return self.array[place]
        if self.written is not None:
            rows, units, _ = self._units(row, place, active)
            self._arrived(rows, units, "a warp")
            self._check(self.written, row, place, active, "reads what another wrote")
            self._mark(self.seen, row, place, active)
        return self.array[row, place]

    def write(self, index: Any, value: Any) -> None:
        self._use()
        row, place, active = self._where(index)
        value = np.broadcast_to(np.asarray(value), place.shape).astype(self.array.dtype)
        if self.written is not None:
            self._hazard(row, place, active)
            self._mark(self.written, row, place, active)
            rows, units, _ = self._units(row, place, active)
            self.proxy[rows, units] = self.WRITTEN
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
        rows, units, _ = self._units(row, place, active)
        self._arrived(rows, units, "a warp")
        if self.kept[rows, units].any():
            raise SimulationError("a warp overwrites a barrier")
        if self.reading[rows, units].any():
            raise SimulationError("a warp overwrites what wgmma is reading before wgmma.wait_group")

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
