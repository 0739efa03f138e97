"""Moves of PTX: loads, stores, asynchronous copies, and what lanes of a warp tell each other.

Source: PTX ISA, "Data Movement and Conversion Instructions" (ld, st, mov, cvta, shfl.sync, activemask, "Data
Movement and Conversion Instructions: Asynchronous copy") and "bar.warp.sync".
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from gpu_memory import SimulationError
from ptx_memory import Space
from ptx_module import Address, Immediate, Instruction, Pair, Register, Vector
from ptx_operands import BITS, TYPES, Step, reader, type_of, unknown, writer
from ptx_races import LANES

GENERIC_PARAMETERS = 0x7E0000000000
"""Where parameters are among generic addresses; global memory is there as it is."""
GENERIC_LOCALS = 0x7D0000000000

_UNDEFINED = np.uint32(0xFFFFFFFF)
"""What a lane is told by one that is not active: not a number, or a very large one."""

_SPACES = ("global", "shared", "shared__cta", "param", "local")


def space_of(instruction: Instruction) -> str:
    found = [word for word in instruction.words if word in _SPACES]
    if len(found) != 1:
        raise unknown(instruction)
    return found[0].removesuffix("__cta")


def memory(warps: Any, space: str) -> Space:
    if space == "local":
        return warps.local
    return {"global": warps.launch.memory, "shared": warps.launch.shared, "param": warps.launch.parameters}[
        space
    ]


def address(operand: Address, space: str) -> Callable[[Any], np.ndarray]:
    """What gives the addresses of lanes, as signed numbers."""
    is_wide = isinstance(operand.base, Register) and operand.base.bits == 64
    if isinstance(operand.base, Register) and not is_wide and space == "global":
        raise SimulationError(f"an address of 32 bits in global memory: {operand.base.name}")
    base, offset = reader(operand.base, "u64" if is_wide or space == "param" else "u32"), operand.offset
    return lambda warps: np.asarray(base(warps)).astype(np.int64) + offset


def _registers(operand: Any) -> tuple[Any, ...]:
    return operand.parts if isinstance(operand, Vector) else (operand,)


def _check_words(instruction: Instruction, count: int, *known: str) -> None:
    vector = {1: (), 2: ("v2",), 4: ("v4",)}.get(count)
    if vector is None or [word for word in instruction.words if word in ("v2", "v4")] != list(vector):
        raise unknown(instruction)
    for word in instruction.words[1:]:
        if word not in (*known, *_SPACES, *vector) and word not in TYPES:
            raise unknown(instruction)


def _load(instruction: Instruction) -> Step:
    to, of = instruction.operands
    results = _registers(to)
    _check_words(instruction, len(results), "nc", "volatile")
    type_, space, constant = type_of(instruction), space_of(instruction), "nc" in instruction.words
    dtype = TYPES[type_]
    # A floating-point number goes into registers of its bits.
    moved = f"b{dtype.itemsize * 8}" if dtype.kind == "f" else type_
    writes = [writer(result, moved) for result in results]
    where, width = address(of, space), dtype.itemsize
    bits, size = BITS[width * 8], width * len(results)

    def run(warps: Any) -> None:
        found = memory(warps, space)
        places = found.places(warps, where(warps), size)
        if found.races is not None:
            found.races.reads(places[warps.mask], size, warps.agents())
        places = places // width
        if constant:
            warps.launch.memory.constant |= warps.launch.memory.touched
        view = found.views[width]
        for part, write in enumerate(writes):
            write(warps, view[places + part].view(bits).view(TYPES[moved]))

    return run


def _store(instruction: Instruction) -> Step:
    to, of = instruction.operands
    values = _registers(of)
    _check_words(instruction, len(values), "volatile")
    type_, space = type_of(instruction), space_of(instruction)
    width = TYPES[type_].itemsize
    found = [reader(value, f"b{width * 8}") for value in values]
    where, size = address(to, space), width * len(values)

    def run(warps: Any) -> None:
        target = memory(warps, space)
        places = target.places(warps, where(warps), size)[warps.mask]
        if target.races is not None:
            target.races.writes(places, size, warps.agents())
        view = target.views[width]
        for part, read in enumerate(found):
            view[places // width + part] = np.broadcast_to(read(warps), warps.mask.shape)[warps.mask]
        if space == "shared":
            warps.launch.shared.wrote(places, size, warps.thread[warps.mask])
        elif space == "global":
            warps.launch.memory.stored |= warps.launch.memory.touched

    return run


def _move(instruction: Instruction) -> Step:
    """mov, also of packed values: the first is the lowest."""
    to, of = instruction.operands
    type_ = type_of(instruction)
    if isinstance(to, Vector):
        count, dtype = len(to.parts), TYPES[type_]
        part = f"b{dtype.itemsize * 8 // count}"
        writes, read = [writer(found, part) for found in to.parts], reader(of, type_)

        def unpack(warps: Any) -> None:
            whole = np.ascontiguousarray(np.broadcast_to(read(warps), warps.mask.shape))
            parts = whole.view(TYPES[part]).reshape(-1, count)
            for place, write in enumerate(writes):
                write(warps, parts[:, place].copy())

        return unpack
    write = writer(to, type_)
    if isinstance(of, Vector):
        part = f"b{TYPES[type_].itemsize * 8 // len(of.parts)}"
        found = [reader(value, part) for value in of.parts]

        def pack(warps: Any) -> None:
            parts = [np.broadcast_to(read(warps), warps.mask.shape) for read in found]
            write(warps, np.stack(parts, 1).view(TYPES[type_]).reshape(-1))

        return pack
    read = reader(of, type_)
    return lambda warps: write(warps, read(warps))


def _convert_address(instruction: Instruction) -> Step:
    shifts: dict[tuple[str, ...], int] = {
        ("to", "global"): 0,
        ("param",): GENERIC_PARAMETERS,
        ("local",): GENERIC_LOCALS,
        ("to", "local"): -GENERIC_LOCALS,
    }
    shift = shifts.get(instruction.words[1:-1])
    if shift is None or instruction.words[-1] != "u64":
        raise unknown(instruction)
    by = np.int64(shift).astype(np.uint64)
    write, read = writer(instruction.operands[0], "u64"), reader(instruction.operands[1], "u64")
    return lambda warps: write(warps, read(warps) + by)


def _shuffle(instruction: Instruction) -> Step:
    if instruction.words[:2] != ("shfl", "sync") or instruction.words[-1] != "b32":
        raise unknown(instruction)
    mode = instruction.words[2]
    result, value, other, clamp, members = instruction.operands
    both = isinstance(result, Pair)
    write = writer(result.first if both else result, "b32")
    write_inside = writer(result.second, "pred") if both else None
    found, by, limits, member_mask = (reader(part, "b32") for part in (value, other, clamp, members))

    def run(warps: Any) -> None:
        shape = warps.mask.shape
        lane = warps.lane
        b = np.broadcast_to(by(warps), shape).astype(np.int64) & 31
        c = np.broadcast_to(limits(warps), shape).astype(np.int64)
        segment, last = c >> 8 & 31, c & 31
        most, least = (lane & segment) | (last & ~segment), lane & segment
        source, inside = {
            "up": (lane - b, lane - b >= most),
            "down": (lane + b, lane + b <= most),
            "bfly": (lane ^ b, (lane ^ b) <= most),
            "idx": (least | (b & ~segment), (least | (b & ~segment)) <= most),
        }[mode]
        source = np.where(inside, source, lane)
        named = np.broadcast_to(member_mask(warps), shape).astype(np.int64)
        _check_members(warps, named)
        values = np.where(warps.mask, found(warps), _UNDEFINED).reshape(-1, LANES)
        write(warps, values[warps.block, source])
        if write_inside is not None:
            write_inside(warps, inside)

    return run


def _check_members(warps: Any, named: np.ndarray) -> None:
    """All lanes that a mask names have come."""
    bits = np.left_shift(np.int64(1), warps.lane)
    come = np.where(warps.mask, bits, 0).reshape(-1, LANES).sum(1)[warps.block]
    wrong = warps.mask & (((named & bits) == 0) | ((named & ~come) != 0))
    if wrong.any():
        raise SimulationError("shfl.sync without all the lanes that its mask names")


def _active_mask(instruction: Instruction) -> Step:
    write = writer(instruction.operands[0], "b32")

    def run(warps: Any) -> None:
        bits = np.left_shift(np.int64(1), warps.lane)
        come = np.where(warps.mask, bits, 0).reshape(-1, LANES).sum(1)[warps.block]
        write(warps, come.astype(np.uint32))

    return run


def _barrier_of_warp(instruction: Instruction) -> Step:
    if instruction.words != ("bar", "warp", "sync") or instruction.operands != (Immediate(-1),):
        raise unknown(instruction)

    def run(warps: Any) -> None:
        warps.require_whole("bar.warp.sync")
        warps.launch.times.synchronize_warps(warps.agents())

    return run


class Groups:
    """What is asynchronous, in groups that each lane commits and waits for.

    Without ``late`` everything is done when it is issued, else when it is waited for.
    """

    def __init__(self, size: int, late: bool) -> None:
        self.late = late
        self.committed = np.zeros(size, np.int64)
        self.entries: list[tuple[np.ndarray, np.ndarray, Callable[[np.ndarray], None]]] = []

    def add(self, mask: np.ndarray, action: Callable[[np.ndarray], None]) -> None:
        if self.late:
            self.entries.append((mask.copy(), self.committed.copy(), action))
        else:
            action(mask)

    def commit(self, mask: np.ndarray) -> None:
        self.committed += mask

    def wait(self, mask: np.ndarray, allowed: int) -> None:
        """Until of the committed groups no more than ``allowed`` are under way; -1 for all there is."""
        for pending, group, action in self.entries:
            due = pending & mask & (group < self.committed - allowed)
            if due.any():
                action(due)
                pending &= ~due
        self.entries = [entry for entry in self.entries if entry[0].any()]


def _asynchronous_copy(instruction: Instruction) -> Step:
    """cp.async of 4, 8 or 16 bytes, its groups, and what waits for them; bulk copies are elsewhere."""
    words = instruction.words
    if words[2] == "bulk":
        from ptx_bulk import bulk_copy

        return bulk_copy(instruction)
    if words[2] == "commit_group":
        return lambda warps: warps.copies.commit(warps.mask)
    if words[2] in ("wait_group", "wait_all"):
        allowed = instruction.operands[0].value if words[2] == "wait_group" else -1
        return lambda warps: warps.copies.wait(warps.mask, allowed)
    known = [("ca", "shared", "global"), ("cg", "shared", "global")]
    if words[2:5] not in known or [word for word in words[5:] if not word.startswith("L2__")]:
        raise unknown(instruction)
    to, of, count, *size = instruction.operands
    bytes_ = count.value
    if bytes_ not in ((16,) if words[2] == "cg" else (4, 8, 16)):
        raise unknown(instruction)
    where, whence = address(to, "shared"), address(of, "global")
    taken = reader(size[0], "u32") if size else None
    part = np.arange(bytes_)

    def run(warps: Any) -> None:
        shared, source = warps.launch.shared, warps.launch.memory
        targets = shared.places(warps, where(warps), bytes_)
        limit = np.broadcast_to(bytes_ if taken is None else taken(warps), warps.mask.shape)
        found = whence(warps)
        begins = source.places(warps, found, bytes_, warps.mask & (limit > 0))
        shared.races.writes(targets[warps.mask], bytes_, warps.agents(), copies=True)

        def arrive(mask: np.ndarray) -> None:
            shared.races.arrived(targets[mask], bytes_, warps.agents(mask))
            rows = source.bytes[begins[mask][:, None] + part]
            rows = np.where(part < limit[mask][:, None], rows, 0)
            shared.bytes[targets[mask][:, None] + part] = rows
            shared.wrote(targets[mask], bytes_, warps.thread[mask])

        warps.copies.add(warps.mask, arrive)

    return run


def _fence(instruction: Instruction) -> Step:
    words = instruction.words[1:]
    if words[:2] == ("proxy", "async"):
        if words[2:] not in ((), ("shared__cta",)):
            raise unknown(instruction)
        return lambda warps: warps.launch.shared.fence(warps.thread[warps.mask], warps.block[warps.mask])
    if words in (("mbarrier_init", "release", "cluster"), ("acq_rel", "cta"), ("acq_rel", "gpu")):
        return lambda warps: None
    raise unknown(instruction)


def _grid_dependency(instruction: Instruction) -> Step:
    """Launches follow one another here: nothing is to be waited for."""
    if instruction.words[1:] not in (("launch_dependents",), ("wait",)):
        raise unknown(instruction)
    return lambda warps: None


MAKERS: dict[str, Callable[[Instruction], Step]] = {
    "ld": _load,
    "st": _store,
    "mov": _move,
    "cvta": _convert_address,
    "shfl": _shuffle,
    "activemask": _active_mask,
    "bar": _barrier_of_warp,
    "cp": _asynchronous_copy,
    "fence": _fence,
    "griddepcontrol": _grid_dependency,
}
"""By the first word of an operation."""

__all__ = ["GENERIC_PARAMETERS", "LANES", "MAKERS", "Groups", "address", "memory", "space_of"]
