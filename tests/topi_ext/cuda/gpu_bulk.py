"""The tensor memory accelerator of a simulated GPU: tensor maps, bulk copies, and barriers that count bytes.

By the CUDA driver API ("Tensor Map Object Management") and the PTX ISA ("mbarrier", "cp.async.bulk.tensor",
"im2col mode"): a copy brings a box of a tensor or channels of pixels that follow one another, zeros from
outside; its bytes arrive at some time before the phase ends that they were announced for, here when it is
waited for and not before. Who touches them earlier is found out, as who overwrites what is still in use.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm_ffi
from gpu_memory import Memory, SimulationError
from gpu_warpgroups import PERMUTED
from tvm import tirx
from tvm.ir import Call, StringImm

ARRIVALS, OBJECT_BYTES = 2, 8
"""Threads that a barrier waits for, and its size."""

PATTERN_ROWS = 8
"""After which permutations repeat; a tile lies where one begins."""

SWIZZLED = {1: 3, 2: 2, 3: 1}
"""wgmma's number of a permutation by CUtensorMapSwizzle."""


@dataclass(frozen=True)
class TensorMap:
    """``load`` gives rows of a tile by coordinates; ``swizzle`` is CUtensorMapSwizzle."""

    load: Callable[..., np.ndarray]
    swizzle: int


def tiled(array: np.ndarray, rank: int, *numbers: int) -> TensorMap:
    """As cuTensorMapEncodeTiled: SimulationError for what it refuses."""
    extents, strides, box = numbers[:rank], numbers[rank : 2 * rank - 1], numbers[2 * rank - 1 : 3 * rank - 1]
    steps, (interleave, swizzle, _, fill) = numbers[3 * rank - 1 : 4 * rank - 1], numbers[4 * rank - 1 :]
    _check(array, strides, box, swizzle)
    if max(box) > 256 or set(steps) != {1} or interleave or fill:
        raise SimulationError(f"a tensor map of boxes of {box}, every {steps}")
    whole = np.lib.stride_tricks.as_strided(
        array, extents[::-1], [*strides[::-1], array.itemsize], writeable=False
    )

    def load(*place: int) -> np.ndarray:
        tile = np.zeros(box[::-1], array.dtype)
        inside = [
            (max(0, -begin), min(size, extent - begin))
            for begin, size, extent in zip(place, box, extents, strict=True)
        ]
        if all(low < high for low, high in inside):
            to = tuple(slice(low, high) for low, high in inside[::-1])
            origin = tuple(
                slice(begin + low, begin + high)
                for begin, (low, high) in zip(place[::-1], inside[::-1], strict=True)
            )
            tile[to] = whole[origin]
        return tile

    return TensorMap(load, swizzle)


def windows(array: np.ndarray, *numbers: int) -> TensorMap:
    """As cuTensorMapEncodeIm2col of NHWC data that lie one behind the other."""
    extents, lower, upper, steps = numbers[:4], numbers[4:6], numbers[6:8], numbers[8:10]
    channels, pixels, swizzle, _ = numbers[10:]
    strides = [extents[0] * array.itemsize]
    strides += [strides[0] * extents[1], strides[0] * extents[1] * extents[2]]
    _check(array, strides, (channels, pixels), swizzle)
    if not all(-128 <= corner <= 127 for corner in (*lower, *upper)) or max(steps) > 8:
        raise SimulationError(f"a tensor map of windows from {lower} to {upper}, every {steps}")
    if channels > 256 or pixels > 1024:
        raise SimulationError(f"a tensor map of {channels} channels of {pixels} pixels")
    whole = array.reshape(extents[::-1])
    ends = [extent + corner for extent, corner in zip(extents[1:3], upper, strict=True)]

    def load(channel: int, x: int, y: int, image: int, right: int, below: int) -> np.ndarray:
        if not (0 <= right <= 255 and 0 <= below <= 255):
            raise SimulationError(f"a tap {right} to the right and {below} below the first")
        if not (lower[0] <= x < ends[0] and lower[1] <= y < ends[1]):
            raise SimulationError(f"a first window at ({x}, {y}), outside its box")
        tile = np.zeros((pixels, channels), array.dtype)
        found = max(0, min(channels, extents[0] - channel))
        for row in range(pixels):
            u, v = x + right, y + below
            if 0 <= u < extents[1] and 0 <= v < extents[2] and image < extents[3]:
                tile[row, :found] = whole[image, v, u, channel : channel + found]
            x += steps[0]
            if x >= ends[0]:
                x, y = lower[0], y + steps[1]
            if y >= ends[1]:
                y, image = lower[1], image + 1
        return tile

    return TensorMap(load, swizzle)


def _check(array: np.ndarray, strides: Any, box: Any, swizzle: int) -> None:
    if any(stride % 16 for stride in strides):
        raise SimulationError(f"a tensor map with strides of {tuple(strides)} bytes")
    if swizzle not in SWIZZLED or box[0] * array.itemsize > PERMUTED[SWIZZLED[swizzle]][0]:
        raise SimulationError(
            f"a tensor map of rows of {box[0] * array.itemsize} bytes with swizzle {swizzle}"
        )


ENCODERS = {"runtime.cuTensorMapEncodeTiled": tiled, "topi_ext.encode_window_map": windows}


def maps_of(
    scheduled: tirx.PrimFunc,
    arguments: dict[str, np.ndarray],
    encoders: Mapping[str, Callable[..., Any]] = ENCODERS,
) -> dict[str, Any]:
    """The tensor maps that the host makes of ``arguments`` before the launch, by the names of their
    variables.
    """
    found: dict[str, Any] = {}

    def visit(call: Call) -> None:
        if (
            not call.args
            or not isinstance(call.args[0], StringImm)
            or str(call.args[0].value) not in encoders
        ):
            return
        name, place, dtype, *rest = call.args
        pointer = next(part for part in rest if isinstance(part, Call))
        numbers = [int(part) for part in rest if not isinstance(part, Call)]
        array = arguments[str(pointer.args[0].name)]
        assert str(array.dtype) == str(dtype.value)
        found[str(place.name)] = encoders[str(name.value)](array, *numbers)

    tvm_ffi.structural_walk(scheduled.body, (Call, visit))
    return found


@dataclass
class Barrier:
    """One of shared memory, the same in all blocks. ``awaited`` threads have still to arrive in this phase,
    ``missing`` bytes to be there; ``copies`` are under way.
    """

    phase: int = 0
    awaited: int = ARRIVALS
    missing: int = 0
    copies: list[Callable[[], int]] = field(default_factory=list)


def begin(grid: Any, node: Call) -> None:
    _one_thread(grid)
    memory, offset = grid.value(node.args[1])
    stages = int(grid.value(node.args[2]))
    assert memory.kept is not None
    units = int(offset) * memory.array.itemsize // 2
    memory.kept[:, units : units + stages * OBJECT_BYTES // 2] = True
    for stage in range(stages):
        grid.barriers[int(offset) + stage] = Barrier()


def copy(grid: Any, node: Call) -> None:
    """The tile of each block."""
    threads = _one_thread(grid)
    to, name, barriers, stage, count, *place = node.args[1:-1]
    tensor_map, barrier = grid.arguments[str(name.name)], _barrier(grid, barriers, stage)
    memory, offset = grid.value(to)
    if not barrier.awaited:
        raise SimulationError("a copy is announced for a phase that has not been waited for")
    barrier.awaited -= 1
    barrier.missing += int(count)
    coordinates = [np.broadcast_to(grid.value(part), grid.block.shape)[threads] for part in place]
    begins = np.broadcast_to(offset, grid.block.shape)[threads] * memory.array.itemsize
    for block, first, *where in zip(grid.block[threads], begins, *coordinates, strict=True):
        tile = tensor_map.load(*map(int, where))
        _issue(memory, int(block), int(first), tile, tensor_map.swizzle, barrier)


def _issue(memory: Memory, block: int, first: int, tile: np.ndarray, swizzle: int, barrier: Barrier) -> None:
    row_bytes, mask = PERMUTED[SWIZZLED[swizzle]]
    if (memory.begin + first) % (row_bytes * PATTERN_ROWS):
        raise SimulationError(f"a bulk copy to no multiple of {row_bytes * PATTERN_ROWS}")
    rows, elements = tile.shape
    inside = np.arange(rows)[:, None] * elements + np.arange(elements)
    address = memory.begin + first + inside * tile.itemsize
    address = (address ^ ((address >> 7 & mask) << 4)) - memory.begin
    units = address // 2
    memory.arrives(block, units)

    def land() -> int:
        memory.landed(block, units)
        memory.array.view(tile.dtype)[block, address // tile.itemsize] = tile
        # Copies of the blocks arrive alike: the first stands for all.
        return tile.nbytes if block == 0 else 0

    barrier.copies.append(land)


def arrived(grid: Any, node: Call) -> None:
    if grid.mask is not None:
        raise SimulationError("not all threads wait for a bulk copy")
    barrier, parity = _barrier(grid, *node.args[1:3]), int(grid.value(node.args[3]))
    if barrier.phase % 2 != parity:
        return
    for land in barrier.copies:
        barrier.missing -= land()
    barrier.copies = []
    if barrier.awaited or barrier.missing:
        raise SimulationError(
            f"threads wait for {barrier.awaited} copies and {barrier.missing} bytes that never arrive"
        )
    barrier.phase, barrier.awaited = barrier.phase + 1, ARRIVALS


def _barrier(grid: Any, pointer: Any, stage: Any) -> Barrier:
    _, offset = grid.value(pointer)
    found = grid.barriers.get(int(offset) + int(grid.value(stage)))
    if found is None:
        raise SimulationError("a barrier is used before it is made")
    return found


def _one_thread(grid: Any) -> np.ndarray:
    """The active thread of each block."""
    threads = np.flatnonzero(np.ones(grid.block.shape, bool) if grid.mask is None else grid.mask)
    if len(threads) != grid.blocks or len(set(grid.block[threads])) != grid.blocks:
        raise SimulationError("a bulk copy is not issued by one thread of each block")
    return threads


FUNCTIONS = {
    "topi_ext_bulk_begin": begin,
    "topi_ext_bulk_copy_tile": copy,
    "topi_ext_bulk_copy_windows": copy,
    "topi_ext_bulk_arrived": arrived,
}


def function(name: str) -> Any:
    """What a device function of that name does; None of another."""
    return FUNCTIONS.get(name)
