"""PyTorch's operations on types and ranks that their converters do not take, by those that they do."""

from functools import reduce
from typing import Any

import torch
from torch import Tensor

from relay_layout.frontend.torch.rules.rule import COUNTED, Rule, aten


def _is_exact(value: Tensor) -> bool:
    """Whether a tensor holds integers or truth values."""
    return not (value.is_floating_point() or value.is_complex())


def _in_floats(operation: Any) -> Rule:
    """Functions of integers and truth values are those of floats."""

    def rule(*values: Tensor) -> Any:
        if not all(map(_is_exact, values)):
            return NotImplemented
        return operation(*(value.to(torch.get_default_dtype()) for value in values))

    return rule


def _in_common(operation: Any) -> Rule:
    """Operands in the type that they have in common; truth values, which nothing orders, as integers."""

    def rule(left: Tensor, right: Any) -> Any:
        common = torch.result_type(left, right)
        wide = COUNTED if common == torch.bool else common
        if all(value.dtype == wide for value in (left, right) if isinstance(value, Tensor)):
            return NotImplemented
        found = operation(
            *(value.to(wide) if isinstance(value, Tensor) else value for value in (left, right))
        )
        return found.to(torch.bool) if common == torch.bool else found

    return rule


def _in_integers(operation: Any) -> Rule:
    """What orders truth values does it with integers; what were truth values are so again."""

    def rule(value: Tensor, *arguments: Any, **options: Any) -> Any:
        if not _is_truth(value):
            return NotImplemented
        results = operation(value.to(COUNTED), *arguments, **options)
        if isinstance(results, Tensor):
            return results.to(torch.bool)
        return results[0].to(torch.bool), *results[1:]

    return rule


def _is_truth(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype == torch.bool


def _of_one(operation: Any) -> Rule:
    """A rule that takes a tensor without dimensions as one with one element."""

    def rule(value: Tensor, *arguments: Any, **options: Any) -> Any:
        return (
            NotImplemented if value.ndim else operation(value.unsqueeze(0), *arguments, **options).squeeze(0)
        )

    return rule


def _first_place(value: Tensor, *arguments: Any, **options: Any) -> Any:
    return NotImplemented if value.ndim else torch.zeros((), dtype=torch.int64)


def _as_it_is(value: Tensor) -> Any:
    """The sign and the magnitude of a truth value."""
    return value.clone() if _is_truth(value) else NotImplemented


def _is_no_number(value: Tensor) -> Any:
    return torch.zeros_like(value, dtype=torch.bool) if _is_exact(value) else NotImplemented


def _negative(value: Tensor) -> Any:
    return torch.zeros_like(value) - value if value.dtype == torch.uint8 else NotImplemented


def _power(base: Any, exponent: Any) -> Any:
    """Powers of integers by integers that are not known, and of both by floats."""
    tensors = [value for value in (base, exponent) if isinstance(value, Tensor)]
    if not any(map(_is_exact, tensors)) or any(value.is_complex() for value in tensors):
        return NotImplemented
    dtype = torch.result_type(base, exponent)
    if not isinstance(exponent, Tensor) and base.dtype == dtype and exponent >= 0:
        # A number of products, for which there is a converter.
        return NotImplemented
    left, right = (
        value.to(dtype) if isinstance(value, Tensor) else torch.full_like(tensors[0], value, dtype=dtype)
        for value in (base, exponent)
    )
    if not isinstance(exponent, Tensor):
        return (
            torch.pow(left, exponent) if exponent >= 0 or dtype.is_floating_point else _inverse(left, right)
        )
    return torch.pow(left, right) if dtype.is_floating_point else _integer_power(left, right)


def _integer_power(base: Tensor, exponent: Tensor) -> Tensor:
    """Squares for the bits of the exponent, multiplied; products may overflow, as PyTorch's do."""
    power, square = torch.ones_like(base * exponent), base
    for bit in range(torch.iinfo(exponent.dtype).bits - 1):
        power = torch.where((exponent >> bit) & 1 == 1, power * square, power)
        square = square * square
    return torch.where(exponent < 0, _inverse(base, exponent), power)


def _inverse(base: Tensor, exponent: Tensor) -> Tensor:
    """Powers with exponents below zero: only of one and minus one is any left."""
    sign = torch.where(exponent & 1 == 1, -1, 1).to(base.dtype)
    return torch.where(base == 1, 1, torch.where(base == -1, sign, 0)).to(base.dtype)


def _remainder_of_number(number: float, divisor: Tensor) -> Tensor:
    dtype = torch.result_type(number, divisor)
    return torch.remainder(torch.full_like(divisor, number, dtype=dtype), divisor)


def _average_pool(value: Tensor, *arguments: Any, **options: Any) -> Any:
    if value.ndim == 3:
        return aten.avg_pool2d(value.unsqueeze(0), *arguments, **options).squeeze(0)
    if value.is_floating_point():
        return NotImplemented
    return aten.avg_pool2d(value.to(torch.float64), *arguments, **options).trunc().to(value.dtype)


def _batch_norm(value: Tensor, weight: Any, bias: Any, mean: Tensor, variance: Tensor, *numbers: Any) -> Any:
    """A batch norm of halves by single precision parameters, as autocast has it."""
    if value.dtype == mean.dtype:
        return NotImplemented
    operation = aten._native_batch_norm_legit_no_training
    normalized, *rest = operation(value.to(mean.dtype), weight, bias, mean, variance, *numbers)
    return normalized.to(value.dtype), *rest


def _group_norm(value: Tensor, weight: Tensor | None, bias: Tensor | None, *numbers: Any) -> Any:
    """A group norm of bfloat16 in single precision: TVM normalizes groups of other floats alone."""
    if value.dtype != torch.bfloat16:
        return NotImplemented
    given = (one if one is None else one.float() for one in (value, weight, bias))
    return tuple(found.to(value.dtype) for found in aten.native_group_norm(*given, *numbers))


def _joined(tensors: list[Tensor], dim: int = 0) -> Any:
    # Of any rank may be joined to what is empty and has one dimension, as caches begin.
    kept = [one for one in tensors if one.ndim != 1 or not isinstance(one.shape[0], int) or one.shape[0]]
    dtype = reduce(torch.promote_types, (one.dtype for one in tensors))
    if not kept or (len(kept) == len(tensors) and all(one.dtype == dtype for one in tensors)):
        return NotImplemented
    return torch.cat([one.to(dtype) for one in kept], dim)


_FLOATS = (
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "cos", "cosh", "erf", "exp", "exp2"),
    *("log", "log10", "log2", "reciprocal", "rsqrt", "sigmoid", "sin", "sinh", "sqrt"),
    *("tan", "tanh"),
)
_COMMON = ("eq", "fmod", "ge", "gt", "le", "lt", "ne", "remainder")
_ORDERS = (
    *(aten.amax.default, aten.amin.default, aten.max.default, aten.max.dim, aten.min.default, aten.min.dim),
    *(aten.sort.default, aten.topk.default),
)
_RANKED = (aten._log_softmax.default, aten._softmax.default, aten.cumprod.default, aten.cumsum.default)

RULES: dict[Any, Rule] = {
    **{getattr(aten, name).default: _in_floats(getattr(torch, name)) for name in _FLOATS},
    **{
        operation: _in_common(operation)
        for operation in (
            *(getattr(getattr(aten, name), kind) for name in _COMMON for kind in ("Scalar", "Tensor")),
            aten.maximum.default,
            aten.minimum.default,
        )
    },
    **{operation: _in_integers(operation) for operation in _ORDERS},
    **{operation: _of_one(operation) for operation in _RANKED},
    **dict.fromkeys((aten.argmax.default, aten.argmin.default), _first_place),
    **dict.fromkeys((aten.abs.default, aten.sign.default), _as_it_is),
    **dict.fromkeys((aten.isinf.default, aten.isnan.default), _is_no_number),
    **dict.fromkeys((aten.pow.Scalar, aten.pow.Tensor_Scalar, aten.pow.Tensor_Tensor), _power),
    aten._native_batch_norm_legit_no_training.default: _batch_norm,
    aten.avg_pool2d.default: _average_pool,
    aten.cat.default: _joined,
    aten.native_group_norm.default: _group_norm,
    aten.neg.default: _negative,
    aten.remainder.Scalar_Tensor: _remainder_of_number,
}
"""By operation."""
