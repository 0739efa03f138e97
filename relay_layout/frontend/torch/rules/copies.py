"""Views that PyTorch copies, such as ``torch.select_copy``, where it has no rule of its own."""

from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from relay_layout.frontend.torch.rules.rule import Rule, aten


def _copied(view: Any) -> Rule:
    """What ``view`` gives, in memory of its own and in plain order."""

    def rule(*arguments: Any, **options: Any) -> Any:
        found = view(*arguments, **options)
        return tree_map_only(
            torch.Tensor, lambda one: one.clone(memory_format=torch.contiguous_format), found
        )

    return rule


RULES: dict[Any, Rule] = {
    aten.detach_copy.default: _copied(aten.detach.default),
    aten.select_copy.int: _copied(aten.select.int),
    aten.slice_copy.Tensor: _copied(aten.slice.Tensor),
    aten.split_copy.Tensor: _copied(aten.split.Tensor),
    aten.view_as_complex_copy.default: _copied(aten.view_as_complex.default),
    aten.view_as_real_copy.default: _copied(aten.view_as_real.default),
}
"""By operation."""
