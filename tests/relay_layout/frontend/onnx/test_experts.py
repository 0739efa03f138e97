"""Mixtures of experts as com.microsoft has them, beside ONNX Runtime."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.onnx_refusals import refusal

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


def _packed(
    attributes: str, bits: int, blocks: int = 0, *, fused: int = 1, points: bool = False
) -> dict[str, Any]:
    """Of 32 features and as many within an expert, with scales of rows, or of so many blocks in each."""
    width, constants = 32, {}
    for name, rows in (("w", fused * width), ("v", width)):
        shape = (EXPERTS, rows, blocks) if blocks else (EXPERTS, rows)
        packed = (EXPERTS, rows, width * bits // 8)
        constants[name] = RANDOM.integers(0, 256, packed).astype("uint8")
        constants[f"s{name}"] = (RANDOM.random(shape) * 0.02).astype("float32")
        constants[f"b{name}"] = _random(EXPERTS, rows)
        if points:
            codes = (*shape[:-1], -(-shape[-1] * bits // 8))
            constants[f"z{name}"] = RANDOM.integers(0, 256, codes).astype("uint8")
    others = ', "", "", "", zw, zv' if points else ""
    return {
        "nodes": f"y = com.microsoft.QMoE <expert_weight_bits={bits}, {attributes}> "
        f"(x, p, w, sw, bw, v, sv, bv{others})",
        "inputs": {"x": _random(ROWS, width), "p": _random(ROWS, EXPERTS)},
        "constants": constants,
        "domains": {"com.microsoft": 1},
        "atol": 1e-4,
        "rtol": 1e-4,
    }


CASES |= {
    "four_bits": _packed(_GATED, 4, fused=2),
    "eight_bits": _packed('k=3, activation_type="silu", normalize_routing_weights=1', 8),
    "four_bits_in_blocks": _packed(f"{_GATED}, block_size=16", 4, 2, fused=2),
    "four_bits_with_zero_points": _packed(_GATED, 4, fused=2, points=True),
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
    found = refusal(
        "(float[5,8] x, float[5,4] p) => (float[5,8] y)"
        f" {{ y = com.microsoft.MoE <{attributes}> (x, p, w, , v) }}",
        constants={"w": np.zeros((4, 6, 8), "float32"), "v": np.zeros((4, 8, 6), "float32")},
    )
    assert found == f"node 'y' (MoE) {message}"


_NAMED = "normalize_routing_weights=1, "


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ('quant_type="fp8"', "has quant_type 'fp8', which is not supported: export it without"),
        ("weights_prepacked=1", "has weights_prepacked=1, which is not supported: export it without"),
        (
            "expert_weight_bits=3",
            "has weights of 3 bits, which is not supported; those of [2,4,8] are",
        ),
        (
            "normalize_routing_weights=0",
            "has normalize_routing_weights=0, where ONNX Runtime normalizes them all the same: make it 1",
        ),
        ("expert_weight_bits=8", "has matrices of [4,6,4] with scales of [4,8]"),
    ],
)
def test_packed_experts_that_are_refused(attributes: str, message: str) -> None:
    found = refusal(
        "(float[5,8] x, float[5,4] p) => (float[a,b] y)"
        f" {{ y = com.microsoft.QMoE <{_NAMED if 'normalize' not in attributes else ''}{attributes}>"
        " (x, p, w, s, , w, s) }",
        constants={"w": np.zeros((4, 6, 4), "uint8"), "s": np.ones((4, 8), "float32")},
    )
    assert found == f"node 'y' (QMoE) {message}"
