"""The loops of a matrix product on a GPU, and the copies around them."""

from typing import Any

from tvm.s_tir import Schedule

from topi_ext.cuda.codegen.dot_products import DOT_BYTES, dot_product
from topi_ext.cuda.codegen.intrinsics import FRAGMENT, SHARED, intrinsics
from topi_ext.cuda.codegen.warpgroup_intrinsics import warpgroup_intrinsic
from topi_ext.cuda.codegen.wgmma import LOADED
from topi_ext.cuda.gemm_knobs import (
    LANE_COLUMNS,
    LANE_ROWS,
    PAD_BYTES,
    RESULT_PAD,
    ROW_BYTES,
    SWIZZLED,
    GemmKnobs,
)
from topi_ext.cuda.multiplication import SIDE, left_map, multiplication, right_map, sum_map
from topi_ext.cuda.multiprocessor import LANES, Multiprocessor
from topi_ext.cuda.schedule.bulk_copies import ORDER, STAGES
from topi_ext.cuda.workload import GemmConvolution

STEP = 4
"""Elements of float32 that a thread reads of each row at once there: 16 bytes."""


AT_ONCE = 16
"""Runs of results that a thread reads the residual of before it waits for any."""


class Tiles:
    """What both kinds of products share: blocks of threads, and tiles of the operands in shared memory.

    ``outer`` is the block that reads operands, ``block_loop`` the loop in which a block of threads is one
    turn, ``thread_loop`` that in which a thread is, ``tile_loop`` the one over tiles of the depth,
    ``sum_scope`` where sums are kept.
    """

    outer: Any
    block_loop: Any
    thread_loop: Any
    tile_loop: Any
    sum_scope: str = FRAGMENT

    def __init__(
        self,
        sch: Schedule,
        product: Any,
        workload: GemmConvolution,
        knobs: GemmKnobs,
        multiprocessor: Multiprocessor,
    ) -> None:
        self.sch, self.workload, self.knobs, self.multiprocessor = sch, workload, knobs, multiprocessor
        self.divide(product)

    def divide(self, product: Any) -> None:
        """The loops of the block ``product``, divided between threads."""
        raise NotImplementedError

    def copy_over_threads(self, block: Any, elements: int) -> None:
        """The two innermost loops of a copy as runs of ``elements``, neighbouring runs on neighbouring
        lanes.
        """
        sch = self.sch
        fused = sch.fuse(*sch.get_loops(block)[-2:])
        _, warp, lane, run = sch.split(fused, [None, self.knobs.warps, LANES, elements])
        sch.bind(warp, "threadIdx.y")
        sch.bind(lane, "threadIdx.x")
        if elements > 1:
            sch.vectorize(run)

    def store_results(self, block: Any, elements: int) -> None:
        """The two innermost loops of the epilogue in the same way, several turns at a time.

        A residual comes from memory, and nothing else of the block runs then: what a thread asks for at once
        decides how long it waits. Left alone, nvcc asks for four runs.
        """
        self.copy_over_threads(block, elements)
        turn = self.sch.get_loops(block)[-4]
        turns = int(self.sch.get(turn).extent)
        together = next(count for count in (AT_ONCE, 8, 4, 2, 1) if turns % count == 0)
        self.sch.unroll(self.sch.split(turn, [None, together])[1])

    def copy_operands(self) -> None:
        """Both tiles to shared memory, in each turn of the loop over the depth; rows are padded where they
        are not swizzled when code is generated. Bulk copies stay loops, for
        :mod:`topi_ext.cuda.schedule.bulk_copies`.
        """
        sch, size = self.sch, self.workload.element_bytes
        for operand, elements in ((0, self.workload.copy_elements), (1, 16 // size)):
            copy = sch.cache_read(self.outer, operand, SHARED)
            sch.compute_at(copy, self.tile_loop, preserve_unit_loops=True)
            if self.knobs.copies == "bulk":
                continue
            self.copy_over_threads(copy, elements)
            self.arrange(copy, operand)
            if self.knobs.instruction not in SWIZZLED:
                sch.storage_align(copy, 0, axis=-2, factor=ROW_BYTES // size, offset=PAD_BYTES // size)
            if not self.multiprocessor.has_async_copies:
                sch.annotate(copy, "tirx.manifest_shared_memory_local_stage", 1)

    def arrange(self, copy: Any, operand: int) -> None:
        """The order of a tile's rows in shared memory; that of the operand by default."""

    def load_operands(self) -> None:
        """From shared memory to registers, where instructions want whole operands there."""

    def keep_sums(self) -> Any:
        """The sums in registers; returns the block that stores them."""
        store = self.sch.cache_write(self.outer, 0, self.sum_scope)
        self.sch.reverse_compute_at(store, self.thread_loop, preserve_unit_loops=True)
        return store

    def finish(self, store: Any, init: Any) -> None:
        """What is inside a turn of the tile loop, the clearing of the sums, and their way out."""
        raise NotImplementedError

    def pipeline(self) -> None:
        """Copies of later tiles while one is multiplied."""
        last = self.knobs.stages - 1
        if not last:
            return
        # A copy through registers is two statements: its loads run ahead of the product, its stores behind
        # it.
        stages = [0, 0, last] if self.multiprocessor.has_async_copies else [0, 0, 0, 0, 1]
        order = [0, 1, 2] if self.multiprocessor.has_async_copies else [0, 3, 1, 4, 2]
        self.sch.annotate(self.tile_loop, STAGES, stages)
        self.sch.annotate(self.tile_loop, ORDER, order)
        if self.multiprocessor.has_async_copies and self.knobs.copies == "async":
            self.sch.annotate(self.tile_loop, "software_pipeline_async_stages", [0])


class TensorTiles(Tiles):
    """Products by the instructions of tensor cores, each of a whole warp."""

    def divide(self, product: Any) -> None:
        sch, knobs, dtype = self.sch, self.knobs, self.workload.dtype
        self.inner = product
        self.depth = multiplication(dtype).depth
        self.intrinsics = intrinsics(knobs.instruction, dtype, self.multiprocessor.capability)
        self.sum_scope = self.intrinsics.sum_scope
        batch, i, j, k = sch.get_loops(product)
        i, ii = sch.split(i, [None, SIDE])
        j, jj = sch.split(j, [None, SIDE])
        k, kk = sch.split(k, [None, self.depth])
        sch.reorder(i, j, k, ii, jj, kk)
        self.outer = sch.blockize(ii)
        block_i, warp_i, i = sch.split(i, [None, knobs.warps_m, knobs.warp_m // SIDE])
        block_j, warp_j, j = sch.split(j, [None, knobs.warps_n, knobs.warp_n // SIDE])
        self.tile_loop, self.step_loop = sch.split(k, [None, knobs.block_k // self.depth])
        sch.reorder(block_i, block_j, warp_i, warp_j, self.tile_loop, self.step_loop, i, j)
        self.thread_loop = sch.fuse(warp_i, warp_j)
        _bind(sch, knobs, batch, block_i, block_j, self.thread_loop)
        self.block_loop = block_j

    def load_operands(self) -> None:
        sch, names = self.sch, self.intrinsics
        self.left = sch.cache_read(self.outer, 0, names.left_scope)
        self.right = sch.cache_read(self.outer, 1, names.right_scope)
        for fragment in (self.left, self.right):
            sch.compute_at(fragment, self.step_loop, preserve_unit_loops=True)

    def finish(self, store: Any, init: Any) -> None:
        sch, names = self.sch, self.intrinsics
        zero = sch.get_child_blocks(init)[0]
        pieces = [_pieces(sch, block, self.depth) for block in (self.left, self.right)]
        pieces.append(_pieces(sch, store, SIDE))
        if names.in_lanes:
            dtype = self.workload.dtype
            sch.transform_layout(self.left, ("write", 0), left_map(dtype))
            sch.transform_layout(self.right, ("write", 0), right_map(dtype))
            sch.transform_layout(store, ("read", 0), sum_map)
        for loop in (*sch.get_loops(self.outer)[-2:], *sch.get_loops(init)[-2:], self.step_loop):
            sch.unroll(loop)
        stored = sch.blockize(pieces[2])
        sch.storage_align(stored, 0, axis=-2, factor=32, offset=RESULT_PAD)
        sch.tensorize(pieces[0], names.load_left)
        sch.tensorize(pieces[1], names.load_right)
        sch.tensorize(stored, names.store)
        sch.tensorize(sch.get_loops(self.inner)[-3], names.multiply)
        sch.tensorize(sch.get_loops(zero)[-2], names.fill)


class WarpgroupTiles(Tiles):
    """Products by wgmma: a warp has 16 rows and the whole width. Operands stay in shared memory, but for left
    ones that have to be rounded: all of a tile's are loaded before the first product.
    """

    def divide(self, product: Any) -> None:
        sch, knobs = self.sch, self.knobs
        self.inner = product
        self.depth = depth = multiplication(self.workload.dtype).depth
        batch, i, j, k = sch.get_loops(product)
        i, ii = sch.split(i, [None, SIDE])
        j, jj = sch.split(j, [None, knobs.block_n])
        k, kk = sch.split(k, [None, depth])
        sch.reorder(i, j, k, ii, jj, kk)
        self.outer = sch.blockize(ii)
        i, self.thread_loop = sch.split(i, [None, knobs.warps_m])
        self.tile_loop, self.turn, self.step_loop = sch.split(k, [None, 1, knobs.block_k // depth])
        sch.reorder(i, j, self.thread_loop, self.tile_loop, self.turn, self.step_loop)
        _bind(sch, knobs, batch, i, j, self.thread_loop)
        self.block_loop = j

    def load_operands(self) -> None:
        self.left = None
        if self.workload.dtype in LOADED:
            self.left = self.sch.cache_read(self.outer, 0, FRAGMENT)
            self.sch.compute_at(self.left, self.turn, preserve_unit_loops=True)

    def finish(self, store: Any, init: Any) -> None:
        sch, dtype = self.sch, self.workload.dtype
        names = intrinsics("mma", dtype)
        zero = sch.get_child_blocks(init)[0]
        cleared, stored = _pieces(sch, zero, SIDE), _pieces(sch, store, SIDE)
        if self.left is not None:
            loaded = _pieces(sch, self.left, self.depth)
            sch.transform_layout(self.left, ("write", 0), left_map(dtype))
        sch.transform_layout(store, ("read", 0), sum_map)
        sch.unroll(self.step_loop)
        stored = sch.blockize(stored)
        sch.storage_align(stored, 0, axis=-2, factor=32, offset=RESULT_PAD)
        row_bytes = self.knobs.block_k * self.workload.element_bytes
        sch.tensorize(stored, names.store)
        if self.left is not None:
            sch.tensorize(loaded, names.load_left)
        product = warpgroup_intrinsic(dtype, self.knobs.block_n, row_bytes)
        sch.tensorize(sch.get_loops(self.inner)[-3], product)
        sch.tensorize(cleared, names.fill)


class ScalarTiles(Tiles):
    """Products on CUDA cores: a thread has a square of its warp's results.

    In shared memory the rows of a warp's threads take turns, so that what its lanes read at once lies in
    different banks.
    """

    sum_scope = "local"

    def divide(self, product: Any) -> None:
        sch, knobs = self.sch, self.knobs
        self.outer = product
        batch, i, j, k = sch.get_loops(product)
        block_i, warp_i, lane_i, i = sch.split(i, [None, knobs.warps_m, LANE_ROWS, knobs.warp_m // LANE_ROWS])
        block_j, warp_j, lane_j, j = sch.split(
            j, [None, knobs.warps_n, LANE_COLUMNS, knobs.warp_n // LANE_COLUMNS]
        )
        step = STEP if knobs.instruction == "fma" else DOT_BYTES
        self.tile_loop, steps, self.step = sch.split(k, [None, knobs.block_k // step, step])
        self.square = (i, j)
        # Dot products sum a step themselves.
        inner = (self.step, i, j) if knobs.instruction == "fma" else (i, j, self.step)
        sch.reorder(block_i, block_j, warp_i, warp_j, lane_i, lane_j, self.tile_loop, steps, *inner)
        warp = sch.fuse(warp_i, warp_j)
        self.thread_loop = sch.fuse(lane_i, lane_j)
        _bind(sch, knobs, batch, block_i, block_j, warp)
        sch.bind(self.thread_loop, "threadIdx.x")
        self.block_loop = block_j

    def arrange(self, copy: Any, operand: int) -> None:
        lanes = (LANE_ROWS, LANE_COLUMNS)[operand]
        run = (self.knobs.warp_m, self.knobs.warp_n)[operand] // lanes
        self.sch.transform_layout(
            copy, ("write", 0), lambda b, row, k: (b, row // (run * lanes), row % run, row // run % lanes, k)
        )

    def finish(self, store: Any, init: Any) -> None:
        sch = self.sch
        sch.storage_align(store, 0, axis=-2, factor=32, offset=PAD_BYTES // 4)
        dot = self.knobs.instruction == "dp4a"
        if not dot:
            sch.unroll(self.step)
        for loop in (*self.square, *sch.get_loops(init)[-2:], *sch.get_loops(store)[-2:]):
            sch.unroll(loop)
        if dot:
            sch.tensorize(self.step, dot_product(self.workload.dtype))


def _pieces(sch: Schedule, block: Any, width: int) -> Any:
    """The loop around one piece of :data:`SIDE` rows of ``width``."""
    i, j = sch.get_loops(block)[-2:]
    i, ii = sch.split(i, [None, SIDE])
    j, jj = sch.split(j, [None, width])
    sch.reorder(i, j, ii, jj)
    sch.unroll(i)
    sch.unroll(j)
    return ii


def _bind(sch: Schedule, knobs: GemmKnobs, batch: Any, block_i: Any, block_j: Any, warp: Any) -> None:
    """Blocks of threads in the order of the knobs, and the loop over a block's warps."""
    first, second = (block_i, block_j) if knobs.order == "rows" else (block_j, block_i)
    sch.bind(batch, "blockIdx.z")
    sch.bind(first, "blockIdx.x")
    sch.bind(second, "blockIdx.y")
    sch.bind(warp, "threadIdx.y")


__all__ = ["SHARED", "ScalarTiles", "TensorTiles", "Tiles", "WarpgroupTiles"]
