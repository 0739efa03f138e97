"""Direct convolution: a register tile of pixels by channel vectors, swept over the reduction.

The tile's accumulators live in a local buffer that is fully unrolled, so that the compiler keeps
them in registers; the epilogue (bias, activation, residual) reads them there and stores once.
This is the register-tiled direct convolution of NeoCPU (Liu et al., ATC 2019) and of Georganas et
al. (SC 2018), for any mix of layouts.
"""

from dataclasses import replace
from typing import Any

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.s_tir.transform import StmtSimplify

from topi_ext.compute.convolution import reduction_axes
from topi_ext.compute.padding import FILLED, PADDING
from topi_ext.dtypes import DTYPE_BYTES
from topi_ext.indexing import block_of, physical_axes
from topi_ext.knobs import ConvolutionKnobs, check_knobs, may_prefetch
from topi_ext.schedule.bias_start import apply_start, keep_start
from topi_ext.schedule.blocks import (
    AnchorNeighbours,
    SBlock,
    anchor_of,
    fuse_epilogue,
    inline_copies,
    loop_extent,
    open_schedule,
)
from topi_ext.schedule.clamped_loops import apply_clamping, mark_clamped
from topi_ext.schedule.cpu.block_axes import fuse_rows, split_groups
from topi_ext.schedule.cpu.loops import arrange_block, arrange_loops, place_padding
from topi_ext.schedule.cpu.matrices import apply_matrices, keep_configured, multiply_matrices
from topi_ext.schedule.cpu.separable import depthwise_stage, place_depthwise
from topi_ext.schedule.overlap import PADDED_LANES, apply_overlap, overlap_tail
from topi_ext.schedule.padding_skips import apply_skip, skip_padding
from topi_ext.schedule.partial_vectors import apply_partial_vectors
from topi_ext.schedule.phases import apply_missing_taps, skip_missing_taps, store_in_place
from topi_ext.schedule.prefetch import apply_prefetch, prefetch_weights
from topi_ext.schedule.vector_remainders import apply_remainders
from topi_ext.workloads.convolution import COLUMNS, PLANES, ROWS, ConvolutionWorkload
from topi_ext.workloads.facts import (
    fuses_rows,
    lanes_are_pixels,
    parts_of_block,
    share_of_taps_inside,
    splits_groups,
)
from topi_ext.workloads.separable import SeparableWorkload
from topi_ext.workloads.stacked_phases import StackedPhases

Loop = Any
"""A loop of a schedule (``tvm.s_tir.schedule.LoopRV``)."""


def schedule_convolution(
    func: tirx.PrimFunc, workload: ConvolutionWorkload, knobs: ConvolutionKnobs
) -> Schedule:
    """Schedule ``func``, whose annotated block computes ``workload``, by ``knobs``.

    RelayLayoutError for knobs that do not fit; RuntimeError for a function that TVM cannot schedule so.
    """
    check_knobs(workload, knobs)
    sch = open_schedule(func)
    inline_copies(sch)
    sch, phases = store_in_place(sch, workload.out_layout)
    nest = _Nest(sch, anchor_of(sch), workload, knobs, phases)
    nest.arrange()
    arranged = nest.sch.mod["main"]
    for rewrite in _REWRITES:
        arranged = rewrite(arranged)
    return open_schedule(arranged)


_REWRITES = (
    apply_clamping,
    apply_overlap,
    apply_remainders,
    apply_start,
    apply_partial_vectors,
    apply_prefetch,
    apply_skip,
    apply_missing_taps,
    apply_matrices,
)
"""Rewrites of marked loops, in order, for transformations that schedule primitives cannot express."""


class _Nest:
    """The schedule of a convolution's loop nest, whose loops are named by the axis that they are over."""

    def __init__(
        self,
        sch: Schedule,
        anchor: SBlock,
        workload: ConvolutionWorkload,
        knobs: ConvolutionKnobs,
        phases: StackedPhases | None,
    ) -> None:
        self.sch = sch
        self.anchor = anchor
        self.workload = workload
        self.knobs = knobs
        self.phases = phases
        self.marks: list[str] = []
        """Names of loops whose last tile overlaps the one before."""
        self.zeros = True
        """Does the padding consist of zeros, which need not be multiplied?"""

    def arrange(self) -> None:
        """Schedule the loops of the anchor and of all blocks around it."""
        knobs, flat = self.knobs, fuses_rows(self.workload)
        around, epilogue = self._prepared(flat)
        sch = self.sch
        stage = depthwise_stage(sch, around.before) if isinstance(self.workload, SeparableWorkload) else None
        pad = self._copy(around) if stage is None else None
        for block in around.before if stage is None else ():
            if block is not pad:
                arrange_block(sch, block, knobs.lanes)
        loops = dict(zip(self._loop_names(flat), sch.get_loops(self.anchor), strict=True))
        steps = []
        innermost_axis = reduction_axes(self.workload)[-1]
        if knobs.steps > 1 or knobs.matrix_rows:
            loops[innermost_axis], step = sch.split(loops[innermost_axis], [None, knobs.steps])
            steps = [step]
        reduction = [*(loops[name] for name in reduction_axes(self.workload)), *steps]
        tile, outer = self._split(loops, flat)
        sch.reorder(*outer.values(), *reduction, *tile)
        threads = self._threads(outer)
        parallel = self._fused([outer[name] for name in threads])
        if knobs.parallel:
            sch.parallel(parallel)
        innermost = [name for name in outer if name not in threads]
        place = outer[innermost[-1]] if innermost else parallel
        sch.reverse_compute_at(epilogue, place, preserve_unit_loops=True)
        if self._starts_from_bias() and "channel" in threads:
            axes = physical_axes(self.workload.out_layout)
            keep_start(sch, self.anchor, epilogue, parallel, [axis in "DHW" for axis, _ in axes])
        if stage is not None and isinstance(self.workload, SeparableWorkload):
            place_depthwise(sch, stage, parallel, self.workload)
        if pad is not None:
            self.zeros = FILLED not in sch.get(pad).annotations
            place_padding(sch, pad, parallel if knobs.pad_at == "chunk" else None, knobs.parallel)
        if knobs.matrix_rows:
            keep_configured(sch, parallel, self.workload, knobs)
        elif steps:
            self._load_data(loops[innermost_axis], steps[0], len(tile))
        self._finish(epilogue, tile, reduction)
        for name in dict.fromkeys(self.marks):
            overlap_tail(sch, parallel if name in threads else outer[name])
        arrange_loops(sch, around.after, knobs.lanes)

    def _prepared(self, flat: bool) -> tuple[AnchorNeighbours, SBlock]:
        """As :meth:`_surroundings`, with rows fused and groups split as tiling needs them."""
        around, epilogue = self._surroundings()
        if flat:
            fuse_rows(self.sch, self.workload, self.anchor, epilogue, self._copy(around))
        if splits_groups(self.workload):
            split_groups(self.sch, self.workload, self.anchor, epilogue)
            if self.workload.padded_lanes:
                return self._simplified(around, epilogue)
        return around, epilogue

    def _threads(self, outer: dict[str, Loop]) -> list[str]:
        """The names of the outermost loops, which are fused and parallelized."""
        names = ["n", "group", "plane", "chunk"]
        if self.knobs.order == "channels":
            names = ["n", "group", "channel", "plane", "chunk"]
            if not self.workload.is_depthwise:
                names.append("row")
        return [name for name in names if name in outer]

    def _fused(self, loops: list[Loop]) -> Loop:
        """Adjacent loops fused to one."""
        sch = self.sch
        turning = [loop for loop in loops if loop_extent(sch, loop) != 1]
        if all(loop_extent(sch, loop) is not None for loop in turning):
            return sch.fuse(*loops)
        # Loops of extent 1 are left out: fused with a symbolic extent they would leave divisions in indices.
        single = [loop for loop in loops if loop_extent(sch, loop) == 1]
        sch.reorder(*single, *turning)
        return sch.fuse(*turning)

    def _starts_from_bias(self) -> bool:
        """Do sums start from the bias? In depthwise convolutions of floats, whose sums are short, that is
        faster.
        """
        workload = self.workload
        floating = workload.dtype.startswith("float") and workload.out_dtype.startswith("float")
        return workload.is_depthwise and not workload.padded_lanes and floating

    def _surroundings(self) -> tuple[AnchorNeighbours, SBlock]:
        """The blocks around the anchor, and the block that stores its accumulators."""
        sch = self.sch
        if not self.workload.padded_lanes:
            around = fuse_epilogue(sch, self.anchor)
            # Without an epilogue, a new block copies the accumulators, and the anchor fills a temporary.
            return around, around.epilogue or sch.cache_write(self.anchor, 0, "global")
        (stored,) = sch.get_consumers(self.anchor)
        around = fuse_epilogue(sch, stored)
        if around.epilogue is not None:
            sch.compute_inline(stored)
        name = sch.get(self.anchor).name_hint
        epilogue = around.epilogue or stored
        sch.annotate(epilogue, PADDED_LANES, self.knobs.lanes)
        before = [block for block in around.before if sch.get(block).name_hint != name]
        return replace(around, before=before), epilogue

    def _loop_names(self, flat: bool) -> list[str]:
        """The names of the anchor's loops in order; ``flat`` if rows and columns are fused."""
        names = []
        for axis, factor in physical_axes(self.workload.out_layout):
            name = {"N": "n", "C": "channel", "D": "plane", "H": "row", "W": "pixel"}[axis]
            if factor:
                name = "lane"
            if flat and axis == "H":
                continue
            if axis == "C" and splits_groups(self.workload):
                names.append("group")
            names.append(name)
        if self.workload.padded_lanes:
            names.append("lane")
        return names + list(reduction_axes(self.workload))

    def _copy(self, around: AnchorNeighbours) -> SBlock | None:
        """The block that copies the padded image, if there is one."""
        names = ((block, self.sch.get(block).name_hint) for block in around.before)
        return next((block for block, name in names if name.startswith(PADDING)), None)

    def _simplified(self, around: AnchorNeighbours, epilogue: SBlock) -> tuple[AnchorNeighbours, SBlock]:
        """The same blocks in the simplified function, whose indices no longer divide a group's channel.

        TVM cannot compute the regions that blocks access otherwise.
        """

        def again(block: SBlock) -> SBlock:
            return sch.get_sblock(self.sch.get(block).name_hint)

        sch = open_schedule(StmtSimplify()(self.sch.mod)["main"])
        before, after = ([again(block) for block in blocks] for blocks in (around.before, around.after))
        self.anchor, epilogue = again(self.anchor), again(epilogue)
        self.sch = sch
        return AnchorNeighbours(before, epilogue, after), epilogue

    def _split(self, loops: dict[str, Loop], flat: bool) -> tuple[list[Loop], dict[str, Loop]]:
        """The loops of the register tile, the vector last, and by name those around it from the outermost
        on.
        """
        sch, knobs, workload = self.sch, self.knobs, self.workload
        parts: dict[str, Loop] = {}
        if lanes_are_pixels(workload):
            pixel, tile_pixel, lane = self._tile(loops["pixel"], [knobs.tile_pixels, knobs.lanes])
            channel, tile_channel = self._tile(loops["channel"], [knobs.tile_channels], mark="channel")
        elif block_of(workload.out_layout, "C") > 1 or workload.padded_lanes:
            pixel, tile_pixel = self._tile(loops["pixel"], [knobs.tile_pixels])
            channel, tile_channel = self._tile(loops["channel"], [knobs.tile_channels], mark="channel")
            lane = loops["lane"]
            if parts_of_block(workload, knobs.lanes) > 1:
                parts["part"], lane = sch.split(lane, [None, knobs.lanes])
        else:
            pixel, tile_pixel = self._tile(loops["pixel"], [knobs.tile_pixels])
            channel, tile_channel, lane = self._tile(
                loops["channel"], [knobs.tile_channels, knobs.lanes], mark="channel"
            )
        order: dict[str, Loop] = {name: loops[name] for name in ("n", "group") if name in loops}
        row = pixel if flat else loops.get("row")
        tile_row = []
        if knobs.tile_rows > 1:
            row, *tile_row = self._tile(row, [knobs.tile_rows], mark="row")
        if row is None:
            order |= {"channel": channel, **parts}
        else:
            rows = loop_extent(sch, row)
            chunk, row = sch.split(row, [None, knobs.rows])
            if rows is None and knobs.rows > 1:
                mark_clamped(sch, row)
            plane = {"plane": loops["plane"]} if "plane" in loops else {}
            if knobs.order == "channels":
                order |= {"channel": channel, **plane, "chunk": chunk, **parts, "row": row}
            else:
                order |= {**plane, "chunk": chunk, "channel": channel, **parts, "row": row}
        if not flat:
            order["pixel"] = pixel
        self.marks = ["row" if mark == "pixel" and flat else mark for mark in self.marks]
        # Pixels are outside of vectors of channels, so that each broadcast element of the data is used up
        # before the next one. Otherwise all broadcasts of the tile would be live at once, and spill.
        tile = [tile_channel, tile_pixel] if lanes_are_pixels(workload) else [tile_pixel, tile_channel]
        return [*tile_row, *tile, lane], order

    def _tile(self, loop: Loop, factors: list[int], mark: str = "pixel") -> list[Loop]:
        """Split a loop by the factors of a tile; note ``mark`` if they do not divide its extent."""
        size = 1
        for factor in factors:
            size *= factor
        extent = loop_extent(self.sch, loop)
        if size > 1 and (extent is None or extent % size):
            self.marks.append(mark)
        return list(self.sch.split(loop, [None, *factors]))

    def _load_data(self, outer: Loop, step: Loop, tile_loops: int) -> None:
        """Load the data of one iteration of ``outer`` as vectors along ``step``, the loop within it."""
        sch = self.sch
        around = len(sch.get_loops(self.anchor)) - tile_loops - 1
        loaded = sch.cache_read(self.anchor, 0, "local")
        sch.compute_at(loaded, outer, preserve_unit_loops=True)
        *pixels, channels = sch.get_loops(loaded)[around:]
        for loop in [*pixels, step]:
            sch.unroll(loop)
        sch.vectorize(channels)

    def _finish(self, epilogue: SBlock, tile: list[Loop], reduction: list[Loop]) -> None:
        """Unroll and vectorize the tile and its epilogue, and split off the initialization of its sums."""
        sch = self.sch
        for loop in tile[:-1]:
            sch.unroll(loop)
        sch.vectorize(tile[-1])
        epilogue_loops = sch.get_loops(epilogue)
        depth = len(sch.get_loops(self.anchor)) - len(tile) - len(reduction)
        own = epilogue_loops[depth:]
        lanes = own[-1]
        if lanes_are_pixels(self.workload) or block_of(self.workload.out_layout, "C") == 1:
            # The epilogue has a tile's pixels or channels as one loop; split it into the anchor's vectors.
            vector, lanes = sch.split(lanes, [None, self.knobs.lanes])
            own = [*own[:-1], vector]
        else:
            own = own[:-1]
        for loop in own:
            sch.unroll(loop)
        sch.vectorize(lanes)
        inner = len(tile) + len(reduction)
        zero = sch.decompose_reduction(self.anchor, reduction[0])
        if self.knobs.matrix_rows:
            multiply_matrices(sch, zero, self.anchor, self.workload, len(tile), len(reduction))
        self._prefetch(len(tile))
        self._skip(inner)
        self._skip_missing_taps(inner)

    def _skip(self, inner: int) -> None:
        """Mark the loops over kernel rows, columns and planes that see only padding often enough to skip it.

        They are among the ``inner`` innermost loops, those of the reduction and the register tile.
        """
        if not self.zeros:
            return
        workload, reduced = self.workload, reduction_axes(self.workload)
        loops = self.sch.get_loops(self.anchor)[-inner:]
        sides = [(ROWS, "H", 1)]
        if not lanes_are_pixels(workload):
            sides.append((COLUMNS, "W", self.knobs.tile_pixels))
        if workload.depth:
            sides.append((PLANES, "D", 1))
        for side, axis, pixels in sides:
            if share_of_taps_inside(workload, side, pixels) < 1.0:
                place = physical_axes(workload.out_layout).index((axis, 0))
                skip_padding(
                    self.sch, loops[reduced.index(f"r{axis.lower()}")], place, workload, side, pixels
                )

    def _skip_missing_taps(self, inner: int) -> None:
        """Mark loops over taps that not all phases of a transposed convolution have.

        They are among the ``inner`` innermost loops, those of the reduction and the register tile.
        """
        if self.phases is None:
            return
        workload, reduced = self.workload, reduction_axes(self.workload)
        loops = self.sch.get_loops(self.anchor)[-inner:]
        block = block_of(workload.out_layout, "C")
        tile = self.knobs.tile_channels * (block if block > 1 else self.knobs.lanes)
        names = [axis for axis, _ in physical_axes(workload.out_layout) if axis in "DHW"]
        for side, axis in enumerate(names):
            loop = loops[reduced.index(f"r{axis.lower()}")]
            skip_missing_taps(self.sch, loop, side, tile, self.phases, workload.out_layout)

    def _prefetch(self, tile_loops: int) -> None:
        """Prefetch the weights of the next tile, if each weight is read once and so comes from memory."""
        workload, knobs = self.workload, self.knobs
        if not knobs.prefetch or not may_prefetch(workload, knobs):
            return
        rows = workload.in_channels * workload.taps // workload.word
        row_bytes = knobs.lanes * DTYPE_BYTES[workload.weight_dtype] * workload.word
        at_once = knobs.steps if knobs.matrix_rows else 1
        loops = self.sch.get_loops(self.anchor)
        innermost = loops[-tile_loops - (2 if knobs.matrix_rows else 1)]
        prefetch_weights(self.sch, innermost, rows, row_bytes, knobs.tile_channels, at_once)
