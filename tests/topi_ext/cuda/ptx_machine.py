"""A machine that runs PTX, all blocks of a grid at once.

Source: PTX ISA, "Parallel Synchronization and Communication Instructions" and "Control Flow Instructions".
Warps of a block run one after the other until each of them waits; those with the same number in all blocks
are one array. Of lanes that have parted, those that are furthest behind go first. What a program may rely on
is no more than what the source says: the order of warps is the caller's, and so is whether what is
asynchronous happens at once or as late as it may (:class:`Order`). Programs that are undefined end in
SimulationError.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import ptx_arithmetic
import ptx_bulk
import ptx_matrices
import ptx_movement
from gpu_memory import SimulationError
from ptx_flow import in_order
from ptx_memory import LOCAL_BASE, SHARED_BASE, GlobalMemory, LocalMemory, SharedMemory, Space
from ptx_module import Instruction, Kernel, Variable
from ptx_operands import BITS, Reader, Step, reader, unknown
from ptx_races import LANES, Races, Times, granule

RUNNING, AT_BARRIER, POLLING, ENDED = range(4)
_FAR = 1 << 30
_MOST_STEPS = 5_000_000
"""Of one launch: more is taken for a loop without an end."""

_MAKERS: dict[str, Callable[[Instruction], Step]] = {
    **ptx_arithmetic.MAKERS,
    **ptx_movement.MAKERS,
    **ptx_matrices.MAKERS,
    **ptx_bulk.MAKERS,
}


@dataclass(frozen=True)
class Order:
    """``backward``: the last warp runs first. ``late``: what is asynchronous happens when it is waited for,
    and otherwise at once.
    """

    backward: bool = False
    late: bool = True


ORDERS = (Order(backward=False, late=True), Order(backward=True, late=False))


class Program:
    """A kernel's instructions as functions of :class:`Warps`."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.kinds: list[str] = []
        self.steps: list[Step] = []
        self.guards: list[Reader | None] = []
        code = in_order(kernel.code)
        self.granules = {space: granule(code, space) for space in ("shared", "global")}
        begun = _wait_for_kernel_before(code)
        self.targets = [instruction.target for instruction in code]
        for instruction in code:
            kind = _kind(instruction)
            guard = reader(instruction.guard, "pred") if instruction.guard is not None else None
            step = _nothing
            if kind == "plain" or kind == "poll":
                step = _made(instruction)
            if kind == "plain" and guard is not None:
                step = _guarded(step, guard)
            if len(self.steps) < begun and instruction.words[0] == "cp":
                step = _early(step)
            elif kind in ("poll", "barrier") and guard is not None:
                raise unknown(instruction)
            self.kinds.append(kind)
            self.steps.append(step)
            self.guards.append(guard)


def _wait_for_kernel_before(code: Sequence[Instruction]) -> int:
    """The place of the wait: a kernel that lets the next one begin early must wait for the one before it, and
    first of all, but for copies of constants.
    """
    words = [instruction.words for instruction in code]
    if ("griddepcontrol", "launch_dependents") not in words:
        return 0
    begun = words.index(("griddepcontrol", "wait")) if ("griddepcontrol", "wait") in words else len(words)
    for instruction in code[:begun]:
        first, *rest = instruction.words
        if first in ("red", "atom") or (first in ("ld", "st") and "param" not in rest):
            raise SimulationError(f"before the kernel before has ended: {instruction.text}")
    return begun


def _early(step: Step) -> Step:
    def run(warps: "Warps") -> None:
        memory = warps.launch.memory
        memory.early = True
        step(warps)
        memory.early = False

    return run


def _kind(instruction: Instruction) -> str:
    if instruction.words[0] in ("bra", "ret", "exit"):
        return "branch" if instruction.words[0] == "bra" else "end"
    if instruction.words[0] in ("bar", "barrier") and "warp" not in instruction.words:
        if "sync" not in instruction.words or [part for part in instruction.operands if part.value != 0]:
            raise unknown(instruction)
        return "barrier"
    return "poll" if instruction.words[:2] == ("mbarrier", "try_wait") else "plain"


def _made(instruction: Instruction) -> Step:
    make = _MAKERS.get(instruction.words[0])
    if make is None:
        raise unknown(instruction)
    return make(instruction)


def _nothing(warps: "Warps") -> None:
    del warps


def _guarded(step: Step, guard: Reader) -> Step:
    def run(warps: "Warps") -> None:
        mask, active = warps.mask, warps.active
        chosen = mask & guard(warps)
        if chosen.any():
            warps.activate(chosen)
            step(warps)
            warps.mask, warps.active = mask, active

    return run


class Launch:
    """One launch of a program.

    ``arguments``: arrays and :mod:`ptx_bulk` tensor maps in the order of the kernel's parameters; no kernel
    before this one writes those at the places of ``never_written``. Results are in the arrays when
    :meth:`run` has ended.
    """

    def __init__(
        self,
        program: Program,
        arguments: list[Any],
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int = 0,
        order: Order = ORDERS[0],
        never_written: Collection[int] = (),
    ) -> None:
        kernel = program.kernel
        self.program, self.grid, self.block, self.order = program, grid, block, order
        self.blocks, self.threads = int(np.prod(grid)), int(np.prod(block))
        named = dict(zip((found.name for found in kernel.parameters), arguments, strict=True))
        arrays = {name: found for name, found in named.items() if isinstance(found, np.ndarray)}
        self.maps: dict[int, Any] = {}
        self.map_names: dict[int, str] = {}
        self.memory = GlobalMemory(arrays, [kernel.parameters[place].name for place in never_written])
        self.parameters = Space("param", 0, sum(-(-found.size // 128) * 128 for found in kernel.parameters))  # type: ignore[operator]
        self.symbols: dict[str, int] = {}
        self._place_parameters(named)
        self.shared = SharedMemory(self.blocks, self._place_shared(shared_bytes))
        self.times = Times(self.blocks, -(-self.threads // LANES))
        for space in (self.shared, self.memory):
            space.races = Races(space.name, space.bytes.size, program.granules[space.name], self.times)
        local_bytes = self._place(self._variables("local"), LOCAL_BASE)
        self.barriers: dict[tuple[int, int], Any] = {}
        self.copies: list[Any] = []
        self.steps = 0
        self.warps = [Warps(self, number, local_bytes) for number in range(-(-self.threads // LANES))]

    def symbol(self, name: str) -> int:
        if name not in self.symbols:
            raise SimulationError(f"no variable {name}")
        return self.symbols[name]

    def _place_parameters(self, named: dict[str, Any]) -> None:
        begin = 0
        for parameter in self.program.kernel.parameters:
            assert parameter.size is not None
            self.symbols[parameter.name] = begin
            found = named[parameter.name]
            if isinstance(found, np.ndarray):
                word = self.memory.address(parameter.name)
                self.parameters.bytes[begin : begin + 8] = np.array([word], np.uint64).view(np.uint8)
            else:
                self.maps[begin], self.map_names[begin] = found, parameter.name
            begin += -(-parameter.size // 128) * 128

    def _variables(self, space: str) -> list[Variable]:
        return [found for found in self.program.kernel.variables if found.space == space]

    def _place_shared(self, shared_bytes: int) -> int:
        """What has no size lies behind all that has one."""
        variables = self._variables("shared")
        return (
            self._place(sorted(variables, key=lambda found: found.size is None), SHARED_BASE) + shared_bytes
        )

    def _place(self, variables: list[Variable], base: int) -> int:
        """Give variables their addresses; how many bytes they take together."""
        begin = base
        for variable in variables:
            begin = -(-begin // variable.alignment) * variable.alignment
            self.symbols[variable.name] = begin
            # Compilers read a few bytes as one vector that ends behind them, where nothing else can begin.
            begin += -(-(variable.size or 0) // variable.alignment) * variable.alignment
        return begin - base

    def run(self) -> None:
        with np.errstate(all="ignore"):
            while not all(warps.ended for warps in self.warps):
                for warps in reversed(self.warps) if self.order.backward else self.warps:
                    warps.run()
                if not (self._release() or self._resume()) and not all(warps.ended for warps in self.warps):
                    raise SimulationError("threads wait for what never comes")
        ptx_matrices.check_groups(self)
        self.memory.copy_back()

    def _release(self) -> bool:
        """Let blocks go on whose threads have all come to a barrier."""
        states = np.stack([warps.state.reshape(-1, LANES) for warps in self.warps])
        come = ((states == AT_BARRIER) | (states == ENDED)).all((0, 2)) & (states == AT_BARRIER).any((0, 2))
        self.times.of_blocks[come] += 1
        for warps in self.warps:
            warps.state[come[warps.block] & (warps.state == AT_BARRIER)] = RUNNING
        return bool(come.any())

    def _resume(self) -> bool:
        """Let lanes look again at barriers of memory, behind one more copy if need be."""
        found = False
        for warps in self.warps:
            found |= warps.resume()
        while not found and ptx_bulk.deliver_one(self):
            for warps in self.warps:
                found |= warps.resume()
        return found


class Warps:
    """The warps of one number in all blocks.

    ``registers`` has an array for each register; ``mask`` is of lanes that are active, ``active`` the same,
    or None where all are. ``block`` and ``thread`` are those of a lane.
    """

    def __init__(self, launch: Launch, number: int, local_bytes: int) -> None:
        self.launch, self.number = launch, number
        size = launch.blocks * LANES
        lane = np.arange(size)
        self.lane = lane % LANES
        self.block = lane // LANES
        self.thread = number * LANES + self.lane
        self.exists = self.thread < launch.threads
        fill = {bits: np.full(size, 0 if bits == 1 else 2**bits - 1, dtype) for bits, dtype in BITS.items()}
        self.registers = [fill[register.bits] for register in launch.program.kernel.registers]
        self.local = LocalMemory(size, local_bytes)
        self.program_counter = np.zeros(size, np.int64)
        self.state = np.where(self.exists, RUNNING, ENDED)
        self.refused = np.zeros(size, bool)
        self.copies = ptx_movement.Groups(size, launch.order.late)
        self.products = ptx_movement.Groups(size, launch.order.late)
        self.fenced: list[Any] | None = None
        self.issued: list[tuple[Any, ...]] = []
        self.waits: list[Any] = [None] * size
        self.mask = self.exists
        self.active: np.ndarray | None = None
        self._special = self._places()

    def _places(self) -> dict[str, np.ndarray]:
        found = {"%laneid": self.lane, "%warpid": np.full(self.lane.shape, self.number)}
        thread, block = self.thread, self.block
        for axis, name in enumerate("xyz"):
            found[f"%tid.{name}"] = thread % self.launch.block[axis]
            found[f"%ctaid.{name}"] = block % self.launch.grid[axis]
            found[f"%ntid.{name}"] = np.full(thread.shape, self.launch.block[axis])
            found[f"%nctaid.{name}"] = np.full(thread.shape, self.launch.grid[axis])
            thread, block = thread // self.launch.block[axis], block // self.launch.grid[axis]
        return found

    def special(self, name: str) -> np.ndarray:
        if name not in self._special:
            raise SimulationError(f"unknown special register {name}")
        return self._special[name]

    def agents(self, mask: np.ndarray | None = None) -> np.ndarray:
        """Numbers of active lanes, or of those of ``mask``, among the threads of all blocks."""
        return self.launch.times.agents(self, self.mask if mask is None else mask)

    @property
    def ended(self) -> bool:
        return bool((self.state == ENDED).all())

    def put(self, place: int, value: np.ndarray) -> None:
        """Into a register, of active lanes."""
        if self.active is not None:
            self.registers[place] = np.where(self.active, value, self.registers[place])
        elif value.ndim == 0:
            self.registers[place] = np.full(self.mask.shape, value)
        else:
            self.registers[place] = value

    def activate(self, mask: np.ndarray) -> None:
        self.mask, self.active = mask, None if mask.all() else mask

    def require_whole(self, what: str) -> None:
        """An instruction for all lanes of a warp together."""
        if self.active is not None:
            lanes = self.mask.reshape(-1, LANES)
            if (lanes.any(1) != lanes.all(1)).any():
                raise SimulationError(f"not all lanes of a warp come to {what}")

    def wait(self, lanes: np.ndarray, key: list[Any]) -> None:
        """Lanes that look at a barrier in memory, each at its ``key``, and will look again."""
        for lane in np.flatnonzero(lanes):
            self.waits[lane] = key[lane]
        self.state[lanes] = POLLING

    def resume(self) -> bool:
        """Let lanes run whose barriers have got on."""
        ready = np.zeros(self.mask.shape, bool)
        for lane in np.flatnonzero(self.state == POLLING):
            ready[lane] = ptx_bulk.is_complete(self.launch, self.waits[lane])
        self.state[ready] = RUNNING
        return bool(ready.any())

    def run(self) -> None:
        """Until every lane waits or has ended."""
        while True:
            counters = np.where(self.state == RUNNING, self.program_counter, _FAR)
            place = int(counters.min())
            if place == _FAR:
                return
            mask = counters == place
            limit = int(np.where(mask, _FAR, counters).min())
            self.activate(mask)
            self._advance(place, limit)

    def _advance(self, place: int, limit: int) -> None:
        """The active lanes, until they part, wait, or come to where others are."""
        program = self.launch.program
        kinds, steps = program.kinds, program.steps
        while place < limit:
            self.launch.steps += 1
            kind = kinds[place]
            if kind == "plain":
                steps[place](self)
                place += 1
                continue
            if kind == "branch":
                if self.launch.steps > _MOST_STEPS:
                    raise SimulationError("a loop without an end")
                guard = program.guards[place]
                target = program.targets[place]
                assert target is not None
                if guard is None:
                    place = target
                    continue
                taken = self.mask & guard(self)
                if not taken.any():
                    place += 1
                    continue
                if (taken == self.mask).all():
                    place = target
                    continue
                self.program_counter[self.mask] = place + 1
                self.program_counter[taken] = target
                return
            if self._stops(place):
                return
            place += 1
        self.program_counter[self.mask] = place

    def _stops(self, place: int) -> bool:
        """Do active lanes wait or end here?"""
        program, kind = self.launch.program, self.launch.program.kinds[place]
        self.program_counter[self.mask] = place + 1
        if kind == "end":
            guard = program.guards[place]
            ends = self.mask if guard is None else self.mask & guard(self)
            self.state[ends] = ENDED
            return bool(ends.any())
        if kind == "barrier":
            rows = (self.mask | (self.state == ENDED)).reshape(-1, LANES)
            if (self.mask.reshape(-1, LANES).any(1) & ~rows.all(1)).any():
                raise SimulationError("not all lanes of a warp come to bar.sync")
            self.state[self.mask] = AT_BARRIER
            return True
        program.steps[place](self)
        waiting = self.mask & (self.state == POLLING)
        self.program_counter[waiting] = place
        return bool(waiting.any())
