"""Bulk copies of PTX by tensor maps, and the barriers in memory that count their bytes.

Source: PTX ISA, "mbarrier", "cp.async.bulk.tensor", "Tensors" (tiled and im2col mode, swizzling), and the
CUDA driver API, "Tensor Map Object Management". A copy's bytes arrive at once, or when some thread waits for
them that could not go on otherwise. ``mbarrier.try_wait`` may end without success, and does so once before it
waits.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gpu_memory import SimulationError
from ptx_memory import NOBODY
from ptx_module import Instruction
from ptx_movement import GENERIC_PARAMETERS, LANES, address
from ptx_operands import SINK, Step, reader, unknown, writer

OBJECT_BYTES = 8

_SPANS = {1: 32, 2: 64, 3: 128}
"""Bytes of a row by CUtensorMapSwizzle."""


@dataclass(frozen=True)
class TensorMap:
    """Of ``array``; ``rows`` gives a tile's rows by coordinates and offsets, zeros from outside."""

    array: np.ndarray
    swizzle: int
    rows: Callable[[list[int], list[int]], np.ndarray]


def boxes(array: np.ndarray, rank: int, *numbers: int) -> TensorMap:
    """Of a matrix by rows, by the numbers of cuTensorMapEncodeTiled."""
    (width, height), (pitch,), box, steps = numbers[:2], numbers[2:3], numbers[3:5], numbers[5:7]
    interleave, swizzle, _, fill = numbers[7:]
    if rank != 2 or steps != (1, 1) or interleave or fill or pitch % 16 or max(box) > 256:
        raise SimulationError(f"a tensor map of {numbers}")
    matrix = array.reshape(-1)[: height * (pitch // array.itemsize)].reshape(height, -1)[:, :width]

    def rows(place: list[int], offsets: list[int]) -> np.ndarray:
        assert not offsets
        columns, lines = place[0] + np.arange(box[0]), place[1] + np.arange(box[1])
        inside = ((lines >= 0) & (lines < height))[:, None] & (columns >= 0) & (columns < width)
        found = matrix[np.clip(lines, 0, height - 1)[:, None], np.clip(columns, 0, width - 1)]
        return np.where(inside, found, array.dtype.type(0))

    return TensorMap(array, swizzle, rows)


def windows(array: np.ndarray, *numbers: int) -> TensorMap:
    """Channels of pixels of NHWC data, by the numbers of cuTensorMapEncodeIm2col: pixels are those of the
    bounding box, every so many, images one behind the other.
    """
    channels, width, height, images = extents = numbers[:4]
    lower, upper, steps = numbers[4:6], numbers[6:8], numbers[8:10]
    per_pixel, pixels, swizzle, _ = numbers[10:]
    data = array.reshape(extents[::-1])
    spans = [(width, height)[axis] + upper[axis] - lower[axis] for axis in range(2)]
    across, down = (-(-spans[axis] // steps[axis]) for axis in range(2))
    if min(spans) < 1 or max(steps) > 8 or per_pixel > 256 or pixels > 1024:
        raise SimulationError(f"a tensor map of {numbers}")

    def rows(place: list[int], offsets: list[int]) -> np.ndarray:
        channel, x, y, image = place
        if (x - lower[0]) % steps[0] or (y - lower[1]) % steps[1] or min(offsets) < 0 or max(offsets) > 255:
            raise SimulationError(f"windows from ({x}, {y}), offset by {offsets}")
        column, line = (x - lower[0]) // steps[0], (y - lower[1]) // steps[1]
        if not (0 <= column < across and 0 <= line < down):
            raise SimulationError(f"a first window at ({x}, {y}), outside its box")
        number = (image * down + line) * across + column + np.arange(pixels)
        u = number % across * steps[0] + lower[0] + offsets[0]
        v = number // across % down * steps[1] + lower[1] + offsets[1]
        n, c = number // (across * down), channel + np.arange(per_pixel)
        inside = (u >= 0) & (u < width) & (v >= 0) & (v < height) & (n < images)
        u, v, n = np.clip(u, 0, width - 1), np.clip(v, 0, height - 1), np.clip(n, 0, images - 1)
        found = data[n[:, None], v[:, None], u[:, None], np.clip(c, 0, channels - 1)]
        return np.where(inside[:, None] & (c >= 0) & (c < channels), found, array.dtype.type(0))

    return TensorMap(array, swizzle, rows)


ENCODERS = {"runtime.cuTensorMapEncodeTiled": boxes, "topi_ext.encode_window_map": windows}


@dataclass
class Barrier:
    """Of ``expected`` arrivals in each phase, ``awaited`` are missing in this one, and so many ``bytes``."""

    expected: int
    awaited: int
    phase: int = 0
    bytes: int = 0

    def advance(self) -> None:
        if self.awaited == 0 and self.bytes == 0:
            self.phase, self.awaited = self.phase + 1, self.expected


@dataclass
class Copy:
    key: tuple[int, int]
    arrive: Callable[[], None] = field(repr=False)


Key = tuple[int, int, int]
"""Block and address of a barrier, and the parity of the phase that is waited for."""


def is_complete(launch: Any, key: Key) -> bool:
    return _barrier(launch, key[:2]).phase % 2 != key[2]


def deliver_one(launch: Any) -> bool:
    """Let the oldest copy arrive of those that threads wait for; False where there is none."""
    awaited = {
        warps.waits[lane][:2]
        for warps in launch.warps
        for lane in np.flatnonzero([wait is not None for wait in warps.waits])
    }
    for place, copy in enumerate(launch.copies):
        if copy.key in awaited:
            launch.copies.pop(place).arrive()
            return True
    return False


def _barrier(launch: Any, key: tuple[int, int]) -> Barrier:
    if key not in launch.barriers:
        raise SimulationError("a barrier is used before it is made")
    return launch.barriers[key]


def _keys(warps: Any, addresses: np.ndarray) -> list[tuple[int, int, int]]:
    """Lane, block and address of active lanes."""
    lanes = np.flatnonzero(warps.mask)
    warps.launch.shared.places(warps, addresses, OBJECT_BYTES)
    found = np.broadcast_to(addresses, warps.mask.shape)
    return [(int(lane), int(warps.block[lane]), int(found[lane])) for lane in lanes]


def _memory_barrier(instruction: Instruction) -> Step:
    words = instruction.words
    if words[-1] != "b64" or words[-2] not in ("shared", "shared__cta"):
        raise unknown(instruction)
    makers = {
        ("init",): _begin,
        ("arrive", "expect_tx"): _announce,
        ("try_wait", "parity"): _try,
    }
    make = makers.get(words[1:-2])
    if make is None:
        raise unknown(instruction)
    return make(instruction)


def _begin(instruction: Instruction) -> Step:
    to, count = instruction.operands
    where, arrivals = address(to, "shared"), reader(count, "u32")

    def run(warps: Any) -> None:
        expected = np.broadcast_to(arrivals(warps), warps.mask.shape)
        for lane, block, begin in _keys(warps, where(warps)):
            if (block, begin) in warps.launch.barriers:
                raise SimulationError("a barrier is made twice")
            warps.launch.barriers[block, begin] = Barrier(int(expected[lane]), int(expected[lane]))

    return run


def _announce(instruction: Instruction) -> Step:
    state, to, count = instruction.operands
    if state != SINK:
        raise unknown(instruction)
    where, bytes_ = address(to, "shared"), reader(count, "u32")

    def run(warps: Any) -> None:
        announced = np.broadcast_to(bytes_(warps), warps.mask.shape)
        for lane, block, begin in _keys(warps, where(warps)):
            barrier = _barrier(warps.launch, (block, begin))
            if barrier.awaited == 0:
                raise SimulationError("more arrivals at a barrier than it expects")
            barrier.bytes += int(announced[lane])
            barrier.awaited -= 1
            barrier.advance()

    return run


def _try(instruction: Instruction) -> Step:
    to, of, parity = instruction.operands
    write, where, phase = writer(to, "pred"), address(of, "shared"), reader(parity, "u32")

    def run(warps: Any) -> None:
        size = warps.mask.shape
        parities, done, waiting = (
            np.broadcast_to(phase(warps), size),
            np.zeros(size, bool),
            np.zeros(size, bool),
        )
        keys: list[Any] = [None] * len(done)
        for lane, block, begin in _keys(warps, where(warps)):
            keys[lane] = (block, begin, int(parities[lane]))
            done[lane] = is_complete(warps.launch, keys[lane])
        waiting = warps.mask & ~done & warps.refused
        warps.refused = np.where(warps.mask, ~done & ~warps.refused, warps.refused)
        write(warps, done)
        warps.wait(waiting, keys)

    return run


def bulk_copy(instruction: Instruction) -> Step:
    """cp.async.bulk.tensor of two dimensions by tiles, of four by windows."""
    words = instruction.words
    if words[3] != "tensor" or words[5:] != (
        "shared__cluster",
        "global",
        {"2d": "tile", "4d": "im2col"}.get(words[4]),
        "mbarrier__complete_tx__bytes",
    ):
        raise unknown(instruction)
    to, of, barrier, *offsets = instruction.operands
    where, at = address(to, "shared"), address(barrier, "shared")
    tensor_map = reader(of.base, "u64")
    place = [reader(part, "s32") for part in of.coordinates.parts]
    behind = [reader(part, "u16") for operand in offsets for part in operand.parts]
    if len(place) != int(words[4][0]) or len(behind) != len(place) - 2:
        raise unknown(instruction)

    def run(warps: Any) -> None:
        launch = warps.launch
        values = [np.broadcast_to(read(warps), warps.mask.shape) for read in (tensor_map, *place, *behind)]
        ends = np.broadcast_to(at(warps), warps.mask.shape)
        if warps.mask.reshape(-1, LANES).sum(1).max() > 1:
            raise SimulationError("a bulk copy is issued by several lanes of a warp")
        for lane, block, begin in _keys(warps, where(warps)):
            parameter = int(values[0][lane]) - GENERIC_PARAMETERS
            found = launch.maps.get(parameter)
            if found is None:
                raise SimulationError("a bulk copy by what is no tensor map")
            launch.memory.check_early([launch.map_names[parameter]])
            numbers = [int(value[lane]) for value in values[1:]]
            tile = found.rows(numbers[: len(place)], numbers[len(place) :])
            copy = _copy(launch, (block, int(ends[lane])), block, begin, tile, found.swizzle)
            if launch.order.late:
                launch.copies.append(copy)
            else:
                copy.arrive()

    return run


def _copy(launch: Any, key: tuple[int, int], block: int, begin: int, tile: np.ndarray, swizzle: int) -> Copy:
    """What lays rows one behind the other, the 16 bytes of each permuted by the bits of their address."""
    barrier, shared = _barrier(launch, key), launch.shared
    raw = np.ascontiguousarray(tile).view(np.uint8)
    span = _SPANS.get(swizzle)
    if span is None or raw.shape[1] > span or raw.shape[1] % 16 or begin % 128:
        raise SimulationError(
            f"a bulk copy of rows of {raw.shape[1]} bytes to {begin} with swizzle {swizzle}"
        )
    linear = begin + np.arange(raw.size).reshape(raw.shape)
    permuted = linear ^ (linear >> 7 & span // 16 - 1) << 4
    offsets = permuted - shared.base
    if offsets.min() < 0 or offsets.max() >= shared.size:
        raise SimulationError("a bulk copy writes outside shared memory")
    places = offsets + block * shared.row
    shared.asynchronous(places, "a bulk copy")

    def arrive() -> None:
        shared.bytes[places] = raw
        shared.writer[places // 2] = NOBODY
        barrier.bytes -= raw.size
        if barrier.bytes < 0:
            raise SimulationError("more bytes arrive at a barrier than were announced")
        barrier.advance()

    return Copy(key, arrive)


MAKERS: dict[str, Callable[[Instruction], Step]] = {"mbarrier": _memory_barrier}
"""By the first word of an operation."""
