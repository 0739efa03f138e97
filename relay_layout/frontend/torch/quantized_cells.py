"""Recurrent layers of scripts whose weights ``quantize_dynamic`` made integers or halves.

They are computed by the numbers that the weights stand for, without rounding data and states to bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch


class Cell(torch.nn.Module):
    """The weights of one layer in one direction, and its biases, in float32."""

    def __init__(self, packed: Any) -> None:
        super().__init__()
        (_, tensors, _, _, products), _ = packed.__getstate__()
        unpacked = [torch.ops.quantized.linear_unpack(product) for product in products]
        biases = tensors or [bias for _, bias in unpacked]
        weights = [weight.dequantize() for weight, _ in unpacked]
        self.count = 0
        for tensor in (*weights, *(bias for bias in biases if bias is not None)):
            self.register_buffer(f"part_{self.count}", tensor.detach().float().clone())
            self.count += 1

    def parts(self, count: int) -> list[Any]:
        """The first of the weights and biases, as PyTorch's recurrent operations take them."""
        return [getattr(self, f"part_{place}") for place in range(count)]


def _flat(cells: Sequence[Cell], has_biases: bool) -> list[Any]:
    return [part for cell in cells for part in cell.parts(4 if has_biases else 2)]


def _lstm(data: Any, states: list[Any], cells: Sequence[Cell], biases: bool, *options: Any) -> Any:
    layers, dropout, _, both_ways, batch_first = options[:5]
    flat = _flat(cells, biases)
    return torch.ops.aten.lstm.input(
        data, states, flat, biases, layers, dropout, False, both_ways, batch_first
    )


def _gru(data: Any, state: Any, cells: Sequence[Cell], biases: bool, *options: Any) -> Any:
    layers, dropout, _, both_ways, batch_first = options[:5]
    flat = _flat(cells, biases)
    return torch.ops.aten.gru.input(data, state, flat, biases, layers, dropout, False, both_ways, batch_first)


RECURRENT: Mapping[str, Callable[..., Any]] = {"quantized_gru": _gru, "quantized_lstm": _lstm}
"""Operations of aten on such cells."""

__all__ = ["RECURRENT", "Cell"]
