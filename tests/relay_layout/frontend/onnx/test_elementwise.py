"""Element-wise ONNX operators compute what ONNX Runtime computes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16
from onnx import TensorProto, helper

import relay_layout
from tests.onnx_refusals import refusal

RANDOM = np.random.default_rng(2)
X = RANDOM.standard_normal((2, 3, 7, 5)).astype("float32")
WIDE = (40 * RANDOM.standard_normal((2, 3, 5))).astype("float32")
UNIT = RANDOM.uniform(-0.99, 0.99, (2, 3, 5)).astype("float32")
POSITIVE = RANDOM.uniform(0.1, 9, (2, 3, 5)).astype("float32")
INTEGERS = RANDOM.integers(-9, 10, (2, 3, 5)).astype("int64")
DIVISORS = np.where(INTEGERS[::-1] == 0, 3, INTEGERS[::-1])
HALVES = np.array([[-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5, 0.49999997, -0.2, 7.0]], "float32")
SPECIAL = np.array([[np.nan, np.inf, -np.inf, 0.0, -1.5]], "float32")
BOOLEANS = np.array([[True, False, True, False]])
OTHERS = np.array([[True, True, False, False]])


def _nodes(nodes: str, x: np.ndarray = X, /, **options: Any) -> dict[str, Any]:
    return {"nodes": nodes, "inputs": {"x": x}, **options}


def _pair(nodes: str, x: np.ndarray, z: np.ndarray, /, **options: Any) -> dict[str, Any]:
    return {"nodes": nodes, "inputs": {"x": x, "z": z}, **options}


def _scalar(number: float, dtype: str = "float32") -> np.ndarray:
    return np.array(number, dtype)


def _prelu_of_bfloat16(numbers: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    rounded = numbers.astype(bfloat16).astype("float32")
    return np.where(rounded < 0, rounded * slopes.reshape(-1, 1, 1), rounded)


CASES: dict[str, dict[str, Any]] = {
    **{
        kind.lower(): _nodes(f"y = {kind}(x)", data, symbolic=kind in ("Relu", "HardSwish"))
        for kinds, data in {
            "Abs Ceil Cos Erf Floor Neg Relu Sigmoid Sign Sin Softplus Softsign Tan Tanh HardSwish": WIDE,
            "Cosh Exp Sinh Elu Selu Celu LeakyRelu HardSigmoid ThresholdedRelu Shrink": X,
            "Acos Asin Atanh": UNIT,
            "Asinh Atan Identity": WIDE,
            "Log Sqrt Reciprocal": POSITIVE,
            "Round": HALVES,
        }.items()
        for kind in kinds.split()
    },
    "acosh": _nodes("y = Acosh(x)", POSITIVE + 1),
    "mish": _nodes("y = Mish(x)", WIDE, opset=18),
    "gelu": _nodes("y = Gelu(x)", X, opset=20, ours=["nn.gelu"]),
    "gelu_tanh": _nodes('y = Gelu <approximate="tanh">(x)', X, opset=20, ours=["nn.gelu_tanh"]),
    "swish": _nodes("y = Swish <alpha=0.7>(x)", X, opset=24),
    "silu": _nodes("y = Swish(x)", X, opset=24, ours=["nn.silu"]),
    "relu_integers": _nodes("y = Relu(x)", INTEGERS.astype("int32"), outputs={"y": "int32"}),
    "abs_integers": _nodes("y = Abs(x)", INTEGERS, outputs={"y": "int64"}),
    "elu_alpha": _nodes("y = Elu <alpha=0.3>(x)", WIDE),
    "celu_alpha": _nodes("y = Celu <alpha=2.5>(x)", WIDE),
    "selu_given": _nodes("y = Selu <alpha=1.1, gamma=0.9>(x)", WIDE),
    "leaky_relu_alpha": _nodes("y = LeakyRelu <alpha=0.3>(x)", X, ours=["nn.leakyrelu"]),
    "leaky_relu_negative_alpha": _nodes("y = LeakyRelu <alpha=-0.3>(x)", X),
    "thresholded_relu_alpha": _nodes("y = ThresholdedRelu <alpha=0.4>(x)"),
    "thresholded_relu_double": _nodes(
        "y = ThresholdedRelu(x)",
        X.astype("float64"),
        outputs={"y": "float64"},
        expected=[np.where(X > 1, X, 0).astype("float64")],
    ),
    "elu_double": _nodes(
        "y = Elu(x)",
        X.astype("float64"),
        outputs={"y": "float64"},
        expected=[np.where(X > 0, X, np.expm1(X.astype("float64")))],
    ),
    "hard_sigmoid_given": _nodes("y = HardSigmoid <alpha=0.4, beta=0.2>(x)"),
    "shrink_given": _nodes("y = Shrink <lambd=0.4, bias=0.3>(x)"),
    "is_infinite": _nodes("y = IsInf(x)", SPECIAL, outputs={"y": "bool"}),
    "is_infinite_negative": _nodes("y = IsInf <detect_positive=0>(x)", SPECIAL, outputs={"y": "bool"}),
    "is_infinite_positive": _nodes("y = IsInf <detect_negative=0>(x)", SPECIAL, outputs={"y": "bool"}),
    "is_nan": _nodes("y = IsNaN(x)", SPECIAL, outputs={"y": "bool"}),
    "not": _nodes("y = Not(x)", BOOLEANS, outputs={"y": "bool"}),
    # Clip
    "clip_relu6": _nodes(
        "y = Clip(x, lo, hi)", WIDE, constants={"lo": _scalar(0), "hi": _scalar(6)}, ours=["clip"]
    ),
    "clip_one_element": _nodes(
        "y = Clip(x, lo, hi)", constants={"lo": np.array([-0.5], "float32"), "hi": _scalar(0.5)}
    ),
    "clip_crossed": _nodes("y = Clip(x, lo, hi)", constants={"lo": _scalar(1), "hi": _scalar(-1)}),
    "clip_low": _nodes("y = Clip(x, lo)", constants={"lo": _scalar(-0.2)}, ours=["maximum"]),
    "clip_zero": _nodes("y = Clip(x, lo)", constants={"lo": _scalar(0)}, ours=["nn.relu"]),
    "clip_high": _nodes("y = Clip(x, , hi)", constants={"hi": _scalar(0.2)}, ours=["minimum"]),
    "clip_open": _nodes("y = Clip(x)", ours=[]),
    "clip_infinite": _nodes(
        "y = Clip(x, lo, hi)", constants={"lo": _scalar(-np.inf), "hi": _scalar(0.1)}, ours=["minimum"]
    ),
    "clip_attributes": _nodes("y = Clip <min=-0.5, max=0.25>(x)", opset=6, ours=["clip"]),
    "clip_attribute": _nodes("y = Clip <max=0.25>(x)", opset=10, ours=["minimum"]),
    "clip_run_time_bounds": {
        "nodes": "y = Clip(x, lo, hi)",
        "inputs": {"x": X, "lo": _scalar(-0.1), "hi": _scalar(0.7)},
        "ours": ["maximum", "minimum"],
    },
    "clip_integers": _nodes(
        "y = Clip(x, lo, hi)",
        INTEGERS.astype("int32"),
        constants={"lo": _scalar(-3, "int32"), "hi": _scalar(4, "int32")},
        outputs={"y": "int32"},
    ),
    "clip_bound_from_constants": _nodes(
        "hi = Add(a, b)  y = Clip(x, lo, hi)",
        constants={"lo": _scalar(0), "a": _scalar(2), "b": _scalar(4)},
        ours=["clip"],
    ),
    # PRelu
    "prelu_scalar": _nodes("y = PRelu(x, s)", constants={"s": _scalar(0.2)}, ours=["nn.leakyrelu"]),
    "prelu_channels": _nodes(
        "y = PRelu(x, s)",
        constants={"s": np.array([0.1, 0.2, -0.3], "float32").reshape(3, 1, 1)},
        ours=["nn.prelu"],
    ),
    "prelu_last_axis": _nodes("y = PRelu(x, s)", constants={"s": UNIT[0, 0]}, ours=["nn.prelu"]),
    "prelu_two_axes": _nodes("y = PRelu(x, s)", constants={"s": X[0, :, :1]}),
    "prelu_run_time": _pair("y = PRelu(x, z)", X, X[0, :, :1, :1]),
    "prelu_opset_6": _nodes(
        "y = PRelu(x, s)",
        constants={"s": UNIT[0, :, 0]},
        opset=6,
        ours=["nn.prelu"],
        expected=[np.where(X < 0, X * UNIT[0, :, 0].reshape(3, 1, 1), X)],
    ),
    "prelu_bfloat16": _nodes(
        "h = Cast <to=16> (x)  p = PRelu(h, s)  y = Cast <to=1> (p)",
        constants={"s": np.array([0.5, 0.25, 2.0], bfloat16).reshape(3, 1, 1)},
        expected=[_prelu_of_bfloat16(X, np.array([0.5, 0.25, 2.0], "float32"))],
    ),
    # Two operands
    **{
        f"{kind.lower()}_{shape}": _pair(f"y = {kind}(x, z)", X, other)
        for kind in ("Add", "Sub", "Mul", "Div")
        for shape, other in {
            "same": X[::-1].copy(),
            "channel": X[:1, :, :1, :1].copy(),
            "row": X[0, 0, 0],
        }.items()
    },
    "add_constant": _nodes("y = Add(c, x)", constants={"c": X[0, :, :1, :1]}, ours=["add"]),
    "add_higher_rank": _pair("y = Add(x, z)", X[:1, 0], X, symbolic=False),
    "add_opset_6_axis": _nodes(
        "y = Add <broadcast=1, axis=1>(x, c)",
        constants={"c": UNIT[0, :, 0]},
        opset=6,
        ours=["add"],
        expected=[X + UNIT[0, :, 0].reshape(3, 1, 1)],
    ),
    "mul_opset_6_trailing": _nodes(
        "y = Mul <broadcast=1>(x, c)", constants={"c": UNIT[0, 0]}, opset=6, expected=[X * UNIT[0, 0]]
    ),
    "div_integers": _pair("y = Div(x, z)", INTEGERS, DIVISORS, outputs={"y": "int64"}),
    "div_integers_constant": _nodes(
        "y = Div(x, c)", INTEGERS, constants={"c": _scalar(2, "int64")}, outputs={"y": "int64"}
    ),
    "mod_integers": _pair("y = Mod(x, z)", INTEGERS, DIVISORS, outputs={"y": "int64"}),
    "mod_c": _pair("y = Mod <fmod=1>(x, z)", WIDE, POSITIVE, atol=1e-4),
    "mod_c_integers": _pair("y = Mod <fmod=1>(x, z)", INTEGERS, DIVISORS, outputs={"y": "int64"}),
    "pow_square": _nodes("y = Pow(x, c)", constants={"c": _scalar(2)}, ours=["multiply"]),
    "pow_broadcast": _nodes("y = Pow(x, c)", POSITIVE, constants={"c": np.float32([[[[1.5]]], [[[2]]]])}),
    "pow_integer_exponent": _nodes("y = Pow(x, c)", constants={"c": _scalar(3, "int64")}),
    "pow_root": _nodes("y = Pow(x, c)", POSITIVE, constants={"c": _scalar(0.5)}),
    "pow_integers": _nodes(
        "y = Pow(x, c)", INTEGERS, constants={"c": _scalar(3, "int64")}, outputs={"y": "int64"}
    ),
    **{
        kind.lower(): _pair(f"y = {kind}(x, z)", BOOLEANS, OTHERS, outputs={"y": "bool"})
        for kind in ("And", "Or", "Xor")
    },
    **{
        kind.lower(): _pair(f"y = {kind}(x, z)", INTEGERS, DIVISORS, outputs={"y": "bool"})
        for kind in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
    },
    "greater_float": _nodes("y = Greater(x, c)", constants={"c": _scalar(0.1)}, outputs={"y": "bool"}),
    "where": {
        "nodes": "y = Where(x, a, b)",
        "inputs": {"x": BOOLEANS, "a": WIDE[:1, 0, :4].copy(), "b": _scalar(2)},
        "symbolic": False,
    },
    # Any number of operands
    **{
        f"{kind.lower()}_of_three": {
            "nodes": f"y = {kind}(x, a, c)",
            "inputs": {"x": X, "a": X[::-1].copy()},
            "constants": {"c": UNIT[0, 0]},
        }
        for kind in ("Max", "Mean", "Min", "Sum")
    },
    "sum_of_two": _pair("y = Sum(x, z)", X, X[::-1].copy(), ours=["add"]),
    "sum_of_one": _nodes("y = Sum(x)", ours=[]),
    "max_integers": _pair("y = Max(x, z)", INTEGERS, DIVISORS, outputs={"y": "int64"}),
    # Casts
    "cast_truncates": _nodes("y = Cast <to=7>(x)", WIDE, outputs={"y": "int64"}),
    "cast_to_int32": _nodes("y = Cast <to=6>(x)", WIDE, outputs={"y": "int32"}),
    "cast_to_int8": _nodes("y = Cast <to=3>(x)", WIDE / 2, outputs={"y": "int8"}),
    "cast_to_bool": _nodes("y = Cast <to=9>(x)", HALVES * (np.abs(HALVES) > 1), outputs={"y": "bool"}),
    "cast_from_bool": _nodes("y = Cast <to=1>(x)", BOOLEANS),
    "cast_to_double": _nodes("y = Cast <to=11>(x)", WIDE, outputs={"y": "float64"}),
    "cast_to_half_and_back": _nodes("h = Cast <to=10>(x)  y = Cast <to=1>(h)", X),
    "cast_like": _pair("y = CastLike(x, z)", WIDE, INTEGERS, outputs={"y": "int64"}),
    # What is computed from constants alone is a constant
    "folded": _nodes(
        "a = Mul(c, c)  b = Div(a, d)  t = Transpose <perm=[1,0]>(b)  s = Sqrt(t)  y = Add(x, s)",
        WIDE[0],
        constants={"c": UNIT[0].T.copy(), "d": POSITIVE[0].T.copy()},
        ours=["add"],
        symbolic=False,
    ),
    "folded_integer_division": _nodes(
        "q = Div(c, d)  f = Cast <to=1>(q)  y = Add(x, f)",
        WIDE,
        constants={"c": INTEGERS, "d": DIVISORS},
        ours=["add"],
        symbolic=False,
    ),
    "folded_conv": _nodes(
        "k = Conv <pads=[1,1,1,1]>(c, w)  y = Add(x, k)",
        X[:, :2].copy(),
        constants={"c": X, "w": RANDOM.standard_normal((2, 3, 3, 3)).astype("float32")},
        ours=["add"],
        symbolic=False,
    ),
    # Constants of which onnx's own implementation computes something else
    **{
        f"folded_{operator.split()[0].lower()}": _nodes(
            f"k = {operator} (c)  y = Add(x, k)",
            X[:1, :1, :1, :1].copy(),
            constants={"c": constant},
            symbolic=False,
        )
        for operator, constant in {
            "GlobalMaxPool": WIDE,
            "LRN <alpha=0.5, size=3>": X,
            "LogSoftmax <axis=1>": 99 * WIDE,
            "LpNormalization <p=1>": WIDE,
        }.items()
    },
    "folded_slice": _nodes(
        "k = Slice(c, b, e, a, b)  y = Add(x, k)",
        X,
        constants={"c": X, "a": np.array([2]), "b": np.array([-8]), "e": np.array([-99])},
        symbolic=False,
    ),
    "only_constants": {
        "nodes": "y = Add(a, b)",
        "inputs": {},
        "constants": {"a": UNIT, "b": POSITIVE},
        "ours": [],
    },
    "constant_attributes": _nodes(
        "a = Constant <value_float=1.5>()  b = Constant <value_floats=[1.0, 2.0, 3.0, 4.0, 5.0]>()"
        "  s = Mul(a, b)  y = Add(x, s)",
        ours=["add"],
    ),
}
_BITS = np.array([[1, 7, 200, 255, 96]])
_AMOUNTS = np.array([[0, 3, 7, 8, 250]])
_BELOW, _FAR = np.array([[-5, 5, -5, -1, 9]], "int32"), np.array([[1, 1, 40, -2, -2]], "int32")
CASES |= {
    "bits_to_the_left": _pair(
        'y = BitShift <direction="LEFT"> (x, z)',
        _BITS.astype("uint8"),
        _AMOUNTS.astype("uint8"),
        expected=[np.where(_AMOUNTS < 8, _BITS << np.minimum(_AMOUNTS, 7), 0).astype("uint8")],
    ),
    "bits_to_the_right": _pair(
        'y = BitShift <direction="RIGHT"> (x, z)',
        _BITS.astype("uint8"),
        _AMOUNTS.astype("uint8"),
        expected=[np.where(_AMOUNTS < 8, _BITS >> np.minimum(_AMOUNTS, 7), 0).astype("uint8")],
    ),
    "bits_with_a_sign": _pair(
        'y = BitShift <direction="RIGHT"> (x, z)',
        _BELOW,
        _FAR,
        expected=[np.array([[-3, 2, -1, -1, 0]], "int32")],
        opset=28,
    ),
    "bits_by_a_constant": _nodes(
        'y = BitShift <direction="LEFT"> (x, c)',
        _BITS.astype("uint32"),
        constants={"c": np.array(3, "uint32")},
        outputs={"y": "uint32"},
    ),
}


def test_agrees_with_onnx_runtime(case_name: str, agree: Callable[[str], None]) -> None:
    agree(case_name)


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (SPECIAL, "int32"),
        (X.astype("float64").view("int64"), "float64"),
        (POSITIVE.astype("float16"), "uint16"),
        (BOOLEANS, "uint8"),
        (BOOLEANS.view("uint8"), "bool"),
    ],
    ids=["integers", "doubles", "halves", "byte", "truth"],
)
def test_bits_read_otherwise(data: np.ndarray, dtype: str) -> None:
    codes = [helper.np_dtype_to_tensor_dtype(np.dtype(each)) for each in (data.dtype, dtype)]
    given = helper.make_tensor_value_info("x", codes[0], ["N", *data.shape[1:]])
    result = helper.make_tensor_value_info("y", codes[1], None)
    node = helper.make_node("BitCast", ["x"], ["y"], to=codes[1])
    model = helper.make_model(
        helper.make_graph([node], "case", [given], [result]),
        opset_imports=[helper.make_opsetid("", 26)],
        ir_version=10,
    )
    (found,) = relay_layout.compile(model).session().run({"x": data}).values()
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, data.view(dtype))


def test_bits_of_another_number() -> None:
    node = f"y = BitCast <to={TensorProto.INT16}> (x)"
    assert refusal(f"(float[3] x) => (int16[3] y) {{ {node} }}", opset=26) == (
        "node 'y' (BitCast) reads the bits of float32 as int16, which is not supported: "
        "types of as many whole bytes are"
    )
