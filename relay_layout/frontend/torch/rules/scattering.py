"""PyTorch's operations that write to places of a tensor, by those that look elements up."""

from typing import Any

import torch
from torch import Tensor

from relay_layout.frontend.torch.rules.rule import Rule, aten


def _masked_scatter(value: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    # Each place takes as many elements further in the source as places before it are written.
    value, mask = torch.broadcast_tensors(value, mask)
    before = mask.flatten().to(torch.int64).cumsum(0) - 1
    taken = source.flatten().index_select(0, before.clamp_min(0))
    return torch.where(mask, taken.view(value.shape), value)


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


def _strided_scatter(
    value: Tensor, source: Tensor, size: list[int], stride: list[int], storage_offset: int | None = None
) -> Any:
    if not value.is_contiguous():
        return NotImplemented
    places = torch.full([], storage_offset or 0)
    for extent, step in zip(size, stride, strict=True):
        places = places.unsqueeze(-1) + torch.arange(extent) * step
    return value.flatten().scatter(0, places.flatten(), source.flatten()).view(value.shape)


def _index_reduce(
    value: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Any:
    if not value.ndim:
        return NotImplemented
    spread = index.view([-1 if axis == dim % value.ndim else 1 for axis in range(value.ndim)])
    return value.scatter_reduce(dim, spread.expand(source.shape), source, reduce, include_self=include_self)


def _put(value: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Places are counted along all elements in a row."""
    places = (index.flatten(),)
    return value.flatten().index_put(places, source.flatten(), accumulate).view(value.shape)


RULES: dict[Any, Rule] = {
    aten.masked_scatter.default: _masked_scatter,
    aten.diagonal_scatter.default: _diagonal_scatter,
    aten.index_reduce.default: _index_reduce,
    aten.put.default: _put,
    aten.as_strided_scatter.default: _strided_scatter,
}
"""By operation."""
