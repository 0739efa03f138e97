"""Bytes that a direct convolution moves, for loops whose traffic can be counted by hand."""

from dataclasses import replace

import pytest
from kernel_networks import workload_for

from topi_ext.knobs import ConvolutionKnobs
from topi_ext.machine.processor import ARM_CORES
from topi_ext.tune.models.traffic import direct_traffic, tiles_of

A76 = replace(ARM_CORES["cortex-a76"], threads=1)
SMALL = workload_for((16, 16, 14, 1, 1, 1), "NCHW8c", "OIHW8i8o", "NCHW8c")
LARGE = workload_for((512, 512, 28, 1, 1, 1), "NCHW8c", "OIHW8i8o", "NCHW8c")
PADDED = workload_for((64, 64, 56, 3, 1, 1), "NCHW8c", "OIHW8i8o", "NCHW8c")
FLOAT = 4


def test_tiles_of_a_pointwise_convolution() -> None:
    found = tiles_of(LARGE, A76, ConvolutionKnobs(8, 7, 2, "pixels", 4))
    assert (found.channel_tiles, found.rows, found.count, found.chunks) == (32, 112, 32 * 112, 28)


def test_what_fits_the_caches_is_moved_once() -> None:
    found = direct_traffic(SMALL, A76, ConvolutionKnobs(8, 7, 2, "channels"))
    pixels = 14 * 14
    assert found.cache_bytes == (16 * pixels + 16 * pixels + 16 * 16) * FLOAT
    assert found.memory_bytes == 16 * 16 * FLOAT
    assert found.padding_cycles == 0


def test_weights_that_do_not_fit_are_fetched_for_each_chunk() -> None:
    chunks = [direct_traffic(LARGE, A76, ConvolutionKnobs(8, 7, 2, "pixels", rows)) for rows in (4, 8)]
    weights = 512 * 512 * FLOAT
    assert chunks[0].memory_bytes - chunks[1].memory_bytes == (28 - 14) * weights


def test_an_image_that_does_not_fit_is_fetched_for_each_tile_of_channels() -> None:
    wide, narrow = (direct_traffic(LARGE, A76, ConvolutionKnobs(8, 7, count, "channels")) for count in (2, 1))
    image = 512 * 28 * 28 * FLOAT
    assert narrow.memory_bytes - wide.memory_bytes == (64 - 32) * image


@pytest.mark.parametrize(("rows", "again"), [(56, 58 / 56), (7, 9 / 7), (1, 3.0)])
def test_padding_by_chunk_copies_the_rows_that_windows_share(rows: int, again: float) -> None:
    found = direct_traffic(PADDED, A76, ConvolutionKnobs(8, 7, 1, "pixels", rows, "chunk"))
    assert found.padding_cycles == pytest.approx(64 * 56 * 56 * FLOAT * again / 8)


def test_slower_memory_takes_longer() -> None:
    found = direct_traffic(LARGE, A76, ConvolutionKnobs(8, 7, 2, "channels"))
    slow = replace(A76, memory_bytes_per_cycle=A76.memory_bytes_per_cycle / 2)
    assert found.cycles(slow) > 1.5 * found.cycles(A76)
