"""PyTorch's operations that draw random numbers, by those that lie evenly between zero and one.

They are the same in each call (:mod:`relay_layout.frontend.torch.operators.random_numbers`). What drops out
at one rate (``bernoulli.p``) is not among them: that is a network in training.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from relay_layout.frontend.torch.rules.rule import Rule, aten


def _evenly(shape: Sequence[Any]) -> Tensor:
    """0 or more and less than 1."""
    return aten.rand.default(list(shape), dtype=torch.float32)


def _normally(shape: Sequence[Any]) -> Tensor:
    """Around 0, with a deviation of 1: by length and angle of random vectors in a plane."""
    length = torch.sqrt(-2 * torch.log(1 - _evenly(shape)))
    return length * torch.cos(2 * math.pi * _evenly(shape))


def _whole(shape: Sequence[Any], low: int, high: int) -> Tensor:
    # What a product with less than 1 is rounded to may be ``high``.
    return torch.floor(_evenly(shape) * (high - low)).clamp(max=high - low - 1) + low


def _float_type(options: dict[str, Any]) -> torch.dtype:
    return options.get("dtype") or torch.get_default_dtype()


def _rand_like(value: Tensor, **options: Any) -> Tensor:
    return _evenly(value.shape).to(options.get("dtype") or value.dtype)


def _randn(size: Sequence[Any], **options: Any) -> Tensor:
    return _normally(size).to(_float_type(options))


def _randn_like(value: Tensor, **options: Any) -> Tensor:
    return _normally(value.shape).to(options.get("dtype") or value.dtype)


def _randint(high: int, size: Sequence[Any], **options: Any) -> Tensor:
    return _randint_from(0, high, size, **options)


def _randint_from(low: int, high: int, size: Sequence[Any], **options: Any) -> Tensor:
    return _whole(size, low, high).to(options.get("dtype") or torch.int64)


def _randint_like(value: Tensor, high: int, **options: Any) -> Tensor:
    return _whole(value.shape, 0, high).to(options.get("dtype") or value.dtype)


def _randint_like_from(value: Tensor, low: int, high: int, **options: Any) -> Tensor:
    return _whole(value.shape, low, high).to(options.get("dtype") or value.dtype)


def _uniform(value: Tensor, low: float = 0.0, high: float = 1.0, **options: Any) -> Tensor:
    return (_evenly(value.shape) * (high - low) + low).to(value.dtype)


def _normal_like(value: Tensor, mean: float = 0.0, std: float = 1.0, **options: Any) -> Tensor:
    return (_normally(value.shape) * std + mean).to(value.dtype)


def _normal_around(mean: Tensor, std: float = 1.0, **options: Any) -> Tensor:
    return (_normally(mean.shape) * std).to(mean.dtype) + mean


def _normal_of_deviations(mean: float, std: Tensor, **options: Any) -> Tensor:
    return _normally(std.shape).to(std.dtype) * std + mean


def _normal_of_both(mean: Tensor, std: Tensor, **options: Any) -> Tensor:
    shape = torch.broadcast_shapes(mean.shape, std.shape)
    return _normally(shape).to(mean.dtype) * std + mean


def _normal_of_a_shape(mean: float, std: float, size: Sequence[Any], **options: Any) -> Tensor:
    return (_normally(size) * std + mean).to(_float_type(options))


def _exponentially(value: Tensor, rate: float = 1.0, **options: Any) -> Tensor:
    # More than 0 and less than 1: Gumbel's noise is the logarithm of the result.
    inside = _evenly(value.shape) * (1 - 2**-23) + 2**-25
    return (-torch.log(inside) / rate).to(value.dtype)


def _happened(likely: Tensor, **options: Any) -> Tensor:
    return (_evenly(likely.shape) < likely).to(likely.dtype)


RULES: dict[Any, Rule] = {
    aten.bernoulli.default: _happened,
    aten.exponential.default: _exponentially,
    aten.normal.Tensor_Tensor: _normal_of_both,
    aten.normal.Tensor_float: _normal_around,
    aten.normal.float_Tensor: _normal_of_deviations,
    aten.normal.float_float: _normal_of_a_shape,
    aten.normal_functional.default: _normal_like,
    aten.rand_like.default: _rand_like,
    aten.randint.default: _randint,
    aten.randint.low: _randint_from,
    aten.randint_like.default: _randint_like,
    aten.randint_like.low_dtype: _randint_like_from,
    aten.randn.default: _randn,
    aten.randn_like.default: _randn_like,
    aten.uniform.default: _uniform,
}
"""By operation."""
