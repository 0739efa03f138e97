"""Which weights are asked for ahead of time."""

import re

import pytest
from kernel_networks import workload_for

from topi_ext.kernel import scheduled_kernel
from topi_ext.knobs import ConvolutionKnobs, Knobs, WinogradKnobs
from topi_ext.schedule.prefetch import PANEL_BYTES, ROWS_AHEAD

BLOCKED = ("NCHW16c", "OIHW16i16o", "NCHW16c")
SMALL = workload_for((64, 64, 28, 3, 1, 1), *BLOCKED)
LONG = workload_for((512, 64, 28, 3, 1, 1), *BLOCKED)


def rows_ahead(workload: object, knobs: Knobs) -> list[int]:
    """By how many rows each prefetch is ahead of the step that it stands in."""
    script = scheduled_kernel(workload, knobs).script()  # type: ignore[arg-type]
    indices = re.findall(r"T\.prefetch\(T\.address_of\(\w+\[(.*?)\]\)", script)
    return [int(found[-1]) for index in indices for found in [re.findall(r"\+ (\d+), \d+$", index)] if found]


def test_the_next_tiles_weights_where_they_fit_the_cache() -> None:
    knobs = ConvolutionKnobs(16, 14, 2)
    # 64 channels of 3 by 3, for the two vectors of a tile.
    assert rows_ahead(SMALL, knobs) == [2 * 64 * 9] * 2


def test_a_longer_panel_is_asked_for_row_by_row() -> None:
    assert PANEL_BYTES < 2 * 512 * 9 * 64
    assert rows_ahead(LONG, ConvolutionKnobs(16, 14, 2)) == [ROWS_AHEAD] * 2


def test_winograd_asks_for_the_next_place() -> None:
    # One row of two vectors for each input channel.
    assert rows_ahead(SMALL, WinogradKnobs(4, 16, 16, 7, 2)) == [64] * 2


@pytest.mark.parametrize(
    ("layouts", "shape", "knobs"),
    [
        (BLOCKED, (64, 64, 28, 3, 1, 1), ConvolutionKnobs(16, 14, 2, "pixels", 1, "chunk")),
        (BLOCKED, (64, 64, 28, 3, 1, 4), ConvolutionKnobs(16, 14, 1)),
        (("NHWC", "HWIO", "NHWC"), (64, 60, 28, 3, 1, 1), ConvolutionKnobs(16, 14, 1)),
        (BLOCKED, (64, 64, 28, 3, 1, 1), ConvolutionKnobs(16, 14, 2, prefetch=False)),
        (BLOCKED, (64, 64, 28, 3, 1, 1), WinogradKnobs(4, 16, 16, 7, 2, prefetch=False)),
    ],
    ids=["weights in the cache", "groups", "rows apart", "direct, as told", "Winograd, as told"],
)
def test_nothing_is_asked_for(layouts: tuple[str, str, str], shape: tuple[int, ...], knobs: Knobs) -> None:
    assert "prefetch" not in scheduled_kernel(workload_for(shape, *layouts), knobs).script()
