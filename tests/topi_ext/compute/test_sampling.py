"""Sampling with channels innermost, beside the definition written out for every pixel."""

from itertools import product

import numpy as np
import pytest
from kernel_harness import Array, apply_rules, compile_function, host_cpus, prim_func, run_guarded, target_for
from tvm import te

from topi_ext.compute.sampling import CORNERS, PADDINGS, grid_sample

TARGET = target_for(host_cpus()[-1])
RNG = np.random.default_rng(0)
HEIGHT, WIDTH, CHANNELS = 5, 7, 9


def place_of(at: float, extent: int, padding: str, align_corners: bool) -> float:
    pixel = (at + 1) / 2 * (extent - 1) if align_corners else ((at + 1) * extent - 1) / 2
    return float(np.clip(pixel, 0, extent - 1)) if padding == "border" else pixel


def pixel_of(image: Array, row: float, column: float) -> Array:
    """The channels of one pixel; zeros where there is none."""
    inside = 0 <= row < image.shape[0] and 0 <= column < image.shape[1]
    return image[int(row), int(column)] if inside else np.zeros(image.shape[2], image.dtype)


def expected_of(image: Array, grid: Array, method: str, padding: str, align_corners: bool) -> Array:
    """(N, H, W, C) and (N, 2, P, Q) to (N, P, Q, C)."""
    result = np.zeros((len(grid), *grid.shape[2:], image.shape[3]))
    for n, p, q in np.ndindex(*result.shape[:3]):
        column, row = (
            place_of(float(grid[n, side, p, q]), image.shape[2 - side], padding, align_corners)
            for side in (0, 1)
        )
        if method == "nearest":
            result[n, p, q] = pixel_of(image[n], np.rint(row), np.rint(column))
            continue
        for down, right in product((0, 1), repeat=2):
            y, x = np.floor(row) + down, np.floor(column) + right
            weight = (1 - abs(row - y)) * (1 - abs(column - x))
            result[n, p, q] += weight * pixel_of(image[n], y, x)
    return result


def sampled(image: Array, grid: Array, method: str, padding: str, align_corners: bool) -> Array:
    batch = image.shape[0]
    pixels = te.placeholder((batch, HEIGHT * WIDTH, CHANNELS), "float32", "pixels")
    places = te.placeholder(grid.shape, "float32", "grid")
    result = grid_sample(
        pixels, places, (HEIGHT, WIDTH), method=method, padding=padding, align_corners=align_corners
    )
    func = prim_func([pixels, places, result])
    library = compile_function(apply_rules(func, TARGET)[1].mod["main"], TARGET)
    lines = image.reshape(batch, HEIGHT * WIDTH, CHANNELS)
    return run_guarded(library, [lines, grid], (batch, *grid.shape[2:], CHANNELS), "float32")


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("method", CORNERS)
def test_every_way(method: str, padding: str, align_corners: bool) -> None:
    image = RNG.uniform(-1, 1, (2, HEIGHT, WIDTH, CHANNELS)).astype("float32")
    grid = RNG.uniform(-1.6, 1.6, (2, 2, 6, 5)).astype("float32")
    found = sampled(image, grid, method, padding, align_corners)
    np.testing.assert_allclose(found, expected_of(image, grid, method, padding, align_corners), 1e-5, 1e-5)


@pytest.mark.parametrize("method", CORNERS)
def test_places_far_outside(method: str) -> None:
    image = np.ones((1, HEIGHT, WIDTH, CHANNELS), "float32")
    grid = np.array([-1e30, 1e30, -np.inf, np.inf], "float32").repeat(2).reshape(1, 4, 2).transpose(0, 2, 1)
    grid = np.ascontiguousarray(grid[..., None])
    assert not sampled(image, grid, method, "zeros", False).any()
    np.testing.assert_array_equal(sampled(image, grid, method, "border", False), 1)


def test_places_that_are_no_numbers_read_nothing_outside() -> None:
    image = np.ones((1, HEIGHT, WIDTH, CHANNELS), "float32")
    sampled(image, np.full((1, 2, 3, 1), np.nan, "float32"), "bilinear", "zeros", True)
