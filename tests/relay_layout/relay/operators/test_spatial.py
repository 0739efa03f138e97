"""Blocks and neighbourhoods of pixels against numpy."""

import itertools

import numpy as np
import pytest
from relay_harness import evaluate, imported, program

from relay_layout.errors import ModelError

RANDOM = np.random.default_rng(5)


def _depth_to_space(data: np.ndarray, block: int, mode: str) -> np.ndarray:
    batch, channels, height, width = data.shape
    depth = channels // block**2
    result = np.empty((batch, depth, height * block, width * block), data.dtype)
    for c, y, x in itertools.product(range(depth), range(block), range(block)):
        source = depth * (y * block + x) + c if mode == "DCR" else c * block**2 + y * block + x
        result[:, c, y::block, x::block] = data[:, source]
    return result


def test_depth_and_space() -> None:
    x = RANDOM.standard_normal((2, 12, 2, 3)).astype("float32")
    nhwc = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    dcr, cdr = _depth_to_space(x, 2, "DCR"), _depth_to_space(x, 2, "CDR")
    body = """(
        nn.depth_to_space(%x, block_size=2),
        nn.depth_to_space(%x, block_size=2, mode="CDR"),
        nn.depth_to_space(%nhwc, block_size=2, layout="NHWC"),
        nn.depth_to_space(%nhwc, block_size=2, layout="NHWC", mode="CDR"),
        nn.space_to_depth(%space, block_size=2),
        nn.space_to_depth(%back, block_size=2, layout="NHWC"))"""
    back = np.ascontiguousarray(dcr.transpose(0, 2, 3, 1))
    results = evaluate(body, x=x, nhwc=nhwc, space=dcr, back=back)
    expected = [dcr, cdr, dcr.transpose(0, 2, 3, 1), cdr.transpose(0, 2, 3, 1), x, nhwc]
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


def test_space_and_batch() -> None:
    x = RANDOM.integers(-50, 50, (2, 3, 4, 5)).astype("int32")
    body = """(
        nn.space_to_batch_nd(%x, block_shape=[2, 3], paddings=[[1, 0], [0, 2]], pad_value=7f),
        nn.space_to_batch_nd(%x, block_shape=[3], paddings=[[0, 0]]),
        nn.batch_to_space_nd(%batches, block_shape=[2, 3], crops=[[1, 0], [0, 2]]))"""
    padded = np.pad(x, ((0, 0), (1, 0), (0, 2), (0, 0)), constant_values=7)
    batches = np.concatenate([padded[:, row::2, column::3] for row in range(2) for column in range(3)])
    two, one, back = evaluate(body, x=x, batches=batches)
    np.testing.assert_array_equal(two, batches)
    np.testing.assert_array_equal(one, np.concatenate([x[:, row::3] for row in range(3)]))
    np.testing.assert_array_equal(back, x)


def test_dilate() -> None:
    x = RANDOM.standard_normal((2, 3, 4)).astype("float32")
    (result,) = evaluate("(nn.dilate(%x, strides=[2, 1, 3], dilation_value=0.5f),)", x=x)
    expected = np.full((3, 3, 10), 0.5, "float32")
    expected[::2, :, ::3] = x
    np.testing.assert_array_equal(result, expected)


def _correlation(
    first: np.ndarray, second: np.ndarray, kernel: int, reach: int, strides: tuple[int, int], multiply: bool
) -> np.ndarray:
    """Of padded images, in NCHW."""
    radius, stride1, stride2 = (kernel - 1) // 2, *strides
    border = reach + radius
    steps = range(-(reach // stride2) * stride2, reach // stride2 * stride2 + 1, stride2)
    rows = range(border, first.shape[2] - border, stride1)
    columns = range(border, first.shape[3] - border, stride1)
    result = np.zeros((first.shape[0], len(steps) ** 2, len(rows), len(columns)))

    def window(data: np.ndarray, y: int, x: int) -> np.ndarray:
        return data[:, :, y - radius : y + radius + 1, x - radius : x + radius + 1].astype("float64")

    for (q, (dy, dx)), (i, y), (j, x) in itertools.product(
        enumerate(itertools.product(steps, steps)), enumerate(rows), enumerate(columns)
    ):
        left, right = window(first, y, x), window(second, y + dy, x + dx)
        result[:, q, i, j] = (left * right if multiply else np.abs(left - right)).mean((1, 2, 3))
    return result


def test_correlation() -> None:
    a, b = (RANDOM.standard_normal((2, 3, 7, 8)).astype("float32") for _ in range(2))
    body = """(
        nn.correlation(%a, %b, kernel_size=3, max_displacement=2, stride1=2, stride2=2, padding=[2, 2]),
        nn.correlation(%a, %b, kernel_size=1, max_displacement=1, padding=[1, 0, 2, 3], is_multiply=False))"""
    first, second = evaluate(body, a=a, b=b)

    def padded(top: int, left: int, bottom: int, right: int) -> list[np.ndarray]:
        return [np.pad(data, ((0, 0), (0, 0), (top, bottom), (left, right))) for data in (a, b)]

    np.testing.assert_allclose(first, _correlation(*padded(2, 2, 2, 2), 3, 2, (2, 2), True), atol=1e-5)
    np.testing.assert_allclose(second, _correlation(*padded(1, 0, 2, 3), 1, 1, (1, 1), False), atol=1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("nn.depth_to_space(%x, block_size=5)", "the number of channels is 4, which 25 does not divide"),
        ("nn.depth_to_space(%x, block_size=0)", r"block_size is \[0\], not 1 numbers from 1"),
        ('nn.depth_to_space(%x, block_size=2, mode="RCD")', "mode is 'RCD'; it can be DCR, CDR"),
        ('nn.space_to_depth(%x, block_size=2, layout="CHWN")', "layout is 'CHWN'; it can be NCHW, NHWC"),
        ("nn.space_to_depth(%x, block_size=4)", "the height is 6, which 4 does not divide"),
        ("nn.space_to_batch_nd(%x, block_shape=[2], paddings=[[0]])", "an entry of paddings is"),
        ("nn.space_to_batch_nd(%x, block_shape=[3], paddings=[[0, 0]])", "a padded extent is 4, which 3"),
        ("nn.space_to_batch_nd(%x, block_shape=[2, 2], paddings=[[0, 0]])", "block_shape is"),
        ("nn.batch_to_space_nd(%x, block_shape=[2], crops=[[5, 4]])", "crops take 5 and 4 of an extent of 8"),
        ("nn.batch_to_space_nd(%x, block_shape=[3], crops=[[0, 0]])", "the batch is 2, which 3"),
        ("nn.batch_to_space_nd(%x, block_shape=[2], crops=1)", "crops is 1; it needs a pair"),
        ("nn.dilate(%x, strides=[1, 2])", "strides is"),
        ("nn.correlation(%x, %x, kernel_size=2)", "kernel_size is 2; it must be odd"),
        ("nn.correlation(%x, %x, stride2=0)", "kernel_size, stride1, stride2 is"),
        ("nn.correlation(%x, %x, max_displacement=4)", "has no pixel that is 4 from its borders"),
        ("nn.correlation(%x, %y)", "both operands must have the same known shape"),
    ],
)
def test_what_does_not_fit_is_refused(call: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        imported(program(call, x=np.zeros((2, 4, 6, 6), "float32"), y=np.zeros((2, 4, 6, 7), "float32")))
