"""Tiles by bulk copies: what a schedule leaves as loops over a tile becomes one call, and the host makes the
tensor maps.

The call is one of every thread here; code generation leaves it to one
(:mod:`topi_ext.cuda.codegen.bulk_order`).
"""

from math import prod
from typing import Any

from tvm import tirx
from tvm.ir import PointerType, Range
from tvm.s_tir import MatchBufferRegion, SBlock, SBlockRealize, Schedule
from tvm.tirx.script import builder as T
from tvm_ffi import structural_map, structural_walk

from topi_ext.cuda.codegen.bulk_copies import (
    BARRIER_BYTES,
    Arrival,
    arrived,
    begin,
    copy_tile,
    copy_windows,
    end,
)
from topi_ext.cuda.codegen.dependent_launch import constant_operand
from topi_ext.cuda.codegen.intrinsics import SHARED
from topi_ext.cuda.codegen.statements import flat, with_body
from topi_ext.cuda.codegen.tensor_functions import pointer_to
from topi_ext.cuda.codegen.tensor_maps import TiledMap, data_map, weight_map
from topi_ext.cuda.compute.implicit_gemm import GATHER, ROWS, padded
from topi_ext.cuda.gemm_knobs import GemmKnobs
from topi_ext.cuda.workload import GemmConvolution
from topi_ext.dtypes import DTYPE_BYTES
from topi_ext.ir import with_loops
from topi_ext.schedule.blocks import child_blocks
from topi_ext.schedule.nests import with_nests

STAGES, ORDER = "software_pipeline_stage", "software_pipeline_order"

_READS, _WRITES = 1, 2


def lies_as_read(sch: Schedule, workload: GemmConvolution) -> bool:
    """Does the product gather what the function is given, as the workload says, NHWC or of another rank with
    pixels in the same order?
    """
    blocks = {str(sch.get(block).name_hint): sch.get(block) for block in child_blocks(sch)}
    data = blocks[GATHER].reads[0].source
    if ROWS in blocks and data.same_as(blocks[ROWS].writes[0].source):
        data = blocks[ROWS].reads[0].source
    shape = [int(extent) for extent in data.shape]
    found = (str(data.dtype), prod(shape), shape[-1])
    given = any(data.same_as(parameter) for parameter in sch.mod["main"].params)
    return given and found == (workload.data_dtype, prod(workload.data_shape), workload.in_channels)


def with_bulk_copies(func: tirx.PrimFunc, workload: GemmConvolution, knobs: GemmKnobs) -> tirx.PrimFunc:
    """A scheduled function, in whose loop over tiles the first two statements copy the data's tile and the
    weights', with bulk copies instead; of data of which :func:`lies_as_read` is true.
    """
    tiles = _loop_over_tiles(func)
    bulk = _Bulk(tiles, workload, knobs)
    root = func.body.block
    statements = [*bulk.maps, structural_map(root.body, (tirx.For, bulk.loop))]
    return with_nests(func, statements, [*root.alloc_buffers, bulk.barriers])


def with_early_weights(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The same function, the weights' first tiles on their way before the wait for the kernel before; the
    copies of its tiles are asynchronous ones of every thread.
    """
    tiles = _loop_over_tiles(func)
    weight = _copy_of(tiles.body.seq[1])[0].block.reads[0].source
    call = constant_operand(T.tvm_access_ptr(T.type_annotation(weight.dtype), weight.data, 0, 1, _READS))

    def on_loop(loop: tirx.For) -> Any:
        return tirx.SeqStmt([_opaque("constant", call), loop]) if loop.same_as(tiles) else loop

    return with_loops(func, on_loop)


def _loop_over_tiles(func: tirx.PrimFunc) -> tirx.For:
    found: list[tirx.For] = []
    structural_walk(
        func.body, (tirx.For, lambda loop: found.append(loop) if STAGES in loop.annotations else None)
    )
    (loop,) = found
    return loop


class _Bulk:
    """The statements of one kernel: ``maps`` are those of the host, :meth:`loop` gives the others."""

    def __init__(self, tiles: tirx.For, workload: GemmConvolution, knobs: GemmKnobs) -> None:
        self.workload, self.knobs = workload, knobs
        self.columns, self.depth = padded(workload, knobs)[1:]
        sources = [_copy_of(part)[0].block.reads[0].source for part in tiles.body.seq[:2]]
        self.descriptions = (
            data_map(workload, knobs.block_m, knobs.block_k),
            weight_map(workload, (self.columns, self.depth), knobs.block_n, knobs.block_k),
        )
        types = PointerType(tirx.TensorMapType())
        self.variables = [tirx.Var(f"{name}_map", types) for name in ("data", "weight")]
        self.maps: list[Any] = []
        for variable, description, source in zip(self.variables, self.descriptions, sources, strict=True):
            self.maps.append(tirx.Bind(variable, T.tvm_stack_alloca("tensormap", 1)))
            self.maps.append(tirx.Evaluate(description.encoded(variable, source.data)))
        self.barriers = tirx.decl_buffer((BARRIER_BYTES // 8,), "uint64", "barriers", scope=SHARED)

    def loop(self, loop: tirx.For) -> Any:
        """The loop over tiles, with what is before and behind it; another loop with what holds the barriers
        behind it, or as it is.
        """
        if STAGES in loop.annotations:
            barriers = _opaque("bulk_begin", begin(self._pointer(), self.knobs.stages))
            weights = _opaque("constant", constant_operand(self.variables[1]))
            return tirx.SeqStmt([barriers, weights, self._tiles(loop)])
        if loop.thread_binding is None or str(loop.thread_binding.thread_tag) != "threadIdx.y":
            return loop
        parts = flat(loop.body)
        if not any(isinstance(part, tirx.For) and STAGES in part.annotations for part in parts):
            return loop
        # Results must not take the place of barriers that threads may still wait at.
        body = tirx.SeqStmt([*parts, _opaque("bulk_end", end(self._pointer()))])
        return with_body(loop, body)

    def _tiles(self, loop: tirx.For) -> tirx.For:
        copies, products = list(loop.body.seq[:2]), list(loop.body.seq[2:])
        turn, stages = _whole(loop.loop_var), self.knobs.stages
        parity = tirx.floormod(tirx.floordiv(turn, stages), 2)
        wait = arrived(self._pointer(), tirx.floormod(turn, stages), parity)
        parts = [self._copied(copy, turn, place) for place, copy in enumerate(copies)]
        parts += [_opaque("bulk_arrived", wait), *products]
        last = loop.annotations[STAGES][-1]
        annotations = {STAGES: [0, 0, *[last] * (len(parts) - 2)], ORDER: list(range(len(parts)))}
        return with_body(loop, tirx.SeqStmt(parts), annotations)

    def _pointer(self) -> Any:
        mask, count = _READS | _WRITES, BARRIER_BYTES // 8
        return T.tvm_access_ptr(T.type_annotation("uint64"), self.barriers.data, 0, count, mask)

    def _copied(self, statement: Any, turn: Any, operand: int) -> SBlockRealize:
        """The tile of the data (0) or the weights (1)."""
        realize, variables = _copy_of(statement)
        zero = {variable: tirx.const(0, str(variable.ty.dtype)) for variable in variables}
        batch, row, k = (
            structural_map(value, (tirx.Var, lambda found: zero.get(found, found)))
            for value in realize.iter_values
        )
        written = realize.block.writes[0].source
        shape = (self.knobs.block_m, self.knobs.block_n)[operand], self.knobs.block_k
        extents = ((batch, 1), (row, shape[0]), (k, shape[1]))
        region = tirx.BufferRegion(written, [Range.from_min_extent(*extent) for extent in extents])
        dtype = str(written.dtype)
        tile = tirx.decl_buffer(
            shape,
            dtype,
            f"{written.name}_tile",
            scope=SHARED,
            elem_offset=tirx.Var("offset", "int32"),
            strides=[tirx.Var(f"stride{axis}", "int32") for axis in range(2)],
            offset_factor=8,
        )
        to = pointer_to(tile, dtype, shape[0] * shape[1], _WRITES)
        batch, row, k = map(_whole, (batch, row, k))
        stage = tirx.floormod(turn, self.knobs.stages)
        arrival = Arrival(self._pointer(), stage, shape[0] * shape[1] * DTYPE_BYTES[dtype])
        variable = self.variables[operand]
        if operand:
            call = copy_tile(to, variable, arrival, (k, batch * self.columns + row))
        else:
            call = self._data(to, variable, arrival, batch, row, k)
        name, matched = str(realize.block.name_hint), [MatchBufferRegion(tile, region)]
        block = SBlock([], [], [region], name, tirx.Evaluate(call), match_buffers=matched)
        return SBlockRealize([], True, block)

    def _data(self, to: Any, variable: Any, arrival: Arrival, batch: Any, row: Any, k: Any) -> Any:
        workload, knobs = self.workload, self.knobs
        if knobs.split_k > 1:
            k = batch * (self.depth // knobs.split_k) + k
        channels = workload.group_channels
        first = batch * channels if workload.groups > 1 else 0
        if isinstance(self.descriptions[0], TiledMap):
            return copy_tile(to, variable, arrival, (first + k, row))
        tap, channel = tirx.floordiv(k, channels), first + tirx.floormod(k, channels)
        if self.depth > workload.depth:
            # Behind the last tap lies nothing: what is read there, outside the tensor, is zero.
            inside = k < workload.depth
            channel = tirx.Select(inside, channel, tirx.const(workload.in_channels, "int32"))
            tap = tirx.Select(inside, tap, tirx.const(0, "int32"))
        pixels = workload.out_height * workload.out_width
        pixel = tirx.floormod(row, pixels)
        x = tirx.floormod(pixel, workload.out_width) * workload.strides[1] - workload.padding[1]
        y = tirx.floordiv(pixel, workload.out_width) * workload.strides[0] - workload.padding[0]
        right = tirx.floormod(tap, workload.kernel[1]) * workload.dilation[1]
        below = tirx.floordiv(tap, workload.kernel[1]) * workload.dilation[0]
        place = (channel, x, y, tirx.floordiv(row, pixels))
        return copy_windows(to, variable, arrival, place, (right, below))


def _opaque(name: str, call: Any) -> SBlockRealize:
    """A block that is nothing but a call."""
    return SBlockRealize([], True, SBlock([], [], [], name, tirx.Evaluate(call)))


def _copy_of(statement: Any) -> tuple[SBlockRealize, list[Any]]:
    """The block within loops over a tile, and their variables."""
    variables = []
    while isinstance(statement, tirx.For):
        variables.append(statement.loop_var)
        statement = statement.body
    return statement, variables


def _whole(index: Any) -> Any:
    """An index as the int that device functions take."""
    return tirx.Cast("int32", index) if str(index.ty.dtype) != "int32" else index
