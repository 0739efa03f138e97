"""Regions of interest against numpy."""

import math

import numpy as np
import pytest
from relay_harness import evaluate, imported, program

from relay_layout.errors import ModelError

RANDOM = np.random.default_rng(6)
ROIS = np.array(
    [[0, 1, 2, 9, 7.5], [1, 0.5, 0.5, 13.5, 11.5], [0, 8, 8, 3, 3], [1, 10, 2, 30, 30], [0, 40, 40, 50, 50]],
    "float32",
)


def _sample(image: np.ndarray, y: float, x: float) -> np.ndarray:
    """(C, H, W) between pixels; 0 more than one pixel outside."""
    _, height, width = image.shape
    if y < -1 or x < -1 or y > height or x > width:
        return np.zeros(image.shape[0])
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    y0, x0 = math.floor(y), math.floor(x)
    y1, x1 = min(y0 + 1, height - 1), min(x0 + 1, width - 1)
    upper = image[:, y0, x0] * (1 - x + x0) + image[:, y0, x1] * (x - x0)
    lower = image[:, y1, x0] * (1 - x + x0) + image[:, y1, x1] * (x - x0)
    return upper * (1 - y + y0) + lower * (y - y0)


def _aligned(data: np.ndarray, size: tuple[int, int], scale: float, ratio: int, mode: str) -> np.ndarray:
    result = np.zeros((len(ROIS), data.shape[1], *size))
    for index, (image, left, top, right, bottom) in enumerate(ROIS):
        height, width = max((bottom - top) * scale, 1), max((right - left) * scale, 1)
        rows = ratio if ratio > 0 else math.ceil(height / size[0])
        columns = ratio if ratio > 0 else math.ceil(width / size[1])
        for row in range(size[0]):
            for column in range(size[1]):
                samples = [
                    _sample(
                        data[int(image)],
                        top * scale + (row + (i + 0.5) / rows) * height / size[0],
                        left * scale + (column + (j + 0.5) / columns) * width / size[1],
                    )
                    for i in range(rows)
                    for j in range(columns)
                ]
                reduced = np.mean(samples, 0) if mode == "avg" else np.max(samples, 0)
                result[index, :, row, column] = reduced
    return result


def test_roi_align() -> None:
    x = RANDOM.standard_normal((2, 3, 12, 14)).astype("float32")
    nhwc = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    body = """(
        vision.roi_align(%x, %rois, pooled_size=[3, 2], spatial_scale=1f, sample_ratio=2),
        vision.roi_align(%x, %rois, pooled_size=[2, 4], spatial_scale=0.5f, mode="max"),
        vision.roi_align(%nhwc, %rois, pooled_size=[2, 2], spatial_scale=1f, layout="NHWC"))"""
    first, second, third = evaluate(body, x=x, rois=ROIS, nhwc=nhwc)
    np.testing.assert_allclose(first, _aligned(x, (3, 2), 1, 2, "avg"), atol=1e-5)
    np.testing.assert_allclose(second, _aligned(x, (2, 4), 0.5, -1, "max"), atol=1e-5)
    expected = _aligned(x, (2, 2), 1, -1, "avg")
    np.testing.assert_allclose(third.transpose(0, 3, 1, 2), expected, atol=1e-5)


def _pooled(data: np.ndarray, size: tuple[int, int], scale: float) -> np.ndarray:
    height, width = data.shape[2:]
    result = np.zeros((len(ROIS), data.shape[1], *size), data.dtype)
    for index, roi in enumerate(ROIS):
        left, top, right, bottom = (math.floor(value * scale + 0.5) for value in roi[1:])
        bins = max(bottom - top + 1, 1) / size[0], max(right - left + 1, 1) / size[1]
        for row in range(size[0]):
            for column in range(size[1]):
                rows = slice(
                    min(max(math.floor(row * bins[0] + 1e-5) + top, 0), height),
                    min(max(math.ceil((row + 1) * bins[0] - 1e-5) + top, 0), height),
                )
                columns = slice(
                    min(max(math.floor(column * bins[1] + 1e-5) + left, 0), width),
                    min(max(math.ceil((column + 1) * bins[1] - 1e-5) + left, 0), width),
                )
                part = data[int(roi[0]), :, rows, columns]
                if part.size:
                    result[index, :, row, column] = part.max((1, 2))
    return result


def test_roi_pool() -> None:
    x = RANDOM.standard_normal((2, 3, 12, 14)).astype("float32") - 3
    nhwc = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    body = """(
        vision.roi_pool(%x, %rois, pooled_size=[3, 2], spatial_scale=1f),
        vision.roi_pool(%nhwc, %rois, pooled_size=[7, 5], spatial_scale=0.5f, layout="NHWC"))"""
    first, second = evaluate(body, x=x, rois=ROIS, nhwc=nhwc)
    np.testing.assert_array_equal(first, _pooled(x, (3, 2), 1))
    np.testing.assert_array_equal(second.transpose(0, 3, 1, 2), _pooled(x, (7, 5), 0.5))


def test_yolo_reorg() -> None:
    x = RANDOM.standard_normal((2, 8, 4, 6)).astype("float32")
    (result,) = evaluate("(vision.yolo_reorg(%x, stride=2),)", x=x)
    larger = x.reshape(2, 2, 8, 12)
    channels = [larger[:, k % 2, k // 2 // 2 :: 2, k // 2 % 2 :: 2] for k in range(8)]
    np.testing.assert_array_equal(result, np.stack(channels, 1).reshape(2, 32, 2, 3))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("vision.roi_align(%x, %r, pooled_size=[0, 2], spatial_scale=1f)", r"pooled_size is \[0, 2\], not 2"),
        (
            'vision.roi_align(%x, %r, pooled_size=[2, 2], spatial_scale=1f, mode="sum")',
            "mode is 'sum'; it can",
        ),
        (
            "vision.roi_align(%x, %r, pooled_size=[2, 2], spatial_scale=1f, sample_ratio=-2)",
            r"sample_ratio is \[-2\], not 1 numbers from -1",
        ),
        ("vision.roi_align(%x, %x, pooled_size=[2, 2], spatial_scale=1f)", "rois must have the shape"),
        (
            'vision.roi_pool(%x, %r, pooled_size=[2, 2], spatial_scale=1f, layout="CHWN")',
            "layout is 'CHWN'; it can be NCHW, NHWC",
        ),
        ("vision.yolo_reorg(%x, stride=3)", "a stride of 3 does not divide an image of"),
        ("vision.yolo_reorg(%x, stride=0)", r"stride is \[0\], not 1 numbers from 1"),
    ],
)
def test_what_does_not_fit_is_refused(call: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        imported(program(call, x=np.zeros((1, 4, 4, 5), "float32"), r=np.zeros((3, 5), "float32")))
