"""Memory of a simulated GPU, which knows who touched it since the last barrier."""

from typing import Any

import numpy as np


class SimulationError(AssertionError):
    """A program that a GPU would run to an undefined result."""


class Memory:
    """A buffer: "global" is one array, "shared.dyn" has a row per block, "local" a row per thread."""

    def __init__(self, grid: Any, array: np.ndarray, scope: str) -> None:
        """``grid`` is the launch, a ``gpu_simulator.Grid``: its threads, blocks and mask."""
        self.grid, self.array, self.scope = grid, array, scope
        self.written = self.seen = None
        self.lanes = 1

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
        return memory

    def seen_as(self, dtype: str) -> "Memory":
        same = Memory(self.grid, self.array, self.scope)
        scalar, _, lanes = dtype.partition("x")
        same.lanes = int(lanes or 1)
        if str(self.array.dtype) != scalar:
            same.array = self.array.view(scalar)
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


__all__ = ["Memory", "SimulationError"]
