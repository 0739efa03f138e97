"""Who touched memory, and when: no two threads may meet at one place, one of them writing, without a
barrier.

Source: PTX ISA, "Memory Consistency Model", "bar.sync" and "bar.warp.sync". Times are counts of barriers: of
a block, and of a warp within it. Nothing orders threads of two blocks. Asynchronous copies of ``cp.async``
write from when they are issued to when their thread has waited for them; those of the asynchronous proxy,
which memory barriers order, are not looked at here.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from gpu_memory import SimulationError
from ptx_module import Instruction, Vector
from ptx_operands import TYPES, type_of

LANES = 32
_NOBODY, _MANY, _WARP = -1, -2, -3
"""Instead of a thread: several warps, and from the last one downwards several lanes of a warp."""

_ALWAYS = -1
"""The time of what no barrier orders: reads of several blocks."""


MATRIX_BYTES = 16
"""That instructions of matrices touch at once."""


def granule(code: Iterable[Instruction], space: str) -> int:
    """The least number of bytes that an instruction touches in a state space."""
    return min((found for each in code if (found := _bytes(each, space))), default=MATRIX_BYTES)


def _bytes(instruction: Instruction, space: str) -> int:
    first, *others = instruction.words
    if space not in [word.removesuffix("__cta") for word in others]:
        return 0
    if first in ("ld", "st"):
        parts = [len(operand.parts) for operand in instruction.operands if isinstance(operand, Vector)]
        return int(TYPES[type_of(instruction)].itemsize) * max(parts, default=1)
    if first == "cp" and "bulk" not in others and space == "shared":
        return int(instruction.operands[2].value)
    return MATRIX_BYTES if first in ("ldmatrix", "wmma") else 0


class Times:
    """Counts of the barriers that ``blocks`` of so many ``warps`` have come through."""

    def __init__(self, blocks: int, warps: int) -> None:
        self.warps = warps
        self.of_blocks = np.zeros(blocks, np.int32)
        self.of_warps = np.zeros(blocks * warps, np.int32)

    def agents(self, warps: Any, mask: np.ndarray) -> np.ndarray:
        """Numbers of the threads of ``mask``, of all blocks together."""
        found: np.ndarray = (warps.block * self.warps * LANES + warps.thread)[mask]
        return found

    def synchronize_warps(self, agents: np.ndarray) -> None:
        self.of_warps[np.unique(agents // LANES)] += 1


class _Last:
    """The last access of a kind at each place."""

    def __init__(self, places: int) -> None:
        self.agent = np.full(places, _NOBODY, np.int32)
        self.time = np.zeros(places, np.int32)
        self.warp_time = np.zeros(places, np.int32)


class Races:
    """Of ``size`` bytes, of which accesses begin at multiples of ``granule`` and take multiples of it."""

    def __init__(self, name: str, size: int, granule: int, times: Times) -> None:
        self.name, self.granule, self.times = name, granule, times
        places = -(-size // granule)
        self.written, self.read = _Last(places), _Last(places)
        self.copied = np.zeros(places, np.int32)

    def reads(self, offsets: np.ndarray, size: int, agents: np.ndarray) -> None:
        """Threads read ``size`` bytes at offsets, one each."""
        for places in self._parts(offsets, size):
            self._refuse_copied(places, agents, "reads")
            self._refuse(self.written, places, agents, "reads what", "wrote")
            self._note_readers(places, agents)

    def writes(self, offsets: np.ndarray, size: int, agents: np.ndarray, copies: bool = False) -> None:
        """The same of writing; ``copies`` have begun, and :meth:`arrived` says when that ends."""
        for places in self._parts(offsets, size):
            self._refuse_copied(places, agents, "writes")
            self._refuse(self.written, places, agents, "writes what", "wrote")
            self._refuse(self.read, places, agents, "writes what", "read")
            self._note_writers(places, agents)
            if copies:
                np.add.at(self.copied, places, 1)

    def arrived(self, offsets: np.ndarray, size: int, agents: np.ndarray) -> None:
        """Copies that these threads began are there, and no others may see them before a barrier."""
        for places in self._parts(offsets, size):
            np.subtract.at(self.copied, places, 1)
            self._note_writers(places, agents)

    def _parts(self, offsets: np.ndarray, size: int) -> list[np.ndarray]:
        return [(offsets + part) // self.granule for part in range(0, size, self.granule)]

    def _blocks(self, agents: np.ndarray) -> np.ndarray:
        found: np.ndarray = agents // (LANES * self.times.warps)
        return found

    def _refuse_copied(self, places: np.ndarray, agents: np.ndarray, does: str) -> None:
        wrong = self.copied[places] > 0
        if wrong.any():
            self._raise(places, agents, wrong, f"{does} what is being copied")

    def _refuse(self, last: _Last, places: np.ndarray, agents: np.ndarray, does: str, did: str) -> None:
        agent, time = last.agent[places], last.time[places]
        warp = np.where(agent >= 0, agent // LANES, np.where(agent <= _WARP, _WARP - agent, _NOBODY))
        own_block = self._blocks(agents)
        block = np.where(agent == _MANY, own_block, warp // self.times.warps)
        now = (block != own_block) | (time == _ALWAYS) | (time == self.times.of_blocks[own_block])
        ordered = (warp == agents // LANES) & (last.warp_time[places] != self.times.of_warps[agents // LANES])
        wrong = (agent != _NOBODY) & (agent != agents) & now & ~ordered
        if wrong.any():
            other = int(agent[wrong][0])
            who = f"thread {other}" if other >= 0 else "other threads"
            self._raise(places, agents, wrong, f"{does} {who} {did}")

    def _raise(self, places: np.ndarray, agents: np.ndarray, wrong: np.ndarray, what: str) -> None:
        thread, place = int(agents[wrong][0]), int(places[wrong][0]) * self.granule
        raise SimulationError(f"{self.name} memory at {place}: thread {thread} {what}, without a barrier")

    def _note_writers(self, places: np.ndarray, agents: np.ndarray) -> None:
        self._note(self.written, places, agents)
        wrong = self.written.agent[places] != agents
        if wrong.any():
            self._raise(places, agents, wrong, "writes what another one writes")

    def _note(self, last: _Last, places: np.ndarray, agents: np.ndarray) -> None:
        last.agent[places] = agents
        last.time[places] = self.times.of_blocks[self._blocks(agents)]
        last.warp_time[places] = self.times.of_warps[agents // LANES]

    def _note_readers(self, places: np.ndarray, agents: np.ndarray) -> None:
        last, before = self.read, self.read.agent[places]
        time, warp = last.time[places], agents // LANES
        own = self._blocks(agents)
        before_warp = np.where(before >= 0, before // LANES, np.where(before <= _WARP, _WARP - before, -1))
        same_block = (before == _MANY) | (before_warp // self.times.warps == own)
        past = same_block & (time != self.times.of_blocks[own]) & (time != _ALWAYS)
        alone = (before == _NOBODY) | past | (before == agents)
        together = ~alone & (before_warp == warp)
        self._note(last, places, agents)
        # Lanes of the same instruction that read one place: only the last of them is noted.
        other = last.agent[places]
        lanes = (other != agents) & (other // LANES == warp)
        apart = (other != agents) & ~lanes
        last.agent[places[together | lanes]] = _WARP - warp[together | lanes]
        many = (~alone & ~together) | apart
        last.agent[places[many]] = _MANY
        unordered = (~alone & ~together & ~same_block) | (apart & (self._blocks(other) != own))
        last.time[places[unordered | (time == _ALWAYS) & ~alone]] = _ALWAYS
