"""PyTorch's LSTM, GRU and RNN: products by PyTorch's other operations, and one operation for the steps.

That is ``torch.ops.relay_layout.recurrent``, which has a converter
(:mod:`relay_layout.frontend.torch.operators.recurrent`) and no kernel.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table

from relay_layout.frontend.torch.rules.rule import Rule, aten

_ORDERS = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}
"""Where PyTorch has each gate, in the order of ONNX, which is the operator's."""

_ACTIVATIONS = {"LSTM": ("sigmoid", "tanh", "tanh"), "GRU": ("sigmoid", "tanh")}

_LIBRARY = torch.library.Library("relay_layout", "FRAGMENT")
_LIBRARY.define(
    "recurrent(str kind, str[] activations, bool[] backwards, Tensor projected, Tensor weight, "
    "Tensor hidden, Tensor? cell, Tensor? bias) -> Tensor[]"
)


def _shapes(
    kind: str,
    activations: list[str],
    backwards: list[bool],
    projected: Tensor,
    weight: Tensor,
    hidden: Tensor,
    cell: Tensor | None,
    bias: Tensor | None,
) -> list[Tensor]:
    states = [hidden] if cell is None else [hidden, cell]
    sequence = projected.new_empty((projected.shape[0], *hidden.shape))
    return [sequence, *(torch.empty_like(state) for state in states)]


torch.library.register_fake("relay_layout::recurrent", _shapes)


def _layers(kind: str, activations: Sequence[str] = ()) -> Callable[..., Any]:
    """What ``aten.lstm.input`` and its like compute, but for the order of results."""
    forms = list(activations or _ACTIVATIONS[kind])

    def compute(
        data: Tensor,
        first: Sequence[Tensor],
        params: Sequence[Tensor],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> Any:
        directions, each = 2 if bidirectional else 1, 4 if has_biases else 2
        projects = first[0].shape[-1] != first[-1].shape[-1]
        if projects or (train and dropout) or len(params) != num_layers * directions * each:
            return NotImplemented
        data = data.transpose(0, 1) if batch_first else data
        lasts = []
        for layer in range(num_layers):
            start = layer * directions * each
            own = [params[start + place * each : start + (place + 1) * each] for place in range(directions)]
            states = [state.narrow(0, layer * directions, directions) for state in first]
            data, *last = _layer(kind, forms, data, states, own)
            lasts.append(last)
        sequence = data.transpose(0, 1) if batch_first else data
        return sequence, *(torch.cat(states) for states in zip(*lasts, strict=True))

    return compute


def _layer(
    kind: str, forms: list[str], data: Tensor, states: list[Tensor], params: list[Sequence[Tensor]]
) -> list[Tensor]:
    """Hidden states [T, B, D * H] and the last states; weights, for each direction, are PyTorch's."""
    ordered = [[_ordered(kind, value) for value in direction] for direction in params]
    matrices, weights, *biases = zip(*ordered, strict=True)
    bias = own = None
    if biases:
        # The bias of the hidden state of a GRU is added before the reset.
        own = torch.stack(biases[1]) if kind == "GRU" else None
        bias = torch.cat(
            biases[0] if kind == "GRU" else [one + other for one, other in zip(*biases, strict=True)]
        )
    elif kind == "GRU":
        own = torch.stack(weights).new_zeros(len(params), weights[0].shape[0])
    # As rows of one matrix: of single sequences, steps would be multiplied one by one.
    projected = torch.nn.functional.linear(data.flatten(0, 1), torch.cat(matrices), bias)
    projected = projected.unflatten(0, data.shape[:2])
    weight = torch.stack([matrix.t() for matrix in weights])
    backwards = [False, True][: len(params)]
    cell = states[1] if len(states) > 1 else None
    sequence, *last = torch.ops.relay_layout.recurrent(
        kind, forms, backwards, projected, weight, states[0], cell, own
    )
    return [sequence.permute(0, 2, 1, 3).flatten(2), *last]


def _ordered(kind: str, value: Tensor) -> Tensor:
    """Rows of gates in the order of ONNX."""
    gates = value.chunk(len(_ORDERS[kind]))
    return torch.cat([gates[place] for place in _ORDERS[kind]]) if len(gates) > 1 else value


def _rule(operation: Any, layers: Callable[..., Any]) -> Rule:
    def compute(data: Tensor, states: Any, *others: Any) -> Any:
        found = layers(data, states if isinstance(states, tuple | list) else [states], *others)
        # What the operator does not compute is PyTorch's own to take apart, step by step.
        return decomposition_table[operation](data, states, *others) if found is NotImplemented else found

    return compute


RULES: dict[Any, Rule] = {
    operation: _rule(operation, layers)
    for operation, layers in {
        aten.lstm.input: _layers("LSTM"),
        aten.gru.input: _layers("GRU"),
        aten.rnn_tanh.input: _layers("RNN", ["tanh"]),
        aten.rnn_relu.input: _layers("RNN", ["relu"]),
    }.items()
}
"""By operation."""


def _shape_of_layers(data: Tensor, first: Any, *others: Any) -> Any:
    """Tensors of the shapes of what the layers compute."""
    *_, bidirectional, batch_first = others
    states = list(first) if isinstance(first, tuple | list) else [first]
    hidden = states[0].shape[-1] * (2 if bidirectional else 1)
    outer = data.shape[:2]
    sequence = data.new_empty(*(outer[::-1] if batch_first else outer), hidden)
    return sequence.transpose(0, 1) if batch_first else sequence, *(
        torch.empty_like(state) for state in states
    )


@contextmanager
def kept_whole() -> Iterator[None]:
    """Within it, programs are exported without a look into these layers, so that their length may be open.

    PyTorch finds out the shapes of their results by all steps, whose number it has to know for that.
    """
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    kernels: Mapping[Any, Any] = {operation: operation.py_kernels.get(key) for operation in RULES}
    try:
        for operation in kernels:
            operation.py_kernels[key] = _shape_of_layers
            operation._dispatch_cache.clear()
        yield
    finally:
        for operation, kernel in kernels.items():
            del operation.py_kernels[key]
            if kernel is not None:
                operation.py_kernels[key] = kernel
            operation._dispatch_cache.clear()
