"""Quantized arithmetic and functions against whole-number references."""

import math

import numpy as np
import pytest
from quantized_reference import evaluate_bound, requantized, round_away, scale_exactly
from relay_harness import evaluate, imported, program

from relay_layout.errors import ModelError

RANDOM = np.random.default_rng(2)


def _int(dtype: str, *shape: int) -> np.ndarray:
    limits = np.iinfo(dtype)
    return RANDOM.integers(limits.min, limits.max + 1, shape).astype(dtype)


def _saturated(value: np.ndarray, dtype: str) -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.clip(value, limits.min, limits.max).astype(dtype)


def test_add_and_subtract() -> None:
    x, y, row = _int("uint8", 3, 4), _int("uint8", 3, 4), _int("uint8", 4)
    scales, zero_points = np.array([0.5, 0.1, 2], "float32"), np.array([3, 100, 255], "int32")
    body = """(
        qnn.add(%x, %y, 0.5f, 3, 0.3f, 7, 0.6f, 11),
        qnn.subtract(%x, %y, 0.5f, 3, 0.3f, 7, 0.6f, 11),
        qnn.add(%x, %row, 0.5f, 3, 0.25f, 0, 0.5f, 3),
        qnn.subtract(%x, %y, %scales, %zeros, 0.3f, 7, 0.6f, 0, lhs_axis=0))"""
    constants = {"scales": scales, "zeros": zero_points}
    added, less, row_added, per_channel = evaluate_bound(body, constants, x=x, y=y, row=row)
    left = requantized(x, np.float32(0.5), np.array(3), 0.6, 11, "int32")
    right = requantized(y, np.float32(0.3), np.array(7), 0.6, 11, "int32")
    np.testing.assert_array_equal(added, _saturated(left + right - 11, "uint8"))
    np.testing.assert_array_equal(less, _saturated(left - right + 11, "uint8"))
    third = requantized(row, np.float32(0.25), np.array(0), 0.5, 3, "int32")
    np.testing.assert_array_equal(row_added, _saturated(x.astype("int32") + third - 3, "uint8"))
    left = requantized(x, scales, zero_points, 0.6, 0, "int32", 0)
    right = requantized(y, np.float32(0.3), np.array(7), 0.6, 0, "int32")
    np.testing.assert_array_equal(per_channel, _saturated(left - right, "uint8"))


def test_mul() -> None:
    x, y, row = _int("int8", 3, 4), _int("int8", 3, 4), _int("int8", 4)
    left_scales, right_scales = np.array([0.5, 0.1, 2], "float32"), np.array([0.3, 0.7, 0.01], "float32")
    zero_points = np.array([3, 100, -7], "int32")
    body = """(
        qnn.mul(%x, %y, 0.5f, 3, 0.3f, 7, 0.6f, 11),
        qnn.mul(%x, %row, 0.1f, 0, 0.1f, 0, 0.5f, 0),
        qnn.mul(%x, %y, %left, %zeros, %right, 1, 0.6f, -4, lhs_axis=0, rhs_axis=0),
        qnn.mul(%x, %y, 0.2f, 2, %right, 1, 0.6f, -4, lhs_axis=0, rhs_axis=0))"""
    constants = {"left": left_scales, "right": right_scales, "zeros": zero_points}
    results = evaluate_bound(body, constants, x=x, y=y, row=row)
    x, y, row = x.astype("int64"), y.astype("int64"), row.astype("int64")
    zero = np.array(0)
    scale = np.float32(0.5) * np.float32(0.3)
    expected = [
        requantized((x - 3) * (y - 7), scale, zero, 0.6, 11, "int8"),
        requantized(x * row, np.float32(0.1) * np.float32(0.1), zero, 0.5, 0, "int8"),
        requantized(
            (x - zero_points[:, None]) * (y - 1), left_scales * right_scales, zero, 0.6, -4, "int8", 0
        ),
        requantized((x - 2) * (y - 1), np.float32(0.2) * right_scales, zero, 0.6, -4, "int8", 0),
    ]
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


def test_concatenate() -> None:
    x, y = _int("uint8", 2, 3), _int("uint8", 2, 1)
    body = "(qnn.concatenate((%x, %y, %x), (0.5f, 0.3f, 0.6f), (3, 7, 11), 0.6f, 11, axis=1),)"
    (result,) = evaluate(body, x=x, y=y)
    first = requantized(x, np.float32(0.5), np.array(3), 0.6, 11, "uint8")
    second = requantized(y, np.float32(0.3), np.array(7), 0.6, 11, "uint8")
    np.testing.assert_array_equal(result, np.concatenate([first, second, x], 1))


def test_leaky_relu() -> None:
    x = _int("uint8", 5, 6)
    (result,) = evaluate("(qnn.leaky_relu(%x, 0.5f, 100, 0.3f, 40, alpha=0.1f),)", x=x)
    wide = requantized(x, np.float32(0.5), np.array(100), 0.3, 40, "int32")
    one = np.float32(1)
    rest = scale_exactly(40, 1 - 0.1, one)  # type: ignore[arg-type]
    slope = np.array([scale_exactly(int(value), 0.1, one) for value in wide.reshape(-1)])  # type: ignore[arg-type]
    expected = np.where(x < 100, slope.reshape(x.shape) + rest, wide)
    np.testing.assert_array_equal(result, _saturated(expected, "uint8"))


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_functions_of_one_tensor(dtype: str) -> None:
    limits = np.iinfo(dtype)
    x = np.arange(limits.min, limits.max + 1).astype(dtype).reshape(16, 16)
    functions = {
        "abs": np.abs,
        "erf": np.vectorize(math.erf, otypes=["float32"]),
        "exp": np.exp,
        "hardswish": lambda r: r * np.clip(r + 3, 0, 6) / 6,
        "log": np.log,
        "rsqrt": lambda r: 1 / np.sqrt(r),
        "sigmoid": lambda r: 1 / (1 + np.exp(-r)),
        "sqrt": np.sqrt,
        "tanh": np.tanh,
    }
    calls = [f"qnn.{name}(%x, 0.031f, 5, 0.0203f, -9)" for name in functions]
    variable = "qnn.tanh(%x, %s, 5, 0.0203f, -9)"
    scale = np.array(0.031, "float32")
    *results, computed = evaluate(f"({', '.join([*calls, variable])})", x=x, s=scale)
    real = ((x.astype("int32") - 5) * 0.031).astype("float32")
    for result, (name, function) in zip(results, functions.items(), strict=True):
        with np.errstate(all="ignore"):
            value = np.asarray(function(real), "float64") / np.float32(0.0203)
        certain = np.isfinite(value)
        value = np.where(certain, value, 0)
        off = np.abs(result - _saturated(round_away(value) - 9, dtype).astype("int64"))[certain]
        # A value beside a half may round either way in float32.
        assert off.max() <= 1 and off.mean() < 0.02, name
    np.testing.assert_array_equal(computed, results[list(functions).index("tanh")])


def test_softmax_is_close_to_the_real_one() -> None:
    x = _int("int8", 3, 10)
    (last, first) = evaluate(
        "(qnn.softmax(%x, 0.03f, 5, 0.00390625f, -128), qnn.softmax(%x, 0.03f, 5, 0.0078125f, 0, axis=0))",
        x=x,
    )
    real = np.exp((x.astype("float64") - 5) * 0.03)
    share = real / real.sum(1, keepdims=True)
    np.testing.assert_allclose((last.astype("int32") + 128) / 256, share, atol=0.02)
    share = real / real.sum(0, keepdims=True)
    np.testing.assert_allclose(first.astype("int32") / 128, share, atol=0.02)


def test_avg_pool2d() -> None:
    x = _int("uint8", 2, 5, 6, 3)
    attributes = 'pool_size=[2, 3], strides=[2, 1], padding=[1, 1, 1, 1], layout="NHWC"'
    body = f"""(
        qnn.avg_pool2d(%x, 0.5f, 3, 0.7f, 5, {attributes}),
        qnn.avg_pool2d(%x, 0.5f, 3, 0.5f, 3, {attributes}, count_include_pad=True))"""
    counted, included = evaluate(body, x=x)

    def sums(data: np.ndarray) -> np.ndarray:
        padded = np.pad(data, ((0, 0), (1, 1), (1, 1), (0, 0)))
        rows = [padded[:, 2 * row : 2 * row + 2].sum(1) for row in range(3)]
        return np.stack(
            [np.stack([row[:, column : column + 3].sum(1) for column in range(6)], 1) for row in rows], 1
        )

    wide = requantized(x, np.float32(0.5), np.array(3), 0.7, 5, "int32").astype("int64")
    count = sums(np.ones_like(wide))
    quotient = np.trunc(sums(wide) / count).astype("int64")
    np.testing.assert_array_equal(counted, _saturated(quotient, "uint8"))
    np.testing.assert_array_equal(included, _saturated(sums(x.astype("int64")) // 6, "uint8"))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("qnn.add(%f, %x, 1f, 0, 1f, 0, 1f, 0)", "lhs is float32; it can be int8"),
        ("qnn.add(%x, %x, 1f, 0, 1f, 0, 0f, 1)", "the output scale is 0"),
        ("qnn.mul(%x, %x, %v, 0, 1f, 0, 1f, 0, lhs_axis=0)", "lhs_axis and rhs_axis must be the same"),
        ("qnn.concatenate((%x, %x), (1f,), (0, 0), 1f, 0, axis=0)", "2 tensors have 1 scales and 2 zero"),
        ("qnn.softmax(%x, 1.5f, 0, 1f, 0)", "the input scale must be a constant of at most 1"),
        ("qnn.softmax(%x, 1e-30f, 0, 1f, 0, axis=3)", "axis 3 is not one of 2 dimensions"),
        ("qnn.tanh(%f, 1f, 0, 1f, 0)", "the data is float32; it can be int8, uint8"),
        ("qnn.leaky_relu(%x, 1f, 0, 1f, 0, alpha=1e30f)", "the quotient of two scales is 1e\\+30"),
    ],
)
def test_what_does_not_fit_is_refused(call: str, message: str) -> None:
    inputs = {
        "x": np.zeros((2, 3), "int8"),
        "f": np.zeros((2, 3), "float32"),
        "v": np.ones(2, "float32"),
    }
    with pytest.raises(ModelError, match=message):
        imported(program(call, **inputs))
