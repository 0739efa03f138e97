"""Knobs for images of any size: what all sizes waste, and chunks that threads share."""

from dataclasses import replace
from itertools import chain

import pytest

from relay_layout.targets import resolve_target
from topi_ext.knobs import ConvolutionKnobs, WinogradKnobs
from topi_ext.spaces.any_size import (
    CHUNKS_PER_THREAD,
    LONG_RUN,
    RUNS,
    any_size_knobs,
    run_lengths,
    shorter_knobs,
    whole_tile_knobs,
)
from topi_ext.spaces.typical_sizes import SCALES, overrun
from topi_ext.workloads.convolution import ConvolutionWorkload


def test_overrun() -> None:
    assert overrun(56, 1) == 1.0
    # 56, 64, 72, 80, 96 and 112 are all multiples of eight.
    assert overrun(56, 8) == pytest.approx(1.0)
    # 56 in tiles of 56, others in two.
    assert overrun(56, 56) == pytest.approx(sum(-(-scale // 1) / scale for scale in SCALES) / len(SCALES))


def workload_of(inputs: int, outputs: int) -> ConvolutionWorkload:
    return ConvolutionWorkload(
        batch=1,
        in_channels=inputs,
        out_channels=outputs,
        in_height=56,
        in_width=56,
        kernel=(3, 3),
        strides=(1, 1),
        padding=(1, 1, 1, 1),
        dilation=(1, 1),
        groups=1,
        data_layout="NHWC",
        kernel_layout="OHWI16o",
        out_layout="NHWC",
        dtype="float32",
        out_dtype="float32",
    )


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("channels", [(64, 64), (20, 12)], ids=str)
def test_chunks_are_shared_evenly(channels: tuple[int, int], threads: int) -> None:
    processor = resolve_target("x86-64-v3", threads=threads).processor
    cycles, knobs = any_size_knobs(workload_of(*channels), processor, winograd=False)
    assert cycles > 0
    assert isinstance(knobs, ConvolutionKnobs)
    assert knobs.order == "channels" or knobs.rows == 1 or 56 / knobs.rows >= CHUNKS_PER_THREAD * threads


def test_winograds_kernel_is_for_many_channels() -> None:
    processor = resolve_target("x86-64-v3", threads=2).processor
    for channels, kind in ((64, WinogradKnobs), (6, ConvolutionKnobs)):
        assert isinstance(any_size_knobs(workload_of(channels, channels), processor)[1], kind)


def test_chunks_of_tiles_serve_other_sizes() -> None:
    """196 tiles of the usual size would be one chunk for each of two threads, those of others would not."""
    processor = resolve_target("x86-64-v3", threads=2).processor
    _, knobs = any_size_knobs(workload_of(64, 64), processor)
    assert 196 / knobs.rows > CHUNKS_PER_THREAD


def test_a_chunk_holds_all_tiles_where_weights_outgrow_the_cache() -> None:
    """36 times 192 inputs of 48 channels of a thread are 1.3 MB, which each chunk would read again."""
    processor = resolve_target("x86-64-v4", threads=2).processor
    _, knobs = any_size_knobs(replace(workload_of(192, 192), in_height=14, in_width=14), processor)
    assert isinstance(knobs, WinogradKnobs)
    assert (knobs.tile, knobs.order, knobs.tile_channels) == (4, "channels", 3)
    assert knobs.rows >= 16


def test_rows_of_a_chunk_are_free_where_threads_share_channels() -> None:
    processor = resolve_target("x86-64-v4", threads=2).processor
    depthwise = replace(workload_of(480, 480), in_height=7, in_width=7, groups=480)
    _, knobs = any_size_knobs(depthwise, processor)
    assert isinstance(knobs, ConvolutionKnobs)
    assert (knobs.order, knobs.rows) == ("channels", 7)


def test_rows_are_copied_for_all_channels_where_tiles_of_them_overlap() -> None:
    processor = resolve_target("x86-64-v4", threads=2).processor
    depthwise = replace(workload_of(120, 120), in_height=28, in_width=28, groups=120)
    _, knobs = any_size_knobs(depthwise, processor)
    assert isinstance(knobs, ConvolutionKnobs)
    assert (knobs.order, knobs.pad_at) == ("pixels", "chunk")


def test_shorter_rows_of_images_have_tiles_of_one_pixel() -> None:
    processor = resolve_target("x86-64-v3", threads=2).processor
    workload = workload_of(64, 64)
    _, knobs = any_size_knobs(workload, processor, winograd=False)
    assert isinstance(knobs, ConvolutionKnobs)
    (shorter,) = shorter_knobs(workload, processor, knobs)
    assert shorter.lengths == (range(knobs.tile_pixels),)
    assert shorter.knobs == replace(knobs, tile_pixels=1, rows=1) != knobs
    assert shorter_knobs(workload, processor, shorter.knobs) == ()


@pytest.mark.parametrize("outputs", [96, 100])
def test_few_rows_of_products_have_tiles_of_their_own(outputs: int) -> None:
    processor = resolve_target("x86-64-v4", threads=2).processor
    pointwise = replace(
        workload_of(64, outputs), kernel=(1, 1), padding=(0, 0, 0, 0), in_height=64, in_width=1
    )
    _, knobs = any_size_knobs(pointwise, processor)
    assert isinstance(knobs, ConvolutionKnobs)
    found = shorter_knobs(pointwise, processor, knobs)
    lengths = {each.knobs.tile_pixels: [*chain(*each.lengths)] for each in found}
    assert [*lengths] == [tile for tile in RUNS if tile != knobs.tile_pixels]
    short = sorted(chain(*lengths.values()))
    assert len(short) == len(set(short)) and {*range(knobs.tile_pixels)} <= {*short} <= {*range(LONG_RUN)}
    assert all(tile <= pixels or not pixels for tile, taken in lengths.items() for pixels in taken)
    assert not any(each.knobs.prefetch for each in found)


def test_rows_have_the_tiles_that_overlap_least() -> None:
    found = run_lengths([8, 4, 2, 1])
    tile_of = {pixels: tile for tile, spans in found.items() for span in spans for pixels in span}
    assert [tile_of[pixels] for pixels in range(12)] == [1, 1, 2, 2, 4, 4, 4, 4, 8, 4, 4, 4]
    assert set(tile_of) == set(range(LONG_RUN))


def whole_tiles(width: int) -> tuple[int, int | None]:
    """Pixels of a tile for all rows, and for those like one of ``width``, of a convolution of stride 2."""
    processor = resolve_target("x86-64-v4", threads=2).processor
    workload = replace(workload_of(192, 384), in_height=2 * width, in_width=2 * width, strides=(2, 2))
    _, knobs = any_size_knobs(workload, processor)
    assert isinstance(knobs, ConvolutionKnobs)
    whole = whole_tile_knobs(workload, processor, knobs)
    return knobs.tile_pixels, None if whole is None else whole.tile_pixels


def test_short_rows_of_whole_tiles_have_knobs_of_their_own() -> None:
    assert whole_tiles(7) == (5, 7)


def test_long_rows_need_no_whole_tiles() -> None:
    assert whole_tiles(56)[1] is None


@pytest.mark.parametrize(("pixels", "whole_pixels"), [(49, 7), (196, None)])
def test_few_pixels_of_products_have_whole_tiles(pixels: int, whole_pixels: int | None) -> None:
    processor = resolve_target("x86-64-v4", threads=2).processor
    pointwise = replace(
        workload_of(128, 512), kernel=(1, 1), padding=(0, 0, 0, 0), in_height=pixels, in_width=1
    )
    _, knobs = any_size_knobs(pointwise, processor)
    assert isinstance(knobs, ConvolutionKnobs) and knobs.tile_pixels == 14
    whole = whole_tile_knobs(pointwise, processor, knobs)
    assert whole_pixels == (None if whole is None else whole.tile_pixels)
