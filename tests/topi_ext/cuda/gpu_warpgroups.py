"""Products of four warps on a simulated GPU: ``wgmma.mma_async`` and what has to surround it.

By the PTX ISA ("Asynchronous Warpgroup Level Matrix Instructions"): operands are where descriptors and the
permutation of address bits say, sums in the registers of the accumulator's table. Sums are nobody's, and
operands must stay, from the product until its group has been waited for; a product takes sums that were used
otherwise only behind wgmma.fence, and shared memory that was written only where the writer's
fence.proxy.async came before a barrier.
"""

import re
from typing import Any

import numpy as np
from gpu_memory import Memory, SimulationError
from tvm.ir import Call

LANES, WARPS = 32, 4
THREADS = LANES * WARPS
ROWS = 64

DTYPES = {
    "float16": ("float16", "float16"),
    "tf32": ("float32", "float32"),
    "uint8": ("uint8", "int8"),
    "int8": ("int8", "int8"),
}

PERMUTED = {1: (128, 7), 2: (64, 3), 3: (32, 1)}
"""Bytes of a row, and how many bits of the address above 6 are added to those above 3, by bits 62 and 63."""


class Warpgroups:
    """The products under way in one launch; ``group`` is the number of the one that is open."""

    def __init__(self) -> None:
        self.group = 1
        self.open: list[Memory] = []
        self.committed: list[Memory] = []


def multiply(grid: Any, node: Call) -> None:
    name, to, begin, right, upper, *left = node.args[:-1]
    dtype, columns = str(name.value).rsplit("_", 2)[1:]
    sums, first, count = grid.pointed(to), int(grid.value(begin)), int(columns) // 2
    if grid.mask is not None or grid.threads % THREADS:
        raise SimulationError("wgmma is not executed by all threads of four warps")
    if not sums.fenced:
        raise SimulationError("wgmma takes sums that were written without wgmma.fence behind it")
    if len(left) == 1:
        one = _operand(grid, _descriptor(grid, left[0], upper), ROWS, DTYPES[dtype][0])
    else:
        one = _loaded(grid, *left)
    two = _operand(grid, _descriptor(grid, right, upper), int(columns), DTYPES[dtype][1])
    if dtype == "tf32" and any((part.view(np.uint32) & 0x1FFF).any() for part in (one, two)):
        raise SimulationError("wgmma takes a float32 that is not rounded to tf32")
    # Sums of 32 products of bytes are whole numbers of 22 bits, which float32 holds.
    one, two = one.astype(np.float32), two.astype(np.float32)
    product = np.matmul(one, two.swapaxes(1, 2)).astype(sums.array.dtype)
    thread, register = np.arange(THREADS)[:, None], np.arange(count)[None]
    lane = thread % LANES
    row = thread // LANES * 16 + lane // 4 + register // 2 % 2 * 8
    column = register // 4 * 8 + lane % 4 * 2 + register % 2
    sums.array[:, first : first + count] += product[:, row, column].reshape(-1, count)
    sums.in_flight = True
    grid.warpgroups.open.append(sums)


def fence(grid: Any, node: Call) -> None:
    for pointer in node.args[1:-1:2]:
        grid.pointed(pointer).fenced = True


def commit(grid: Any, node: Call) -> None:
    grid.warpgroups.committed += grid.warpgroups.open
    grid.warpgroups.open = []
    grid.warpgroups.group += 1


def earlier(grid: Any, node: Call) -> None:
    """All groups but the last have read what they multiply."""
    _read_until(grid, grid.warpgroups.group - 1)


def _read_until(grid: Any, group: int) -> None:
    reading = _shared(grid).reading
    reading[reading < group] = 0


def wait(grid: Any, node: Call) -> None:
    for sums in grid.warpgroups.committed:
        sums.in_flight = False
    grid.warpgroups.committed = []
    _read_until(grid, grid.warpgroups.group)
    for sums in grid.warpgroups.open:
        sums.in_flight = True


def proxy_fence(grid: Any, node: Call) -> None:
    written = _shared(grid).proxy
    written[written == Memory.WRITTEN] = Memory.FENCED


def shared_address(grid: Any, node: Call) -> Any:
    memory, offset = grid.value(node.args[1])
    return memory.begin + np.asarray(offset) * memory.array.itemsize


def _loaded(grid: Any, pointer: Any, begin: Any) -> np.ndarray:
    """The left operand in four registers of each lane, 16 rows a warp: groups, rows, 8 of the depth."""
    registers, first = grid.pointed(pointer), int(grid.value(begin))
    if not registers.fenced:
        raise SimulationError("wgmma takes operands that were written without wgmma.fence behind it")
    registers.in_flight = True
    grid.warpgroups.open.append(registers)
    thread, register = np.arange(THREADS)[:, None], np.arange(4)[None]
    found = np.zeros((len(registers.array) // THREADS, ROWS, 8), np.float32)
    row = thread // LANES * 16 + thread % LANES // 4 + register % 2 * 8
    found[:, row, thread % 4 + register // 2 * 4] = registers.array[:, first : first + 4].reshape(
        -1, THREADS, 4
    )
    return found


def _shared(grid: Any) -> Memory:
    return next(memory for memory in grid.memory.values() if memory.scope == "shared")


def _descriptor(grid: Any, lower: Any, upper: Any) -> np.ndarray:
    """That of each group; bits 0 to 63."""
    words = [np.broadcast_to(np.asarray(grid.value(word)), grid.block.shape) for word in (lower, upper)]
    low, high = (word.astype(np.int64).astype(np.uint64) & np.uint64(0xFFFFFFFF) for word in words)
    groups = (low | high << np.uint64(32)).reshape(-1, THREADS)
    if (groups != groups[:, :1]).any():
        raise SimulationError("the threads of four warps give wgmma different descriptors")
    return groups[:, 0]


def _operand(grid: Any, descriptors: np.ndarray, rows: int, dtype: str) -> np.ndarray:
    """Groups, rows, elements of 32 bytes of the depth."""
    memory = _shared(grid).seen_as(dtype)
    start, stride, base, mode = (
        (descriptors >> np.uint64(place) & np.uint64((1 << bits) - 1)).astype(np.int64)
        for place, bits in ((0, 14), (32, 14), (49, 3), (62, 2))
    )
    if base.any() or len(set(mode)) != 1 or mode[0] == 0:
        raise SimulationError(f"wgmma: a descriptor with base offset {base[0]} and permutation {mode[0]}")
    row_bytes, mask = PERMUTED[int(mode[0])]
    row, element = np.arange(rows)[:, None], np.arange(32 // memory.array.itemsize)[None]
    inside = row % 8 * row_bytes + element * memory.array.itemsize
    address = (start << 4)[:, None, None] + row // 8 * (stride << 4)[:, None, None] + inside
    address = (address ^ ((address >> 7 & mask) << 4)) - memory.begin
    return memory.multiplied(grid.block[::THREADS][:, None, None], address // memory.array.itemsize)


FUNCTIONS = {
    r"topi_ext_wgmma_multiply_\w+": multiply,
    r"topi_ext_wgmma_fence_\w+": fence,
    r"topi_ext_wgmma_wait_\w+": wait,
    r"topi_ext_wgmma_commit": commit,
    r"topi_ext_wgmma_earlier": earlier,
    r"topi_ext_fence_proxy_async": proxy_fence,
    r"topi_ext_shared_address": shared_address,
}


def function(name: str) -> Any:
    """What a device function of that name does; None of another."""
    return next((run for pattern, run in FUNCTIONS.items() if re.fullmatch(pattern, name)), None)
