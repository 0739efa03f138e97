"""Interpolation along one axis, beside sums over weights written out for every element."""

from collections.abc import Callable
from math import ceil, floor

import numpy as np
import pytest
from kernel_harness import Array, compile_function, data_of, host_cpus, prim_func, run_guarded, target_for
from tvm import te, tirx

from topi_ext.compute.interpolation import TAPS, interpolate, nearest

TARGET = target_for(host_cpus()[-1])

COORDINATES: dict[str, Callable[[int, int, int], float]] = {
    "half_pixel": lambda x, size, extent: (x + 0.5) * size / extent - 0.5,
    "pytorch_half_pixel": lambda x, size, extent: (x + 0.5) * size / extent - 0.5 if extent > 1 else 0.0,
    "align_corners": lambda x, size, extent: x * (size - 1) / (extent - 1),
    "asymmetric": lambda x, size, extent: x * size / extent,
    "tf_half_pixel_for_nn": lambda x, size, extent: (x + 0.5) * size / extent,
}


def weights_of(method: str, distances: Array, alpha: float) -> Array:
    """By how far pixels are from the coordinate: a triangle, or Keys' two polynomials."""
    near = np.abs(distances)
    if method == "linear":
        return np.maximum(1 - near, 0)
    inner = (alpha + 2) * near**3 - (alpha + 3) * near**2 + 1
    outer = alpha * (near**3 - 5 * near**2 + 8 * near - 4)
    return np.where(near <= 1, inner, np.where(near < 2, outer, 0))


def expected_of(
    data: Array, axis: int, extent: int, method: str, coordinates: str, alpha: float, exclude: bool
) -> Array:
    size, lines = data.shape[axis], np.moveaxis(data, axis, -1)
    result = []
    for element in range(extent):
        coordinate = COORDINATES[coordinates](element, size, extent)
        pixels = np.floor(coordinate) + np.arange(TAPS[method]) - (TAPS[method] // 2 - 1)
        weights = weights_of(method, pixels - coordinate, alpha)
        if exclude:
            weights = weights * ((pixels >= 0) & (pixels < size))
            weights = weights / weights.sum()
        result.append(lines[..., np.clip(pixels, 0, size - 1).astype(int)] @ weights)
    return np.moveaxis(np.stack(result, axis=-1), -1, axis)


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("method", TAPS)
@pytest.mark.parametrize("extent", [16, 11, 4])
def test_elements_are_weighted_by_their_distance(coordinates: str, method: str, extent: int) -> None:
    check(data_of(3, 8), 1, extent, method, coordinates)


@pytest.mark.parametrize(("exclude", "alpha"), [(True, -0.75), (False, -0.5), (True, -0.5)])
def test_cubic_weights(exclude: bool, alpha: float) -> None:
    check(data_of(3, 8), 1, 13, "cubic", "half_pixel", alpha, exclude)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_any_axis(axis: int) -> None:
    check(data_of(3, 4, 5), axis, 9, "linear", "half_pixel")


@pytest.mark.parametrize("method", TAPS)
def test_one_element_is_everywhere(method: str) -> None:
    check(data_of(3, 1), 1, 5, method, "half_pixel")


def test_halves_are_summed_in_single_precision() -> None:
    data = data_of(3, 8).astype("float16")
    check(data, 1, 13, "linear", "half_pixel")


ROUNDINGS: dict[str, Callable[[float], int]] = {
    "round_prefer_floor": lambda place: ceil(place - 0.5),
    "round_prefer_ceil": lambda place: floor(place + 0.5),
    "floor": floor,
    "ceil": ceil,
}


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("extent", [8, 16, 24, 11, 5, 4, 2])
def test_the_nearest_element(coordinates: str, rounding: str, extent: int) -> None:
    """Extents are such that no coordinate is so near to a border that it is rounded over it."""
    size = 8
    places = [ROUNDINGS[rounding](COORDINATES[coordinates](x, size, extent)) for x in range(extent)]
    check_nearest(size, extent, coordinates, rounding, np.clip(places, 0, size - 1))


@pytest.mark.parametrize(("coordinates", "places"), [("asymmetric", [0, 1, 3]), ("align_corners", [0, 2, 4])])
def test_the_usual_rounding_of_coordinates(coordinates: str, places: list[int]) -> None:
    check_nearest(5, 3, coordinates, "", np.array(places))


@pytest.mark.parametrize(
    ("size", "extent", "how"),
    [
        (7, 14, ("asymmetric", "floor")),
        (7, 28, ("half_pixel", "round_prefer_floor")),
        (28, 7, ("asymmetric", "")),
    ],
)
def test_elements_that_are_taken_equally_often_need_no_places(
    size: int, extent: int, how: tuple[str, str]
) -> None:
    place = nearest(size, extent, *how)(tirx.Var("element", "int32"))
    assert isinstance(place, tirx.FloorDiv | tirx.Mul)


def check_nearest(size: int, extent: int, coordinates: str, rounding: str, places: Array) -> None:
    data = data_of(3, size)
    tensor, place = te.placeholder(data.shape), nearest(size, extent, coordinates, rounding)
    result = te.compute((3, extent), lambda row, element: tensor(row, place(element)))
    library = compile_function(prim_func([tensor, result]), TARGET)
    np.testing.assert_array_equal(run_guarded(library, [data], (3, extent)), data[:, places])


def check(
    data: Array,
    axis: int,
    extent: int,
    method: str,
    coordinates: str,
    alpha: float = -0.75,
    exclude: bool = False,
) -> None:
    tensor = te.placeholder(data.shape, str(data.dtype))
    result = interpolate(
        tensor,
        axis,
        extent,
        method=method,
        coordinates=coordinates,
        cubic_alpha=alpha,
        cubic_exclude=exclude,
    )
    assert str(result.dtype) == "float32"
    expected = expected_of(data.astype("float64"), axis, extent, method, coordinates, alpha, exclude)
    got = run_guarded(compile_function(prim_func([tensor, result]), TARGET), [data], expected.shape)
    np.testing.assert_allclose(got, expected, rtol=2e-6, atol=2e-6)
