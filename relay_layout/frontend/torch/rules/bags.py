"""PyTorch's tables of rows, by its other operations: bags of rows, and rows of a largest norm."""

from typing import Any

import torch
from torch import Tensor

from relay_layout.frontend.torch.rules.rule import Rule, aten, bounds_passed

_SUM, _MEAN, _MAX = range(3)
"""By the numbers that ``embedding_bag`` has for them."""


def _embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Any:
    """What bags hold together, of which each begins at an offset; None for what training alone reads."""
    bags = offsets.shape[0] - int(include_last_offset)
    bag = bounds_passed(offsets[:bags], indices.shape[0]) - 1
    rows, kept = weight.index_select(0, indices), (indices != padding_idx)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    sizes = torch.zeros(bags, dtype=torch.int64).index_add(0, bag, kept.to(torch.int64)).unsqueeze(1)
    if mode == _MAX:
        rows = torch.where(kept.unsqueeze(1), rows, -torch.inf)
        lowest = weight.new_full((bags, weight.shape[1]), -torch.inf)
        largest = lowest.scatter_reduce(0, bag.unsqueeze(1).expand_as(rows), rows, "amax")
        return torch.where(sizes > 0, largest, 0.0), None, None, None
    rows = torch.where(kept.unsqueeze(1), rows, 0.0)
    total = weight.new_zeros((bags, weight.shape[1])).index_add(0, bag, rows)
    found = total / sizes.clamp_min(1).to(total.dtype) if mode == _MEAN else total
    return found, None, None, None


_NO_DIVISION_BY_ZERO = 1e-7
"""What PyTorch adds to the norm of a row."""


def _renormalized(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """The table with rows of at most this norm: all of them, not those of ``indices`` alone.

    PyTorch changes a row in place when it is first looked up. So it is at compile time for a constant table,
    as if each row had been looked up before.
    """
    norms = torch.linalg.vector_norm(weight, norm_type, 1, keepdim=True)
    return torch.where(norms > max_norm, weight * (max_norm / (norms + _NO_DIVISION_BY_ZERO)), weight)


RULES: dict[Any, Rule] = {
    aten._embedding_bag.default: _embedding_bag,
    aten._embedding_bag_forward_only.default: _embedding_bag,
    aten.embedding_renorm.default: _renormalized,
}
"""By operation."""
