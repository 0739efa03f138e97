"""PyTorch's fake quantization, of networks that were trained for it, as quantizing and dequantizing.

So read, convolutions between two of them are computed in integers, as those of any quantized network.
"""

from typing import Any

import torch
from torch import Tensor

from relay_layout.frontend.torch.operators.quantized import register
from relay_layout.frontend.torch.rules.rule import Rule, aten

_BYTES = (torch.uint8, torch.int8)
"""The types of which quantized numbers are."""


def _per_tensor(value: Tensor, scale: Any, zero_point: Any, low: int, high: int) -> Any:
    dtype = _byte_type(low, high)
    if dtype is None:
        return _by_steps(value, scale, zero_point, low, high)
    register()
    quantized: Any = torch.ops.quantized_decomposed
    kind = "tensor" if isinstance(scale, Tensor) else "default"
    parameters = (scale, zero_point, low, high, dtype)
    integers = getattr(quantized.quantize_per_tensor, kind)(value, *parameters)
    return getattr(quantized.dequantize_per_tensor, kind)(integers, *parameters), _within(
        value, scale, zero_point, low, high
    )


def _with_flags(
    value: Tensor, scale: Tensor, zero_point: Tensor, enabled: Tensor, low: int, high: int
) -> Any:
    """Where the flag is not set, nothing is rounded."""
    rounded, mask = _per_tensor(value, scale, zero_point, low, high)
    return torch.where(enabled.reshape(()) != 0, rounded, value), mask


def _per_channel(value: Tensor, scale: Tensor, zero_point: Tensor, axis: int, low: int, high: int) -> Any:
    along = [1] * value.dim()
    along[axis] = -1
    dtype = _byte_type(low, high)
    if dtype is None:
        return _by_steps(value, scale.reshape(along), zero_point.reshape(along), low, high)
    register()
    quantized: Any = torch.ops.quantized_decomposed
    parameters = (scale, zero_point, axis, low, high, dtype)
    integers = quantized.quantize_per_channel(value, *parameters)
    return quantized.dequantize_per_channel(integers, *parameters), _within(
        value, scale.reshape(along), zero_point.reshape(along), low, high
    )


def _byte_type(low: int, high: int) -> torch.dtype | None:
    """The type of bytes that holds numbers from ``low`` to ``high``; None where there is none."""
    for dtype in _BYTES:
        limits = torch.iinfo(dtype)
        if limits.min <= low < high <= limits.max:
            return dtype
    return None


def _steps(value: Tensor, scale: Any, zero_point: Any) -> Tensor:
    return torch.round(value * (1.0 / scale)) + zero_point


def _within(value: Tensor, scale: Any, zero_point: Any, low: int, high: int) -> Tensor:
    """Where nothing is cut off, which training reads."""
    steps = _steps(value, scale, zero_point)
    return (steps >= low) & (steps <= high)


def _by_steps(value: Tensor, scale: Any, zero_point: Any, low: int, high: int) -> Any:
    steps = _steps(value, scale, zero_point)
    return (torch.clamp(steps, low, high) - zero_point) * scale, (steps >= low) & (steps <= high)


RULES: dict[Any, Rule] = {
    aten.fake_quantize_per_tensor_affine_cachemask.default: _per_tensor,
    aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default: _with_flags,
    aten.fake_quantize_per_channel_affine_cachemask.default: _per_channel,
}
