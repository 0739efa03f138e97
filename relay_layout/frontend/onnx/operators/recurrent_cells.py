"""One step in time of ONNX's LSTM, GRU and RNN, as the equations of their specification have it.

Every tensor of a step ends in the batch and a last dimension of ``hidden`` elements, once per gate where
the gates lie beside each other. A state that is None is zero: the first step then has no product to compute.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from tvm import relax

from relay_layout.frontend.onnx.node import Node
from relay_layout.frontend.onnx.operators.activations import Activation
from relay_layout.frontend.onnx.values import Value, shape_of

State = tuple[Any, ...]
"""The hidden state, and of an LSTM the cell state; None for one that is zero."""


@dataclass(frozen=True)
class Weights:
    """What one direction multiplies and adds, gates beside each other in the last dimension.

    ``data`` is [input, gates * hidden] and ``recurrence`` [hidden, gates * hidden]; the biases are
    [gates * hidden], ``peepholes`` [3 * hidden]; the last three are None where there is none.
    """

    data: Value
    recurrence: Value
    data_bias: Value
    recurrence_bias: Value
    peepholes: Value


class Cell:
    """One direction of a layer: :meth:`step` gives the next state."""

    gates = 1
    states = 1
    activations: tuple[str, ...] = ("Tanh",)

    def __init__(self, node: Node, hidden: int, weights: Weights, activations: Sequence[Activation]) -> None:
        self.node = node
        self.hidden = hidden
        self.weights = weights
        self._activations = tuple(activations)
        self._clip = node.attributes.get("clip")

    @property
    def bias(self) -> Value:
        """What is added to the product of the data and :attr:`Weights.data`; None for nothing."""
        return total(self.node, [self.weights.data_bias, self.weights.recurrence_bias])

    def step(self, projected: Any, state: State) -> State:
        """The state after a step whose data gave ``projected``: their product and the bias."""
        sum_of_both = self.sum(projected, self.product(state[0], self.weights.recurrence))
        return (self.bound(self.activate(0, sum_of_both)),)

    def bound(self, expression: Any) -> Any:
        """An intermediate result bound to a variable."""
        return self.node.emit(expression, "step")

    def activate(self, index: int, data: Any) -> Any:
        """One of the activations, of data kept within the attribute ``clip``."""
        if self._clip:
            data = self.bound(relax.op.clip(data, -self._clip, self._clip))
        return self.bound(self._activations[index](self.node, data))

    def product(self, left: Any, matrix: Value) -> Any:
        """A state by a matrix of weights; None where the state is zero."""
        return None if left is None else self.bound(relax.op.matmul(left, self.node.expression(matrix)))

    def sum(self, *terms: Value) -> Any:
        """The terms that are not None, of which one is not a constant."""
        return reduce(lambda left, right: self.combined(relax.op.add, left, right), filter(_given, terms))

    def combined(self, operator: Callable[[Any, Any], Any], left: Value, right: Value) -> Any:
        """The result of an elementwise operator of two tensors."""
        return self.bound(operator(self.node.expression(left), self.node.expression(right)))

    def scaled(self, value: Value, state: Any) -> Any:
        """An elementwise product; None where either is zero."""
        if value is None or state is None:
            return None
        return self.combined(relax.op.multiply, state, value)

    def gate(self, value: Value, index: int, count: int = 1) -> Value:
        """Of values of gates beside each other, those of ``count`` gates."""
        if value is None:
            return None
        return columns(self.node, value, index * self.hidden, (index + count) * self.hidden)

    def complement(self, value: Any) -> Any:
        """1 - x."""
        return self.bound(relax.op.subtract(self.node.like(1.0, value), value))


class LongShortTerm(Cell):
    """LSTM: gates in the order input, output, forget, cell."""

    gates = 4
    states = 2
    activations = ("Sigmoid", "Tanh", "Tanh")

    def step(self, projected: Any, state: State) -> State:
        hidden, cell = state
        gates = self.sum(projected, self.product(hidden, self.weights.recurrence))
        holes = [self.gate(self.weights.peepholes, index) for index in range(3)]
        entering = self.activate(0, self.sum(self.gate(gates, 0), self.scaled(holes[0], cell)))
        fresh = self.scaled(entering, self.activate(1, self.gate(gates, 3)))
        if cell is not None:
            if self.node.attributes.get("input_forget", 0):
                kept = self.complement(entering)
            else:
                kept = self.activate(0, self.sum(self.gate(gates, 2), self.scaled(holes[2], cell)))
            fresh = self.sum(self.scaled(kept, cell), fresh)
        leaving = self.activate(0, self.sum(self.gate(gates, 1), self.scaled(holes[1], fresh)))
        return self.scaled(leaving, self.activate(2, fresh)), fresh


class GatedUnit(Cell):
    """GRU: gates in the order update, reset, hidden."""

    gates = 3
    activations = ("Sigmoid", "Tanh")

    def __init__(self, node: Node, hidden: int, weights: Weights, activations: Sequence[Activation]) -> None:
        super().__init__(node, hidden, weights, activations)
        self._linear_first = bool(node.attributes.get("linear_before_reset", 0))
        # Cut once: every step multiplies by the same constants.
        self._recurrence = (
            (weights.recurrence,)
            if self._linear_first
            else (self.gate(weights.recurrence, 0, 2), self.gate(weights.recurrence, 2))
        )

    @property
    def bias(self) -> Value:
        # With linear_before_reset the hidden gate's own bias is added before the reset.
        return self.weights.data_bias if self._linear_first else super().bias

    def step(self, projected: Any, state: State) -> State:
        (hidden,) = state
        update, fresh = (self._linear if self._linear_first else self._plain)(projected, hidden)
        blended = self.scaled(self.complement(update), fresh)
        return (blended if hidden is None else self.sum(blended, self.scaled(update, hidden)),)

    def _plain(self, projected: Any, hidden: Any) -> tuple[Any, Any]:
        gates = self.sum(self.gate(projected, 0, 2), self.product(hidden, self._recurrence[0]))
        update, reset = (self.activate(0, self.gate(gates, index)) for index in (0, 1))
        again = self.product(self.scaled(reset, hidden), self._recurrence[-1])
        return update, self.activate(1, self.sum(self.gate(projected, 2), again))

    def _linear(self, projected: Any, hidden: Any) -> tuple[Any, Any]:
        again: Value = self.weights.recurrence_bias
        if hidden is not None:
            again = self.sum(self.product(hidden, self._recurrence[0]), again)
        update, reset = (
            self.activate(0, self.sum(self.gate(projected, index), self.gate(again, index)))
            for index in (0, 1)
        )
        term = self.scaled(self.gate(again, 2), reset)
        return update, self.activate(1, self.sum(self.gate(projected, 2), term))


def columns(node: Node, value: Value, start: int, stop: int) -> Value:
    """A part of the last dimension; a constant stays one, and nothing is done for nothing."""
    rank, extent = len(shape_of(value)), shape_of(value)[-1]
    if (start, stop) == (0, extent):
        return value
    if isinstance(value, np.ndarray):
        return np.ascontiguousarray(value[..., start:stop])
    return node.emit(relax.op.strided_slice(value, [rank - 1], [start], [stop]), "gate")


def total(node: Node, terms: Sequence[Value]) -> Value:
    """The sum of the terms that are not None; None of none, and a constant of constants."""
    given = list(filter(_given, terms))
    if not given:
        return None
    if all(isinstance(term, np.ndarray) for term in given):
        return sum(given[1:], given[0])
    return reduce(
        lambda left, right: node.emit(relax.op.add(node.expression(left), node.expression(right)), "sum"),
        given,
    )


def _given(term: Value) -> bool:
    return term is not None


CELLS: dict[str, type[Cell]] = {"GRU": GatedUnit, "LSTM": LongShortTerm, "RNN": Cell}
