"""PyTorch's reductions that no converter takes, or takes in part, by others."""

from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table

from relay_layout.frontend.torch.rules.rule import COUNTED, Rule, aten


def _any(value: Tensor) -> Tensor:
    return _any_along(value, list(range(value.ndim)))


def _any_along(value: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    truths = value != 0
    dims = list(range(value.ndim)) if dim is None else dim
    if dims != []:
        truths = truths.to(COUNTED).sum(dims, keepdim) > 0
    return truths.to(torch.uint8) if value.dtype == torch.uint8 else truths


def _vector_norm(
    value: Tensor, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    if ord != 0:
        return NotImplemented
    dims = list(range(value.ndim)) if dim is None else dim
    return (value != 0).to(dtype or value.dtype).sum(dims, keepdim)


def _average_of_regions(value: Tensor, output_size: list[int]) -> Tensor:
    # PyTorch's own rule also changes how a mean lies in memory, in place.
    if all(isinstance(extent, int) and extent == 1 for extent in output_size):
        return value.mean((-2, -1), keepdim=True)
    return aten._adaptive_avg_pool2d(value, output_size)


def _batch_norm_with_statistics(*arguments: Any) -> Any:
    # TVM's converter gives zeros for the statistics that are kept.
    return decomposition_table[aten._native_batch_norm_legit_functional.default](*arguments)


RULES: dict[Any, Rule] = {
    aten.any.default: _any,
    aten.any.dim: _any_along,
    aten.any.dims: _any_along,
    aten.linalg_vector_norm.default: _vector_norm,
    aten.adaptive_avg_pool2d.default: _average_of_regions,
    aten._native_batch_norm_legit_functional.default: _batch_norm_with_statistics,
}
"""By operation."""
