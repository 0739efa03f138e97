"""Attention that optimizers of transformers write computes what ONNX Runtime computes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import relay_layout
from relay_layout.errors import ModelError
from relay_layout.frontend import from_onnx
from tests.onnx_reference import reference_session

RANDOM = np.random.default_rng(23)


def _random(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype("float32")


def _case(
    node: str, inputs: dict[str, np.ndarray], /, symbolic: bool = True, **constants: np.ndarray
) -> dict[str, Any]:
    return {
        "nodes": f"y = com.microsoft.{node}",
        "inputs": inputs,
        "constants": constants,
        "domains": {"com.microsoft": 1},
        "symbolic": symbolic,
        "atol": 1e-5,
    }


def _own(attributes: str, others: str = "", columns: int = 24, **inputs: np.ndarray) -> dict[str, Any]:
    """Among the five rows of one tensor."""
    weights = {"w": _random(8, columns), "b": _random(columns)}
    x = {"x": _random(2, 5, 8)}
    return _case(f"Attention <num_heads=2{attributes}> (x, w, b{others})", x | inputs, **weights)


def _heads(attributes: str, others: str = "", features: int = 8, **inputs: np.ndarray) -> dict[str, Any]:
    """Of five queries for six keys."""
    triple = {"q": _random(2, 5, 8), "k": _random(2, 6, 8), "v": _random(2, 6, features)}
    bias = {"b": _random(16 + features)} if ", b" in others else {}
    return _case(f"MultiHeadAttention <num_heads=2{attributes}> (q, k, v{others})", triple | inputs, **bias)


KEPT = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], "int32")

CASES: dict[str, dict[str, Any]] = {
    "plain": _own(""),
    "scaled": _own(", scale=0.3"),
    "values_of_other_sizes": _own(", qkv_hidden_sizes=[8, 8, 12]", columns=28),
    "masked": _own("", ", m", m=KEPT),
    "masked_by_numbers": _own("", ", m", m=np.array([3, 5], "int32")),
    "masked_by_rows": _own(
        ", mask_filter_value=-5.0", ", m", m=RANDOM.integers(0, 2, (2, 5, 5)).astype("int32")
    ),
    "earlier_rows": _own(", unidirectional=1", ", m", m=KEPT),
    "with_bias_of_scores": _own("", ", , , e", e=_random(1, 2, 5, 5)) | {"symbolic": False},
    "of_bytes": _case(
        "QAttention <num_heads=2> (x, w, b, r, s, m, z)",
        {"x": RANDOM.integers(0, 256, (2, 5, 8)).astype("uint8"), "m": KEPT},
        w=RANDOM.integers(-128, 128, (8, 24)).astype("int8"),
        b=_random(24),
        r=np.array(0.02, "float32"),
        s=np.array(0.01, "float32"),
        z=np.array(120, "uint8"),
    ),
    "heads": _heads(""),
    "heads_with_bias": _heads("", ", b", features=12),
    "heads_with_keys_masked": _heads("", ", , m", m=np.repeat(KEPT, [1, 1, 1, 1, 2], axis=1)),
    "heads_with_bias_of_scores": _heads(", scale=0.2", ", , , e", e=_random(1, 2, 5, 6))
    | {"symbolic": False},
    "heads_apart": _heads("", k=_random(2, 2, 6, 4), v=_random(2, 2, 6, 4)),
    "heads_and_what_they_were_of": _heads("")
    | {
        "nodes": "y, k_, v_ = com.microsoft.MultiHeadAttention <num_heads=2> (q, k, v)",
        "outputs": {"y": "float32", "k_": "float32", "v_": "float32"},
    },
}


def test_agrees_with_onnx_runtime(case_name: str, agree: Callable[[str], None]) -> None:
    agree(case_name)


def test_pixels_of_images_of_any_size(tmp_path: Path) -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> sizes (float[n,8,h,w] x) => () {'
        " s = Shape <end=2> (x)  all = Constant <value_ints=[-1]> ()  goal = Concat <axis=0> (s, all)"
        " r = Reshape (x, goal)  t = Transpose <perm=[0, 2, 1]> (r)"
        " y = com.microsoft.Attention <num_heads=2, unidirectional=1> (t, w, b) }"
    )
    for name, array in {"w": _random(8, 24), "b": _random(24)}.items():
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    model.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, None))
    relay_layout.compile(model).save(tmp_path / "sizes.rla")
    session, reference = (
        relay_layout.load(tmp_path / "sizes.rla"),
        reference_session(model.SerializeToString()),
    )
    for size in ((1, 8, 3, 5), (2, 8, 4, 1)):
        image = _random(*size)
        (wanted,) = reference.run(None, {"x": image})
        np.testing.assert_allclose(session.run({"x": image})["y"], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (
            "MultiHeadAttention <num_heads=2> (q)",
            "(MultiHeadAttention) has queries, keys and values packed into one tensor, "
            "which is not supported",
        ),
        (
            "MultiHeadAttention <num_heads=2, unidirectional=1> (q, k, k)",
            "(MultiHeadAttention) has unidirectional=1 for queries and keys [5,6], not of as many",
        ),
        (
            "MultiHeadAttention <num_heads=3> (q, k, k)",
            "(MultiHeadAttention) attends in [2,5,8] with 3 heads",
        ),
        (
            "MultiHeadAttention <num_heads=2> (q, k, k, , , , p, p)",
            "(MultiHeadAttention) has earlier keys and values, which is not supported",
        ),
        (
            "Attention <num_heads=2> (q, w, , p)",
            "(Attention) has a mask [6] where [N], [N,T], [N,S,T] or [N,1,S,T] is due",
        ),
        (
            "Attention <num_heads=2, qkv_hidden_sizes=[8, 8, 9]> (q, w)",
            "(Attention) has qkv_hidden_sizes [8, 8, 9] for weights of 24 columns",
        ),
    ],
)
def test_what_is_refused(node: str, message: str) -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> case'
        " (float[2,5,8] q, float[2,6,8] k, float[8,24] w, int32[6] p) => (float[a,b,c] y)"
        f" {{ y = com.microsoft.{node} }}"
    )
    with pytest.raises(ModelError) as caught:
        from_onnx(model)
    assert str(caught.value) == f"ONNX model 'case': node 'y' {message}"
