"""What all rules are, and have in common."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

aten: Any = torch.ops.aten

Rule = Callable[..., Any]
"""An operation, written in PyTorch by others; where it gives NotImplemented, the operation stays."""

COUNTED = torch.int32
"""The type in which truth values are ordered and counted."""


def bounds_passed(bounds: Tensor, count: Any) -> Tensor:
    """For each index below ``count``, how many of the ``bounds`` it is not below."""
    return (bounds.unsqueeze(0) <= torch.arange(count).unsqueeze(1)).to(COUNTED).sum(1)
