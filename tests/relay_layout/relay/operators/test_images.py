"""Cropping, dilation and sampling of images against numpy and torch."""

import math

import numpy as np
import pytest
from relay_harness import evaluate, imported, program

from relay_layout.errors import ModelError

RANDOM = np.random.default_rng(4)


def _crop(
    data: np.ndarray, box: np.ndarray, size: tuple[int, int], nearest: bool, outside: float
) -> np.ndarray:
    """One box of one image, (C, H, W)."""
    channels, height, width = data.shape
    result = np.full((channels, *size), float(outside))
    top, left, bottom, right = box
    for row in range(size[0]):
        for column in range(size[1]):
            y = (top + (bottom - top) * row / (size[0] - 1) if size[0] > 1 else (top + bottom) / 2) * (
                height - 1
            )
            x = (left + (right - left) * column / (size[1] - 1) if size[1] > 1 else (left + right) / 2) * (
                width - 1
            )
            if not (0 <= y <= height - 1 and 0 <= x <= width - 1):
                continue
            if nearest:
                result[:, row, column] = data[:, math.floor(y + 0.5), math.floor(x + 0.5)]
                continue
            y0, x0 = math.floor(y), math.floor(x)
            y1, x1 = min(y0 + 1, height - 1), min(x0 + 1, width - 1)
            upper = data[:, y0, x0] * (1 - x + x0) + data[:, y0, x1] * (x - x0)
            lower = data[:, y1, x0] * (1 - x + x0) + data[:, y1, x1] * (x - x0)
            result[:, row, column] = upper * (1 - y + y0) + lower * (y - y0)
    return result


def test_crop_and_resize() -> None:
    x = RANDOM.standard_normal((2, 3, 5, 9)).astype("float32")
    nhwc = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    boxes = np.array([[0, 0, 1, 1], [0.125, 0.25, 0.625, 1.5], [1, 0.5, 0, 0.25]], "float32")
    which = np.array([1, 0, 1], "int32")
    body = """(
        image.crop_and_resize(%x, %boxes, %which, crop_size=[3, 4], extrapolation_value=7f),
        image.crop_and_resize(%nhwc, %boxes, %which, crop_size=[5, 3], layout="NHWC",
            method="nearest_neighbor"),
        image.crop_and_resize(%x, %boxes, %which, crop_size=[1, 2], out_dtype="float16"))"""
    linear, nearest, one = evaluate(body, x=x, nhwc=nhwc, boxes=boxes, which=which)

    def expected(size: tuple[int, int], is_nearest: bool, outside: float) -> np.ndarray:
        pairs = zip(which, boxes, strict=True)
        return np.stack([_crop(x[image], box, size, is_nearest, outside) for image, box in pairs])

    np.testing.assert_allclose(linear, expected((3, 4), False, 7), atol=1e-5)
    np.testing.assert_allclose(nearest.transpose(0, 3, 1, 2), expected((5, 3), True, 0), atol=1e-6)
    np.testing.assert_allclose(one, expected((1, 2), False, 0), atol=2e-3)
    assert one.dtype == "float16"


def test_dilation2d() -> None:
    x = RANDOM.standard_normal((2, 3, 6, 7)).astype("float32")
    w = RANDOM.standard_normal((3, 2, 3)).astype("float32")
    body = """(
        image.dilation2d(%x, %w, strides=[1, 2], padding=[1, 0, 2, 1]),
        image.dilation2d(%nhwc, %hwi, dilations=[2, 1], data_layout="NHWC", kernel_layout="HWI"))"""
    nhwc, hwi = np.ascontiguousarray(x.transpose(0, 2, 3, 1)), np.ascontiguousarray(w.transpose(1, 2, 0))
    padded, dilated = evaluate(body, x=x, w=w, nhwc=nhwc, hwi=hwi)
    data = np.pad(x, ((0, 0), (0, 0), (1, 2), (0, 1)), constant_values=-np.inf)
    expected = np.full((2, 3, 8, 3), -np.inf)
    for row in range(2):
        for column in range(3):
            window = data[:, :, row : row + 8, column : column + 5 : 2]
            expected = np.maximum(expected, window + w[:, row, column, None, None])
    inside = expected[:, :, 1:5, 1:2]
    np.testing.assert_allclose(padded[:, :, 1:5, 1:2], inside, atol=1e-6)
    expected = np.full((2, 3, 4, 5), -np.inf)
    for row in range(2):
        for column in range(3):
            window = x[:, :, 2 * row : 2 * row + 4, column : column + 5]
            expected = np.maximum(expected, window + w[:, row, column, None, None])
    np.testing.assert_allclose(dilated.transpose(0, 3, 1, 2), expected, atol=1e-6)


def test_affine_grid_and_grid_sample() -> None:
    torch = pytest.importorskip("torch")
    x = RANDOM.standard_normal((2, 3, 5, 6)).astype("float32")
    volume = RANDOM.standard_normal((1, 2, 3, 4, 5)).astype("float32")
    matrix = RANDOM.standard_normal((2, 2, 3)).astype("float32")
    grid = RANDOM.uniform(-1.3, 1.3, (2, 2, 4, 3)).astype("float32")
    space = RANDOM.uniform(-1.3, 1.3, (1, 3, 2, 3, 4)).astype("float32")
    cases = [
        (method, padding, align)
        for method in ("nearest", "bilinear", "bicubic")
        for padding, align in (("zeros", True), ("border", False), ("reflection", True))
    ]
    calls = [
        f'image.grid_sample(%x, %grid, method="{method}", padding_mode="{padding}", align_corners={align})'
        for method, padding, align in cases
    ]
    body = f"""(image.affine_grid(%matrix, target_shape=[4, 5]),
        image.grid_sample(%volume, %space, layout="NCDHW"), {", ".join(calls)})"""
    affine, cube, *results = evaluate(body, x=x, volume=volume, matrix=matrix, grid=grid, space=space)
    functional = torch.nn.functional
    wanted = functional.affine_grid(torch.from_numpy(matrix), (2, 3, 4, 5), align_corners=True)
    np.testing.assert_allclose(affine, wanted.numpy().transpose(0, 3, 1, 2), atol=1e-5)
    moved = torch.from_numpy(space.transpose(0, 2, 3, 4, 1).copy())
    wanted = functional.grid_sample(torch.from_numpy(volume), moved, align_corners=True)
    np.testing.assert_allclose(cube, wanted.numpy(), atol=1e-5)
    moved = torch.from_numpy(grid.transpose(0, 2, 3, 1).copy())
    for result, (method, padding, align) in zip(results, cases, strict=True):
        wanted = functional.grid_sample(torch.from_numpy(x), moved, method, padding, align)
        np.testing.assert_allclose(result, wanted.numpy(), atol=2e-5, err_msg=f"{method} {padding}")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("image.crop_and_resize(%x, %b, %i)", "crop_size is None, not 2 numbers"),
        ("image.crop_and_resize(%x, %i, %i, crop_size=[1, 1])", "boxes must have the shape"),
        (
            "image.crop_and_resize(%x, %b, %f, crop_size=[1, 1])",
            "box_indices is float32; it must be integers",
        ),
        (
            'image.crop_and_resize(%x, %b, %i, crop_size=[1, 1], method="cubic")',
            "method is 'cubic'; it can be",
        ),
        ("image.dilation2d(%x, %w, strides=[0, 1])", r"strides is \[0, 1\], not 2 numbers from 1"),
        ('image.dilation2d(%x, %w, data_layout="NHWC")', "layouts NHWC and IHW; NCHW and IHW, or"),
        ("image.dilation2d(%x, %v)", "the data has 2 channels and the weight 3"),
        ("image.affine_grid(%m, target_shape=[1, 4])", "both extents must be over 1"),
        ("image.affine_grid(%x, target_shape=[3, 4])", r"the data must have the shape \(batch, 2, 3\)"),
        ('image.grid_sample(%x, %x, layout="NHWC")', "layout is 'NHWC' for 4 dimensions; it can be NCHW"),
        ('image.grid_sample(%x, %x, padding_mode="wrap")', "padding_mode is 'wrap'; it can be zeros"),
        ("image.grid_sample(%x, %m)", "the grid must have 4 dimensions, the second of 2"),
    ],
)
def test_what_does_not_fit_is_refused(call: str, message: str) -> None:
    inputs = {
        "x": np.zeros((1, 2, 4, 5), "float32"),
        "b": np.zeros((3, 4), "float32"),
        "i": np.zeros(3, "int32"),
        "f": np.zeros(3, "float32"),
        "w": np.zeros((2, 3, 3), "float32"),
        "v": np.zeros((3, 3, 3), "float32"),
        "m": np.zeros((1, 2, 3), "float32"),
    }
    with pytest.raises(ModelError, match=message):
        imported(program(call, **inputs))
