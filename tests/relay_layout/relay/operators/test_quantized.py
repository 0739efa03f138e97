"""Changes between real and quantized numbers against whole-number references."""

import numpy as np
import pytest
from quantized_reference import evaluate_bound, requantized, round_away
from relay_harness import evaluate, imported, program

from relay_layout.errors import ModelError

RANDOM = np.random.default_rng(0)


def _wide(shape: tuple[int, ...]) -> np.ndarray:
    data = RANDOM.integers(-(2**20), 2**20, shape).astype("int32")
    data.reshape(-1)[:4] = (2**29 - 1, -(2**29) + 1, 5, -5)
    return data


def test_requantize_per_tensor() -> None:
    x = _wide((3, 5))
    halves = np.arange(-20, 20, dtype="int32").reshape(4, 10)
    cases = [
        ("%x, 0.5f, 7, 0.3f, -3", 'out_dtype="int8"', (x, 0.5, 7, 0.3, -3, "int8")),
        ("%x, 0.0001f, 0, 0.7f, 12", 'out_dtype="uint8"', (x, 1e-4, 0, 0.7, 12, "uint8")),
        ("%x, 0.0001f, 0, 0.3f, 0", 'out_dtype="int32"', (x, 1e-4, 0, 0.3, 0, "int32")),
        ("%x, 0.003f, 5, 0.5f, 1", 'out_dtype="int16"', (x, 0.003, 5, 0.5, 1, "int16")),
        ("%h, 1f, 1, 4f, 1", 'out_dtype="int8"', (halves, 1, 1, 4, 1, "int8")),
        ("%h, 6f, 0, 4f, 0", 'out_dtype="int32"', (halves, 6, 0, 4, 0, "int32")),
        ("%h, 2f, 3, 2f, -1", 'out_dtype="int8"', (halves, 2, 3, 2, -1, "int8")),
    ]
    nearest = [(operands, f'rounding="TONEAREST", {dtype}', case) for operands, dtype, case in cases]
    calls = [f"qnn.requantize({operands}, {attributes})" for operands, attributes, _ in cases + nearest]
    results = evaluate(f"({', '.join(calls)})", x=x, h=halves)
    for result, (_, attributes, case) in zip(results, cases + nearest, strict=True):
        np.testing.assert_array_equal(result, requantized(*case, upward="TONEAREST" not in attributes))


def test_requantize_per_channel() -> None:
    x = _wide((2, 3, 4))
    scales = np.array([0.25, 1.5, 0.003], "float32")
    zero_points = np.array([1, -20, 300], "int32")
    last = np.array([0.1, 0.2, 0.3, 1.0], "float32")
    body = """(
        qnn.requantize(%x, %scales, %zeros, 0.7f, 3, axis=1, out_dtype="uint8"),
        qnn.requantize(%x, %scales, 0, 0.7f, 3, axis=-2, rounding="TONEAREST", out_dtype="int8"),
        qnn.requantize(%x, %last, 4, 900f, 0, rounding="TONEAREST", out_dtype="int32"))"""
    constants = {"scales": scales, "zeros": zero_points, "last": last}
    first, second, third = evaluate_bound(body, constants, x=x)
    np.testing.assert_array_equal(first, requantized(x, scales, zero_points, 0.7, 3, "uint8", 1))
    np.testing.assert_array_equal(second, requantized(x, scales, np.array(0), 0.7, 3, "int8", 1, False))
    np.testing.assert_array_equal(third, requantized(x, last, np.array(4), 900.0, 0, "int32", 2, False))


def test_requantize_in_floating_point() -> None:
    x = np.arange(-30, 30, dtype="int32").reshape(5, 12)
    scales = np.arange(1, 13).astype("float32") / 8
    body = """(
        qnn.requantize(%x, 1f, 1, 4f, 2, compute_dtype="float32", out_dtype="int8"),
        qnn.requantize(%x, 1f, 1, 4f, 2, rounding="TONEAREST", compute_dtype="float64", out_dtype="uint8"),
        qnn.requantize(%x, %scales, 0, 0.25f, 0, compute_dtype="float32", out_dtype="int16"),
        qnn.requantize(%x, %variable, 1, 4f, 2, out_dtype="int8"))"""
    variable = np.array(1, "float32")
    one, two, three, four = evaluate_bound(body, {"scales": scales}, x=x, variable=variable)
    real = (x - 1) / 4 + 2
    np.testing.assert_array_equal(one, np.floor(real + 0.5).astype("int8"))
    np.testing.assert_array_equal(two, np.clip(round_away(real), 0, 255).astype("uint8"))
    np.testing.assert_array_equal(three, np.floor(x * scales * 4 + 0.5).astype("int16"))
    np.testing.assert_array_equal(four, one)


def test_quantize_rounds_halves_away_from_zero_and_saturates() -> None:
    x = np.array([[-3e10, -2.5, -1.5, -0.5, 0.49999997], [0.5, 1.5, 2.5, 100.25, 3e10]], "float32")
    scales = np.array([0.5, 0.25], "float32")
    zero_points = np.array([1, 7], "int32")
    body = """(
        qnn.quantize(%x, 1f, 3, out_dtype="int8"),
        qnn.quantize(%x, %scales, %zeros, out_dtype="uint8", axis=0),
        qnn.quantize(%x, 1f, 0, out_dtype="int32"))"""
    int8, uint8, int32 = evaluate_bound(body, {"scales": scales, "zeros": zero_points}, x=x)
    np.testing.assert_array_equal(int8, np.clip(round_away(x) + 3, -128, 127).astype("int8"))
    expected = round_away(x / scales[:, None]) + zero_points[:, None]
    np.testing.assert_array_equal(uint8, np.clip(expected, 0, 255).astype("uint8"))
    limits = np.iinfo("int32")
    np.testing.assert_array_equal(int32, np.clip(round_away(x), limits.min, limits.max).astype("int32"))


def test_dequantize() -> None:
    x = RANDOM.integers(0, 256, (2, 3, 4)).astype("uint8")
    scales = np.array([0.5, 0.25, 3e4], "float32")
    zero_points = np.array([1, 7, 128], "int32")
    body = """(
        qnn.dequantize(%x, 0.1f, 3),
        qnn.dequantize(%x, %scales, %zeros, out_dtype="float32", axis=1),
        qnn.dequantize(%x, %scales, %zeros, out_dtype="float16", axis=1))"""
    scalar, vector, half = evaluate_bound(body, {"scales": scales, "zeros": zero_points}, x=x)
    np.testing.assert_array_equal(scalar, (x.astype("int32") - 3).astype("float32") * np.float32(0.1))
    expected = (x.astype("int32") - zero_points[:, None]).astype("float32") * scales[:, None]
    np.testing.assert_array_equal(vector, expected)
    np.testing.assert_array_equal(half, np.clip(expected, -65504, 65504).astype("float16"))


def test_simulated_quantization() -> None:
    x = RANDOM.standard_normal((2, 3, 4)).astype("float32") * 100
    scales = np.array([0.5, 0.25, 2], "float32")
    zero_points = np.array([1, 7, -3], "int32")
    body = """(
        qnn.simulated_quantize(%x, 2, %scales, %zeros, axis=1),
        qnn.simulated_quantize(%x, 0, %scales, %zeros, axis=1),
        qnn.simulated_quantize(%x, %code, %one, %zero),
        qnn.simulated_dequantize(%x, 1, %scales, %zeros, axis=1),
        relay.op.annotation.simulated_quantize(%x, 0.5f, -7f, 7f, kind=1),
        relay.op.annotation.simulated_quantize(%x, 0.5f, -7f, 7f, kind=0))"""
    constants = {"scales": scales, "zeros": zero_points}
    one, zero, code = np.ones(1, "float32"), np.zeros(1, "int32"), np.array(1, "int32")
    uint8, off, int8, real, steps, same = evaluate_bound(body, constants, x=x, one=one, zero=zero, code=code)
    whole = round_away(x / scales[:, None]) + zero_points[:, None]
    np.testing.assert_array_equal(uint8, np.clip(whole, 0, 255).astype("float32"))
    np.testing.assert_array_equal(off, x)
    np.testing.assert_array_equal(int8, np.clip(round_away(x), -128, 127).astype("float32"))
    np.testing.assert_allclose(real, (x - zero_points[:, None]) * scales[:, None], rtol=1e-6)
    np.testing.assert_array_equal(steps, (round_away(np.clip(x / 0.5, -7, 7)) * 0.5).astype("float32"))
    np.testing.assert_array_equal(same, x)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ('qnn.requantize(%x, 1f, 0, 0f, 0, out_dtype="int8")', "the output scale is 0"),
        ('qnn.requantize(%x, 1f, 0, 1f, 0, out_dtype="float32")', "out_dtype is float32; it can be int8"),
        ("qnn.requantize(%x, 1f, 0, 1f, 0)", "out_dtype is None"),
        ('qnn.requantize(%x, 1f, 0, 1f, 0, axis=2, out_dtype="int8")', "axis 2 is not one of 2 dimensions"),
        ('qnn.requantize(%x, 1f, 0, 1f, 0, rounding="UP", out_dtype="int8")', "rounding is 'UP'"),
        (
            'qnn.requantize(%x, 1f, 0, 2f, 0, compute_dtype="int8", out_dtype="int8")',
            "compute_dtype is 'int8'",
        ),
        ('qnn.requantize(%x, %v, 0, 2f, 0, out_dtype="int8")', "there are 2 scales or zero points for 3"),
        ('qnn.requantize(%x, 1f, 0, %v, 0, out_dtype="int8")', "the output scale is a number, not a tensor"),
        ('qnn.requantize(%x, 1f, 0f, 1f, 0, out_dtype="int8")', "the input zero point is float32"),
        ('qnn.requantize(%x, 3e20f, 0, 1f, 0, out_dtype="int8")', "the quotient of two scales is 3e\\+20"),
        ('qnn.quantize(%x, 1f, 0, out_dtype="int8")', "the data is int32; it can be float32"),
        ('qnn.dequantize(%x, 1f, 0, out_dtype="float64")', "out_dtype is float64"),
        ("relay.op.annotation.simulated_quantize(%x, 1f, 0f, 1f, kind=9)", "kind is 9; 0 to 3 are known"),
    ],
)
def test_what_does_not_fit_is_refused(call: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        imported(program(call, x=np.zeros((2, 3), "int32"), v=np.ones(2, "float32")))
