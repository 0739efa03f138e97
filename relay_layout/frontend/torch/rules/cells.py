"""Cells of recurrent layers by operations that give new tensors; PyTorch's own rules write to them."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from relay_layout.frontend.torch.rules.rule import Rule, aten


def _gru(
    data: Tensor,
    state: Tensor,
    weight: Tensor,
    inner: Tensor,
    bias: Tensor | None = None,
    inner_bias: Tensor | None = None,
) -> Tensor:
    reset, update, new = linear(data, weight, bias).chunk(3, -1)
    own_reset, own_update, own_new = linear(state, inner, inner_bias).chunk(3, -1)
    found = (new + own_new * (reset + own_reset).sigmoid()).tanh()
    return (state - found) * (update + own_update).sigmoid() + found


def _lstm(
    data: Tensor,
    states: Sequence[Tensor],
    weight: Tensor,
    inner: Tensor,
    bias: Tensor | None = None,
    inner_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    state, cell = states
    gates = linear(data, weight, bias) + linear(state, inner, inner_bias)
    taken, kept, new, given = gates.chunk(4, -1)
    cell = kept.sigmoid() * cell + taken.sigmoid() * new.tanh()
    return given.sigmoid() * cell.tanh(), cell


def _plain(activation: Callable[[Tensor], Tensor]) -> Rule:
    def rule(data: Tensor, state: Tensor, weight: Tensor, inner: Tensor, *biases: Tensor | None) -> Tensor:
        bias, inner_bias = (*biases, None, None)[:2]
        return activation(linear(data, weight, bias) + linear(state, inner, inner_bias))

    return rule


RULES: dict[Any, Rule] = {
    aten.gru_cell.default: _gru,
    aten.lstm_cell.default: _lstm,
    aten.rnn_tanh_cell.default: _plain(torch.tanh),
    aten.rnn_relu_cell.default: _plain(torch.relu),
}
"""By operation."""
