"""PyTorch's operations on what is ordered: sorts of a kind, and places in ordered edges."""

from typing import Any

import torch
from torch import Tensor

from relay_layout.frontend.torch.rules.rule import COUNTED, Rule, aten


def _stable_sort(value: Tensor, *, stable: bool | None, dim: int = -1, descending: bool = False) -> Any:
    # Every sort of ours is.
    return torch.sort(value, dim=dim, descending=descending)


def _kth_value(value: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    if not value.ndim:
        return value.clone(), torch.zeros((), dtype=torch.int64)
    values, places = torch.sort(value, dim=dim)
    found, place = (one.narrow(dim, k - 1, 1) for one in (values, places))
    return (found, place) if keepdim else (found.squeeze(dim), place.squeeze(dim))


def _median_of_numbers(value: Tensor) -> Tensor:
    return _median_of_numbers_along(value.flatten())[0]


def _median_of_numbers_along(value: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    if not value.ndim:
        return value.clone(), torch.zeros((), dtype=torch.int64)
    # NaN come last.
    ordered = torch.sort(value, dim=dim)
    numbers = (value == value).to(COUNTED).sum(dim, keepdim=True)
    middle = torch.div(numbers - 1, 2, rounding_mode="floor").clamp_min(0).to(torch.int64)
    found, place = (one.gather(dim, middle) for one in ordered)
    return (found, place) if keepdim else (found.squeeze(dim), place.squeeze(dim))


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


RULES: dict[Any, Rule] = {
    aten.sort.stable: _stable_sort,
    aten.kthvalue.default: _kth_value,
    aten.nanmedian.default: _median_of_numbers,
    aten.nanmedian.dim: _median_of_numbers_along,
    aten.searchsorted.Tensor: _search_sorted,
}
"""By operation."""
