"""Mixtures of experts as com.microsoft has them, beside ONNX Runtime."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import parser

from relay_layout.errors import ModelError
from relay_layout.frontend import from_onnx

RANDOM = np.random.default_rng(5)
ROWS, EXPERTS, WIDTH, INNER = 5, 4, 8, 6


def _random(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype("float32")


def _mixture(attributes: str, *shape: int, fused: int = 1, biases: bool = True) -> dict[str, Any]:
    shape = shape or (ROWS, WIDTH)
    constants = {"w": _random(EXPERTS, fused * INNER, WIDTH), "v": _random(EXPERTS, WIDTH, INNER)}
    if biases:
        constants |= {"b": _random(EXPERTS, fused * INNER), "c": _random(EXPERTS, WIDTH)}
    names = "w, b, v, c" if biases else "w, , v"
    rows = int(np.prod(shape[:-1]))
    return {
        "nodes": f"y = com.microsoft.MoE <{attributes}> (x, p, {names})",
        "inputs": {"x": _random(*shape), "p": _random(rows, EXPERTS)},
        "constants": constants,
        "domains": {"com.microsoft": 1},
        "atol": 1e-5,
    }


_GATED = 'k=2, normalize_routing_weights=1, activation_type="swiglu", swiglu_fusion=1'

CASES: dict[str, dict[str, Any]] = {
    "relu": _mixture("k=1"),
    "two_experts": _mixture('k=2, activation_type="silu"'),
    "weights_of_sum_one": _mixture('k=3, activation_type="gelu", normalize_routing_weights=1'),
    "without_biases": _mixture('k=2, activation_type="identity"', biases=False),
    "texts": _mixture("k=2", 2, 3, WIDTH) | {"symbolic": False},
    "gated": _mixture(f"{_GATED}, activation_alpha=1.3, activation_beta=0.7, swiglu_limit=1.5", fused=2),
    "gated_by_default": _mixture(_GATED, fused=2),
}


def test_agrees_with_onnx_runtime(case_name: str, agree: Callable[[str], None]) -> None:
    agree(case_name)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        (
            'activation_type="geglu"',
            "has the activation_type 'geglu', which is not supported; gelu, identity, relu, silu, swiglu are",
        ),
        (
            "use_sparse_mixer=1",
            "has use_sparse_mixer or swiglu_limit_after_activation, which is not supported: "
            "write the router and the activation as operators of their own",
        ),
        ("k=9", "chooses 9 of 4 experts by [5,4]"),
        ('activation_type="swiglu"', "has swiglu_fusion=0 without what that needs"),
    ],
)
def test_what_is_refused(attributes: str, message: str) -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> case'
        " (float[5,8] x, float[5,4] p) => (float[5,8] y)"
        " { w = ConstantOfShape(n)  v = ConstantOfShape(m)"
        f" y = com.microsoft.MoE <{attributes}> (x, p, w, , v) }}"
    )
    for name, shape in (("n", (4, 6, 8)), ("m", (4, 8, 6))):
        model.graph.initializer.add(name=name, data_type=7, dims=[3], int64_data=shape)
    with pytest.raises(ModelError) as caught:
        from_onnx(model)
    assert str(caught.value) == f"ONNX model 'case': node 'y' (MoE) {message}"
