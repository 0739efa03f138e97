"""Recurrent layers over sequences of known length by operators for each step, for what lacks their loop.

Each state is [batch, hidden], or [batch, 1, hidden] where the batch is symbolic, which is a shape that
products with constant matrices have kernels for. Time and batch are one dimension, so that splitting the
data, and joining the results, moves memory in one piece or not at all.
"""

from dataclasses import dataclass

import numpy as np
from tvm import relax

from relay_layout.activations import like
from relay_layout.ir import Constant, Emit, Expression, Extent, constant, constant_array, dtype_of, shape_of
from relay_layout.recurrent.cells import CELLS, Cell, State, Weights, columns
from relay_layout.recurrent.operator import optional_of, recurrence_of


def unrolled(emit: Emit, call: relax.Call) -> relax.Tuple:
    """What a call of the operator gives, of which the number of steps is known and not 0."""
    recurrence, optional = recurrence_of(call), optional_of(call)
    projected, weight = call.args[:2]
    length, batch, _ = shape_of(projected) or ()
    directions, hidden, gates = (int(extent) for extent in shape_of(weight) or ())
    layer = _Layer(emit, length, batch, hidden, recurrence.backwards)
    active = _active(layer, optional.get("lengths"))
    runs = []
    for index, backwards in enumerate(recurrence.backwards):
        own = {
            name: _direction(emit, optional[name], index)
            for name in ("hidden", "cell", "bias", "peepholes")
            if name in optional
        }
        matrix = _direction(emit, weight, index)
        weights = Weights(matrix, own.get("bias"), own.get("peepholes"))
        cell = CELLS[recurrence.kind](emit, recurrence, index, weights)
        data = columns(emit, projected, index * gates, (index + 1) * gates)
        steps = layer.steps(layer.reshaped(data, layer.rows(length, gates)))
        first = tuple(
            None
            if name not in own or _is_zero(own[name])
            else layer.reshaped(own[name], layer.rows(1, hidden))
            for name in recurrence.states
        )
        order = range(length)[::-1] if backwards else range(length)
        runs.append(_run(cell, steps, order, active, first))
    each = [layer.reshaped(layer.joined(run.hidden, 0), layer.border(length, 1)) for run in runs]
    states = [
        layer.reshaped(layer.joined([run.last[place] for run in runs], 0), layer.border(directions))
        for place in range(len(recurrence.states))
    ]
    return relax.Tuple([layer.joined(each, 1), *states])


@dataclass(frozen=True)
class _Layer:
    """The extents of a layer."""

    emit: Emit
    length: int
    batch: Extent
    hidden: int
    backwards: tuple[bool, ...]

    def rows(self, count: int, columns: int) -> list[Extent]:
        """The shape of ``count`` times the batch, in one dimension."""
        between = [] if isinstance(self.batch, int) else [1]
        return [self.batch * count, *between, columns]

    def border(self, *outer: int) -> list[Extent]:
        """The shape of states, time or directions first."""
        return [*outer, self.batch, self.hidden]

    def reshaped(self, value: Expression, shape: list[Extent]) -> Expression:
        if isinstance(value, Constant):
            return constant(constant_array(value).reshape(shape))
        return self.emit(relax.op.reshape(value, relax.ShapeExpr(shape)))

    def steps(self, value: Expression) -> list[Expression]:
        """The parts of a tensor of :meth:`rows`, in order of time."""
        if self.length == 1:
            return [value]
        parts = self.emit(relax.op.split(value, self.length, axis=0))
        return [self.emit(relax.TupleGetItem(parts, index)) for index in range(self.length)]

    def joined(self, parts: list[Expression], axis: int) -> Expression:
        return parts[0] if len(parts) == 1 else self.emit(relax.op.concat(parts, axis=axis))


@dataclass(frozen=True)
class _Run:
    """What one direction gives: hidden states in order of time, and the last state."""

    hidden: list[Expression]
    last: State


def _direction(emit: Emit, value: Expression, index: int) -> Expression:
    """The part of one direction of a tensor whose first dimension is directions, without that dimension."""
    if isinstance(value, Constant):
        return constant(np.ascontiguousarray(constant_array(value)[index]))
    directions, *extents = shape_of(value) or ()
    if directions > 1:
        value = emit(relax.op.strided_slice(value, [0], [index], [index + 1]))
    return emit(relax.op.reshape(value, relax.ShapeExpr(extents)))


def _is_zero(value: Expression) -> bool:
    return isinstance(value, Constant) and not constant_array(value).any()


def _active(layer: _Layer, lengths: Expression | None) -> list[Expression] | None:
    """For each step which sequences have not ended before, as a column; None where all go to the end."""
    if lengths is None:
        return None
    if isinstance(lengths, Constant):
        known = constant_array(lengths)
        return [constant((step < known).reshape(layer.rows(1, 1))) for step in range(layer.length)]
    # All comparisons at once: one for each step would be as many kernels, as the numbers are in their code.
    times = constant(np.arange(layer.length, dtype=dtype_of(lengths)).reshape(-1, 1))
    running = layer.emit(relax.op.less(times, lengths))
    return layer.steps(layer.reshaped(running, layer.rows(layer.length, 1)))


def _run(
    cell: Cell, steps: list[Expression], order: range, active: list[Expression] | None, state: State
) -> _Run:
    hidden: list[Expression] = [None] * len(steps)
    for step in order:
        after = cell.step(steps[step], state)
        hidden[step] = after[0]
        if active is not None:
            mask = active[step]
            zero = like(0.0, after[0])
            hidden[step] = cell.emit(relax.op.where(mask, after[0], zero))
            after = tuple(
                cell.emit(relax.op.where(mask, new, zero if old is None else old))
                for new, old in zip(after, state, strict=True)
            )
        state = after
    return _Run(hidden, state)
