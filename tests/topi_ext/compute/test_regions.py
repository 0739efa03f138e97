"""Averages of regions, beside those of a loop over their samples in numpy."""

from math import ceil, floor
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te

from topi_ext.compute.regions import Bins, averaged_regions

RNG = np.random.default_rng(0)
REGIONS = np.array(
    [[0, 1, 2, 9, 7], [1, -6, -5, 4, 3], [1, 3.5, 2.25, 3.75, 2.5], [0, 8, 5, 30, 40], [1, 6, 6, 2, 1]],
    "float32",
)
"""Whole ones, outside in part, smaller than a pixel, and with corners the other way around."""


def compiled(shape: Any, count: Any, bins: Bins, channels_last: bool) -> Any:
    pixels = te.placeholder(shape, "float32", "pixels")
    regions = te.placeholder((count, 5), "float32", "regions")
    result = averaged_regions(pixels, regions, bins, channels_last=channels_last)
    function = te.create_prim_func([pixels, regions, result])
    return tvm.compile(function, target="llvm")


def interpolated(image: np.ndarray, y: float, x: float) -> np.ndarray:
    height, width, channels = image.shape
    if not (-1 <= y <= height and -1 <= x <= width):
        return np.zeros(channels)
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    value = np.zeros(channels)
    for row, down in ((floor(y), 1 - y % 1), (floor(y) + 1, y % 1)):
        for column, across in ((floor(x), 1 - x % 1), (floor(x) + 1, x % 1)):
            value += image[min(row, height - 1), min(column, width - 1)] * down * across
    return value


def expected(pixels: np.ndarray, regions: np.ndarray, bins: Bins) -> np.ndarray:
    result = np.zeros((len(regions), *bins.size, pixels.shape[-1]))
    for place, (image, *corners) in enumerate(regions.astype(float)):
        left, top, right, bottom = (corner * bins.scale for corner in corners)
        least = -np.inf if bins.aligned else 1
        steps = [max(bottom - top, least) / bins.size[0], max(right - left, least) / bins.size[1]]
        counts = [bins.samples if bins.samples > 0 else max(ceil(step), 0) for step in steps]
        for row, column in np.ndindex(bins.size):
            for down, across in np.ndindex(*counts):
                y = top + (row + (down + 0.5) / counts[0]) * steps[0]
                x = left + (column + (across + 0.5) / counts[1]) * steps[1]
                result[place, row, column] += interpolated(pixels[int(image)], y, x) / (counts[0] * counts[1])
    return result


@pytest.mark.parametrize("channels", [3, 16, 64, 91])
@pytest.mark.parametrize("samples", [0, 2, 3])
@pytest.mark.parametrize("aligned", [False, True])
def test_averages(channels: int, samples: int, aligned: bool) -> None:
    bins = Bins((3, 2), 0.75, samples, aligned)
    pixels = RNG.standard_normal((2, 7, 9, channels), "float32")
    result = tvm.runtime.empty((len(REGIONS), 3, 2, channels), "float32")
    run = compiled(pixels.shape, len(REGIONS), bins, True)
    run(tvm.runtime.tensor(pixels), tvm.runtime.tensor(REGIONS), result)
    np.testing.assert_allclose(result.numpy(), expected(pixels, REGIONS, bins), 1e-4, 1e-5)


def test_any_number_of_regions_of_images_of_any_size_with_channels_first() -> None:
    bins = Bins((2, 3), 1.0, 2, True)
    extents = [tvm.tirx.Var(name, "int64") for name in ("images", "height", "width", "count")]
    run = compiled((*extents[:3], 20), extents[3], bins, False)
    for count, size in ((5, (2, 7, 9)), (1, (2, 4, 4)), (0, (2, 3, 5))):
        pixels = RNG.standard_normal((*size, 20), "float32")
        result = tvm.runtime.empty((count, 20, 2, 3), "float32")
        run(tvm.runtime.tensor(pixels), tvm.runtime.tensor(REGIONS[:count]), result)
        want = expected(pixels, REGIONS[:count], bins).transpose(0, 3, 1, 2)
        np.testing.assert_allclose(result.numpy(), want, 1e-4, 1e-5)


@pytest.mark.parametrize("wrong", [np.nan, 1e9, -1e9])
def test_nothing_outside_of_the_images_is_read(wrong: float) -> None:
    bins = Bins((2, 2), 1.0, 2, True)
    regions = np.full((4, 5), 1, "float32")
    np.fill_diagonal(regions[:, 1:], wrong)
    regions[0, 0] = 7
    result = tvm.runtime.empty((4, 2, 2, 4), "float32")
    pixels = RNG.standard_normal((2, 3, 5, 4), "float32")
    run = compiled(pixels.shape, 4, bins, True)
    run(tvm.runtime.tensor(pixels), tvm.runtime.tensor(regions), result)
    assert np.abs(result.numpy()).max() <= np.abs(pixels).max()
