"""Knobs of convolutions of images whose size is known at run time, chosen for a usual size."""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import combinations
from math import ceil

from topi_ext.direct_space import direct_knobs, traffic_cycles
from topi_ext.knobs import ConvolutionKnobs, WinogradKnobs, fuses_rows, lanes_are_pixels, tiled_channels
from topi_ext.processor import Processor
from topi_ext.row_tiles import RowTiles
from topi_ext.usual_sizes import SCALES
from topi_ext.winograd_space import winograd_any_size_knobs
from topi_ext.workload import ConvolutionWorkload

CHUNKS_PER_THREAD = 4
"""Chunks of rows that each thread has of an image of the usual size: of others the last chunks are then
shared evenly to an eighth."""

SECOND_PAYS = 0.95
"""Of the cycles that one kernel takes on average over all sizes, what it must take with a second one."""


@lru_cache(maxsize=4096)
def any_size_knobs(
    workload: ConvolutionWorkload, processor: Processor, winograd: bool = True
) -> tuple[float, RowTiles | WinogradKnobs]:
    """The knobs of least estimated cycles, and these, for ``workload``, that of a usual size.

    The cycles are what images around the usual size take on average, for as many pixels as that has.
    ``winograd`` false keeps to direct ones.
    """
    found: list[tuple[float, RowTiles | WinogradKnobs]] = [_direct(workload, processor)]
    if winograd:
        found += winograd_any_size_knobs(workload, processor)
    return min(found, key=lambda pair: pair[0])


def _direct(workload: ConvolutionWorkload, processor: Processor) -> tuple[float, RowTiles]:
    """The direct kernel, or two, of least cycles."""
    run = _run(workload)
    # Of tiles of each length, the kernel that takes least, by what its tiles at one place of the rows take.
    best: dict[int, tuple[float, ConvolutionKnobs]] = {}
    for cycles, knobs in _with_still_rows(workload, processor):
        if _suits(workload, processor, knobs):
            found = cycles / ceil(run / knobs.tile_pixels), knobs
            tile = knobs.tile_pixels
            best[tile] = min(best.get(tile, found), found, key=lambda pair: pair[0])
    runs = [max(1, round(run * scale)) for scale in SCALES]
    times = {tile: [ceil(each / tile) * cycles for each in runs] for tile, (cycles, _) in best.items()}

    def average(*tiles: int) -> float:
        least = (min(found) for found in zip(*(times[tile] for tile in tiles), strict=True))
        return sum(cycles * run / each for cycles, each in zip(least, runs, strict=True)) / len(runs)

    single = min(best, key=average)
    pair = min(
        combinations(sorted(best, reverse=True), 2), key=lambda pair: average(*pair), default=(single,)
    )
    chosen = pair if average(*pair) < SECOND_PAYS * average(single) else (single,)
    relative = (round(1000 * best[tile][0] / best[chosen[0]][0]) for tile in chosen)
    return average(*chosen), RowTiles(tuple(best[tile][1] for tile in chosen), tuple(relative))


def suits_any_size(workload: ConvolutionWorkload) -> bool:
    """Are its vectors channels of one pixel, and its tiles within a row, so that knobs fit other sizes?"""
    return not (lanes_are_pixels(workload) or fuses_rows(workload))


def _with_still_rows(
    workload: ConvolutionWorkload, processor: Processor
) -> Iterator[tuple[float, ConvolutionKnobs]]:
    """All knobs of direct kernels, each with its estimated cycles.

    Where tiles of channels overlap, those that a thread takes move, and the rows that were copied for them
    would have to move with them: they are copied for all channels, or ahead.
    """
    for cycles, knobs in direct_knobs(workload, processor):
        overlaps = tiled_channels(workload) % (knobs.lanes * knobs.tile_channels)
        if not overlaps or (knobs.order, knobs.pad_at) != ("channels", "chunk"):
            yield cycles, knobs
            continue
        before = traffic_cycles(workload, processor, knobs)
        for still in (replace(knobs, order="pixels"), replace(knobs, pad_at="stage")):
            if knobs.parallel or still.order == "channels":
                yield cycles + traffic_cycles(workload, processor, still) - before, still


def _run(workload: ConvolutionWorkload) -> int:
    """Pixels of the result along which tiles lie."""
    width = int(workload.out_width)
    return int(workload.out_height) * width if fuses_rows(workload) else width


def _suits(workload: ConvolutionWorkload, processor: Processor, knobs: ConvolutionKnobs) -> bool:
    """Are its chunks small beside what a thread has to do, and its tiles vectors?"""
    if knobs.matrix_rows:
        return False
    if knobs.order == "channels":
        return True
    rows = -(-_run(workload) // knobs.tile_pixels) if fuses_rows(workload) else int(workload.out_height)
    chunks = -(-rows // knobs.rows)
    return knobs.rows == 1 or chunks >= CHUNKS_PER_THREAD * processor.threads


__all__ = ["any_size_knobs", "suits_any_size"]
