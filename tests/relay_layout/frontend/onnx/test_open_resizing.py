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


@pytest.mark.parametrize(
    ("node", "factor", "told"),
    [
        (resize("cubic", "half_pixel"), 0.5, "resizes a symbolic extent in a way that needs a fixed one"),
        (resize("linear", "half_pixel"), 0.123, "scales the symbolic extent 'h' by 0.123"),
    ],
)
def test_what_needs_a_known_size_is_told(node: str, factor: float, told: str) -> None:
    with pytest.raises(ModelError, match=told):
        relay_layout.from_onnx(model_of(f"y = {node} (x, , s)", scales(factor, factor), 19))
