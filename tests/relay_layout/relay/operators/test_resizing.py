"""Resizing against numpy, axis by axis."""

import math

import numpy as np
import pytest
from relay_harness import evaluate, execute, imported, program

from relay_layout.errors import ModelError
from relay_layout.relay.importing import from_tree
from relay_layout.relay.syntax import read_text

RANDOM = np.random.default_rng(3)
MODES = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn")


def _coordinate(position: int, extent: int, size: int, mode: str) -> float:
    scale = extent / size
    if mode == "align_corners":
        return position * (extent - 1) / (size - 1)
    if mode == "asymmetric":
        return position * scale
    if mode == "tf_half_pixel_for_nn":
        return (position + 0.5) * scale
    return (position + 0.5) * scale - 0.5 if mode == "half_pixel" or size > 1 else 0.0


def _matrix(extent: int, size: int, method: str, mode: str, rounding: str, alpha: float) -> np.ndarray:
    """What each result is of the values along one axis."""
    rounded = {
        "round": lambda x: math.floor(x + 0.5),
        "round_prefer_floor": lambda x: math.ceil(x - 0.5),
        "round_prefer_ceil": lambda x: math.floor(x + 0.5),
        "floor": math.floor,
        "ceil": math.ceil,
    }
    matrix = np.zeros((size, extent))
    for position in range(size):
        x = _coordinate(position, extent, size, mode)
        first = math.floor(x)
        t = x - first
        if method == "nearest_neighbor":
            name = rounding or ("round" if mode == "align_corners" else "floor")
            weights = {rounded[name](x + {"floor": 1e-5, "ceil": -1e-5}.get(name, 0)): 1.0}
        elif method == "linear":
            weights = {first: 1 - t, first + 1: t}
        else:
            weights = {
                first - 1: alpha * (t**3 - 2 * t**2 + t),
                first: (alpha + 2) * t**3 - (alpha + 3) * t**2 + 1,
                first + 1: -(alpha + 2) * t**3 + (3 + 2 * alpha) * t**2 - alpha * t,
                first + 2: alpha * (t**2 - t**3),
            }
        for index, weight in weights.items():
            matrix[position, min(max(index, 0), extent - 1)] += weight
    return matrix


def _resized(
    data: np.ndarray,
    sizes: dict[int, int],
    method: str,
    mode: str = "half_pixel",
    rounding: str = "",
    alpha: float = -0.5,
) -> np.ndarray:
    """``data`` with the extents of some axes changed, in float64."""
    result = data.astype("float64")
    for axis, size in sizes.items():
        matrix = _matrix(data.shape[axis], size, method, mode, rounding, alpha)
        result = np.moveaxis(np.tensordot(matrix, result, (1, axis)), 0, axis)
    return result


@pytest.mark.parametrize("method", ["nearest_neighbor", "linear", "cubic"])
def test_resize2d_in_every_mode(method: str) -> None:
    x = RANDOM.standard_normal((2, 3, 6, 5)).astype("float32")
    calls = [
        f'image.resize2d(%x, size={size}, method="{method}", coordinate_transformation_mode="{mode}", '
        'rounding_method="")'
        for mode in MODES
        for size in ("[3, 11]", "[12, 4]")
    ]
    results = evaluate(f"({', '.join(calls)})", x=x)
    expected = [
        _resized(x, sizes, method, mode) for mode in MODES for sizes in ({2: 3, 3: 11}, {2: 12, 3: 4})
    ]
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, wanted, atol=2e-5)


def test_resize2d_rounding_of_halves() -> None:
    x = RANDOM.standard_normal((1, 2, 6, 8)).astype("float32")
    roundings = ("round", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    calls = [
        f'image.resize2d(%x, size=[3, 4], method="nearest_neighbor", rounding_method="{rounding}")'
        for rounding in roundings
    ]
    for result, rounding in zip(evaluate(f"({', '.join(calls)})", x=x), roundings, strict=True):
        wanted = _resized(x, {2: 3, 3: 4}, "nearest_neighbor", rounding=rounding)
        np.testing.assert_array_equal(result, wanted.astype("float32"))


def test_resize2d_layouts_dtypes_and_regions() -> None:
    x = RANDOM.standard_normal((2, 8, 4, 5)).astype("float32")
    nhwc = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    blocks = np.ascontiguousarray(x.reshape(2, 2, 4, 4, 5).transpose(0, 1, 3, 4, 2))
    integers = RANDOM.integers(0, 256, (2, 8, 4, 5)).astype("uint8")
    roi = "roi=[0.25f, 0f, 0.75f, 1.5f]"
    body = f"""(
        image.resize2d(%nhwc, size=[7, 3], layout="NHWC"),
        image.resize2d(%blocks, size=[7, 3], layout="NCHW4c", method="cubic", cubic_alpha=-0.75f),
        image.resize2d(%u, size=[7, 3]),
        image.resize2d(%u, size=[7, 3], out_dtype="float32"),
        image.resize2d(%x, size=[7, 3], out_dtype="float16"),
        image.resize2d(%x, size=[3, 4], coordinate_transformation_mode="tf_crop_and_resize",
            extrapolation_value=-9f, {roi}))"""
    results = evaluate(body, x=x, nhwc=nhwc, blocks=blocks, u=integers)
    sizes = {2: 7, 3: 3}
    np.testing.assert_allclose(results[0].transpose(0, 3, 1, 2), _resized(x, sizes, "linear"), atol=1e-5)
    unblocked = results[1].transpose(0, 1, 4, 2, 3).reshape(2, 8, 7, 3)
    np.testing.assert_allclose(unblocked, _resized(x, sizes, "cubic", alpha=-0.75), atol=1e-5)
    np.testing.assert_allclose(results[2].astype("float64"), _resized(integers, sizes, "linear"), atol=1.001)
    assert results[2].dtype == "uint8"
    np.testing.assert_allclose(results[3], _resized(integers, sizes, "linear"), rtol=1e-5, atol=1e-4)
    assert results[4].dtype == "float16"
    np.testing.assert_allclose(results[4], _resized(x, sizes, "linear"), atol=2e-3)
    rows = np.stack([_between(x, 2, row) for row in (0.75, 1.5, 2.25)], 2)
    columns = [
        _between(rows, 3, column) if column <= 4 else np.full(rows.shape[:3], -9.0) for column in (0, 2, 4, 6)
    ]
    np.testing.assert_allclose(results[5], np.stack(columns, 3), atol=1e-5)


def _between(data: np.ndarray, axis: int, place: float) -> np.ndarray:
    first = math.floor(place)
    second = min(first + 1, data.shape[axis] - 1)
    t = place - first
    return data.take(first, axis) * (1 - t) + data.take(second, axis) * t


def test_resize1d_and_resize3d() -> None:
    x = RANDOM.standard_normal((2, 3, 7)).astype("float32")
    y = RANDOM.standard_normal((1, 2, 3, 4, 5)).astype("float32")
    body = """(
        image.resize1d(%x, size=[5], rounding_method=""),
        image.resize1d(%x, size=[9], layout="NWC", method="cubic"),
        image.resize1d(%x, size=[3], method="nearest_neighbor",
            coordinate_transformation_mode="align_corners"),
        image.resize3d(%y, size=[5, 3, 6], rounding_method=""),
        image.resize3d(%y, size=[2, 6, 2], layout="NDHWC", method="nearest_neighbor"))"""
    results = evaluate(body, x=x, y=y)
    expected = [
        _resized(x, {2: 5}, "linear"),
        _resized(x, {1: 9}, "cubic"),
        _resized(x, {2: 3}, "nearest_neighbor", "align_corners"),
        _resized(y, {2: 5, 3: 3, 4: 6}, "linear"),
        _resized(y, {1: 2, 2: 6, 3: 2}, "nearest_neighbor", rounding="round"),
    ]
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, wanted, atol=2e-5)


def test_upsampling_of_images_of_any_size() -> None:
    text = "def @main(%x: Tensor[(1, 2, ?, ?), float32]) {{ nn.upsampling(%x, scale_h={}f, scale_w=3f) }}"
    module = from_tree(read_text(text.format(2)))
    for size in ((3, 5), (4, 1)):
        x = RANDOM.standard_normal((1, 2, *size)).astype("float32")
        (result,) = execute(module, [x])
        np.testing.assert_array_equal(result, x.repeat(2, 2).repeat(3, 3))
    with pytest.raises(ModelError, match=r"scale_h is 1.5; the extent H must be known for it"):
        from_tree(read_text(text.format(1.5)))


def test_upsampling() -> None:
    x = RANDOM.standard_normal((2, 4, 3, 5)).astype("float32")
    y = RANDOM.standard_normal((1, 2, 3, 2, 2)).astype("float32")
    blocks = np.ascontiguousarray(x.reshape(2, 2, 2, 3, 5).transpose(0, 1, 3, 4, 2))
    body = """(
        nn.upsampling(%x, scale_h=2f, scale_w=3f),
        nn.upsampling(%x, scale_h=1.5f, scale_w=2f, method="bilinear", align_corners=True),
        nn.upsampling(%x, scale_h=2f, scale_w=2f, method="bicubic", layout="NHWC"),
        nn.upsampling(%blocks, scale_h=2f, scale_w=2f, method="bilinear", layout="NCHW2c"),
        nn.upsampling(%x, scale_h=2f, scale_w=2f, align_corners=True),
        nn.upsampling3d(%y, scale_d=2f, scale_h=2f, scale_w=3f),
        nn.upsampling3d(%y, scale_d=2f, scale_h=2f, scale_w=3f, method="trilinear",
            coordinate_transformation_mode="align_corners"))"""
    results = evaluate(body, x=x, y=y, blocks=blocks)
    results[3] = results[3].transpose(0, 1, 4, 2, 3).reshape(2, 4, 6, 10)
    expected = [
        x.repeat(2, 2).repeat(3, 3),
        _resized(x, {2: 4, 3: 10}, "linear", "align_corners"),
        _resized(x, {1: 8, 2: 6}, "cubic", "asymmetric"),
        _resized(x, {2: 6, 3: 10}, "linear", "asymmetric"),
        _resized(x, {2: 6, 3: 10}, "nearest_neighbor", "align_corners"),
        _resized(y, {2: 6, 3: 4, 4: 6}, "nearest_neighbor"),
        _resized(y, {2: 6, 3: 4, 4: 6}, "linear", "align_corners"),
    ]
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, wanted, atol=2e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("image.resize2d(%x)", "size is None, not 2 numbers"),
        ("image.resize2d(%x, size=[0, 3])", r"size is \[0, 3\], not 2 numbers from 1"),
        ('image.resize2d(%x, size=[2, 3], method="bilinear")', "method is 'bilinear'; it can be nearest"),
        ('image.resize2d(%x, size=[2, 3], layout="HWNC")', "layout is 'HWNC'; only channels first, last"),
        ('image.resize2d(%x, size=[2, 3], layout="NCHW4c")', "the data has 4 dimensions, but the layout is"),
        ("image.resize2d(%x, size=[2, 3], roi=[0f])", r"roi is \[0.0\]; it needs 4 numbers"),
        ('image.resize2d(%x, size=[2, 3], rounding_method="up")', "rounding_method is 'up'; it can be empty"),
        ('image.resize2d(%x, size=[2, 3], coordinate_transformation_mode="")', "mode is ''; it can be half"),
        ("nn.upsampling(%x, scale_h=0f, scale_w=1f)", "scale_h is 0.0; it must be positive"),
        ("nn.upsampling(%x, scale_h=1e-9f, scale_w=1f)", r"size is \[0, 5\]"),
        ("nn.upsampling(%x, scale_h=1e30f, scale_w=1f)", "not 2 numbers from 1"),
    ],
)
def test_what_does_not_fit_is_refused(call: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        imported(program(call, x=np.zeros((1, 2, 4, 5), "float32")))
