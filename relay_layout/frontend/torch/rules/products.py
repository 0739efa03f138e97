"""PyTorch's sums of products and distances of points, by products of matrices and elementwise operations."""

from typing import Any

import torch
from torch import Tensor

from relay_layout.frontend.torch.rules.rule import Rule, aten

_PAIRWISE = 25
"""Rows of either operand up to which PyTorch sums the squares of differences for distances."""

_COORDINATES = 8
"""Up to so many, sums of squares of differences cost no more than a product of matrices."""


def _sum_of_products(
    addend: Tensor, left: Tensor, right: Tensor, *, beta: complex = 1, alpha: complex = 1
) -> Tensor:
    if not left.is_floating_point() and not left.is_complex():
        # Of integers, PyTorch takes fractions of these without what is behind the point.
        beta, alpha = int(beta.real), int(alpha.real)
    total = alpha * torch.bmm(left, right).sum(0, dtype=left.dtype)
    return total if beta == 0 else beta * addend + total


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


def _distances(left: Tensor, right: Tensor, p: float, mode: int | None) -> Tensor:
    by_product = mode != 2 and (mode == 1 or left.shape[-2] > _PAIRWISE or right.shape[-2] > _PAIRWISE)
    # The product leaves half of the digits of points that lie close to each other.
    if p == 2 and by_product and left.shape[-1] > _COORDINATES:
        squares = (left * left).sum(-1, keepdim=True) + (right * right).sum(-1).unsqueeze(-2)
        return (squares - 2 * left @ right.transpose(-1, -2)).clamp_min(0).sqrt()
    return _lengths((left.unsqueeze(-2) - right.unsqueeze(-3)).abs(), p)


def _lengths(difference: Tensor, p: float) -> Tensor:
    """The norms, along the last dimension, of what is not below zero."""
    if p == float("inf"):
        return difference.amax(-1)
    if p == 0:
        return (difference != 0).to(difference.dtype).sum(-1)
    if p in (1, 2):
        return difference.sum(-1) if p == 1 else (difference * difference).sum(-1).sqrt()
    return difference.pow(p).sum(-1).pow(1 / p)


def _euclidean_distances(left: Tensor, right: Tensor) -> Any:
    return _distances(left, right, 2, 1)


def _distances_within(rows: Tensor, p: float = 2.0) -> Tensor:
    """Those between each two rows of [N, K], each pair once: [N * (N - 1) / 2]."""
    first, second = torch.triu_indices(rows.shape[0], rows.shape[0], 1).unbind()
    return _lengths((rows.index_select(0, first) - rows.index_select(0, second)).abs(), p)


RULES: dict[Any, Rule] = {
    aten.addbmm.default: _sum_of_products,
    aten._trilinear.default: _sum_of_three_factors,
    aten._cdist_forward.default: _distances,
    aten._pdist_forward.default: _distances_within,
    aten._euclidean_dist.default: _euclidean_distances,
}
"""By operation."""
