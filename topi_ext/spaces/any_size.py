"""Knobs of convolutions of images of dynamic size, chosen at a typical size."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from math import ceil
from typing import NamedTuple

from topi_ext.knobs import ConvolutionKnobs, Knobs
from topi_ext.machine.processor import Processor
from topi_ext.spaces.direct import direct_knobs
from topi_ext.spaces.direct_costs import traffic_cycles
from topi_ext.spaces.typical_sizes import overrun
from topi_ext.spaces.winograd import winograd_any_size_knobs
from topi_ext.workloads.convolution import ConvolutionWorkload
from topi_ext.workloads.facts import fuses_rows, lanes_are_pixels, pixel_run, tiled_channels

CHUNKS_PER_THREAD = 4
"""Least chunks of rows per thread at the typical size, so that at other sizes the last round of chunks leaves
the threads unbalanced by an eighth at most."""

STEP_CYCLES = 1.5
"""What a step of a tile takes beside its multiply-adds. Measured on a Zen 5, of 48 rows of 1280 by 1024:
tiles of 8, 10, 14 and 16 accumulators take 1.21, 1.09, 1.02 and 1 for each row."""

LONG_RUN = 64
"""Pixels from which a row is long, where a row is all pixels: the usual tiles overlap little then."""

RUNS = (8, 6, 4, 3, 2, 1)
"""Tiles of shorter ones, beside the usual. Measured on a Zen 5, of three products of 512 by 1376: 2, 3, 4, 6
and 8 pixels take 1.06, 1.06, 1.13, 1.42 and 1.78 times as long as one."""

READING_PIXELS = 2
"""What a round of tiles takes beside its pixels, in pixels: it reads all weights. Measured there, of tiles of
2, 4 and 8: a second round takes 41, 61 and 123 us, 12.5 us for a pixel."""


@lru_cache(maxsize=4096)
def any_size_knobs(
    workload: ConvolutionWorkload, processor: Processor, winograd: bool = True
) -> tuple[float, Knobs]:
    """The lowest estimated cycles, over all threads, and the knobs that have them.

    ``workload`` has a typical size. The work that overlapping tiles at the end of a row repeat is averaged
    over sizes (:func:`topi_ext.spaces.typical_sizes.overrun`). Without ``winograd`` only direct kernels
    count.
    """
    found: list[tuple[float, Knobs]] = [
        (
            cycles * overrun(pixel_run(workload), knobs.tile_pixels) * _waiting(workload, processor, knobs),
            knobs,
        )
        for cycles, knobs in _with_fixed_padding(workload, processor)
        if _suits(workload, processor, knobs)
    ]
    if winograd:
        found += winograd_any_size_knobs(workload, processor)
    return min(found, key=lambda pair: pair[0])


def _waiting(workload: ConvolutionWorkload, processor: Processor, knobs: ConvolutionKnobs) -> float:
    """The factor on a step of a product's tile by what it waits beside its multiply-adds.

    Tiles whose pixels divide no size alike have few accumulators, and would seem as fast as larger ones.
    """
    if not fuses_rows(workload):
        return 1.0
    accumulators = knobs.tile_pixels * knobs.tile_channels * processor.passes(knobs.lanes * 4)
    return 1.0 + STEP_CYCLES * processor.fma_per_cycle / accumulators


WORTH_A_KERNEL = 0.93
"""The share of the estimated cycles at the typical size: knobs that take more are not worth a kernel more.
Measured on a Zen 5, of 49 pixels of 128 to 960 channels: tiles of 7, estimated at 0.91, take 0.83 of those of
14."""


class Shorter(NamedTuple):
    """Knobs for rows shorter than usual."""

    lengths: tuple[range, ...]
    """The pixels of a row that they are for."""

    workload: ConvolutionWorkload
    """The convolution at the size that they were chosen for."""

    knobs: ConvolutionKnobs


@lru_cache(maxsize=4096)
def shorter_knobs(
    workload: ConvolutionWorkload, processor: Processor, knobs: ConvolutionKnobs
) -> tuple[Shorter, ...]:
    """What rows have that are shorter than the ``knobs`` of the typical size are for, one pixel last.

    Where all pixels are one row, as those of products are, a few of them have kernels of their own. These
    read weights as they lie: asked for ahead, rows of 1 to 8 pixels take 1.05 to 1.25 times as long.
    """
    if not fuses_rows(workload):
        single = replace(knobs, tile_pixels=1, rows=1)
        return (Shorter((range(knobs.tile_pixels),), workload, single),)[: knobs.tile_pixels - 1]
    known = {}
    for pixels in RUNS:
        few = replace(workload, in_height=pixels, in_width=1)
        tiles = [
            (cycles, place, each)
            for place, (cycles, each) in enumerate(direct_knobs(few, processor))
            if each.tile_pixels == pixels and not each.matrix_rows
        ]
        if tiles:
            known[pixels] = few, replace(min(tiles)[-1], prefetch=False)
    lengths = run_lengths([*known, knobs.tile_pixels])
    lengths.pop(knobs.tile_pixels, None)
    return tuple(Shorter(lengths[pixels], *each) for pixels, each in known.items() if pixels in lengths)


def run_lengths(tiles: Sequence[int]) -> dict[int, tuple[range, ...]]:
    """The lengths below a long row's for which each of ``tiles`` takes the least."""
    assert 1 in tiles, "a tile of one pixel fits every processor"
    taken = {1: [range(1)]}
    for pixels in range(1, LONG_RUN):
        best = min(
            (tile for tile in tiles if tile <= pixels),
            key=lambda tile: (ceil(pixels / tile) * (tile + READING_PIXELS), -tile),
        )
        spans = taken.setdefault(best, [])
        begin = spans.pop().start if spans and spans[-1].stop == pixels else pixels
        spans.append(range(begin, pixels + 1))
    return {tile: tuple(spans) for tile, spans in taken.items()}


@lru_cache(maxsize=4096)
def whole_tile_knobs(
    workload: ConvolutionWorkload, processor: Processor, knobs: ConvolutionKnobs
) -> ConvolutionKnobs | None:
    """Knobs for rows that their tiles divide, as those of the typical size; None where ``knobs`` do as well.

    Tiles that suit all sizes repeat much of the work on short rows: of 7 pixels, tiles of 5 compute 10.
    """
    candidates = [
        pair for pair in _with_fixed_padding(workload, processor) if _suits(workload, processor, pair[1])
    ]
    typical = min((cycles for cycles, each in candidates if each == knobs), default=0.0)
    whole = [
        (cycles, place, each)
        for place, (cycles, each) in enumerate(candidates)
        if each.tile_pixels > 1 and pixel_run(workload) % each.tile_pixels == 0
    ]
    if not whole or min(whole)[0] > WORTH_A_KERNEL * typical:
        return None
    return min(whole)[-1]


def suits_any_size(workload: ConvolutionWorkload) -> bool:
    """Do knobs fit images of other sizes: vectors along channels, and no tile that crosses the end of a
    row?
    """
    return not (lanes_are_pixels(workload) or fuses_rows(workload))


def _with_fixed_padding(
    workload: ConvolutionWorkload, processor: Processor
) -> Iterator[tuple[float, ConvolutionKnobs]]:
    """All knobs of direct kernels, each with its estimated cycles.

    Where tiles of channels overlap, the last one is moved back, and the padded rows that its thread copied
    would have to move with it. Such knobs are replaced: rows are copied for all channels, or before the
    loops.
    """
    for cycles, knobs in direct_knobs(workload, processor):
        overlaps = tiled_channels(workload) % (knobs.lanes * knobs.tile_channels)
        if not overlaps or (knobs.order, knobs.pad_at) != ("channels", "chunk"):
            yield cycles, knobs
            continue
        before = traffic_cycles(workload, processor, knobs)
        for fixed in (replace(knobs, order="pixels"), replace(knobs, pad_at="stage")):
            if knobs.parallel or fixed.order == "channels":
                yield cycles + traffic_cycles(workload, processor, fixed) - before, fixed


def _suits(workload: ConvolutionWorkload, processor: Processor, knobs: ConvolutionKnobs) -> bool:
    """Are these tiles of vectors, with enough chunks of rows for every thread?"""
    if knobs.matrix_rows:
        return False
    if knobs.order == "channels":
        return True
    rows = -(-pixel_run(workload) // knobs.tile_pixels) if fuses_rows(workload) else int(workload.out_height)
    chunks = -(-rows // knobs.rows)
    return knobs.rows == 1 or chunks >= CHUNKS_PER_THREAD * processor.threads
