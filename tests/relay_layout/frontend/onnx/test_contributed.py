"""Operators of ONNX Runtime's own domain compute what it computes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper, parser

import relay_layout
from relay_layout.frontend import from_onnx
from relay_layout.graph.border import CONDITIONS
from tests.onnx_reference import reference_session
from tests.onnx_refusals import refusal

RANDOM = np.random.default_rng(13)
DOMAINS = {"com.microsoft": 1}
STEP = 0.05
_REAL = "y = DequantizeLinear(i, so, zo)"


def _random(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype("float32")


def _bytes(*shape: int, dtype: str = "uint8") -> np.ndarray:
    limits = np.iinfo(dtype)
    return RANDOM.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)


def _number(number: float) -> np.ndarray:
    return np.array(number, "float32")


def _case(nodes: str, inputs: dict[str, np.ndarray], /, **constants: np.ndarray) -> dict[str, Any]:
    return {"nodes": nodes, "inputs": inputs, "constants": constants, "domains": DOMAINS}


def _embedding(first: str, last: str, outputs: str = "y, n") -> dict[str, Any]:
    """The embedding of six words of two sentences, by the names of its inputs around the tables."""
    integers = {"i": RANDOM.integers(0, 9, (2, 3)), "s": np.array([[0, 1, 1], [0, 0, 1]])}
    integers |= {"m": np.array([[1, 1, 0], [1, 1, 1]]), "p": np.array([[2, 1, 0], [0, 1, 3]])}
    segments = "t" if "s" in first else '""'
    given = f"{first}, w, q, {segments}, g, b{last}"
    return _case(
        f"{outputs} = com.microsoft.EmbedLayerNormalization <epsilon=0.001> ({given})",
        {name: integers[name].astype("int32") for name in integers if name in first + last},
        w=_random(9, 8),
        q=_random(4, 8),
        t=_random(2, 8),
        g=_random(8),
        b=_random(8),
    )


def _quantized_embedding() -> dict[str, Any]:
    real = _embedding("i, s", ", m")
    tables = {name: _bytes(*array.shape) for name, array in real["constants"].items()}
    names = ["w", "q", "t", "g", "b"]
    scales = {f"s{name}": _number(0.01 + 0.01 * place) for place, name in enumerate(names)}
    points = {f"z{name}": np.array(110 + place, "uint8") for place, name in enumerate(names)}
    return real | {
        "nodes": "y, n = com.microsoft.QEmbedLayerNormalization <epsilon=0.001> (i, s, "
        f"{', '.join(names)}, m, {', '.join(scales)}, {', '.join(points)})",
        "constants": tables | scales | points,
        "outputs": {"y": "float32", "n": "int32"},
    }


def _quantized(
    operator: str, *shapes: tuple[int, ...], dtype: str = "uint8", attributes: str = "", step: float = STEP
) -> dict[str, Any]:
    """Dequantized behind it, so that an integer may be one step apart."""
    names = [chr(ord("a") + place) for place in range(len(shapes))]
    words = [word for name in names for word in (name, f"s{name}", f"z{name}")]
    nodes = f"i = com.microsoft.{operator} {attributes} ({', '.join(words)}, so, zo)  {_REAL}"
    middle = np.array(0 if dtype == "int8" else 120, dtype)
    constants = {"so": _number(step), "zo": middle}
    for place, name in enumerate(names):
        constants |= {f"s{name}": _number(0.03 + 0.01 * place), f"z{name}": middle + np.array(place, dtype)}
    inputs = {name: _bytes(*shape, dtype=dtype) for name, shape in zip(names, shapes, strict=True)}
    return {**_case(nodes, inputs, **constants), "atol": step * 1.001}


X = (2, 3, 6, 5)
_MATRIX = _bytes(6, 5)
_SCALES = {
    "sa": _number(0.02),
    "za": np.array(120, "uint8"),
    "sb": _number(0.01),
    "zb": np.array(131, "uint8"),
}
_CONCAT = _case(
    f"i = com.microsoft.QLinearConcat <axis=1> (so, zo, a, sa, za, b, sb, zb)  {_REAL}",
    {"a": _bytes(*X), "b": _bytes(2, 4, 6, 5)},
    so=_number(STEP),
    zo=np.array(100, "uint8"),
    **_SCALES,
)
_GEMM = "com.microsoft.QGemm <transB=1> (a, sa, za, w, sw, zw, b, so, zo)"

ROWS = (2, 6, 5, 3)
"""An image whose channels are last."""

CASES: dict[str, dict[str, Any]] = {
    "add": _quantized("QLinearAdd", X, X),
    "add_int8": _quantized("QLinearAdd", X, X, dtype="int8"),
    "add_of_channels": _quantized("QLinearAdd", X, (3, 1, 1)) | {"symbolic": False},
    "multiply": _quantized("QLinearMul", X, X),
    "sigmoid": _quantized("QLinearSigmoid", X, step=1 / 256),
    "leaky_relu": _quantized("QLinearLeakyRelu", X, attributes="<alpha=0.2>"),
    "global_average_pool": _quantized("QLinearGlobalAveragePool", X, attributes="<channels_last=0>"),
    "average_pool": _quantized(
        "QLinearAveragePool",
        X,
        attributes="<kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2], count_include_pad=1>",
    ),
    "average_pool_of_channels_last": _quantized(
        "QLinearAveragePool", ROWS, attributes="<kernel_shape=[3, 2], pads=[1, 0, 1, 1], channels_last=1>"
    ),
    "global_average_pool_of_channels_last": _quantized(
        "QLinearGlobalAveragePool", ROWS, attributes="<channels_last=1>"
    ),
    "reduced_mean": {
        **_quantized("QLinearReduceMean", X, attributes="<axes=[1, 3], keepdims=0>"),
        "oracle": "r = DequantizeLinear (a, sa, za)  m = ReduceMean <axes=[1, 3], keepdims=0> (r)"
        f"  i = QuantizeLinear (m, so, zo)  {_REAL}",
    },
    "expanded": _case("y = com.microsoft.ExpandDims (x, a)", {"x": _random(2, 3)}, a=np.array(1, "int32")),
    "gathered": _case(
        "y = com.microsoft.GatherND (x, i)", {"x": _random(2, 3)}, i=np.array([[1, 2], [0, 0]])
    ),
    "padded": _case(
        "y = com.microsoft.Pad (x, p, v)",
        {"x": _random(2, 3)},
        p=np.array([0, 1, 0, 2]),
        v=np.array([3.0], "f"),
    ),
    "range": _case(
        "r = com.microsoft.Range (a, b, c)  y = Mul (x, r)",
        {"x": _random(2, 3)},
        a=_number(0),
        b=_number(6),
        c=_number(2),
    ),
    "triangle": _case(
        "y = com.microsoft.Trilu <upper=0> (x, k)", {"x": _random(2, 3, 5)}, k=np.array(1, "int64")
    ),
    "transposed_product": _case(
        "y = com.microsoft.TransposeMatMul <transB=1> (x, w)", {"x": _random(2, 3)}, w=_random(4, 3)
    ),
    "max_pool_of_channels_last": {
        **_case(
            "y = com.microsoft.NhwcMaxPool <kernel_shape=[3, 2], strides=[2, 2], ceil_mode=1> (x)",
            {"x": _bytes(*ROWS, dtype="int8")},
        ),
        "outputs": {"y": "int8"},
    },
    "conv_of_channels_last": {
        **_case(
            f"i = com.microsoft.QLinearConv <group=3, strides=[2, 1], pads=[1, 0, 1, 1], channels_last=1>"
            f" (x, sa, za, w, sb, zb, so, zo, b)  {_REAL}",
            {"x": _bytes(*ROWS)},
            w=_bytes(6, 1, 3, 2),
            b=RANDOM.integers(-900, 900, 6).astype("int32"),
            so=_number(STEP),
            zo=np.array(100, "uint8"),
            **_SCALES,
        ),
        "atol": STEP * 1.001,
    },
    "choice": {
        **_case(
            f"i = com.microsoft.QLinearWhere(c, a, sa, za, b, sb, zb, so, zo)  {_REAL}",
            {"c": _bytes(*X) > 127, "a": _bytes(*X), "b": _bytes(*X)},
            so=_number(STEP),
            zo=np.array(100, "uint8"),
            **_SCALES,
        ),
        "atol": STEP * 1.001,
    },
    "softmax": _quantized("QLinearSoftmax", (4, 10), attributes="<axis=1, opset=13>", step=1 / 256),
    "concatenation": {**_CONCAT, "atol": STEP * 1.001},
    "gemm": {
        **_case(
            f"i = {_GEMM}  {_REAL}",
            {"a": _bytes(2, 6)},
            w=_bytes(5, 6, dtype="int8"),
            sw=np.array([0.01, 0.02, 0.015, 0.01, 0.03], "float32"),
            zw=np.zeros(5, "int8"),
            b=RANDOM.integers(-900, 900, 5).astype("int32"),
            so=_number(0.5),
            zo=np.array(100, "uint8"),
            sa=_SCALES["sa"],
            za=_SCALES["za"],
        ),
        "atol": 0.501,
    },
    "dynamic_matmul": _case(
        "y = com.microsoft.DynamicQuantizeMatMul(x, w, sb, zb, c)",
        {"x": _random(3, 6)},
        w=_MATRIX,
        sb=_SCALES["sb"],
        zb=_SCALES["zb"],
        c=_random(5),
    ),
    "matmul_to_real": _case(
        "y = com.microsoft.MatMulIntegerToFloat(x, w, sa, sb, za, zb)",
        {"x": _bytes(3, 6)},
        w=_MATRIX,
        **_SCALES,
    ),
    "lstm_by_numbers_of_weights": {
        **_case(
            "y, h = com.microsoft.DynamicQuantizeLSTM <hidden_size=3> (x, w, r, b, , , , , sw, zw, sr, zr)",
            {"x": _random(4, 2, 5)},
            w=_bytes(1, 5, 12, dtype="int8"),
            r=_bytes(1, 3, 12, dtype="int8"),
            b=_random(1, 24),
            sw=np.full(1, 0.01, "float32"),
            zw=np.zeros(1, "int8"),
            sr=np.full(1, 0.02, "float32"),
            zr=np.ones(1, "int8"),
        ),
        "oracle": "d = DequantizeLinear(w, sw, zw)  v = Transpose <perm=[0, 2, 1]> (d)"
        "  e = DequantizeLinear(r, sr, zr)  s = Transpose <perm=[0, 2, 1]> (e)"
        "  y, h = LSTM <hidden_size=3> (x, v, s, b)",
        "outputs": {"y": "float32", "h": "float32"},
        "symbolic": False,
    },
    "fused_conv": _case(
        "y = com.microsoft.FusedConv"
        ' <pads=[1, 1, 1, 1], activation="LeakyRelu", activation_params=[0.1]> (x, w, b)',
        {"x": _random(*X)},
        w=_random(4, 3, 3, 3),
        b=_random(4),
    )
    | {"atol": 1e-5},
    "fused_conv_clip": _case(
        'y = com.microsoft.FusedConv <activation="Clip", activation_params=[0.0, 0.5]> (x, w)',
        {"x": _random(*X)},
        w=_random(4, 3, 3, 3),
    )
    | {"atol": 1e-5},
    "fused_conv_hard_swish": _case(
        'y = com.microsoft.FusedConv <activation="HardSwish"> (x, w)',
        {"x": _random(*X)},
        w=_random(4, 3, 3, 3),
    )
    | {"atol": 1e-5},
    "fused_conv_of_sum": _case(
        'y = com.microsoft.FusedConv <pads=[1, 1, 1, 1], activation="Relu"> (x, w, b, z)',
        {"x": _random(*X), "z": _random(2, 4, 6, 5)},
        w=_random(4, 3, 3, 3),
        b=_random(4),
    )
    | {"atol": 1e-5},
    "fused_gemm": _case(
        'y = com.microsoft.FusedGemm <transB=1, activation="LeakyRelu", activation_alpha=0.3> (x, w, b)',
        {"x": _random(3, 6)},
        w=_random(5, 6),
        b=_random(5),
    ),
    "fused_matmul": _case(
        "y = com.microsoft.FusedMatMul <transA=1, alpha=0.25> (x, w)",
        {"x": _random(2, 6, 3), "w": _random(2, 6, 5)},
    ),
    "fused_matmul_of_batches": {
        **_case(
            "y = com.microsoft.FusedMatMul <transBatchA=1, transA=1, transBatchB=1, transB=1> (x, w)",
            {"x": _random(6, 2, 3, 4), "w": _random(5, 2, 3, 6)},
        ),
        "symbolic": False,
    },
    "skip_layer_norm": _case(
        "y, , , z = com.microsoft.SkipLayerNormalization <epsilon=0.001> (x, k, g, b, c)",
        {"x": _random(2, 3, 8), "k": _random(2, 3, 8)},
        g=_random(8),
        b=_random(8),
        c=_random(8),
    )
    | {"outputs": {"y": "float32", "z": "float32"}},
    "skip_layer_norm_alone": _case(
        "y = com.microsoft.SkipLayerNormalization(x, k, g)",
        {"x": _random(2, 3, 8), "k": _random(2, 3, 8)},
        g=_random(8),
    ),
    "skip_rms_norm": _case(
        "y, , , z = com.microsoft.SkipSimplifiedLayerNormalization <epsilon=0.001> (x, k, g, b)",
        {"x": _random(2, 3, 8), "k": _random(2, 3, 8)},
        g=_random(8),
        b=_random(8),
    )
    | {"outputs": {"y": "float32", "z": "float32"}},
    "skip_layer_norm_and_its_mean": _case(
        "y, m, d, z = com.microsoft.SkipLayerNormalization <epsilon=0.001> (x, k, g, b, c)",
        {"x": _random(2, 3, 8), "k": _random(2, 3, 8)},
        g=_random(8),
        b=_random(8),
        c=_random(8),
    )
    | {"outputs": dict.fromkeys("ymdz", "float32")},
    "skip_rms_norm_and_its_deviation": _case(
        "y, , d = com.microsoft.SkipSimplifiedLayerNormalization <epsilon=0.001> (x, k, g)",
        {"x": _random(2, 3, 8), "k": _random(2, 3, 8)},
        g=_random(8),
    )
    | {"outputs": dict.fromkeys("yd", "float32")},
    "rms_norm_and_its_deviation": _case(
        "y, d = SimplifiedLayerNormalization <epsilon=0.001> (x, g)", {"x": _random(2, 3, 8)}, g=_random(8)
    )
    | {"outputs": dict.fromkeys("yd", "float32")},
    "rms_norm": _case(
        "y = SimplifiedLayerNormalization <epsilon=0.001, axis=-1> (x, g)",
        {"x": _random(2, 3, 8)},
        g=_random(8),
    ),
    "wide_product": _case(
        "y = com.microsoft.MatMulInteger16 (x, w)",
        {"x": _bytes(2, 5, dtype="int16")},
        w=RANDOM.integers(-999, 999, (5, 3)).astype("int16"),
    )
    | {"outputs": {"y": "int32"}},
    "sampled_grid": _case(
        'y = com.microsoft.GridSample <mode="bilinear", align_corners=1> (x, g)',
        {"x": _random(2, 3, 4, 5), "g": _random(2, 3, 2, 2)},
    ),
    "quantized_embedding_norm": _quantized_embedding(),
    "embedding_norm": _embedding("i, s", ", m") | {"outputs": {"y": "float32", "n": "int32"}},
    "embedding_norm_of_positions": _embedding('i, ""', ', "", p'),
    "embedding_norm_and_its_sum": _embedding("i, s", "", "y, n, z")
    | {"outputs": {"y": "float32", "n": "int32", "z": "float32"}},
    # As many positions as the sequence is long, of a table that may have fewer.
    "embedding_norm_of_positions_cut": _case(
        "j = Transpose <perm=[1, 0]> (i)  h = Shape <start=1> (j)  p = Slice (r, zero, h, one)"
        '  k = Cast <to=6> (p)  y, n = com.microsoft.EmbedLayerNormalization (j, "", w, q, "", g, b, "", k)',
        {"i": RANDOM.integers(0, 9, (3, 2)).astype("int32")},
        r=np.arange(4)[None],
        zero=np.array([0]),
        one=np.array([1]),
        w=_random(9, 8),
        q=_random(4, 8),
        g=_random(8),
        b=_random(8),
    ),
    "quick_gelu": _case("y = com.microsoft.QuickGelu <alpha=1.5> (x)", {"x": _random(*X)}),
    "quantize_16_bits": _case(
        "i = com.microsoft.QuantizeLinear(x, s, z)  y = com.microsoft.DequantizeLinear(i, s, z)",
        {"x": _random(*X)},
        s=_number(0.001),
        z=np.array(30000, "uint16"),
    ),
    "quantize_constant": _case(
        "i = com.microsoft.QuantizeLinear(c, s, z)  r = com.microsoft.DequantizeLinear(i, s, z)"
        "  y = Mul (x, r)",
        {"x": _random(*X)},
        c=_number(0.3),
        s=_number(0.004),
        z=np.array(0, "uint8"),
    ),
}


def test_agrees_with_onnx_runtime(case_name: str, agree: Callable[[str], None]) -> None:
    agree(case_name)


@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 4, 4)], ids=["one", "several"])
def test_inverses(shape: tuple[int, ...], tmp_path: Path) -> None:
    extents = ", ".join(map(str, shape))
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>'
        f" case (float[{extents}] x) => (float[{extents}] y) {{ y = com.microsoft.Inverse (x) }}"
    )
    x = _random(*shape)
    # The first pivot is not at its place.
    x[..., 0, 0] = 0
    relay_layout.compile(model).save(tmp_path / "model.rla")
    (found,) = relay_layout.load(tmp_path / "model.rla").run({"x": x}).values()
    (wanted,) = reference_session(model.SerializeToString()).run(None, {"x": x})
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (
            "y = com.microsoft.NhwcMaxPool <kernel_shape=[1]> (p)",
            "has channels last in [3,4], which has no spatial dimensions",
        ),
        (
            'y = com.microsoft.FusedConv <activation="Softplus"> (f, w)',
            "has the activation 'Softplus', which is not supported; "
            "Clip, HardSigmoid, HardSwish, LeakyRelu, Relu, Sigmoid, Tanh are",
        ),
        ("y = com.microsoft.Inverse (p)", "inverts [3,4], which is no square matrix"),
    ],
)
def test_what_is_refused(node: str, message: str) -> None:
    found = refusal(
        "(uint8[1, 3, 8, 8] x, float[1, 3, 8, 8] f, uint8[3, 4] p) => (float[a, b, c, d] y)"
        f" <float s = {{0.1}}, uint8 z = {{1}}, float[1, 3, 1, 1] w = {{1, 2, 3}}> {{ {node} }}"
    )
    assert message in found


@pytest.mark.parametrize("operator", ["QLinearConcat", "QLinearAdd", "QLinearMul"])
def test_operands_agree_for_some_sizes_alone(operator: str) -> None:
    """Twice the half of a width is that width where it is even."""
    joined = operator == "QLinearConcat"
    words = "s, z, u, s, z, x, s, z" if joined else "u, s, z, x, s, z, s, z"
    attributes = "<axis=1>" if joined else ""
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> case (uint8[1, 2, 4, W] x)'
        " => (uint8[a, b, c, d] y) { h = MaxPool <kernel_shape=[2, 2], strides=[2, 2]> (x)"
        f'  u = Resize <mode="nearest"> (h, , t)  y = com.microsoft.{operator} {attributes} ({words}) }}'
    )
    numbers = {"s": _number(0.1), "z": np.array(3, "uint8"), "t": np.array([1, 1, 2, 2], "float32")}
    for name, array in numbers.items():
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    main = from_onnx(model)["main"]
    # The other is that there are pixels to pool.
    assert list(main.attrs[CONDITIONS]) == ["x.shape[3] % 2 == 0", "(x.shape[3] // 2) * 2 > 0"]
