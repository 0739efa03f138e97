"""Tensors quantized at run time, and products of them, are ONNX Runtime's to the last bit."""

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from onnx import numpy_helper, parser
from tvm import relax

import relay_layout
from relay_layout.frontend import from_onnx
from tests.onnx_reference import reference_session
from tests.onnx_refusals import refusal

RANDOM = np.random.default_rng(11)


def _bytes(*shape: int, dtype: str = "uint8") -> np.ndarray:
    limits = np.iinfo(dtype)
    return RANDOM.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)


def _integers(nodes: str, x: np.ndarray, /, **constants: np.ndarray) -> dict[str, Any]:
    return {"nodes": nodes, "inputs": {"x": x}, "constants": constants, "outputs": {"y": "int32"}}


def _quantized(x: np.ndarray) -> dict[str, Any]:
    return {
        "nodes": "y, s, z = DynamicQuantizeLinear(x)",
        "inputs": {"x": x},
        "outputs": {"y": "uint8", "s": "float32", "z": "uint8"},
        "rtol": 0.0,
        "atol": 0.0,
    }


def _conv(
    attributes: str,
    *weight: int,
    x: tuple[int, ...] = (2, 4, 9, 7),
    dtype: str = "uint8",
    point: int | None = 119,
    data_point: int | None = 131,
) -> dict[str, Any]:
    """ONNX Runtime's own takes no int8 data."""
    constants = {"w": _bytes(*weight, dtype=dtype)}
    inputs = ["x", "w"]
    if data_point is not None or point is not None:
        constants["p"] = np.array(data_point or 0, "uint8")
        inputs.append("p")
    if point is not None:
        constants["q"] = np.array(point, dtype)
        inputs.append("q")
    return _integers(f"y = ConvInteger <{attributes}> ({', '.join(inputs)})", _bytes(*x), **constants)


_PADS = {"none": "", "odd": ", pads=[1, 0, 2, 1]", "same": ', auto_pad="SAME_UPPER"'}
_WEIGHTS: dict[str, dict[str, Any]] = {
    "narrow": {"dtype": "int8", "point": None},
    "centred": {"dtype": "uint8", "point": 128},
    "wide": {"dtype": "uint8", "point": 119},
    "wide_int8": {"dtype": "int8", "point": -5},
}
_MATRIX = _bytes(6, 5)
_POINTS = np.array([128, 119, 140, 0, 255], "uint8")

CASES: dict[str, dict[str, Any]] = {
    "quantize": _quantized(RANDOM.standard_normal((2, 3, 5, 4)).astype("float32")),
    "quantize_positive": _quantized(RANDOM.uniform(1, 2, (2, 300)).astype("float32")),
    "quantize_negative": _quantized(RANDOM.uniform(-3, -1, (2, 300)).astype("float32")),
    "quantize_zeros": _quantized(np.zeros((2, 3), "float32")),
    "quantize_halves": _quantized(np.array([[0, 255, 0.5, 1.5, 2.5, 3.5]], "float32")),
    **{
        f"conv_{weights}_{pads}_{steps}": _conv(
            f"kernel_shape=[3, 2], strides=[{steps}, {steps}]{_PADS[pads]}", 5, 4, 3, 2, **_WEIGHTS[weights]
        )
        # "SAME" for a symbolic batch needs the extents, which are there.
        for weights, pads, steps in product(_WEIGHTS, _PADS, (1, 2))
    },
    "conv_dilated": _conv("dilations=[2, 1], pads=[2, 1, 2, 1]", 5, 4, 3, 3),
    "conv_1x1": _conv("kernel_shape=[1, 1]", 8, 4, 1, 1),
    "conv_no_points": _conv("pads=[1, 1, 1, 1]", 5, 4, 3, 3, dtype="int8", point=None, data_point=None),
    "conv_groups": _conv("group=2, pads=[1, 1, 1, 1]", 6, 2, 3, 3),
    "conv_groups_centred": _conv("group=2, pads=[1, 1, 1, 1]", 6, 2, 3, 3, point=128),
    "conv_depthwise": _conv("group=4, pads=[1, 1, 1, 1], strides=[2, 2]", 4, 1, 3, 3),
    "conv_depthwise_centred": _conv("group=4, pads=[1, 1, 1, 1]", 4, 1, 3, 3, dtype="int8", point=None),
    "conv_of_lines": _conv("pads=[1, 1]", 5, 3, 3, x=(2, 3, 11)),
    "matmul": _integers(
        "y = MatMulInteger(x, w, p, q)",
        _bytes(3, 6),
        w=_MATRIX,
        p=np.array(131, "uint8"),
        q=np.array(119, "uint8"),
    ),
    "matmul_batched": _integers(
        "y = MatMulInteger(x, w, p)", _bytes(2, 3, 6), w=_bytes(6, 5, dtype="int8"), p=np.array(7, "uint8")
    ),
    "matmul_by_columns": _integers(
        "y = MatMulInteger(x, w, p, q)", _bytes(3, 6), w=_MATRIX, p=np.array(9, "uint8"), q=_POINTS
    ),
    "matmul_int8": _integers(
        "y = MatMulInteger(x, w, p, q)",
        _bytes(3, 6, dtype="int8"),
        w=_bytes(6, 5, dtype="int8"),
        p=np.array(-9, "int8"),
        q=np.array(3, "int8"),
    ),
    "matmul_of_vector": {
        **_integers("y = MatMulInteger(x, w, p)", _bytes(6), w=_MATRIX, p=np.array(9, "uint8")),
        "symbolic": False,
    },
    "matmul_of_activations": {
        **_integers("y = MatMulInteger(x, w, p, q)", _bytes(3, 6)),
        "inputs": {"x": _bytes(3, 6), "w": _MATRIX, "p": np.array(9, "uint8"), "q": np.array(5, "uint8")},
    },
    "matmul_of_images": {
        **_integers("y = MatMulInteger(x, w)", _bytes(2, 3, 6)),
        "inputs": {"x": _bytes(2, 3, 6), "w": _bytes(2, 6, 5)},
    },
    "matmul_of_activations_by_columns": {
        **_integers("y = MatMulInteger(x, w, p, q)", _bytes(3, 6)),
        "inputs": {"x": _bytes(3, 6), "w": _MATRIX, "p": np.array(9, "uint8"), "q": _POINTS},
    },
    "matmul_of_activations_of_int8": {
        **_integers("y = MatMulInteger(x, w)", _bytes(3, 6, dtype="int8")),
        "inputs": {"x": _bytes(3, 6, dtype="int8"), "w": _bytes(6, 5, dtype="int8")},
    },
    "network": {
        "nodes": (
            "a, s, z = DynamicQuantizeLinear(x)  i = ConvInteger <pads=[1, 1, 1, 1]> (a, w, z, q)"
            "  f = Cast <to=1> (i)  t = Mul(s, u)  m = Mul(f, t)  n = Add(m, b)  y = Relu(n)"
        ),
        "inputs": {"x": RANDOM.standard_normal((2, 4, 9, 7)).astype("float32")},
        "constants": {
            "w": _bytes(5, 4, 3, 3),
            "q": np.array(119, "uint8"),
            "u": np.array(0.01, "float32"),
            "b": RANDOM.standard_normal((1, 5, 1, 1)).astype("float32"),
        },
    },
}


def test_agrees_with_onnx_runtime(case_name: str, agree: Callable[[str], None]) -> None:
    agree(case_name)


@pytest.mark.parametrize("layout", ["none", "auto", "NHWC", "NCHW8c"])
def test_a_network_in_every_layout(tmp_path: Path, layout: str) -> None:
    """With a border, a depthwise convolution, one of images that are added, and a product of a matrix."""
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> network (float[2, 5, 15, 13] x) => (float[2, 7] y) {
        a1, s1, z1 = DynamicQuantizeLinear(x)  i1 = ConvInteger <pads=[1, 1, 1, 1]> (a1, w1, z1, q1)
        f1 = Cast <to=1> (i1)  t1 = Mul(s1, u)  m1 = Mul(f1, t1)  n1 = Add(m1, b)  r1 = Relu(n1)
        a2, s2, z2 = DynamicQuantizeLinear(r1)
        i2 = ConvInteger <pads=[1, 1, 1, 1], group=24, strides=[2, 2]> (a2, w2, z2, q2)
        f2 = Cast <to=1> (i2)  t2 = Mul(s2, u)  m2 = Mul(f2, t2)  n2 = Add(m2, b)
        a3, s3, z3 = DynamicQuantizeLinear(n2)  i3 = ConvInteger(a3, w3, z3, q3)  f3 = Cast <to=1> (i3)
        t3 = Mul(s3, u)  m3 = Mul(f3, t3)  n3 = Add(m3, n2)  p = GlobalAveragePool(n3)  l = Flatten(p)
        a4, s4, z4 = DynamicQuantizeLinear(l)  i4 = MatMulInteger(a4, w4, z4, q4)  f4 = Cast <to=1> (i4)
        t4 = Mul(s4, u)  y = Mul(f4, t4) }"""
    )
    constants = {
        "w1": _bytes(24, 5, 3, 3),
        "w2": _bytes(24, 1, 3, 3),
        "w3": _bytes(24, 24, 1, 1),
        "w4": _bytes(24, 7),
        **{f"q{place}": np.array(119 + place, "uint8") for place in range(1, 5)},
        "u": np.array(0.01, "float32"),
        "b": RANDOM.standard_normal((1, 24, 1, 1)).astype("float32"),
    }
    for name, array in constants.items():
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    image = RANDOM.standard_normal((2, 5, 15, 13)).astype("float32")
    relay_layout.compile(model, desired_layout=layout).save(tmp_path / "network.rla")
    output = relay_layout.load(tmp_path / "network.rla").run({"x": image})["y"]
    session = reference_session(model.SerializeToString())
    (wanted,) = session.run(None, {"x": image})
    np.testing.assert_allclose(output, wanted, rtol=0, atol=1e-6 * np.abs(wanted).max())


def test_rows_may_have_zero_points_of_their_own() -> None:
    """As ONNX has it; ONNX Runtime knows one for all rows alone."""
    x, w, points = _bytes(3, 6), _MATRIX, np.array([1, 100, 200], "uint8")
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> case (uint8[3, 6] x, uint8[3] p) => (int32[3, 5] y)'
        " { y = MatMulInteger(x, w, p) }"
    )
    model.graph.initializer.append(numpy_helper.from_array(w, "w"))
    machine = _compiled(from_onnx(model))
    wanted = (x.astype("int32") - points[:, None]) @ w.astype("int32")
    np.testing.assert_array_equal(machine(x, points), wanted)


def test_convolution_of_strided_images_of_any_size(tmp_path: Path) -> None:
    """The border of a strided image is lowered after the convolution that reads it."""
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> case (float[1, 4, H, W] x) => (int32[a, b, c, d] y)'
        " { c = Conv <strides=[2, 2]> (x, k)  q, s, z = DynamicQuantizeLinear (c)"
        "  y = ConvInteger <pads=[1, 1, 1, 1]> (q, w, z) }"
    )
    model.graph.initializer.append(numpy_helper.from_array(_bytes(4, 4, 3, 3, dtype="int8"), "w"))
    model.graph.initializer.append(numpy_helper.from_array(np.eye(4, dtype="float32")[..., None, None], "k"))
    x = RANDOM.standard_normal((1, 4, 9, 11)).astype("float32")
    wanted = reference_session(model.SerializeToString()).run(None, {"x": x})
    relay_layout.compile(model, shipped_records=False).save(tmp_path / "model.rla")
    result = relay_layout.load(tmp_path / "model.rla").run({"x": x})["y"]
    np.testing.assert_array_equal(result, wanted[0])


def _compiled(module: Any) -> Callable[..., np.ndarray]:
    machine = relax.VirtualMachine(
        tvm.compile(module, tvm.target.Target({"kind": "llvm", "opt-level": 0})), tvm.cpu()
    )
    return lambda *arrays: machine["main"](*(tvm.runtime.tensor(array) for array in arrays)).numpy()


@pytest.mark.parametrize(
    ("node", "weight", "message"),
    [
        (
            "y = ConvInteger(x, w, p, q)",
            _bytes(4, 3, 3, 3),
            "has 3 zero points for a weight of [4,3,3,3], whose outputs should have one each",
        ),
        (
            "y = ConvInteger(x, x)",
            None,
            "needs a constant for its input 1, not a tensor computed at run time: "
            "export the model with a number there, or fixed shapes",
        ),
    ],
)
def test_what_is_refused(node: str, weight: np.ndarray | None, message: str) -> None:
    constants = {"p": np.array(1, "uint8"), "q": np.array([1, 2, 3], "uint8")}
    constants |= {} if weight is None else {"w": weight}
    graph = f"(uint8[1, 3, 8, 8] x) => (int32[a, b, c, d] y) {{ {node} }}"
    assert message in refusal(graph, constants=constants)
