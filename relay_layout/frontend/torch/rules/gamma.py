"""PyTorch's gamma functions and the inverse of the error function, by its other operations.

They are as precise as singles.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from relay_layout.frontend.torch.rules.rule import Rule, aten

_SHIFT = 8
"""From where on the series of Stirling are precise (Abramowitz and Stegun, 6.1.41 and 6.3.18)."""

_NEWTON_STEPS = 2


def _wide(value: Tensor) -> Tensor:
    """In double precision, since terms that nearly cancel are subtracted."""
    return value.to(torch.float64)


def _result(value: Tensor) -> torch.dtype:
    return value.dtype if value.is_floating_point() else torch.get_default_dtype()


def _raised(
    value: Tensor, gather: Callable[[Tensor, Tensor], Tensor], gathered: Tensor
) -> tuple[Tensor, Tensor]:
    """A value raised by ones to where series are precise, and what ``gather`` makes of all on the way."""
    for _ in range(_SHIFT):
        gathered = torch.where(value < _SHIFT, gather(gathered, value), gathered)
        value = torch.where(value < _SHIFT, value + 1, value)
    return value, gathered


def _log_of_gamma(value: Tensor) -> Tensor:
    """Above zero by Stirling's series; below, by the reflection."""
    x = _wide(value)
    positive = torch.where(x < 0.5, 1 - x, x)
    moved, product = _raised(positive, torch.mul, torch.ones_like(x))
    inverse = 1 / moved
    square = inverse * inverse
    series = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680)))
    found = (
        (moved - 0.5) * torch.log(moved) - moved + 0.5 * math.log(2 * math.pi) + series - torch.log(product)
    )
    found = torch.where(torch.isinf(x), torch.inf, found)
    part = x - torch.floor(x)
    reflected = math.log(math.pi) - torch.log(torch.sin(math.pi * part).abs()) - found
    # Halves next to integers are not told apart by the sine.
    reflected = torch.where(part == 0, torch.inf, reflected)
    return torch.where((x < 0.5) & ~torch.isinf(x), reflected, found).to(_result(value))


def _derivative_of_log_of_gamma(value: Tensor) -> Tensor:
    x = _wide(value)
    positive = torch.where(x < 0.5, 1 - x, x)
    moved, sum_ = _raised(positive, lambda sum_, one: sum_ + 1 / one, torch.zeros_like(x))
    square = 1 / (moved * moved)
    series = square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square / 240)))
    found = torch.log(moved) - 0.5 / moved - series - sum_
    part = x - torch.floor(x)
    reflected = found - math.pi / torch.tan(math.pi * part)
    reflected = torch.where((part == 0) | torch.isinf(x), torch.nan, reflected)
    found = torch.where(x < 0.5, reflected, found)
    # At zero, the sign of zero is that of the limit.
    return torch.where(x == 0, -1 / x, found).to(_result(value))


def _inverse_of_erf(value: Tensor) -> Tensor:
    """By Giles's approximation for singles ("Approximating the erfinv function"), and steps of Newton's."""
    x = _wide(value)
    log = -torch.log((1 - x) * (1 + x))
    near, far = log - 2.5, torch.sqrt(log) - 3
    found = torch.where(log < 5, _polynomial(_NEAR, near), _polynomial(_FAR, far)) * x
    for _ in range(_NEWTON_STEPS):
        slope = 2 / math.sqrt(math.pi) * torch.exp(-found * found)
        # Where the slope vanishes there is nothing left to be refined.
        step = torch.where(slope > 0, (torch.erf(found) - x) / slope, 0)
        found = found - step
    found = torch.where(x.abs() == 1, x * torch.inf, found)
    return torch.where(x.abs() > 1, torch.nan, found).to(_result(value))


def _polynomial(coefficients: tuple[float, ...], value: Tensor) -> Tensor:
    sum_ = torch.full_like(value, coefficients[0])
    for coefficient in coefficients[1:]:
        sum_ = sum_ * value + coefficient
    return sum_


_NEAR = (
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087),
    *(-0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
)
_FAR = (
    *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773),
    *(-0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
)

RULES: dict[Any, Rule] = {
    aten.lgamma.default: _log_of_gamma,
    aten.digamma.default: _derivative_of_log_of_gamma,
    aten.erfinv.default: _inverse_of_erf,
}
"""By operation."""
