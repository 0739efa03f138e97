"""Functions whose results near zero have all their digits in PyTorch, which sums with one would take away."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from relay_layout.frontend.torch.rules.rule import Rule, aten

_NEAR = 0.25
"""Up to so far from zero series are summed: further out a sum with one keeps the digits."""

_POWERS = {torch.float32: 7, torch.float64: 14}
"""The last power of the exponential's series: what is left out there is less than is rounded."""

_TERMS = {torch.float32: 4, torch.float64: 9}
"""Terms of the logarithm's series behind the first."""


def _in_single(function: Callable[[Tensor], Tensor]) -> Rule:
    """Integers and truth values as floats; narrow floats in single precision, as PyTorch computes them."""

    def rule(value: Tensor) -> Any:
        if value.is_complex():
            return NotImplemented
        dtype = value.dtype if value.is_floating_point() else torch.get_default_dtype()
        wide = torch.promote_types(dtype, torch.float32)
        return function(value.to(wide)).to(dtype)

    return rule


def _exponential_less_one(value: Tensor) -> Tensor:
    series = torch.ones_like(value)
    for power in reversed(range(2, _POWERS[value.dtype] + 1)):
        series = series * (value / power) + 1
    return torch.where(value.abs() < _NEAR, value * series, torch.exp(value) - 1)


def _logarithm_of_one_more(value: Tensor) -> Tensor:
    # log(1 + x) = 2 artanh(x / (x + 2)). Kahan's way, by (1 + x) - 1, is none here: TVM simplifies that to x.
    ratio = value / (value + 2)
    square = ratio * ratio
    terms = _TERMS[value.dtype]
    series = torch.full_like(value, 2 / (2 * terms + 1))
    for power in reversed(range(terms)):
        series = series * square + 2 / (2 * power + 1)
    return torch.where(value.abs() < _NEAR, ratio * series, torch.log(value + 1))


def _area_tangent(value: Tensor) -> Tensor:
    size = value.abs()
    return torch.copysign(_logarithm_of_one_more(2 * size / (1 - size)) / 2, value)


RULES: dict[Any, Rule] = {
    aten.atanh.default: _in_single(_area_tangent),
    aten.expm1.default: _in_single(_exponential_less_one),
    aten.log1p.default: _in_single(_logarithm_of_one_more),
}
"""By operation."""
