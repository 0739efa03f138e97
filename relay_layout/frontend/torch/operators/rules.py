"""PyTorch's operations in terms of others, where there is no converter for them.

A rule is written in PyTorch, so that its own rules of types and broadcasting hold; one that gives
NotImplemented leaves the operation as it is. Rules see shapes and types, no numbers.
"""

from collections.abc import Callable
from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table

aten: Any = torch.ops.aten
Rule = Callable[..., Any]

_PAIRWISE = 25
"""Rows of either operand up to which PyTorch sums the squares of differences for distances."""

_COORDINATES = 8
"""Up to so many, sums of squares of differences cost no more than a product of matrices."""

COUNTED = torch.int32
"""The type in which truth values are ordered and counted."""

RULES: dict[Any, Rule] = {}
"""By operation."""


def bounds_passed(bounds: Tensor, count: Any) -> Tensor:
    """For each index below ``count``, how many of the ``bounds`` it is not below."""
    return (bounds.unsqueeze(0) <= torch.arange(count).unsqueeze(1)).to(COUNTED).sum(1)


def _rule(*operations: Any) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(operations, rule))
        return rule

    return register


@_rule(aten._native_batch_norm_legit_functional.default)
def _batch_norm_with_statistics(*arguments: Any) -> Any:
    # TVM's converter gives zeros for the statistics that are kept.
    return decomposition_table[aten._native_batch_norm_legit_functional.default](*arguments)


@_rule(aten.cat.default)
def _joined(tensors: list[Tensor], dim: int = 0) -> Any:
    # Of any rank may be joined to what is empty and has one dimension, as caches begin.
    kept = [one for one in tensors if one.ndim != 1 or not isinstance(one.shape[0], int) or one.shape[0]]
    dtype = reduce(torch.promote_types, (one.dtype for one in tensors))
    if not kept or (len(kept) == len(tensors) and all(one.dtype == dtype for one in tensors)):
        return NotImplemented
    return torch.cat([one.to(dtype) for one in kept], dim)


@_rule(aten.adaptive_avg_pool2d.default)
def _average_of_regions(value: Tensor, output_size: list[int]) -> Tensor:
    # PyTorch's own rule also changes how a mean lies in memory, in place.
    if all(isinstance(extent, int) and extent == 1 for extent in output_size):
        return value.mean((-2, -1), keepdim=True)
    return aten._adaptive_avg_pool2d(value, output_size)


@_rule(aten.sort.stable)
def _stable_sort(value: Tensor, *, stable: bool | None, dim: int = -1, descending: bool = False) -> Any:
    # Every sort of ours is.
    return torch.sort(value, dim=dim, descending=descending)


@_rule(aten.kthvalue.default)
def _kth_value(value: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    if not value.ndim:
        return value.clone(), torch.zeros((), dtype=torch.int64)
    values, places = torch.sort(value, dim=dim)
    found, place = (one.narrow(dim, k - 1, 1) for one in (values, places))
    return (found, place) if keepdim else (found.squeeze(dim), place.squeeze(dim))


@_rule(aten.any.default)
def _any(value: Tensor) -> Tensor:
    return _any_along(value, list(range(value.ndim)))


@_rule(aten.any.dim, aten.any.dims)
def _any_along(value: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    truths = value != 0
    dims = list(range(value.ndim)) if dim is None else dim
    if dims != []:
        truths = truths.to(COUNTED).sum(dims, keepdim) > 0
    return truths.to(torch.uint8) if value.dtype == torch.uint8 else truths


@_rule(aten.sgn.default)
def _sign_of_any(value: Tensor) -> Any:
    return NotImplemented if value.is_complex() else torch.sign(value)


@_rule(aten.hypot.default)
def _hypotenuse(left: Tensor, right: Tensor) -> Tensor:
    # By the longer side, so that its square is not infinite.
    longer, shorter = torch.maximum(left.abs(), right.abs()), torch.minimum(left.abs(), right.abs())
    ratio = torch.where(longer == 0, 0.0, shorter / longer)
    # Extremes of two need not keep NaN, which loses to infinity alone.
    length = torch.where(torch.isnan(left + right), torch.nan, longer * torch.sqrt(1 + ratio * ratio))
    return torch.where(torch.isinf(left) | torch.isinf(right), torch.inf, length)


@_rule(aten.signbit.default)
def _sign_bit(value: Tensor) -> Tensor:
    if not value.is_floating_point():
        return value < 0
    # Only the quotient tells the zeros apart.
    return (value < 0) | ((value == 0) & (value.reciprocal() < 0))


@_rule(aten.copysign.Tensor)
def _copy_sign(magnitude: Tensor, sign: Tensor) -> Tensor:
    common = torch.result_type(magnitude, sign)
    size = magnitude.abs().to(common if common.is_floating_point else torch.get_default_dtype())
    return torch.where(torch.signbit(sign), -size, size)


@_rule(aten.angle.default)
def _angle(value: Tensor) -> Any:
    if value.is_complex():
        return NotImplemented
    real = value if value.is_floating_point() else value.to(torch.get_default_dtype())
    turned = torch.where(real < 0, torch.full_like(real, torch.pi), torch.zeros_like(real))
    return torch.where(torch.isnan(real), real, turned)


@_rule(aten.fmax.default)
def _fmax(left: Tensor, right: Tensor) -> Tensor:
    return _without_nan(left, right, torch.maximum(left, right))


@_rule(aten.fmin.default)
def _fmin(left: Tensor, right: Tensor) -> Tensor:
    return _without_nan(left, right, torch.minimum(left, right))


def _without_nan(left: Tensor, right: Tensor, extreme: Tensor) -> Tensor:
    """The extreme of two numbers, or the one of them that is a number."""
    return torch.where(torch.isnan(left), right, torch.where(torch.isnan(right), left, extreme))


@_rule(aten.clamp.Tensor)
def _clamp(value: Tensor, min: Tensor | None = None, max: Tensor | None = None) -> Tensor:
    bounded = value if min is None else torch.maximum(value, min)
    return bounded if max is None else torch.minimum(bounded, max)


@_rule(aten.clamp_min.Tensor)
def _clamp_min(value: Tensor, min: Tensor) -> Tensor:
    return torch.maximum(value, min)


@_rule(aten.clamp_max.Tensor)
def _clamp_max(value: Tensor, max: Tensor) -> Tensor:
    return torch.minimum(value, max)


@_rule(aten.erfc.default)
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


_COMPLEMENT = (
    *(-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806),
    *(0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277),
)


@_rule(aten.addbmm.default)
def _sum_of_products(
    addend: Tensor, left: Tensor, right: Tensor, *, beta: complex = 1, alpha: complex = 1
) -> Tensor:
    if not left.is_floating_point() and not left.is_complex():
        # Of integers, PyTorch takes fractions of these without what is behind the point.
        beta, alpha = int(beta.real), int(alpha.real)
    total = alpha * torch.bmm(left, right).sum(0, dtype=left.dtype)
    return total if beta == 0 else beta * addend + total


@_rule(aten._cdist_forward.default)
def _distances(left: Tensor, right: Tensor, p: float, mode: int | None) -> Tensor:
    by_product = mode != 2 and (mode == 1 or left.shape[-2] > _PAIRWISE or right.shape[-2] > _PAIRWISE)
    # The product leaves half of the digits of points that lie close to each other.
    if p == 2 and by_product and left.shape[-1] > _COORDINATES:
        squares = (left * left).sum(-1, keepdim=True) + (right * right).sum(-1).unsqueeze(-2)
        return (squares - 2 * left @ right.transpose(-1, -2)).clamp_min(0).sqrt()
    difference = (left.unsqueeze(-2) - right.unsqueeze(-3)).abs()
    if p == float("inf"):
        return difference.amax(-1)
    if p == 0:
        return (difference != 0).to(left.dtype).sum(-1)
    if p in (1, 2):
        return difference.sum(-1) if p == 1 else (difference * difference).sum(-1).sqrt()
    return difference.pow(p).sum(-1).pow(1 / p)


@_rule(aten._euclidean_dist.default)
def _euclidean_distances(left: Tensor, right: Tensor) -> Any:
    return _distances(left, right, 2, 1)


@_rule(aten._trilinear.default)
def _sum_of_three_factors(
    first: Tensor,
    second: Tensor,
    third: Tensor,
    expand1: list[int],
    expand2: list[int],
    expand3: list[int],
    sumdim: list[int],
    unroll_dim: int = 1,
) -> Tensor:
    """As bilinear layers have it: each factor lacks dimensions, which are of one element then."""
    product: Any = 1
    for factor, lacking in zip((first, second, third), (expand1, expand2, expand3), strict=True):
        for dim in sorted(lacking):
            factor = factor.unsqueeze(dim)
        product = factor * product
    return product.sum(sumdim)


@_rule(aten.searchsorted.Tensor)
def _search_sorted(
    edges: Tensor,
    value: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    if sorter is not None:
        edges = edges.gather(-1, sorter)
    # One row of edges serves all values; else each row of values has its own.
    own = edges if edges.ndim == 1 else edges.unsqueeze(-2)
    looked_up = value.unsqueeze(-1)
    before = own <= looked_up if right or side == "right" else own < looked_up
    # NaN comes behind all edges. (That it is not before one would be taken for being behind it.)
    before = before | torch.isnan(looked_up)
    return before.to(COUNTED).sum(-1).to(torch.int32 if out_int32 else torch.int64)


@_rule(aten.masked_scatter.default)
def _masked_scatter(value: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    # Each place takes as many elements further in the source as places before it are written.
    value, mask = torch.broadcast_tensors(value, mask)
    before = mask.flatten().to(torch.int64).cumsum(0) - 1
    taken = source.flatten().index_select(0, before.clamp_min(0))
    return torch.where(mask, taken.view(value.shape), value)


@_rule(aten.diagonal_scatter.default)
def _diagonal_scatter(value: Tensor, source: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    first, second = dim1 % value.ndim, dim2 % value.ndim
    rows, columns = (
        torch.arange(value.shape[side]).view([-1 if dim == side else 1 for dim in range(value.ndim)])
        for side in (first, second)
    )
    # Elements of the diagonal are counted by its rows, or by its columns where it begins behind some rows.
    side, other = (first, second) if offset >= 0 else (second, first)
    places = torch.arange(value.shape[side]).clamp_max(source.shape[-1] - 1)
    spread = source.index_select(-1, places).unsqueeze(-1).movedim((-2, -1), (side, other))
    return torch.where(rows + offset == columns, spread, value)


@_rule(aten.as_strided_scatter.default)
def _strided_scatter(
    value: Tensor, source: Tensor, size: list[int], stride: list[int], storage_offset: int | None = None
) -> Any:
    if not value.is_contiguous():
        return NotImplemented
    places = torch.full([], storage_offset or 0)
    for extent, step in zip(size, stride, strict=True):
        places = places.unsqueeze(-1) + torch.arange(extent) * step
    return value.flatten().scatter(0, places.flatten(), source.flatten()).view(value.shape)


@_rule(aten.rrelu_with_noise_functional.default)
def _randomized_relu(
    value: Tensor, noise: Tensor, lower: float = 0.125, upper: float = 1 / 3, training: bool = False, *_: Any
) -> Any:
    if training:
        return NotImplemented
    return torch.nn.functional.leaky_relu(value, (lower + upper) / 2), noise


@_rule(aten.linalg_vector_norm.default)
def _vector_norm(
    value: Tensor, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    if ord != 0:
        return NotImplemented
    dims = list(range(value.ndim)) if dim is None else dim
    return (value != 0).to(dtype or value.dtype).sum(dims, keepdim)
