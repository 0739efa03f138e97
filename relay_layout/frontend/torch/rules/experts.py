"""Products of groups of rows with a matrix each, which mixtures of experts take, by PyTorch's others."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from relay_layout.frontend.torch.rules.rule import Rule, aten, bounds_passed


def _grouped_product(
    rows: Tensor,
    matrices: Tensor,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: Any = None,
) -> Any:
    """Rows (rows, inputs) by matrices (groups, inputs, outputs), of which each takes those before its offset.

    Rows behind the last offset give zeros.
    """
    if rows.ndim != 2 or matrices.ndim != 3 or offs is None or bias is not None:
        return NotImplemented
    count, groups = rows.shape[0], matrices.shape[0]
    group = bounds_passed(offs, count)
    own = group.clamp_max(groups - 1)
    if isinstance(count, int) and count <= groups:
        # Fewer matrices are read than there are.
        found = torch.bmm(rows.unsqueeze(1), matrices.index_select(0, own)).squeeze(1)
    else:
        products = torch.matmul(rows.unsqueeze(0), matrices)
        found = products.flatten(0, 1).index_select(0, own * count + torch.arange(count))
    found = torch.where((group < groups).unsqueeze(1), found, 0.0)
    return found.to(out_dtype or rows.dtype)


def rules() -> dict[Any, Rule]:
    """By operation, of those that are there: other packages define some, once they are imported."""
    return dict.fromkeys(_operations(), _grouped_product)


def _operations() -> Iterator[Any]:
    for namespace, name in ((aten, "_grouped_mm"), (torch.ops.transformers, "grouped_mm_fallback")):
        operation = getattr(namespace, name, None)
        if operation is not None:
            yield operation.default
