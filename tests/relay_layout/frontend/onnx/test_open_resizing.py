"""Resizing of images of any size, against ONNX Runtime."""

from pathlib import Path

import numpy as np
import pytest

import relay_layout
from relay_layout.errors import ModelError
from tests.relay_layout.frontend.onnx.test_sizes import check, ints, model_of

COORDINATES = ["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"]
SIZES = [(1, 4, 8, 6), (2, 4, 7, 9), (1, 4, 13, 4)]


def scales(height: float, width: float) -> dict[str, np.ndarray]:
    return {"s": np.array([1, 1, height, width], "float32")}


def resize(mode: str, coordinates: str, rounding: str = "floor") -> str:
    nearest = f', nearest_mode="{rounding}"' if mode == "nearest" else ""
    return f'Resize <mode="{mode}", coordinate_transformation_mode="{coordinates}"{nearest}>'


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("rounding", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
def test_nearest_by_a_scale(coordinates: str, rounding: str, tmp_path: Path) -> None:
    check(tmp_path, f"y = {resize('nearest', coordinates, rounding)} (x, , s)", scales(1.5, 0.5), SIZES)


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("factors", [(0.5, 0.5), (1.5, 0.75), (2.0, 0.7)])
def test_linear_by_a_scale(coordinates: str, factors: tuple[float, float], tmp_path: Path) -> None:
    check(tmp_path, f"y = {resize('linear', coordinates)} (x, , s)", scales(*factors), SIZES)


@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil"])
def test_nearest_by_a_whole_number_repeats_pixels(rounding: str, tmp_path: Path) -> None:
    nodes = f"y = {resize('nearest', 'half_pixel', rounding)} (x, , s)"
    check(tmp_path, nodes, scales(3, 2), SIZES)
    module = relay_layout.from_onnx(model_of(nodes, scales(3, 2), 19))
    assert "resize2d" in module.script()


def test_nearest_to_computed_sizes(tmp_path: Path) -> None:
    nodes = f"""
        outer = Shape <end=2> (x)  image = Shape <start=2> (x)  larger = Add (image, three)
        goal = Concat <axis=0> (outer, larger)
        y = {resize("nearest", "half_pixel", "round_prefer_ceil")} (x, , , goal)
    """
    check(tmp_path, nodes, {"three": ints(3)}, SIZES)


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("rounding", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
def test_nearest_to_sizes_of_the_file(coordinates: str, rounding: str, tmp_path: Path) -> None:
    nodes = f"""
        outer = Shape <end=2> (x)  goal = Concat <axis=0> (outer, size)
        y = {resize("nearest", coordinates, rounding)} (x, , , goal)
    """
    check(tmp_path, nodes, {"size": ints(11, 5)}, [*SIZES, (1, 4, 1, 1)])


INTERPOLATED = {
    "cubic": 'mode="cubic"',
    "cubic, sharper": 'mode="cubic", cubic_coeff_a=-0.5',
    "cubic of what is inside": 'mode="cubic", exclude_outside=1',
    "linear, antialiased": 'mode="linear", antialias=1',
    "cubic, antialiased": 'mode="cubic", antialias=1',
    "cubic, antialiased of what is inside": 'mode="cubic", antialias=1, exclude_outside=1',
}


@pytest.mark.parametrize("coordinates", [*COORDINATES, "half_pixel_symmetric"])
@pytest.mark.parametrize("attributes", INTERPOLATED.values(), ids=INTERPOLATED)
def test_interpolation_by_a_scale(attributes: str, coordinates: str, tmp_path: Path) -> None:
    node = f'Resize <{attributes}, coordinate_transformation_mode="{coordinates}">'
    check(tmp_path, f"y = {node} (x, , s)", scales(0.3, 1.5), [*SIZES, (1, 4, 40, 1)])


@pytest.mark.parametrize("attributes", INTERPOLATED.values(), ids=INTERPOLATED)
def test_interpolation_to_sizes(attributes: str, tmp_path: Path) -> None:
    """Rows to as many as the file says, columns to as many as are computed; to more and to fewer."""
    nodes = f"""
        outer = Shape <end=2> (x)  columns = Shape <start=3> (x)  threefold = Mul (columns, three)
        fewer = Div (threefold, two)  goal = Concat <axis=0> (outer, rows, fewer)
        y = Resize <{attributes}> (x, , , goal)
    """
    check(tmp_path, nodes, {"rows": ints(7), "two": ints(2), "three": ints(3)}, [*SIZES, (1, 4, 29, 1)])


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_regions_of_any_size(mode: str, tmp_path: Path) -> None:
    """Which reach beyond the image in one direction."""
    region = {"r": np.array([0, 0, -0.2, 0.1, 1, 1, 0.7, 0.9], "float32")}
    attributes = 'coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=7.5'
    nodes = f"""
        outer = Shape <end=2> (x)  goal = Concat <axis=0> (outer, size)
        y = Resize <mode="{mode}", {attributes}> (x, r, , goal)
    """
    check(tmp_path, nodes, {"size": ints(9, 5)} | region, SIZES)


def test_nearest_after_dividing_by_a_scale(tmp_path: Path) -> None:
    """By its reciprocal, positions that are whole numbers would be just below or above."""
    node = resize("nearest", "half_pixel", "floor")
    check(tmp_path, f"y = {node} (x, , s)", scales(5, 0.6), [(1, 4, 60, 350)])


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        (
            f"y = {resize('linear', 'half_pixel')} (x, , s)",
            "(Resize) scales the symbolic extent 'h' by 2.6, which rounds to no fraction of it: export the "
            "model with sizes in place of scales, or give its input a fixed shape (--input-shape)",
        ),
        (
            f"i = Cast <to=6> (x)  y = {resize('cubic', 'half_pixel')} (i, , h)",
            "(Resize) interpolates cubically between elements of type int32, which is not supported: cast "
            "them to float32 before",
        ),
        (
            'i = Cast <to=2> (x)  y = Resize <mode="linear", antialias=1> (i, , h)',
            "(Resize) antialiases between elements of type uint8, which is not supported: cast them to "
            "float32 before",
        ),
        (
            'y = Resize <coordinate_transformation_mode="middle"> (x, , h)',
            "(Resize) has the unknown coordinate_transformation_mode 'middle': the known ones are "
            "half_pixel, half_pixel_symmetric, pytorch_half_pixel, align_corners, asymmetric, "
            "tf_crop_and_resize, tf_half_pixel_for_nn",
        ),
        (
            f"y = {resize('nearest', 'half_pixel', 'round')} (x, , h)",
            "(Resize) has the unknown nearest_mode 'round': the known ones are floor, ceil, "
            "round_prefer_floor, round_prefer_ceil",
        ),
    ],
    ids=["scale", "cubic of integers", "antialiased integers", "coordinates", "rounding"],
)
def test_what_is_refused_says_what_to_do(nodes: str, told: str) -> None:
    constants = {"s": scales(2.6, 1)["s"], "h": scales(0.7, 1)["s"]}
    with pytest.raises(ModelError) as caught:
        relay_layout.from_onnx(model_of(nodes, constants, 19))
    assert str(caught.value) == f"ONNX model 'sizes': node 'y' {told}"
