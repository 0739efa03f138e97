"""Recurrent layers over sequences of any length, as one loop over time.

The product of the data and its weights, for all steps at once, comes from before. A step multiplies the
hidden state by a matrix, a block of columns at a time whose sums stay in registers, and blends what comes
out. The equations are those of ONNX (``LSTM``, ``GRU``, ``RNN``).
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import gcd
from typing import Any, Literal

import numpy as np
from tvm import te, tirx
from tvm.script.ir_builder import tirx as T

from topi_ext.compute.imperative import written
from topi_ext.compute.transcendental import sigmoid_of, tanh_of

Kind = Literal["LSTM", "GRU", "RNN"]

LANES, VECTORS = 16, 4
"""Longest vector, and most of them in a block of columns."""

SHARED_BYTES = 512 << 10
"""Threads share each step of layers whose matrix is larger, and divide the sequences of others among them.
Measured on a Zen 3 with one sequence: sharing takes 1.3 to 2 times as long with 64 KiB, 0.6 with 768 KiB and
with 4 MiB."""


def packed(kind: Kind, weight: np.ndarray, *, reset_first: bool = False) -> np.ndarray:
    """A weight [D, H, gates * H] in blocks of columns, each in one piece: [D, blocks, H, block].

    ``reset_first`` is for a GRU without ``linear_before_reset``, whose gates are not computed all at once.
    """
    directions, hidden, columns = weight.shape
    block = gcd(hidden if kind == "GRU" and reset_first else columns, LANES * VECTORS)
    return np.ascontiguousarray(weight.reshape(directions, hidden, -1, block).swapaxes(1, 2))


def recurrent(
    kind: Kind,
    projected: te.Tensor,
    weight: te.Tensor,
    states: Sequence[te.Tensor],
    *,
    backwards: Sequence[bool],
    lengths: te.Tensor | None = None,
    bias: te.Tensor | None = None,
) -> list[te.Tensor]:
    """The hidden states [T, D, B, H] of all steps and directions, and the last of each state [D, B, H].

    All are float32. ``projected`` [T, B, D * gates * H] are the data by their weights, with the bias;
    ``weight`` is :func:`packed` and multiplies the hidden state; ``states`` [D, B, H] are the first ones.
    Directions of which ``backwards`` says so begin at the end. ``lengths`` [B], int32, are how many steps
    each sequence has: its states stay as they are behind them, where its results are zero. ``bias``
    [D, gates * H] of a GRU is added to the product of the hidden state before the reset (ONNX's
    ``linear_before_reset``); without one the reset comes before that product.
    """
    length, batch, _ = projected.shape
    directions, blocks, hidden, block = (int(extent) for extent in weight.shape)
    width = blocks * block
    given = [tensor for tensor in (lengths, bias) if tensor is not None]
    state = ((directions, batch, hidden), "float32")
    scratch = [((directions, batch, width), "float32"), state]
    outputs = [((length, directions, batch, hidden), "float32"), *[state] * len(states), *scratch]
    sequences = directions * batch

    def body(*buffers: Any) -> None:
        data, matrix, *rest = buffers
        before, rest = rest[: len(states)], rest[len(states) :]
        own, (result, *filled) = rest[: len(given)], rest[len(given) :]
        after, (gates, reset) = filled[: len(states)], filled[len(states) :]
        limits = own[0] if lengths is not None else None
        added = own[-1] if bias is not None else None
        layer = _Layer(kind, hidden, width, block, data, matrix, after, gates, reset, added)

        def at(sequence: Any) -> _Sequence:
            return _Sequence(tirx.floordiv(sequence, batch), tirx.floormod(sequence, batch))

        def begin(sequence: Any, part: Any) -> None:
            where = at(sequence)
            for old, new in zip(before, after, strict=True):
                layer.copy(part, where, old, new)

        def take(phase: _Phase, turn: Any, sequence: Any, part: Any) -> None:
            """A part of a phase of a sequence's step; the last phase also gives the result."""
            where = at(sequence)
            step = _in_order(turn, length, where.direction, backwards)

            def give(value: Callable[[Any], Any]) -> None:
                layer.each(
                    part, lambda place: _set(result, (step, where.direction, where.row, place), value(place))
                )

            with ExitStack() as branch:
                if limits is not None:
                    branch.enter_context(T.If(step < limits[where.row]))
                    branch.enter_context(T.Then())
                phase.run(where, step, part)
                if phase is phases[-1]:
                    give(lambda place: after[0][where(place)])
            if limits is not None and phase is phases[-1]:
                with T.If(step >= limits[where.row]), T.Then():
                    give(lambda place: T.float32(0))

        phases = layer.phases()
        if 4 * hidden * width > SHARED_BYTES:
            _in_parallel(sequences, layer.parts, begin)
            with T.serial(0, length) as turn:
                for phase in phases:
                    _in_parallel(sequences, phase.parts, lambda *where, of=phase: take(of, turn, *where))
            return
        with T.parallel(0, sequences) as sequence:
            with T.serial(0, layer.parts) as part:
                begin(sequence, part)
            with T.serial(0, length) as turn:
                for phase in phases:
                    with T.serial(0, phase.parts) as part:
                        take(phase, turn, sequence, part)

    found: list[te.Tensor] = written("recurrent", [projected, weight, *states, *given], outputs, body)
    return found[: 1 + len(states)]


def _in_parallel(sequences: Any, parts: int, run: Callable[..., None]) -> None:
    with T.parallel(0, sequences * parts) as task:
        run(tirx.floordiv(task, parts), tirx.floormod(task, parts))


def _in_order(turn: Any, length: Any, direction: Any, backwards: Sequence[bool]) -> Any:
    """The step that a direction takes at its turn."""
    if not any(backwards):
        return turn
    reverse = length - 1 - turn
    return reverse if all(backwards) else tirx.Select(direction == backwards.index(True), reverse, turn)


def _set(buffer: Any, index: tuple[Any, ...], value: Any) -> None:
    buffer[index] = value


@dataclass(frozen=True)
class _Sequence:
    """One direction of one sequence of the batch; called, the index of a place of its state or gates."""

    direction: Any
    row: Any

    def __call__(self, place: Any) -> tuple[Any, Any, Any]:
        return self.direction, self.row, place


@dataclass(frozen=True)
class _Phase:
    """What of a step has to be done before the next: ``parts`` that do not depend on each other.

    ``run`` takes the sequence, the step and the part.
    """

    parts: int
    run: Callable[[_Sequence, Any, Any], None]


@dataclass(frozen=True)
class _Layer:
    """The buffers of all sequences, and what a step does with them; ``width``: columns of all gates."""

    kind: Kind
    hidden: int
    width: int
    block: int
    data: Any
    matrix: Any
    states: Sequence[Any]
    gates: Any
    reset: Any
    bias: Any

    @property
    def lanes(self) -> int:
        """Elements of a state in a vector."""
        return gcd(self.hidden, LANES)

    @property
    def parts(self) -> int:
        """Vectors of a state."""
        return self.hidden // self.lanes

    def each(self, part: Any, do: Callable[[Any], None]) -> None:
        """For the elements of one vector of a state."""
        with T.vectorized(0, self.lanes) as lane:
            do(part * self.lanes + lane)

    def copy(self, part: Any, at: "_Sequence", source: Any, target: Any) -> None:
        """Set one vector of a state to that of another."""
        self.each(part, lambda place: _set(target, at(place), source[at(place)]))

    def phases(self) -> list[_Phase]:
        """A step: products of the hidden state, in one phase or around a reset, and what is made of them."""
        hidden, width = self.hidden, self.width
        blend = {"LSTM": self._long_short_term, "GRU": self._gated, "RNN": self._simple}[self.kind]

        def blended(at: _Sequence, step: Any, part: Any) -> None:
            self.each(part, lambda place: blend(at, step, place))

        def reset(at: _Sequence, step: Any, part: Any) -> None:
            del step
            self.each(part, lambda place: self._reset(at, place))

        last = _Phase(self.parts, blended)
        if self.kind != "GRU":
            return [self._product(self.states[0], 0, width, self._from_data), last]
        if self.bias is not None:
            return [self._product(self.states[0], 0, width, self._from_bias), last]
        return [
            self._product(self.states[0], 0, 2 * hidden, self._from_data),
            _Phase(self.parts, reset),
            self._product(self.reset, 2 * hidden, hidden, self._from_data),
            last,
        ]

    def _from_data(self, sequence: _Sequence, step: Any, column: Any) -> Any:
        return self.data[step, sequence.row, sequence.direction * self.width + column]

    def _from_bias(self, sequence: _Sequence, step: Any, column: Any) -> Any:
        del step
        return self.bias[sequence.direction, column]

    def _product(self, state: Any, first: int, count: int, initial: Callable[..., Any]) -> _Phase:
        """``count`` columns of the gates from ``first`` on: ``initial``, and a state by the matrix."""
        size, lanes = self.block, gcd(self.block, LANES)

        def run(sequence: _Sequence, step: Any, part: Any) -> None:
            sums = T.buffer_proxy(T.alloc_buffer((size,), "float32", scope="local"))
            column = first + part * size

            def each(do: Callable[[Any], None]) -> None:
                for vector in range(size // lanes):
                    with T.vectorized(0, lanes) as lane:
                        do(vector * lanes + lane)

            each(lambda own: _set(sums, (own,), initial(sequence, step, column + own)))
            with T.serial(0, self.hidden) as place:

                def add(own: Any, place: Any = place) -> None:
                    factor = self.matrix[sequence.direction, first // size + part, place, own]
                    _set(sums, (own,), sums[own] + state[sequence(place)] * factor)

                each(add)
            each(lambda own: _set(self.gates, sequence(column + own), sums[own]))

        return _Phase(count // size, run)

    def _gate(self, sequence: _Sequence, index: int, place: Any) -> Any:
        return self.gates[sequence(index * self.hidden + place)]

    def _simple(self, at: _Sequence, step: Any, place: Any) -> None:
        del step
        _set(self.states[0], at(place), tanh_of(self._gate(at, 0, place)))

    def _long_short_term(self, at: _Sequence, step: Any, place: Any) -> None:
        """Gates in the order input, output, forget, cell."""
        del step
        hidden, cell = self.states
        entering = sigmoid_of(self._gate(at, 0, place)) * tanh_of(self._gate(at, 3, place))
        kept = sigmoid_of(self._gate(at, 2, place)) * cell[at(place)]
        _set(cell, at(place), kept + entering)
        _set(hidden, at(place), sigmoid_of(self._gate(at, 1, place)) * tanh_of(cell[at(place)]))

    def _reset(self, at: _Sequence, place: Any) -> None:
        """The hidden state as far as the second gate lets it through."""
        _set(self.reset, at(place), sigmoid_of(self._gate(at, 1, place)) * self.states[0][at(place)])

    def _gated(self, at: _Sequence, step: Any, place: Any) -> None:
        """Gates in the order update, reset, hidden; with a bias their products are still without the data."""

        def gate(index: int) -> Any:
            own = self._gate(at, index, place)
            return own if self.bias is None else own + data(index)

        def data(index: int) -> Any:
            return self._from_data(at, step, index * self.hidden + place)

        (hidden,) = self.states
        if self.bias is not None:
            again = data(2) + sigmoid_of(gate(1)) * self._gate(at, 2, place)
            _set(self.gates, at(2 * self.hidden + place), again)
        _set(self.gates, at(place), sigmoid_of(gate(0)))
        update, fresh = self._gate(at, 0, place), tanh_of(self._gate(at, 2, place))
        _set(hidden, at(place), (T.float32(1) - update) * fresh + update * hidden[at(place)])


__all__ = ["Kind", "packed", "recurrent"]
