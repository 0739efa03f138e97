"""Operators of optimized U-Nets compute what ONNX's own operators compute: ONNX Runtime has none on CPUs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.onnx_refusals import refusal

RANDOM = np.random.default_rng(23)
IMAGE = (2, 5, 3, 8)
"""Channels are last."""

_FIRST = "Transpose <perm=[0, 3, 1, 2]>"
_LAST = "Transpose <perm=[0, 2, 3, 1]>"
_NORMALIZED = f"""
    f = {_FIRST} (t)  groups = Constant <value_ints=[0, 2, -1]> ()  apart = Reshape (f, groups)
    one = Constant <value_floats=[1.0, 1.0]> ()  none = Constant <value_floats=[0.0, 0.0]> ()
    n = InstanceNormalization <epsilon=0.001> (apart, one, none)
    shape = Shape (f)  whole = Reshape (n, shape)  r = {_LAST} (whole)
    m = Mul (r, g)  normalized = Add (m, b)
"""


def _random(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype("float32")


def _case(
    nodes: str, oracle: str, inputs: dict[str, np.ndarray], /, **constants: np.ndarray
) -> dict[str, Any]:
    return {
        "nodes": nodes,
        "oracle": oracle,
        "inputs": inputs,
        "constants": constants,
        "domains": {"com.microsoft": 1},
        "atol": 1e-5,
    }


def _sum(skip: tuple[int, ...], spread: str) -> dict[str, Any]:
    """The norm of a sum, whose second term is spread by ``spread``."""
    case = _case(
        "y, s = com.microsoft.SkipGroupNorm <groups=2, epsilon=0.001, activation=0> (x, g, b, k, c)",
        f"{spread}  u = Add (x, e)  t = Add (u, c)  s = Identity (t)"
        f"  {_NORMALIZED}  y = Identity (normalized)",
        {"x": _random(*IMAGE), "k": _random(*skip)},
        g=_random(8),
        b=_random(8),
        c=_random(8),
    )
    return {**case, "outputs": {"y": "float32", "s": "float32"}}


CASES: dict[str, dict[str, Any]] = {
    "group_norm": _case(
        "y = com.microsoft.GroupNorm <groups=2, epsilon=0.001, activation=0> (x, g, b)",
        f"t = Identity (x)  {_NORMALIZED}  y = Identity (normalized)",
        {"x": _random(*IMAGE)},
        g=_random(8),
        b=_random(8),
    ),
    "group_norm_of_channels_first": _case(
        "y = com.microsoft.GroupNorm <groups=2, epsilon=0.001, activation=1, channels_last=0> (x, g, b)",
        f"t = {_LAST} (x)  {_NORMALIZED}"
        f"  v = Sigmoid (normalized)  w = Mul (normalized, v)  y = {_FIRST} (w)",
        {"x": _random(2, 8, 5, 3)},
        g=_random(8),
        b=_random(8),
    ),
    "group_norm_of_sum": _sum(IMAGE, "e = Identity (k)"),
    "group_norm_of_sum_with_vectors": _sum(
        (2, 8), "spread = Constant <value_ints=[0, 1, 1, 8]> ()  e = Reshape (k, spread)"
    ),
    "convolution": _case(
        "y = com.microsoft.NhwcConv <pads=[1, 0, 1, 2], strides=[2, 1]> (x, w, b)",
        f"f = {_FIRST} (x)  o = {_FIRST} (w)  c = Conv <pads=[1, 0, 1, 2], strides=[2, 1]> (f, o, b)"
        f"  y = {_LAST} (c)",
        {"x": _random(*IMAGE)},
        w=_random(6, 3, 2, 8),
        b=_random(6),
    ),
    "gated_gelu": _case(
        "y = com.microsoft.BiasSplitGelu (x, b)",
        "s = Add (x, b)  one, two = Split <axis=-1> (s)  h = com.microsoft.Gelu (two)  y = Mul (one, h)",
        {"x": _random(2, 3, 10)},
        b=_random(10),
    ),
    "bias_and_sum": _case(
        "y = com.microsoft.BiasAdd (x, b, k)",
        "s = Add (x, b)  y = Add (s, k)",
        {"x": _random(2, 3, 10), "k": _random(2, 3, 10)},
        b=_random(10),
    ),
}


def test_agrees_with_operators_of_onnx(case_name: str, agree: Callable[[str], None]) -> None:
    agree(case_name)


@pytest.mark.parametrize(
    ("nodes", "shape", "message"),
    [
        (
            "y = com.microsoft.SkipGroupNorm <groups=2, activation=0, channels_last=0> (x, x, x, x)",
            [1, 8, 2, 2],
            "(SkipGroupNorm) has channels_last=0, which is not supported",
        ),
        (
            "y = com.microsoft.BiasSplitGelu (x, x)",
            [2, 3, 5],
            "(BiasSplitGelu) halves the columns of [2,3,5]",
        ),
        ("y = com.microsoft.NhwcConv (x, x)", [2, 3, 5], "(NhwcConv) convolves [2,3,5] by [2,3,5]"),
    ],
)
def test_unsupported(nodes: str, shape: list[int], message: str) -> None:
    declared = ", ".join(map(str, shape))
    assert message in refusal(f"(float[{declared}] x) => (float[unknown] y) {{ {nodes} }}")
