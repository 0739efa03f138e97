"""PyTorch's elementwise operations that no converter takes, by others."""

from typing import Any

import torch
from torch import Tensor

from relay_layout.frontend.torch.rules.rule import Rule, aten

_COMPLEMENT = (
    *(-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806),
    *(0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277),
)


def _sign_of_any(value: Tensor) -> Any:
    return NotImplemented if value.is_complex() else torch.sign(value)


def _hypotenuse(left: Tensor, right: Tensor) -> Tensor:
    # By the longer side, so that its square is not infinite.
    longer, shorter = torch.maximum(left.abs(), right.abs()), torch.minimum(left.abs(), right.abs())
    ratio = torch.where(longer == 0, 0.0, shorter / longer)
    # Extremes of two need not keep NaN, which loses to infinity alone.
    length = torch.where(torch.isnan(left + right), torch.nan, longer * torch.sqrt(1 + ratio * ratio))
    return torch.where(torch.isinf(left) | torch.isinf(right), torch.inf, length)


def _sign_bit(value: Tensor) -> Tensor:
    if not value.is_floating_point():
        return value < 0
    # Only the quotient tells the zeros apart.
    return (value < 0) | ((value == 0) & (value.reciprocal() < 0))


def _copy_sign(magnitude: Tensor, sign: Tensor) -> Tensor:
    common = torch.result_type(magnitude, sign)
    size = magnitude.abs().to(common if common.is_floating_point else torch.get_default_dtype())
    return torch.where(torch.signbit(sign), -size, size)


def _angle(value: Tensor) -> Any:
    if value.is_complex():
        return NotImplemented
    real = value if value.is_floating_point() else value.to(torch.get_default_dtype())
    turned = torch.where(real < 0, torch.full_like(real, torch.pi), torch.zeros_like(real))
    return torch.where(torch.isnan(real), real, turned)


def _fmax(left: Tensor, right: Tensor) -> Tensor:
    return _without_nan(left, right, torch.maximum(left, right))


def _fmin(left: Tensor, right: Tensor) -> Tensor:
    return _without_nan(left, right, torch.minimum(left, right))


def _without_nan(left: Tensor, right: Tensor, extreme: Tensor) -> Tensor:
    """The extreme of two numbers, or the one of them that is a number."""
    return torch.where(torch.isnan(left), right, torch.where(torch.isnan(right), left, extreme))


def _clamp(value: Tensor, min: Tensor | None = None, max: Tensor | None = None) -> Tensor:
    bounded = value if min is None else torch.maximum(value, min)
    return bounded if max is None else torch.minimum(bounded, max)


def _clamp_min(value: Tensor, min: Tensor) -> Tensor:
    return torch.maximum(value, min)


def _clamp_max(value: Tensor, max: Tensor) -> Tensor:
    return torch.minimum(value, max)


def _complement_of_erf(value: Tensor) -> Any:
    """Press et al., Numerical Recipes, 6.2: the relative error is below 1.2e-7, as singles need it."""
    if value.dtype == torch.float64:
        return NotImplemented
    if not value.is_floating_point():
        value = value.to(torch.get_default_dtype())
    size = value.abs()
    step = 1 / (1 + 0.5 * size)
    sum_ = torch.full_like(value, _COMPLEMENT[-1])
    for coefficient in reversed(_COMPLEMENT[:-1]):
        sum_ = sum_ * step + coefficient
    tail = step * torch.exp(-size * size + sum_)
    return torch.where(value < 0, 2 - tail, tail)


def _randomized_relu(
    value: Tensor, noise: Tensor, lower: float = 0.125, upper: float = 1 / 3, training: bool = False, *_: Any
) -> Any:
    if training:
        return NotImplemented
    return torch.nn.functional.leaky_relu(value, (lower + upper) / 2), noise


RULES: dict[Any, Rule] = {
    aten.sgn.default: _sign_of_any,
    aten.hypot.default: _hypotenuse,
    aten.signbit.default: _sign_bit,
    aten.copysign.Tensor: _copy_sign,
    aten.angle.default: _angle,
    aten.fmax.default: _fmax,
    aten.fmin.default: _fmin,
    aten.clamp.Tensor: _clamp,
    aten.clamp_min.Tensor: _clamp_min,
    aten.clamp_max.Tensor: _clamp_max,
    aten.erfc.default: _complement_of_erf,
    aten.rrelu_with_noise_functional.default: _randomized_relu,
}
"""By operation."""
