"""Operators left to TVM's own converters compute what ONNX Runtime computes, quantized ones among them."""

from collections.abc import Callable
from typing import Any

import numpy as np

RANDOM = np.random.default_rng(7)


def _random(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype("float32")


def _bytes(*shape: int, dtype: str = "int8") -> np.ndarray:
    limits = np.iinfo(dtype)
    return RANDOM.integers(limits.min, limits.max, shape).astype(dtype)


def _nodes(nodes: str, x: np.ndarray, /, **options: Any) -> dict[str, Any]:
    return {"nodes": nodes, "inputs": {"x": x}, **options}


def _scalar(number: float, dtype: str = "float32") -> np.ndarray:
    return np.array(number, dtype)


X = _random(2, 3, 5, 4)
HALVES = np.array([[-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 300, -300]], "float32")
_QUANTIZED_CONV = (
    "a = QuantizeLinear(x, sx, zx)  b = DequantizeLinear(a, sx, zx)"
    "  v = DequantizeLinear <axis=0> (w, sw, zw)  d = Conv <pads=[1, 1, 1, 1]> (b, v)  r = Relu(d)"
    "  q = QuantizeLinear(r, sy, zy)  y = DequantizeLinear(q, sy, zy)"
)

CASES: dict[str, dict[str, Any]] = {
    "quantize": _nodes(
        "y = QuantizeLinear(x, s, z)",
        X,
        constants={"s": _scalar(0.1), "z": _scalar(3, "int8")},
        outputs={"y": "int8"},
    ),
    "quantize_rounds_to_even": _nodes(
        "y = QuantizeLinear(x, s)", HALVES, constants={"s": _scalar(1)}, outputs={"y": "uint8"}
    ),
    "quantize_axis": _nodes(
        "y = QuantizeLinear <axis=1> (x, s, z)",
        X,
        constants={"s": np.array([0.1, 0.2, 0.05], "float32"), "z": np.array([100, 128, 150], "uint8")},
        outputs={"y": "uint8"},
    ),
    "dequantize": _nodes(
        "y = DequantizeLinear(x, s, z)",
        _bytes(2, 3, 4),
        constants={"s": _scalar(0.1), "z": _scalar(-3, "int8")},
    ),
    "dequantize_axis": _nodes(
        "y = DequantizeLinear <axis=-1> (x, s, z)",
        _bytes(2, 3, dtype="uint8"),
        constants={"s": np.array([0.1, 0.2, 0.05], "float32"), "z": np.array([100, 128, 150], "uint8")},
    ),
    "dequantize_int32": _nodes(
        "y = DequantizeLinear(x, s)", _bytes(2, 3, dtype="int32"), constants={"s": _scalar(0.1)}
    ),
    "quantized_conv": _nodes(
        _QUANTIZED_CONV,
        X,
        constants={
            "sx": _scalar(0.03),
            "zx": _scalar(5, "int8"),
            "w": _bytes(4, 3, 3, 3),
            "sw": np.array([0.01, 0.02, 0.03, 0.015], "float32"),
            "zw": np.zeros(4, "int8"),
            "sy": _scalar(0.08),
            "zy": _scalar(-128, "int8"),
        },
        atol=0.081,
    ),
    "matmul_integer": _nodes(
        "y = MatMulInteger(x, w, zx, zw)",
        _bytes(3, 4, dtype="uint8"),
        constants={"w": _bytes(4, 5), "zx": _scalar(7, "uint8"), "zw": _scalar(-2, "int8")},
        outputs={"y": "int32"},
    ),
    "scatter_elements": _nodes(
        "y = ScatterElements <axis=1> (x, i, u)",
        _random(2, 4),
        constants={"i": np.array([[0, 3], [1, 2]], "int64"), "u": _random(2, 2)},
        symbolic=False,
    ),
    "rms_norm": _nodes("y = RMSNormalization(x, s)", X, opset=23, constants={"s": _random(4)}),
    "fast_gelu": _nodes(
        "y = com.microsoft.FastGelu(x, b)", X, domains={"com.microsoft": 1}, constants={"b": _random(4)}
    ),
    "bias_gelu": _nodes(
        "y = com.microsoft.BiasGelu(x, b)", X, domains={"com.microsoft": 1}, constants={"b": _random(4)}
    ),
    "contributed_gelu": _nodes("y = com.microsoft.Gelu(x)", X, domains={"com.microsoft": 1}, opset=20),
    # Operators that ONNX defines by others
    "attention": {
        "nodes": "y = Attention(x, k, v)",
        "inputs": {"x": _random(2, 3, 4, 8), "k": _random(2, 3, 4, 8), "v": _random(2, 3, 4, 8)},
        "opset": 23,
        "atol": 1e-5,
    },
    **{
        f"attention_after_earlier_keys_{opset}": {
            "nodes": "y, p, q = Attention <is_causal=1> (x, k, v, , e, f)",
            "inputs": {name: _random(2, 3, 5 if name in "ef" else 4, 8) for name in "xkvef"},
            "outputs": dict.fromkeys(("y", "p", "q"), "float32"),
            "opset": opset,
            "atol": 1e-5,
        }
        for opset in (23, 24)
    },
    "rotary_embedding": {
        "nodes": "y = RotaryEmbedding <interleaved=1> (x, c, s, p)",
        "inputs": {"x": _random(2, 3, 4, 8), "p": np.array([[0, 1, 2, 3], [5, 2, 0, 1]], "int64")},
        "constants": {"c": _random(6, 4), "s": _random(6, 4)},
        "opset": 23,
        "atol": 1e-5,
    },
    "center_crop_pad": _nodes(
        "y = CenterCropPad <axes=[2, 3]> (x, s)", X, constants={"s": np.array([3, 7], "int64")}, opset=18
    ),
}


def test_agrees_with_onnx_runtime(case_name: str, agree: Callable[[str], None]) -> None:
    agree(case_name)
