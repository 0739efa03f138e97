"""Padding, resizing and rearranging of images from ONNX work as in ONNX Runtime."""

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx.defs
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator

import relay_layout
from relay_layout.frontend.onnx.operators.resized_places import Axis, Mapping, known, nearest
from tests.onnx_reference import reference_session

RANDOM = np.random.default_rng(6)


def _random(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype("float32")


X = _random(2, 3, 6, 5)


def _nodes(nodes: str, x: np.ndarray = X, /, **options: Any) -> dict[str, Any]:
    return {"nodes": nodes, "inputs": {"x": x}, **options}


def _integers(*numbers: int) -> np.ndarray:
    return np.array(numbers, "int64")


def _pad(mode: str, *pads: int, x: np.ndarray = X, **options: Any) -> dict[str, Any]:
    return _nodes(f'y = Pad <mode="{mode}"> (x, p)', x, constants={"p": _integers(*pads)}, **options)


def _scaled(attributes: str, *scales: float, x: np.ndarray = X, **options: Any) -> dict[str, Any]:
    full = (1.0,) * (x.ndim - len(scales)) + scales
    constants = {"s": np.array(full, "float32")}
    return _nodes(
        f"y = Resize <{attributes}> (x, , s)", x, **{"constants": constants, "atol": 1e-5, **options}
    )


def _sized(attributes: str, *sizes: int, x: np.ndarray = X, **options: Any) -> dict[str, Any]:
    full = (*x.shape[: x.ndim - len(sizes)], *sizes)
    return _nodes(
        f"y = Resize <{attributes}> (x, , , s)",
        x,
        **{"constants": {"s": _integers(*full)}, "atol": 1e-5, "symbolic": False, **options},
    )


def _mode(mode: str, coordinates: str, *others: str) -> str:
    return ", ".join([f'mode="{mode}"', f'coordinate_transformation_mode="{coordinates}"', *others])


_COORDINATES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric")
_ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
_SCALES = {"double": (2.0, 3.0), "fraction": (1.5, 0.7), "down": (0.5, 0.4)}
_SIZES = {"up": (9, 13), "down": (4, 2), "one": (1, 5)}
_REGION = {
    "s": _integers(2, 3, 8, 7),
    "r": np.array([0, 0, 0.2, -0.1, 1, 1, 0.8, 1.3], "float32"),
}


def _sampled(attributes: str, *extents: int, oracle: str = "", dtype: str = "float32", **options: Any) -> Any:
    """An image or a volume sampled at places, some of them beyond its borders."""
    places = RANDOM.uniform(-1.2, 1.2, (2, *extents, len(extents))).astype(dtype)
    image = X if len(extents) == 2 else _random(2, 3, 4, 6, 5)
    known = {"oracle": oracle} if oracle else {}
    inputs = {"x": image, "g": places}
    return {
        "nodes": f"y = GridSample <{attributes}> (x, g)",
        "inputs": inputs,
        "atol": 1e-5,
        **known,
        **options,
    }


CASES: dict[str, dict[str, Any]] = {
    **{
        f"sample_{mode}_{padding}_{corners}": _sampled(
            f'mode="{mode}", padding_mode="{padding}", align_corners={corners}', 4, 3
        )
        for mode, padding, corners in product(("bilinear", "nearest"), ("zeros", "border"), (0, 1))
    },
    "sample": {**_sampled("align_corners=0", 4, 3), "nodes": "y = GridSample(x, g)"},
    "sample_reflection": _sampled('padding_mode="reflection"', 4, 3),
    "sample_cubic": _sampled('mode="bicubic"', 4, 3),
    "sample_linear": _sampled('mode="linear"', 4, 3, opset=20),
    "sample_volume": _sampled('mode="linear"', 2, 4, 3, opset=20),
    "sample_at_doubles": _sampled(
        "align_corners=1",
        4,
        3,
        dtype="float64",
        oracle="f = Cast <to=1> (g)  y = GridSample <align_corners=1> (x, f)",
    ),
    "pad": _pad("constant", 0, 0, 1, 2, 0, 0, 0, 3, ours=["nn.pad"]),
    "pad_channels": _pad("constant", 0, 2, 0, 0, 0, 1, 0, 0),
    "pad_value": _nodes(
        "y = Pad(x, p, v)", constants={"p": _integers(0, 0, 1, 1, 0, 0, 1, 1), "v": np.array(-1.5, "float32")}
    ),
    "pad_value_at_run_time": {
        "nodes": "v = ReduceMax <keepdims=0> (z)  y = Pad(x, p, v)",
        "inputs": {"x": X, "z": _random(3)},
        "constants": {"p": _integers(0, 0, 1, 2, 0, 0, -1, 3)},
    },
    "affine_grid": _nodes(
        "y = AffineGrid(x, s)",
        _random(2, 2, 3),
        constants={"s": _integers(2, 5, 4, 3)},
        opset=20,
        symbolic=False,
    ),
    "affine_grid_of_volumes": _nodes(
        "y = AffineGrid <align_corners=1> (x, s)",
        _random(2, 3, 4),
        constants={"s": _integers(2, 5, 2, 4, 3)},
        opset=20,
    ),
    "pad_edge": _pad("edge", 0, 0, 1, 2, 0, 0, 0, 3, ours=["nn.pad"]),
    "pad_reflect": _pad("reflect", 0, 0, 1, 2, 0, 0, 0, 3, ours=["nn.pad"]),
    "pad_wrap": _pad("wrap", 0, 0, 1, 2, 0, 0, 0, 3, opset=19, ours=["nn.pad"]),
    "pad_axes": _nodes(
        "y = Pad(x, p, , a)", opset=18, constants={"p": _integers(1, 2, 3, 0), "a": _integers(-1, 2)}
    ),
    "pad_crops": _pad("constant", 0, 0, -1, 2, 0, 0, -2, -1, ours=["nn.pad", "strided_slice"]),
    "pad_nothing": _pad("constant", *[0] * 8, ours=[]),
    "pad_10": _nodes("y = Pad <pads=[0, 0, 1, 0, 0, 0, 0, 2], value=0.5> (x)", opset=10, ours=["nn.pad"]),
    "pad_10_reflect": _nodes('y = Pad <pads=[0, 0, 1, 0, 0, 0, 0, 2], mode="reflect"> (x)', opset=10),
    "pad_integers": _nodes(
        "y = Pad(x, p, v)",
        RANDOM.integers(0, 9, (2, 3)),
        constants={"p": _integers(0, 1, 0, 2), "v": np.array(7, "int64")},
        outputs={"y": "int64"},
    ),
    "pad_line": _pad("reflect", 0, 0, 2, 0, 0, 1, x=_random(2, 3, 4)),
    "depth_to_space": _nodes("y = DepthToSpace <blocksize=2> (x)", _random(2, 12, 2, 3)),
    "depth_to_space_crd": _nodes('y = DepthToSpace <blocksize=2, mode="CRD"> (x)', _random(2, 12, 2, 3)),
    **{
        f"columns_to_image_{name}": _nodes(
            f"y = Col2Im <{attributes}> (x, i, b)",
            _random(2, 2 * int(np.prod(block)), columns),
            constants={"i": _integers(*image), "b": _integers(*block)},
            opset=18,
        )
        for name, attributes, image, block, columns in (
            ("apart", "strides=[2, 3]", (4, 9), (2, 3), 6),
            ("overlapping", "strides=[1, 2]", (5, 7), (3, 3), 9),
            ("padded", "pads=[1, 0, 2, 1], strides=[2, 1]", (4, 5), (3, 2), 15),
            ("dilated", "dilations=[2, 1]", (5, 4), (2, 2), 9),
            ("of_a_line", "strides=[2]", (9,), (3,), 4),
            ("of_a_volume", "pads=[1, 0, 0, 0, 1, 0]", (3, 2, 3), (2, 2, 2), 12),
        )
    },
    "space_to_depth": _nodes("y = SpaceToDepth <blocksize=2> (x)", _random(2, 3, 4, 6)),
    **{
        f"nearest_{coordinates}_{rounding}_{name}": _scaled(
            _mode("nearest", coordinates, f'nearest_mode="{rounding}"'),
            *scales,
            opset=19,
            symbolic=rounding == "floor",
        )
        for coordinates, rounding, (name, scales) in product(_COORDINATES, _ROUNDINGS, _SCALES.items())
    },
    **{
        f"nearest_{coordinates}_{rounding}_size_{name}": _sized(
            _mode("nearest", coordinates, f'nearest_mode="{rounding}"'), *sizes, opset=19
        )
        for coordinates, rounding, (name, sizes) in product(_COORDINATES, _ROUNDINGS, _SIZES.items())
    },
    **{
        f"{mode}_{coordinates}_{name}": _scaled(_mode(mode, coordinates), *scales, opset=19)
        for mode, coordinates, (name, scales) in product(("linear", "cubic"), _COORDINATES, _SCALES.items())
    },
    **{
        f"{mode}_{coordinates}_size_{name}": _sized(_mode(mode, coordinates), *sizes, opset=19)
        for mode, coordinates, (name, sizes) in product(("linear", "cubic"), _COORDINATES, _SIZES.items())
    },
    # Coordinates half way between two elements, which a division rounds to another side.
    **{
        f"nearest_halves_size_{after}": _sized(
            _mode("nearest", "asymmetric", 'nearest_mode="round_prefer_ceil"'),
            after,
            x=_random(1, 2, 7),
            opset=19,
        )
        for after in (2, 8)
    },
    "nearest_halves_scale": _scaled(
        _mode("nearest", "asymmetric", 'nearest_mode="round_prefer_ceil"'),
        1.2,
        x=_random(1, 2, 10),
        opset=19,
        symbolic=False,
    ),
    "nearest_usual": _scaled(
        _mode("nearest", "asymmetric", 'nearest_mode="floor"'), 2.0, 2.0, ours=["image.resize2d"]
    ),
    "linear_usual": _scaled(_mode("linear", "half_pixel"), 2.0, 2.0, ours=["image.resize2d"]),
    **{
        f"{mode}_channels_last": _scaled(
            _mode(mode, "half_pixel"), *scales, 1.0, x=_random(2, 6, 7, 3), ours=["image.resize2d"]
        )
        for mode, scales in (("nearest", (2.0, 2.0)), ("linear", (1.5, 3.0)), ("cubic", (2.0, 1.0)))
    },
    "cubic_coefficient": _scaled(_mode("cubic", "half_pixel", "cubic_coeff_a=-0.5"), 2.0, 1.5),
    "cubic_exclude_outside": _sized(_mode("cubic", "half_pixel", "exclude_outside=1"), 9, 4),
    "linear_antialias": _sized(_mode("linear", "half_pixel", "antialias=1"), 4, 3, opset=18),
    "cubic_antialias": _sized(_mode("cubic", "half_pixel", "antialias=1"), 3, 9, opset=18),
    "linear_antialias_excluding": _sized(
        _mode("linear", "half_pixel", "antialias=1", "exclude_outside=1"), 4, 3, opset=18
    ),
    "linear_channels": _scaled(_mode("linear", "half_pixel"), 2.0, 1.0, 1.0, opset=18),
    "linear_line": _scaled(_mode("linear", "align_corners"), 1.7, x=_random(2, 3, 6)),
    "linear_volume": _scaled(_mode("linear", "half_pixel"), 2.0, 1.5, 0.5, x=_random(1, 2, 4, 5, 6)),
    **{
        f"linear_{dtype}": _scaled(
            _mode("linear", coordinates),
            *scales,
            x=(_random(1, 2, 6, 7) * 40 + 100).astype(dtype),
            opset=18,
            atol=0,
            outputs={"y": dtype},
        )
        for dtype, coordinates, scales in (
            ("uint8", "half_pixel", (1.5, 0.7)),
            ("int8", "asymmetric", (2.0, 2.0)),
            ("int32", "half_pixel", (0.5, 0.4)),
        )
    },
    "linear_nothing": _scaled(_mode("linear", "half_pixel"), 1.0, 1.0, ours=[]),
    "resize_axes": _nodes(
        'y = Resize <mode="linear", axes=[3, 2]> (x, , s)',
        opset=18,
        constants={"s": np.array([1.5, 2], "float32")},
        atol=1e-5,
    ),
    **{
        f"keep_aspect_ratio_{policy}": _sized(
            _mode("linear", "half_pixel", "axes=[2, 3]", f'keep_aspect_ratio_policy="{policy}"'),
            opset=18,
            constants={"s": _integers(13, 9)},
        )
        for policy in ("not_larger", "not_smaller")
    },
    **{
        f"crop_and_resize_{mode}": _nodes(
            f"y = Resize <{_mode(mode, 'tf_crop_and_resize', 'extrapolation_value=7.5')}> (x, r, , s)",
            constants=_REGION,
            atol=1e-5,
            symbolic=False,
        )
        for mode in ("nearest", "linear")
    },
    "resize_10": _nodes(
        'y = Resize <mode="linear"> (x, s)',
        opset=10,
        constants={"s": np.array([1, 1, 2, 1.6], "float32")},
        atol=1e-5,
    ),
    "resize_10_nearest": _nodes(
        "y = Resize(x, s)", opset=10, constants={"s": np.array([1, 1, 2, 0.6], "float32")}
    ),
    "upsample_9": _nodes("y = Upsample(x, s)", opset=9, constants={"s": np.array([1, 1, 2, 3], "float32")}),
    "upsample_7": _nodes("y = Upsample <scales=[1.0, 1.0, 2.0, 2.0]> (x)", opset=7, ours=["image.resize2d"]),
    "upsample_linear": _nodes(
        'y = Upsample <mode="linear"> (x, s)',
        opset=9,
        constants={"s": np.array([1, 1, 2, 1.5], "float32")},
        atol=1e-5,
    ),
    **{
        f"region_average_{name}": _nodes(
            f"y = RoiAlign <output_height=3, output_width=4, {attributes}> (x, r, b)",
            constants={
                "r": np.array([[0, 0, 9, 9], [2, 3, 18, 11]], "float32"),
                "b": np.array([1, 0], "int64"),
            },
            opset=opset,
            atol=1e-5,
            symbolic=False,
        )
        for name, attributes, opset in (
            ("half_pixel", "spatial_scale=0.4, sampling_ratio=2", 16),
            ("sampled_fully", "spatial_scale=0.25", 16),
            ("output_half_pixel", 'coordinate_transformation_mode="output_half_pixel"', 16),
            ("10", "spatial_scale=0.5", 10),
        )
    },
    "unpool": _nodes(
        "m, i = MaxPool <kernel_shape=[2, 2], strides=[2, 2]> (x)"
        "  y = MaxUnpool <kernel_shape=[2, 2], strides=[2, 2]> (m, i)",
        _random(2, 3, 6, 4),
        symbolic=False,
    ),
    "resize_by_computed_size": _nodes(
        "s = Shape(x)  h = Slice(s, two, four)  d = Mul(h, twos)  n = Slice(s, zero, two)"
        "  g = Concat <axis=0> (n, d)"
        f'  y = Resize <{_mode("nearest", "asymmetric")}, nearest_mode="floor"> (x, , , g)',
        constants={"zero": _integers(0), "two": _integers(2), "four": _integers(4), "twos": _integers(2, 2)},
        ours=["image.resize2d"],
    ),
}


def test_agrees_with_onnx_runtime(case_name: str, agree: Callable[[str], None]) -> None:
    agree(case_name)


@pytest.mark.skipif(onnx.defs.onnx_opset_version() < 28, reason="onnx is older than the mode")
def test_blocks_of_pixels_behind_their_channel(tmp_path: Path) -> None:
    """A mode of SpaceToDepth since opset 28."""
    text = (
        '<ir_version: 14, opset_import: ["" : 28]> agraph (float[1,2,4,6] x) => (float[1,8,2,3] y) '
        '{ y = SpaceToDepth <blocksize=2, mode="CRD"> (x) }'
    )
    relay_layout.compile(onnx.parser.parse_model(text)).save(tmp_path / "model.rla")
    data = _random(1, 2, 4, 6)
    expected = data.reshape(1, 2, 2, 2, 3, 2).transpose(0, 1, 3, 5, 2, 4).reshape(1, 8, 2, 3)
    found = relay_layout.load(tmp_path / "model.rla").run({"x": data})["y"]
    np.testing.assert_array_equal(found, expected)


def test_reflections_in_an_image_of_one_row(tmp_path: Path) -> None:
    text = (
        '<ir_version: 9, opset_import: ["" : 20]> agraph (float[1,2,1,5] x, float[1,3,4,2] g)'
        ' => (float[1,2,3,4] y) { y = GridSample <padding_mode="reflection", align_corners=1> (x, g) }'
    )
    model = onnx.parser.parse_model(text)
    feeds = {"x": _random(1, 2, 1, 5), "g": 2 * _random(1, 3, 4, 2)}
    relay_layout.compile(model).save(tmp_path / "model.rla")
    (wanted,) = reference_session(model.SerializeToString()).run(None, feeds)
    found = relay_layout.load(tmp_path / "model.rla").run(feeds)["y"]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("coordinates", ["half_pixel", "pytorch_half_pixel", "asymmetric"])
@pytest.mark.parametrize("rounding", ["round_prefer_floor", "floor"])
def test_a_scale_counts_where_the_extent_stays(coordinates: str, rounding: str) -> None:
    """As the specification computes it; ONNX Runtime returns its input there."""
    text = (
        '<ir_version: 9, opset_import: ["" : 19]> agraph (float[4] x, float[1] s) => (float[n] y) '
        f'{{ y = Resize <{_mode("nearest", coordinates)}, nearest_mode="{rounding}"> (x, , s) }}'
    )
    model, data = onnx.parser.parse_model(text), np.arange(4, dtype="float32")
    (want,) = ReferenceEvaluator(model).run(None, {"x": data, "s": np.array([1.2], "float32")})
    axis = Axis(0, 4, 4, 1.2)
    mapping = Mapping("nearest", coordinates, rounding, -0.75, False, False, 0.0)
    assert data[known(nearest(mapping, axis), axis)].tolist() == np.asarray(want).tolist()
