"""The depthwise convolution whose result a pointwise one reads: computed a chunk of rows at a time.

A chunk of a few rows stays in the cache between the two, and each thread reads what it has written itself.
Within the chunk one vector of channels follows the other: its rows with their border are copied, and register
tiles of pixels go along them.
"""

from dataclasses import dataclass
from math import gcd
from typing import Any

from tvm.s_tir import Schedule

from topi_ext.compute.padding import PADDING
from topi_ext.indexing import block_of
from topi_ext.schedule.blocks import SBlock
from topi_ext.schedule.overlap import overlap_tail
from topi_ext.workloads.convolution import ANNOTATION
from topi_ext.workloads.separable import SeparableWorkload

LONGEST_TILE = 14
"""Pixels of one register tile: with their accumulators, weights and data of AVX-512 stay in registers."""

LONGEST_VECTOR = 16
"""Channels that are computed at once where they are not in blocks."""


@dataclass(frozen=True)
class DepthwiseStage:
    """The blocks of the depthwise convolution: its padding, if any, its sums, and its finished result."""

    padding: SBlock | None
    sums: SBlock
    result: SBlock


def depthwise_stage(sch: Schedule, before: list[SBlock]) -> DepthwiseStage:
    """What the blocks ``before`` the pointwise convolution are; those that go by element become one."""
    places = [place for place, block in enumerate(before) if ANNOTATION in sch.get(block).annotations]
    padding = next((block for block in before if sch.get(block).name_hint.startswith(PADDING)), None)
    sums, rest = before[places[0]], before[places[0] + 1 :]
    if not rest:
        # The new block copies the sums out; the old one now fills a temporary.
        return DepthwiseStage(padding, sums, sch.cache_write(sums, 0, "global"))
    for block in rest[:-1]:
        sch.compute_inline(block)
    return DepthwiseStage(padding, sums, rest[-1])


def place_depthwise(sch: Schedule, stage: DepthwiseStage, chunk: Any, workload: SeparableWorkload) -> None:
    """Compute in the loop ``chunk`` what it reads of the depthwise convolution.

    :func:`topi_ext.schedule.overlap.apply_overlap` must follow.
    """
    width = int(workload.in_width)
    tile = next((size for size in range(LONGEST_TILE, LONGEST_TILE // 2, -1) if width % size == 0), None)
    tile = tile or min(width, LONGEST_TILE)
    sch.compute_at(stage.result, chunk, preserve_unit_loops=True)
    if block_of(workload.data_layout, "C") > 1:
        *_, channel, _, pixel, lane = sch.get_loops(stage.result)
    else:
        *_, row, pixel, lane = sch.get_loops(stage.result)
        channel, lane = sch.split(lane, [None, gcd(workload.in_channels, LONGEST_VECTOR)])
        sch.reorder(channel, row, pixel, lane)
    outer, inner = sch.split(pixel, [None, tile])
    if width % tile:
        overlap_tail(sch, outer)
    sch.unroll(inner)
    sch.vectorize(lane)
    sch.compute_at(stage.sums, outer, preserve_unit_loops=True)
    sch.set_scope(stage.sums, 0, "local")
    *_, pixel, lane, tap_row, tap_column = sch.get_loops(stage.sums)
    sch.reorder(tap_row, tap_column, pixel, lane)
    sch.unroll(pixel)
    sch.vectorize(lane)
    sch.decompose_reduction(stage.sums, tap_row)
    if stage.padding is not None:
        sch.compute_at(stage.padding, channel, preserve_unit_loops=True)
        sch.vectorize(sch.get_loops(stage.padding)[-1])
