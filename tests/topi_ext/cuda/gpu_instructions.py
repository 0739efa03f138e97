"""Instructions of a simulated GPU beyond arithmetic: asynchronous copies and tensor cores.

They do what the PTX ISA says of them: which element of a matrix is in which register of which lane, and that
a copy only arrives when it is waited for.
"""

from collections.abc import Callable
from typing import Any

import gpu_bulk
import gpu_warpgroups
import numpy as np
from gpu_memory import Memory, SimulationError
from gpu_shuffles import SHUFFLES
from tvm.ir import Call

from topi_ext.cuda.codegen.dependent_launch import ALLOW, WAIT
from topi_ext.cuda.multiplication import extents

LANES = 32


def tvm_access_ptr(grid: Any, node: Call) -> tuple[Memory, Any]:
    # The offset counts elements of the dtype that the access names.
    return grid.pointed(node.args[1]).seen_as(str(node.args[0].ty.dtype)), grid.value(node.args[2])


def s_tir_cp_async_raw(grid: Any, node: Call) -> None:
    to, to_offset, origin, from_offset, size = node.args[:5]
    target, source = grid.pointed(to), grid.pointed(origin)
    count = int(grid.value(size)) // source.array.itemsize
    places = np.asarray(grid.value(to_offset))[:, None] + np.arange(count)
    wanted = np.asarray(grid.value(from_offset))[:, None] + np.arange(count)
    unaligned = wanted[:, 0] * source.array.itemsize % int(grid.value(size)) != 0
    if (unaligned if grid.mask is None else unaligned & grid.mask).any() and len(node.args) == 5:
        raise SimulationError(f"{node} reads from an address that is no multiple of its size")
    if len(node.args) > 5:
        chosen = np.broadcast_to(grid.value(node.args[5]), grid.block.shape)
        data = grid.masked(chosen, lambda: source.read(wanted))
        data = np.where(chosen[:, None], data, 0)
    else:
        data = source.read(wanted)
    mask = grid.mask
    target.touch(places)
    grid.meet("cp.async", target, places[:, 0], count)

    def arrive() -> None:
        outer, grid.mask = grid.mask, mask
        target.write(places, data)
        grid.mask = outer

    grid.open.append(arrive)


def ptx_legacy_ldmatrix(grid: Any, node: Call) -> None:
    transposed, count, _, to, offset, source, rows = node.args
    memory, base = grid.value(source)
    address = np.broadcast_to(base + grid.value(rows), grid.block.shape)
    if ((address * memory.array.itemsize) % 16).any():
        raise SimulationError(f"{node} reads a row at an address that is no multiple of 16")
    width = 16 // memory.array.itemsize
    grid.meet("ldmatrix", memory, address, width)
    matrix = memory.read(address[:, None] + np.arange(width)).reshape(-1, 4, 8, width)
    if grid.value(transposed):
        matrix = matrix.swapaxes(2, 3)
    own = width // 4
    parts = matrix.reshape(-1, 4, LANES, own)[:, : int(grid.value(count))]
    values = parts.transpose(0, 2, 1, 3).reshape(grid.block.size, -1)
    grid.pointed(to).write(grid.value(offset) + np.arange(values.shape[1])[None], values)


def _fragments(grid: Any, buffer: Any) -> dict[Any, np.ndarray]:
    return grid.fragments.setdefault(buffer.args[0], {})


def tvm_fill_fragment(grid: Any, node: Call) -> None:
    pointer, _, _, _, index, value = node.args
    matrix = np.full((grid.block.size // LANES, 16, 16), grid.value(value), np.float32)
    _fragments(grid, pointer)[grid.value(index)] = matrix


def _matrix(grid: Any, source: Call, stride: Any, layout: Any) -> tuple[Memory, Any]:
    memory, base = grid.value(source)
    base = np.broadcast_to(base, grid.block.shape)[:, None]
    row, column = np.divmod(np.arange(LANES)[:, None] * 8 + np.arange(8), 16)
    if grid.value(layout) == "col_major":
        row, column = column, row
    place = np.tile(row * grid.value(stride) + column, (grid.block.size // LANES, 1))
    return memory, base + place


def tvm_load_matrix_sync(grid: Any, node: Call) -> None:
    pointer, _, _, _, index, source, stride, layout = node.args
    memory, places = _matrix(grid, source, stride, layout)
    _fragments(grid, pointer)[grid.value(index)] = memory.read(places).reshape(-1, 16, 16)


def tvm_store_matrix_sync(grid: Any, node: Call) -> None:
    pointer, _, _, _, index, source, stride, layout = node.args
    memory, places = _matrix(grid, source, stride, layout)
    memory.write(places, _fragments(grid, pointer)[grid.value(index)].reshape(places.shape))


def tvm_mma_sync(grid: Any, node: Call) -> None:
    out, to, a, left, b, right, c, sums = node.args
    found = [_fragments(grid, p)[grid.value(i)] for p, i in ((a, left), (b, right), (c, sums))]
    one, two = (part.astype(np.float32) for part in found[:2])
    _fragments(grid, out)[grid.value(to)] = found[2] + np.matmul(one, two)


Places = tuple[np.ndarray, np.ndarray]
"""Rows and columns of a matrix, with an axis of lanes and one of the elements that each owns."""


def fragment_places(shape: tuple[int, int, int], size: int) -> tuple[Places, Places, Places]:
    """Where what lanes own lies in the left and the right operand of ``mma`` and in its sums, operands of
    ``size`` bytes.

    Source: PTX ISA, "Matrix Fragments for mma" of m8n8k16 and m16n8k32 (integers), m16n8k8 (.f16, .tf32) and
    m16n8k16 (.f16): a lane has a word of each eight rows in turn, and then those of the next four words.
    """
    m, n, k = shape
    lane, run = np.arange(LANES)[:, None], 4 // size
    left, right, sums = (np.arange(extent // LANES)[None] for extent in (m * k, k * n, m * n))
    blocks = m // 8
    a = lane // 4 + left // run % blocks * 8, lane % 4 * run + left % run + left // (blocks * run) * 4 * run
    b = lane % 4 * run + right % run + right // run * 4 * run, lane // 4 + 0 * right
    return a, b, (lane // 4 + sums // 2 * 8, lane % 4 * 2 + sums % 2)


def ptx_legacy_mma(grid: Any, node: Call) -> None:
    m, n, k = extents(str(grid.value(node.args[0])))
    operands = [(grid.pointed(node.args[place]), grid.value(node.args[place + 1])) for place in (6, 8, 10)]
    sizes = (m * k // LANES, k * n // LANES, m * n // LANES)
    loaded = [
        memory.read(np.broadcast_to(np.asarray(offset), grid.block.shape)[:, None] + np.arange(size)).reshape(
            -1, LANES, size
        )
        for (memory, offset), size in zip(operands, sizes, strict=True)
    ]
    (a_row, a_col), (b_row, b_col), (c_row, c_col) = fragment_places((m, n, k), operands[1][0].array.itemsize)
    warps = loaded[0].shape[0]
    if str(grid.value(node.args[3])) == "tf32":
        _check_tf32(loaded[:2])
    # Sums of products of bytes are whole numbers of 22 bits, which float32 holds.
    a, b = np.zeros((warps, m, k), np.float32), np.zeros((warps, k, n), np.float32)
    a[:, a_row, a_col], b[:, b_row, b_col] = loaded[:2]
    product = loaded[2] + np.matmul(a, b)[:, c_row, c_col]
    memory, offset = operands[2]
    memory.write(offset + np.arange(sizes[2])[None], product.reshape(grid.block.size, -1))


def _check_tf32(operands: list[np.ndarray]) -> None:
    """What a GPU does with the other bits of mantissa is not defined."""
    for values in operands:
        if (np.ascontiguousarray(values).view(np.uint32) & 0x1FFF).any():
            raise SimulationError("mma takes a float32 that is not rounded to tf32")


def cuda_func_call(grid: Any, node: Call) -> Any:
    name, *values = node.args[:-1]
    found = str(grid.value(name))
    group = gpu_warpgroups.function(found) or gpu_bulk.function(found)
    if group is not None:
        return group(grid, node)
    if found in (ALLOW, WAIT):
        return None
    if found.startswith("topi_ext_dp4a_"):
        return _dot_product(*(grid.value(value) for value in values))
    if str(grid.value(name)) != "topi_ext_to_tf32":
        raise NotImplementedError(f"{name}: {node}")
    bits = np.ascontiguousarray(grid.value(values[0]), np.float32).view(np.uint32)
    return ((bits + np.uint32(1 << 12)) & ~np.uint32((1 << 13) - 1)).view(np.float32)


def _dot_product(data: np.ndarray, weight: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Four bytes of each lane, by the signs that their dtypes say."""
    return total + (data.astype(np.int32) * weight.astype(np.int32)).sum(-1, dtype=np.int32)


INSTRUCTIONS: dict[str, Callable[[Any, Call], Any]] = {
    **SHUFFLES,
    "cuda_func_call": cuda_func_call,
    "tvm_access_ptr": tvm_access_ptr,
    "s_tir_cp_async_raw": s_tir_cp_async_raw,
    "ptx_legacy_ldmatrix": ptx_legacy_ldmatrix,
    "tvm_fill_fragment": tvm_fill_fragment,
    "tvm_load_matrix_sync": tvm_load_matrix_sync,
    "tvm_store_matrix_sync": tvm_store_matrix_sync,
    "tvm_mma_sync": tvm_mma_sync,
    "ptx_legacy_mma": ptx_legacy_mma,
}
"""By the name of TVM's intrinsic, its dots underscores. The first argument is a ``gpu_simulator.Grid``."""
