"""Functions of two elements over tensors that are broadcast to one shape."""

from collections.abc import Callable, Sequence
from typing import Any

from tvm import te, topi

from topi_ext.compute.transcendental import bound


def broadcast(
    left: te.Tensor,
    right: te.Tensor,
    shape: Sequence[Any],
    element: Callable[[Any, Any], Any],
    name: str,
    dtype: str = "float32",
) -> te.Tensor:
    """``element`` of each of ``left`` and ``right``, as floats of ``dtype``, broadcast to ``shape``."""
    sides = [topi.broadcast_to(side, shape) for side in (left, right)]

    def compute(*index: Any) -> Any:
        first, second = (side(*index).astype(dtype) for side in sides)
        return bound(first, lambda first: bound(second, lambda second: element(first, second), dtype), dtype)

    return te.compute(shape, compute, name=name)
