"""State spaces of a launch: global memory, shared memory of every block, parameters.

Source: PTX ISA, "State Spaces". Every access is checked: it must lie within one variable or array and be
aligned to what it moves. Shared memory begins as bits of NaN.
"""

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
from gpu_memory import SimulationError
from ptx_races import Races

GLOBAL_BASE = 0x7F0000000000
LOCAL_BASE = 16
SHARED_BASE = 1024
"""Where a block's variables begin; the system takes the first bytes of sm_80 and later."""

_ALLOCATION, _GAP = 256, 512
_WIDTHS = (1, 2, 4, 8)

NOBODY = -1


class Space:
    """Bytes at addresses from ``base`` on, seen as words of one to eight bytes.

    ``races`` are looked for where threads may meet.
    """

    races: Races | None = None

    def __init__(self, name: str, base: int, size: int) -> None:
        self.name, self.base, self.size = name, base, size
        self.bytes = np.full(-(-max(size, 1) // 16) * 16, 0xFF, np.uint8)
        self.views = {width: self.bytes.view(f"u{width}") for width in _WIDTHS}

    def places(self, warps: Any, addresses: Any, size: int, mask: np.ndarray | None = None) -> np.ndarray:
        """Of the first byte of accesses to ``size`` bytes: 0 for lanes that are not in ``mask``, the active
        ones.
        """
        active = warps.mask if mask is None else mask
        offsets = np.broadcast_to(addresses, active.shape).astype(np.int64) - self.base
        offsets = np.where(active, offsets, 0)
        self.check(offsets, size, active)
        return offsets

    def check(self, offsets: np.ndarray, size: int, active: np.ndarray) -> None:
        low, high = int(offsets.min()), int(offsets.max())
        if low < 0 or high + size > self.size:
            wrong = high if high + size > self.size else low
            raise SimulationError(f"{self.name} memory of {self.size} bytes: access at {wrong}")
        if (offsets % size).any():
            wrong = int(offsets[offsets % size != 0][0])
            raise SimulationError(f"{self.name} memory: {size} bytes at {wrong} are not aligned")


class GlobalMemory(Space):
    """Arrays by name, none directly behind another. No kernel writes those of ``never_written``, and only
    they may be touched while ``early`` is true.
    """

    def __init__(self, arrays: dict[str, np.ndarray], never_written: Collection[str] = ()) -> None:
        self.arrays, begin = arrays, 0
        self.never_written, self.early = never_written, False
        self.begins: dict[str, int] = {}
        for name, array in arrays.items():
            self.begins[name] = begin
            begin += -(-(array.nbytes + _GAP) // _ALLOCATION) * _ALLOCATION
        super().__init__("global", GLOBAL_BASE, begin)
        self.first = np.array(sorted(self.begins.values()), np.int64)
        order = sorted(self.begins, key=lambda name: self.begins[name])
        self.names = order
        self.behind = np.array([self.begins[name] + arrays[name].nbytes for name in order], np.int64)
        self.constant: set[int] = set()
        self.stored: set[int] = set()
        for name, array in arrays.items():
            raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            self.bytes[self.begins[name] : self.begins[name] + array.nbytes] = raw

    def address(self, name: str) -> int:
        return self.base + self.begins[name]

    def check(self, offsets: np.ndarray, size: int, active: np.ndarray) -> None:
        found = offsets[active] if not active.all() else offsets
        number = np.searchsorted(self.first, found, side="right") - 1
        wrong = (number < 0) | (found + size > self.behind[number])
        if wrong.any():
            place, which = int(found[wrong][0]), int(max(0, number[wrong][0]))
            raise SimulationError(
                f"global memory: access of {size} bytes at {place - self.first[which]} of "
                f"{self.names[which]}, which has {self.behind[which] - self.first[which]}"
            )
        if (found % size).any():
            raise SimulationError(
                f"global memory: {size} bytes at {found[found % size != 0][0]} are not aligned"
            )
        self.touched = set(np.unique(number).tolist())
        self.check_early(self.names[place] for place in self.touched)

    def check_early(self, names: Iterable[str]) -> None:
        """Of arrays that an instruction touches."""
        written = [name for name in names if name not in self.never_written]
        if self.early and written:
            raise SimulationError(f"before the kernel before has ended: access of {written[0]}")

    def copy_back(self) -> None:
        """Give the caller's arrays what the launch has written."""
        both = self.constant & self.stored
        if both:
            raise SimulationError(f"{self.names[both.pop()]} is written and read by ld.global.nc")
        for name, array in self.arrays.items():
            raw = self.bytes[self.begins[name] : self.begins[name] + array.nbytes]
            array.reshape(-1).view(np.uint8)[:] = raw


class SharedMemory(Space):
    """That of every block, one behind the other. ``writer``: the thread that wrote two bytes last by ordinary
    stores, and has not let the asynchronous proxy see them.
    """

    def __init__(self, blocks: int, size: int) -> None:
        super().__init__("shared", SHARED_BASE, size)
        self.row = -(-max(size, 1) // 1024) * 1024
        self.bytes = np.full(blocks * self.row, 0xFF, np.uint8)
        self.views = {width: self.bytes.view(f"u{width}") for width in _WIDTHS}
        self.writer = np.full(blocks * self.row // 2, NOBODY, np.int32)

    def places(self, warps: Any, addresses: Any, size: int, mask: np.ndarray | None = None) -> np.ndarray:
        return super().places(warps, addresses, size, mask) + warps.block * self.row

    def wrote(self, places: np.ndarray, size: int, threads: np.ndarray) -> None:
        for part in range(0, size, 2):
            self.writer[(places + part) // 2] = threads

    def fence(self, threads: np.ndarray, block: np.ndarray) -> None:
        """What these threads wrote may be seen by the asynchronous proxy."""
        rows = self.writer.reshape(-1, self.row // 2)
        for one in np.unique(block):
            rows[one][np.isin(rows[one], threads[block == one])] = NOBODY

    def asynchronous(self, places: np.ndarray, who: str) -> None:
        """An access by the asynchronous proxy to bytes at these places."""
        if (self.writer[places // 2] != NOBODY).any():
            raise SimulationError(f"{who} meets what was written without fence.proxy.async")


class LocalMemory(Space):
    """That of every lane, one behind the other."""

    def __init__(self, lanes: int, size: int) -> None:
        super().__init__("local", LOCAL_BASE, size)
        self.row = -(-size // 16) * 16
        self.bytes = np.full(max(1, lanes * self.row // 8) * 8, 0xFF, np.uint8)
        self.views = {width: self.bytes.view(f"u{width}") for width in _WIDTHS}
        self.rows = np.arange(lanes) * self.row

    def places(self, warps: Any, addresses: Any, size: int, mask: np.ndarray | None = None) -> np.ndarray:
        return super().places(warps, addresses, size, mask) + self.rows
