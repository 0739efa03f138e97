"""Recurrent layers of scripts whose weights ``quantize_dynamic`` made integers or halves.

They are computed by the numbers that the weights stand for, without rounding data and states to bytes.
"""

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


def _layers(operation: Callable[..., Any]) -> Callable[..., Any]:
    """A recurrent ``operation`` of aten, on such cells in place of its flat list of tensors."""

    def run(data: Any, states: Any, cells: Sequence[Cell], biases: bool, *options: Any) -> Any:
        layers, dropout, _, both_ways, batch_first = options[:5]
        flat = [part for cell in cells for part in cell.parts(4 if biases else 2)]
        return operation(data, states, flat, biases, layers, dropout, False, both_ways, batch_first)

    return run


RECURRENT: Mapping[str, Callable[..., Any]] = {
    "quantized_gru": _layers(torch.ops.aten.gru.input),
    "quantized_lstm": _layers(torch.ops.aten.lstm.input),
}
"""Operations of aten on such cells."""
