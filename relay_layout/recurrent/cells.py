"""One step in time of LSTM, GRU and RNN in operators of Relax, as the equations of ONNX have it.

Every tensor of a step ends in the batch and a last dimension of ``hidden`` elements, once per gate where
the gates lie beside each other. A state that is None is zero: the first step then has no product to compute.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from tvm import relax

from relay_layout.activations import activated, like
from relay_layout.ir import Constant, Emit, Expression, constant, constant_array, shape_of
from topi_ext.compute.recurrent.recurrence import Kind, Recurrence

State = tuple[Expression | None, ...]
"""The hidden state, and of an LSTM the cell state; None for one that is zero."""


@dataclass(frozen=True)
class Weights:
    """What the steps of one direction multiply and add, gates beside each other in the last dimension.

    ``matrix`` is [hidden, gates * hidden], the ``bias`` of a GRU that is added to the product of the hidden
    state [gates * hidden], ``peepholes`` [3 * hidden]; the last two are None where there is none.
    """

    matrix: Expression
    bias: Expression | None
    peepholes: Expression | None


class Cell:
    """One direction of a layer: :meth:`step` gives the next state."""

    def __init__(self, emit: Emit, recurrence: Recurrence, direction: int, weights: Weights) -> None:
        self.emit = emit
        self.weights = weights
        self.recurrence = recurrence
        self.hidden = int((shape_of(weights.matrix) or ())[0])
        self._activations = recurrence.activations[direction]

    def step(self, projected: Expression, state: State) -> State:
        """The state after a step whose data gave ``projected``: their product and the bias."""
        return (self.activate(0, self.sum(projected, self.product(state[0], self.weights.matrix))),)

    def activate(self, index: int, data: Expression) -> Expression:
        """One of the activations, of data kept within the bounds of the layer."""
        clip = self.recurrence.clip
        if clip:
            data = self.emit(relax.op.clip(data, -clip, clip))
        return self.emit(activated(self._activations[index], data))

    def product(self, left: Expression | None, matrix: Expression) -> Expression | None:
        """A state by a matrix of weights; None where the state is zero."""
        return None if left is None else self.emit(relax.op.matmul(left, matrix))

    def sum(self, *terms: Expression | None) -> Expression:
        """The terms that are not None, of which one is not."""
        given = [term for term in terms if term is not None]
        return reduce(lambda left, right: self.emit(relax.op.add(left, right)), given)

    def scaled(self, value: Expression | None, state: Expression | None) -> Expression | None:
        """An elementwise product; None where either is zero."""
        if value is None or state is None:
            return None
        return self.emit(relax.op.multiply(state, value))

    def gate(self, value: Expression | None, index: int, count: int = 1) -> Expression | None:
        """The values of ``count`` gates, of those of all gates beside each other."""
        if value is None:
            return None
        return columns(self.emit, value, index * self.hidden, (index + count) * self.hidden)

    def complement(self, value: Expression) -> Expression:
        """1 - x."""
        return self.emit(relax.op.subtract(like(1.0, value), value))


class LongShortTerm(Cell):
    """LSTM: gates in the order input, output, forget, cell."""

    def step(self, projected: Expression, state: State) -> State:
        hidden, cell = state
        gates = self.sum(projected, self.product(hidden, self.weights.matrix))
        holes = [self.gate(self.weights.peepholes, index) for index in range(3)]
        entering = self.activate(0, self.sum(self.gate(gates, 0), self.scaled(holes[0], cell)))
        fresh = self.scaled(entering, self.activate(1, self.sum(self.gate(gates, 3))))
        if cell is not None:
            if self.recurrence.input_forget:
                kept = self.complement(entering)
            else:
                kept = self.activate(0, self.sum(self.gate(gates, 2), self.scaled(holes[2], cell)))
            fresh = self.sum(self.scaled(kept, cell), fresh)
        leaving = self.activate(0, self.sum(self.gate(gates, 1), self.scaled(holes[1], fresh)))
        return self.scaled(leaving, self.activate(2, fresh)), fresh


class GatedUnit(Cell):
    """GRU: gates in the order update, reset, hidden."""

    def __init__(self, emit: Emit, recurrence: Recurrence, direction: int, weights: Weights) -> None:
        super().__init__(emit, recurrence, direction, weights)
        # Cut once: every step multiplies by the same constants.
        self._matrices = [self.gate(weights.matrix, 0, 2), self.gate(weights.matrix, 2)]

    def step(self, projected: Expression, state: State) -> State:
        (hidden,) = state
        reset_first = self.weights.bias is None
        update, fresh = (self._plain if reset_first else self._linear)(projected, hidden)
        blended = self.scaled(self.complement(update), fresh)
        return (blended if hidden is None else self.sum(blended, self.scaled(update, hidden)),)

    def _plain(self, projected: Expression, hidden: Expression | None) -> tuple[Expression, Expression]:
        matrices: list[Any] = self._matrices
        gates = self.sum(self.gate(projected, 0, 2), self.product(hidden, matrices[0]))
        update, reset = (self.activate(0, self.sum(self.gate(gates, index))) for index in (0, 1))
        again = self.product(self.scaled(reset, hidden), matrices[1])
        return update, self.activate(1, self.sum(self.gate(projected, 2), again))

    def _linear(self, projected: Expression, hidden: Expression | None) -> tuple[Expression, Expression]:
        again = self.sum(self.product(hidden, self.weights.matrix), self.weights.bias)
        update, reset = (
            self.activate(0, self.sum(self.gate(projected, index), self.gate(again, index)))
            for index in (0, 1)
        )
        term = self.scaled(self.gate(again, 2), reset)
        return update, self.activate(1, self.sum(self.gate(projected, 2), term))


def columns(emit: Emit, value: Expression, start: int, stop: int) -> Expression:
    """A part of the last dimension; a constant stays one, and nothing is done for nothing."""
    extents = shape_of(value) or ()
    if (start, stop) == (0, extents[-1]):
        return value
    if isinstance(value, Constant):
        return constant(np.ascontiguousarray(constant_array(value)[..., start:stop]))
    return emit(relax.op.strided_slice(value, [len(extents) - 1], [start], [stop]))


CELLS: dict[Kind, Callable[[Emit, Recurrence, int, Weights], Cell]] = {
    "GRU": GatedUnit,
    "LSTM": LongShortTerm,
    "RNN": Cell,
}
