"""PyTorch's modified Bessel functions and the normal distribution's functions of far tails.

They are computed in double precision, by other operations, and are as precise as singles.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from relay_layout.frontend.torch.rules.rule import Rule, aten

_FAR = 15.0
"""From where on the asymptotic series of Bessel functions are precise (Abramowitz and Stegun, 9.7.1)."""

_NEAR_TERMS, _FAR_TERMS = 42, 16
"""Terms of their series for less (9.6.10), whose terms have one sign, and of the asymptotic ones."""

_FRACTION_FROM, _FRACTION_TERMS = 2.0, 40
"""The complement of the error function is a continued fraction (7.1.14) from here on, of so many terms."""

_NEWTON_STEPS = 6


def _in_double(function: Callable[[Tensor], Tensor]) -> Rule:
    def rule(value: Tensor) -> Tensor:
        dtype = value.dtype if value.is_floating_point() else torch.get_default_dtype()
        return function(value.to(torch.float64)).to(dtype)

    return rule


def _bessel(order: int, *, scaled: bool) -> Callable[[Tensor], Tensor]:
    """The modified Bessel function of the first kind, times exp(-abs(x)) if ``scaled``."""
    near_terms = [1.0 / (math.factorial(k) * math.factorial(k + order)) for k in range(_NEAR_TERMS)]
    far_terms = [1.0]
    for k in range(1, _FAR_TERMS):
        far_terms.append(-far_terms[-1] * (4 * order**2 - (2 * k - 1) ** 2) / (8 * k))

    def function(x: Tensor) -> Tensor:
        size = x.abs()
        small, large = size.clamp(max=_FAR), size.clamp(min=_FAR)
        near = _series(near_terms, small * small / 4) * (small / 2) ** order
        far = _series(far_terms, 1 / large) / torch.sqrt(2 * math.pi * large)
        if scaled:
            near = near * torch.exp(-small)
        else:
            # Half of the exponent at a time: the whole overflows before the result does.
            half = torch.exp(large / 2)
            far = torch.where(torch.isinf(large), large, far * half * half)
        found = torch.where(size < _FAR, near, far)
        return torch.copysign(found, x) if order % 2 else found

    return function


def _series(terms: list[float], value: Tensor) -> Tensor:
    total = torch.full_like(value, terms[-1])
    for term in terms[-2::-1]:
        total = total * value + term
    return total


def _scaled_complement(x: Tensor) -> Tensor:
    """exp(x * x) * erfc(x)."""
    size = x.abs()
    small, large = size.clamp(max=_FRACTION_FROM), size.clamp(min=_FRACTION_FROM)
    near = torch.exp(small * small) * (1 - torch.erf(small))
    rest = large
    for term in range(_FRACTION_TERMS, 0, -1):
        rest = large + term / 2 / rest
    found = torch.where(size < _FRACTION_FROM, near, 1 / (math.sqrt(math.pi) * rest))
    return torch.where(x < 0, 2 * torch.exp(x * x) - found, found)


def _normal_quantile(p: Tensor) -> Tensor:
    """Where the normal distribution's function is ``p``: Newton's steps on the logarithm of the tail.

    That is log(erfcx(t)) - t * t of t standard deviations times sqrt(1/2), nearly a parabola.
    """
    tail = torch.minimum(p, 1 - p)
    aim = torch.log(2 * tail)
    t = torch.sqrt(-aim.clamp(min=-1e3)) * torch.where(aim < -1, 0.9, 0.6)
    for _ in range(_NEWTON_STEPS):
        scaled = _scaled_complement(t)
        t = t + (torch.log(scaled) - t * t - aim) * scaled * (math.sqrt(math.pi) / 2)
    found = torch.where(p < 0.5, -math.sqrt(2) * t, math.sqrt(2) * t)
    found = torch.where(tail == 0, torch.where(p < 0.5, -torch.inf, torch.inf), found)
    return torch.where((p < 0) | (p > 1), torch.nan, found)


RULES: dict[Any, Rule] = {
    aten.i0.default: _in_double(_bessel(0, scaled=False)),
    aten.special_erfcx.default: _in_double(_scaled_complement),
    aten.special_i0e.default: _in_double(_bessel(0, scaled=True)),
    aten.special_i1.default: _in_double(_bessel(1, scaled=False)),
    aten.special_i1e.default: _in_double(_bessel(1, scaled=True)),
    aten.special_modified_bessel_i0.default: _in_double(_bessel(0, scaled=False)),
    aten.special_modified_bessel_i1.default: _in_double(_bessel(1, scaled=False)),
    aten.special_ndtri.default: _in_double(_normal_quantile),
}
"""By operation."""
