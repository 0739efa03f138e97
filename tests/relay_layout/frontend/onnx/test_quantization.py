"""Quantize and dequantize, by channels and by blocks, compute what ONNX Runtime computes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ml_dtypes import (
    bfloat16,
    float4_e2m1fn,
    float6_e2m3fn,
    float6_e3m2fn,
    float8_e4m3fn,
    float8_e5m2,
    int2,
    int4,
    uint2,
    uint4,
)
from onnx import helper, numpy_helper, parser

from tests.onnx_refusals import message_of, refusal

RANDOM = np.random.default_rng(17)


def _real(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype("float32")


def _scale(*shape: int) -> np.ndarray:
    return RANDOM.uniform(0.01, 0.1, shape).astype("float32")


def _integer(*shape: int, dtype: Any = "uint8") -> np.ndarray:
    least, most = {int4: (-8, 7), uint4: (0, 15), "uint8": (0, 255), "int8": (-128, 127)}[dtype]
    return RANDOM.integers(least, most, shape, endpoint=True).astype(dtype)


def _case(nodes: str, x: np.ndarray, /, to: str = "float32", **constants: np.ndarray) -> dict[str, Any]:
    opset = 23 if "output_dtype" in nodes else 21
    return {
        "nodes": nodes,
        "inputs": {"x": x},
        "constants": constants,
        "outputs": {"y": to},
        "opset": opset,
    }


_HALF = np.array(0.03, "float16")
_CONV = "y = Conv <pads=[1, 1, 1, 1]> (x, w)"
_IMAGE = _real(2, 3, 7, 5)

_NUMBERS = np.concatenate(
    [
        _real(30, 8) * np.exp2(RANDOM.integers(-18, 18, (30, 8))).astype("float32"),
        np.array([[0, 448, 464, 500, -61440, 2.0**-10, 3 * 2.0**-10, np.inf]], "float32"),
    ]
)
"""Of all sizes, and halfway between narrow floats."""

_WIDE = _real(9, 8)
_STEPS = np.array(0.03, bfloat16)


def _of_bfloat16(numbers: np.ndarray, scale: np.ndarray, point: int) -> np.ndarray:
    """What bytes make of numbers, rounded to bfloat16 before and after; ONNX Runtime has no such kernel."""
    steps = np.round(numbers.astype(bfloat16).astype("float32") / scale.astype("float32"))
    kept = np.clip(steps + point, 0, 255) - point
    return (kept * scale.astype("float32")).astype(bfloat16).astype("float32")


CASES: dict[str, dict[str, Any]] = {
    "blocks": {
        "nodes": "y = DequantizeLinear <axis=1, block_size=4> (x, s, z)",
        "inputs": {"x": _integer(3, 8, 5), "s": _scale(3, 2, 5), "z": _integer(3, 2, 5)},
        "opset": 21,
    },
    "last_block_is_short": _case(
        "y = DequantizeLinear <axis=-1, block_size=4> (x, s)",
        _integer(2, 3, 10, dtype="int8"),
        s=_scale(2, 3, 3),
    ),
    "weight_of_4_bits_in_blocks": _case(
        "w = DequantizeLinear <axis=0, block_size=4> (q, s, z)  y = MatMul(x, w)",
        _real(3, 8),
        q=_integer(8, 5, dtype=int4),
        s=_scale(2, 5),
        z=_integer(2, 5, dtype=int4),
    ),
    "weight_of_4_bits_by_channels": _case(
        f"w = DequantizeLinear <axis=0> (q, s, z)  {_CONV}",
        _IMAGE,
        q=_integer(4, 3, 3, 3, dtype=uint4),
        s=_scale(4),
        z=_integer(4, dtype=uint4),
    ),
    "weight_of_narrow_floats": _case(
        f"w = DequantizeLinear <axis=1> (q, s)  {_CONV}",
        _IMAGE,
        q=_real(4, 3, 3, 3).astype(float8_e4m3fn),
        s=_scale(3),
    ),
    "narrow_floats": _case(
        f"q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)  {_CONV.replace('x', 'd', 1)}",
        _IMAGE,
        s=np.array(0.01, "float32"),
        z=np.zeros((), float8_e4m3fn),
        w=_real(4, 3, 3, 3),
    ),
    "narrow_floats_by_channels": _case(
        "q = QuantizeLinear <axis=1, output_dtype=19> (x, s)  y = DequantizeLinear <axis=1> (q, s)",
        _real(5, 6) * 100,
        s=_scale(6),
    )
    | {"opset": 23},
    "cast_to_narrow_floats": _case("q = Cast <to=17> (x)  y = Cast <to=1> (q)", _NUMBERS),
    "cast_to_narrow_floats_like": _case(
        "q = CastLike (x, z)  y = Cast <to=1> (q)", _NUMBERS, z=np.zeros((), float8_e5m2)
    ),
    "to_half": _case("y = DequantizeLinear(x, s)", _integer(3, 8), "float16", s=_HALF),
    "to_half_by_attribute": _case(
        "y = DequantizeLinear <output_dtype=10> (x, s)", _integer(3, 8), "float16", s=_scale()
    ),
    "quantized_bfloat16": _case(
        "b = Cast <to=16> (x)  q = QuantizeLinear(b, s, z)  d = DequantizeLinear(q, s, z)"
        "  y = Cast <to=1> (d)",
        _WIDE,
        s=_STEPS,
        z=np.array(7, "uint8"),
    )
    | {"expected": [_of_bfloat16(_WIDE, _STEPS, 7)]},
    "quantized_blocks": _case(
        "y = QuantizeLinear <axis=-1, block_size=4> (x, s, z)",
        _real(2, 3, 10),
        "int8",
        s=_scale(2, 3, 3),
        z=_integer(2, 3, 3, dtype="int8"),
    ),
    "quantized_half": _case("y = QuantizeLinear(x, s)", _real(9, 8).astype("float16"), "uint8", s=_HALF),
    "quantized_to_attribute": _case(
        "y = QuantizeLinear <output_dtype=4> (x, s)", _real(9, 8), "uint16", s=np.array(1e-4, "float32")
    ),
}
for _dtype, _least, _most in ((int4, -8, 7), (uint4, 0, 15), (int2, -2, 1), (uint2, 0, 3)):
    _steps, _point = np.linspace(0.1, 0.5, 8, dtype="float32"), np.ones(8, _dtype)
    _kept = np.clip(np.round(_WIDE / _steps) + 1, _least, _most) - 1
    CASES[f"quantized_to_{_dtype.__name__}"] = _case(
        "q = QuantizeLinear (x, s, z)  y = DequantizeLinear(q, s, z)", _WIDE, s=_steps, z=_point
    ) | {"expected": [(_kept * _steps).astype("float32")], "opset": 25}
CASES["blocks_quantized_to_int4"] = _case(
    "q = QuantizeLinear <axis=-1, block_size=4, output_dtype=22> (x, s)"
    "  y = DequantizeLinear <axis=-1, block_size=4> (q, s)",
    _real(2, 3, 10),
    s=_scale(2, 3, 3),
)
CASES["convolution_of_4_bits"] = _case(
    f"q = QuantizeLinear (x, s, z)  d = DequantizeLinear(q, s, z)  w = DequantizeLinear(k, t)"
    f"  {_CONV.replace('(x, w)', '(d, w)')}",
    _IMAGE,
    s=np.array(0.3, "float32"),
    z=np.array(2, uint4),
    k=_integer(4, 3, 3, 3, dtype=int4),
    t=np.array(0.1, "float32"),
)
for _code, _dtype, _bits in ((22, int4, 4), (21, uint4, 4), (26, int2, 2), (25, uint2, 2)):
    _whole = np.arange(-20, 20, dtype="float32").reshape(5, 8)
    _last = _whole.astype("int32") & (2**_bits - 1)
    _signed = _last - (_last >> (_bits - 1) << _bits)
    CASES[f"cast_to_{_dtype.__name__}"] = _case(f"q = Cast <to={_code}> (x)  y = Cast <to=1> (q)", _whole) | {
        "expected": [(_last if _dtype in (uint4, uint2) else _signed).astype("float32")],
        "opset": 25,
    }
_EIGHT = np.clip(_NUMBERS, -448, 448).astype(float8_e4m3fn).astype("float32")
CASES["cast_like_what_was_cast"] = _case(
    "n = Cast <to=17> (x)  t = Transpose (n)  q = CastLike (x, t)  y = Cast <to=1> (q)", _NUMBERS
) | {"expected": [_EIGHT]}
_NO_NUMBER = np.where(_NUMBERS == 500, np.nan, _NUMBERS).astype("float32")
for _code, _dtype, _most in ((23, float4_e2m1fn, 6), (27, float6_e2m3fn, 7.5), (28, float6_e3m2fn, 28)):
    _kept = np.clip(np.nan_to_num(_NO_NUMBER), -_most, _most).astype(_dtype).astype("float32")
    CASES[f"cast_to_{_dtype.__name__}"] = _case(
        f"q = Cast <to={_code}> (x)  y = Cast <to=1> (q)", _NO_NUMBER
    ) | {"expected": [_kept], "opset": 28}
_QUARTERS = _real(3, 8)
CASES["quantized_to_four_bits"] = _case(
    "q = QuantizeLinear <axis=-1, block_size=4, output_dtype=23> (x, s)"
    "  y = DequantizeLinear <axis=-1, block_size=4> (q, s)",
    _QUARTERS,
    s=np.full((3, 2), 0.25, "float32"),
) | {"expected": [(_QUARTERS * 4).astype(float4_e2m1fn).astype("float32") / 4], "symbolic": False}
CASES["zero_point_that_was_cast"] = _case(
    "m = ReduceMax <keepdims=0> (x)  n = Sub (m, m)  p = Cast <to=22> (n)"
    "  q = QuantizeLinear (x, s, p)  y = DequantizeLinear(q, s, p)",
    _WIDE,
    s=np.array(0.1, "float32"),
) | {"expected": [np.clip(np.round(_WIDE / np.float32(0.1)), -8, 7) * np.float32(0.1)]}
CASES["scale_that_was_computed"] = _case(
    "m = ReduceMax (x)  r = Reshape (m, one)  q = Cast <to=17> (x)  y = DequantizeLinear(q, r)",
    _WIDE,
    one=np.array([1]),
) | {"expected": [_WIDE.astype(float8_e4m3fn).astype("float32") * _WIDE.max()]}
for _fixed in ("last_block_is_short", "quantized_blocks", "blocks_quantized_to_int4"):
    CASES[_fixed]["symbolic"] = False


def test_agrees_with_onnx_runtime(case_name: str, agree: Callable[[str], None]) -> None:
    agree(case_name)


def _model(node: str, scale: tuple[int, ...]) -> Any:
    model = parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 21]> case (float[2,N,10] x) => (float[a,b,c] y) {{ {node} }}'
    )
    model.graph.initializer.append(numpy_helper.from_array(np.ones(scale, "float32"), "s"))
    model.graph.initializer.append(helper.make_tensor("z", 22, [], [0]))
    return model


@pytest.mark.parametrize(
    ("node", "scale", "message"),
    [
        (
            "y = QuantizeLinear <axis=2, block_size=4> (x, s)",
            (3, 3, 3),
            "has scales of shape [3,3,3] where [2,N,3] is due for [2,N,10]",
        ),
        (
            "y = QuantizeLinear <axis=1, block_size=4> (x, s)",
            (2, 3, 10),
            "has blocks along the symbolic extent 'N': give the model's inputs fixed shapes (--input-shape)",
        ),
        (
            "y = QuantizeLinear <output_dtype=6> (x, s)",
            (),
            "quantizes to int32, which is not supported; "
            "int8, uint8, int16, uint16, int2, int4, uint2, uint4 are",
        ),
    ],
)
def test_what_is_refused(node: str, scale: tuple[int, ...], message: str) -> None:
    assert message_of(_model(node, scale)) == f"ONNX model 'case': node 'y' (QuantizeLinear) {message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "(float8e4m3fn[3] x) => (float[3] y) { y = Cast <to=1> (x) }",
            "input 'x' is float8e4m3fn, which is not supported: convert it within the model",
        ),
        (
            "(float[3] x) => (float8e5m2[3] y) { y = Cast <to=19> (x) }",
            "output 'y' is float8e5m2, which is not supported: convert it within the model",
        ),
        (
            "(float[3] x, float s) => (int4[3] y) { y = QuantizeLinear <output_dtype=22> (x, s) }",
            "output 'y' is int4, which is not supported: convert it within the model",
        ),
        (
            "(float[3] x) => (float6e2m3[3] y) { y = Cast <to=27> (x) }",
            "output 'y' is float6e2m3, which is not supported: convert it within the model",
        ),
    ],
)
def test_less_than_bytes_stays_inside(text: str, message: str) -> None:
    assert refusal(text, 21) == message


def test_floats_without_a_sign_are_not_computed() -> None:
    found = refusal("(float[3] x) => (float[3] y) { q = Cast <to=24> (x)  y = Cast <to=1> (q) }", 24)
    assert found == (
        "node 'q' (Cast) casts to float8_e8m0fnu, which is not supported; "
        "float4_e2m1fn, float6_e2m3fn, float6_e3m2fn, "
        "float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz are"
    )
