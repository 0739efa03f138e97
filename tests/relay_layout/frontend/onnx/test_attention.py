"""Attention that optimizers of transformers write computes what ONNX Runtime computes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import relay_layout
from tests.onnx_reference import reference_session
from tests.onnx_refusals import refusal

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


def _after(node: str, outputs: str, **inputs: np.ndarray) -> dict[str, Any]:
    """Five rows after three earlier ones."""
    names = [name.strip() for name in outputs.split(",")]
    case = _case(node, inputs)
    return case | {
        "nodes": f"{outputs} = com.microsoft.{node}",
        "outputs": dict.fromkeys(names, "float32"),
        "constants": {"w": _random(8, 24), "b": _random(24)},
    }


def _packed(node: str, parts: str, oracle: str, **inputs: np.ndarray) -> dict[str, Any]:
    """What ONNX Runtime computes on graphics cards alone, beside what it computes of the parts."""
    constants = {"flat": np.array([0, 0, -1], "int64")}
    return _case(node, inputs, **constants) | {"oracle": f"{parts} y = com.microsoft.{oracle}"}


TRIPLE = {name: _random(2, 5, 8) for name in "qkv"}
EARLIER = {name: _random(2, 2, 3, 4) for name in "ef"}
KEPT = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], "int32")

CASES: dict[str, dict[str, Any]] = {
    "plain": _own(""),
    "scaled": _own(", scale=0.3"),
    "values_of_other_sizes": _own(", qkv_hidden_sizes=[8, 8, 12]", columns=28),
    "masked": _own("", ", m", m=KEPT),
    "masked_by_numbers": _own("", ", m", m=np.array([3, 5], "int32")),
    "masked_by_ends_and_starts": _own("", ", m", m=np.array([5, 4, 1, 0], "int32")) | {"symbolic": False},
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
    "heads_apart_with_bias_of_queries": _heads("", ", b", k=_random(2, 2, 6, 4), v=_random(2, 2, 6, 4)),
    "heads_apart": _heads("", k=_random(2, 2, 6, 4), v=_random(2, 2, 6, 4)),
    "earlier_rows_before": _after(
        "Attention <num_heads=2> (x, w, b, , p)", "y, t", x=_random(2, 5, 8), p=_random(2, 2, 2, 3, 4)
    )
    | {"symbolic": False},
    "earlier_rows_before_masked": _after(
        "Attention <num_heads=2, unidirectional=1> (x, w, b, m, p)",
        "y, t",
        x=_random(2, 5, 8),
        p=_random(2, 2, 2, 3, 4),
        m=np.repeat(KEPT, [1, 1, 2, 2, 2], axis=1),
    )
    | {"symbolic": False},
    "heads_after_earlier_ones": _after(
        "MultiHeadAttention <num_heads=2> (q, k, v, b, , , e, f)", "y, t, u", **TRIPLE, **EARLIER
    ),
    "heads_after_earlier_ones_alone": _after(
        "MultiHeadAttention <num_heads=2, unidirectional=1> (q, k, v, , , , e, f)",
        "y, t, u",
        **TRIPLE,
        **EARLIER,
    ),
    "heads_of_bfloat16": {
        "nodes": "a = Cast <to=16> (q)  b = Cast <to=16> (k)  c = Cast <to=16> (v)"
        "  d = com.microsoft.MultiHeadAttention <num_heads=2, unidirectional=1> (a, b, c)"
        "  y = Cast <to=1> (d)",
        "oracle": "y = com.microsoft.MultiHeadAttention <num_heads=2, unidirectional=1> (q, k, v)",
        "inputs": TRIPLE,
        "domains": {"com.microsoft": 1},
        "rtol": 0.05,
        "atol": 0.05,
    },
    "heads_packed": _packed(
        "MultiHeadAttention <num_heads=2> (q)",
        "a, b, c = Split <axis=3> (q)  d = Reshape(a, flat)  e = Reshape(b, flat)  f = Reshape(c, flat)",
        "MultiHeadAttention <num_heads=2> (d, e, f)",
        q=_random(2, 5, 2, 3, 4),
    ),
    "heads_of_packed_keys": _packed(
        "MultiHeadAttention <num_heads=2> (q, k)",
        "b, c = Split <axis=3> (k)  e = Reshape(b, flat)  f = Reshape(c, flat)",
        "MultiHeadAttention <num_heads=2> (q, e, f)",
        q=_random(2, 5, 8),
        k=_random(2, 6, 2, 2, 4),
    ),
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
            "MultiHeadAttention <num_heads=2> (q, k)",
            "(MultiHeadAttention) attends in [2,5,8] and [2,6,8] where [N,S,C], [N,T,C] and [N,T,C] are due",
        ),
        (
            "MultiHeadAttention <num_heads=2, unidirectional=1> (q, k, k)",
            "(MultiHeadAttention) has unidirectional=1 for queries and keys [5,6], which are not as many",
        ),
        (
            "MultiHeadAttention <num_heads=3> (q, k, k)",
            "(MultiHeadAttention) attends in [2,5,8] with 3 heads",
        ),
        (
            "MultiHeadAttention <num_heads=2> (q, k, k, , , , e, e, p)",
            "(MultiHeadAttention) keeps earlier keys and values in a buffer that is longer than they are, "
            "which is not supported: export it with past_present_share_buffer=0",
        ),
        (
            "MultiHeadAttention <num_heads=2> (q, k, k, , , , e)",
            "(MultiHeadAttention) has earlier keys or values, of one kind alone or beside keys that have "
            "heads already, which is not supported: give it both, and keys and values [N,T,C]",
        ),
        (
            "MultiHeadAttention <num_heads=2> (h)",
            "(MultiHeadAttention) has [2,5,2,2,4] for its input 0 where [N,S,H,3,D] is due",
        ),
        (
            "Attention <num_heads=2, do_rotary=1> (q, w)",
            "(Attention) has do_rotary=1, which is not supported: turn rows by RotaryEmbedding",
        ),
        (
            "Attention <num_heads=2> (q, w, , p)",
            "(Attention) has a mask [6] where [N], [2 N], [N,T], [N,S,T] or [N,1,S,T] is due",
        ),
        (
            "Attention <num_heads=2, qkv_hidden_sizes=[8, 8, 9]> (q, w)",
            "(Attention) has qkv_hidden_sizes [8, 8, 9] for weights of 24 columns",
        ),
    ],
)
def test_what_is_refused(node: str, message: str) -> None:
    found = refusal(
        "(float[2,5,8] q, float[2,6,8] k, float[8,24] w, int32[6] p, float[2,2,3,4] e, float[2,5,2,2,4] h)"
        f" => (float[a,b,c] y) {{ y = com.microsoft.{node} }}",
        constants={"b": np.zeros(24, "float32")},
    )
    assert found == f"node 'y' {message}"
