"""PyTorch's operations that count by steps, or equal elements."""

from typing import Any

import torch
from torch import Tensor

from relay_layout.frontend.torch.rules.rule import Rule, aten


def _histogram(value: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many elements are in each of ``bins`` equal parts; the last one holds its upper bound, too.

    Bounds that are equal stand for those of the data.
    """
    data = value.flatten()
    low, high = data.new_full((), min), data.new_full((), max)
    if min == max and data.numel():
        low, high = data.amin(), data.amax()
    same = low == high
    low, high = torch.where(same, low - 1, low), torch.where(same, high + 1, high)
    place = ((data - low) * bins / (high - low)).floor().clamp(0, bins - 1).to(torch.int64)
    counted = ((data >= low) & (data <= high)).to(value.dtype)
    return value.new_zeros(bins).index_add(0, place, counted)


def _mode(value: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """The least of the elements that are there most often, and the last place of it."""
    if not value.ndim:
        return value.clone(), torch.zeros((), dtype=torch.int64)
    ordered, places = torch.sort(value, dim=dim, stable=True)
    last = dim % value.ndim
    ordered, places = ordered.movedim(last, -1), places.movedim(last, -1)
    # The first of equals is followed by as many as there are behind it.
    count = ordered.shape[-1]
    index = torch.arange(count)
    differs = ordered != ordered.index_select(-1, (index - 1).clamp_min(0))
    first = torch.cummax(torch.where(differs, index, 0), -1)[0]
    longest = (index - first).argmax(-1, keepdim=True)
    found = ordered.gather(-1, longest), places.gather(-1, longest)
    return tuple(one.movedim(-1, last) if keepdim else one.squeeze(-1) for one in found)


def _by_steps(start: Any, end: Any, step: Any = 1, **options: Any) -> Any:
    # TVM counts the elements of a range by steps that are known, and of an open one by steps up alone.
    if isinstance(step, torch.SymInt):
        count = -((start - end) // step)
    elif (
        isinstance(step, int) and step < 0 and any(isinstance(bound, torch.SymInt) for bound in (start, end))
    ):
        count = (start - end - step - 1) // -step
    else:
        return NotImplemented
    return torch.arange(count, **options) * step + start


RULES: dict[Any, Rule] = {
    aten.arange.start_step: _by_steps,
    aten.histc.default: _histogram,
    aten.mode.default: _mode,
}
"""By operation."""
