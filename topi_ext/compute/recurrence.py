"""Recurrent layers over sequences of any length, as one loop over time.

The product of the data and its weights, for all steps at once, comes from before. A step multiplies the
hidden state by a matrix, a block of columns at a time whose sums stay in registers, and blends what comes
out. The equations are those of ONNX (``LSTM``, ``GRU``, ``RNN``).
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import gcd
from typing import Any, Literal

import numpy as np
from tvm import te, tirx
from tvm.script.ir_builder import tirx as T

from topi_ext.compute.activations import SIGMOID, TANH, Activation, activated
from topi_ext.compute.imperative import written

Kind = Literal["LSTM", "GRU", "RNN"]

_GATES: dict[Kind, int] = {"LSTM": 4, "GRU": 3, "RNN": 1}
_USUAL: dict[Kind, tuple[Activation, ...]] = {
    "LSTM": (SIGMOID, TANH, TANH),
    "GRU": (SIGMOID, TANH),
    "RNN": (TANH,),
}

OPTIONAL = ("hidden", "cell", "lengths", "bias", "peepholes")
"""What a layer may be given beside its data and weights; see :func:`recurrent`."""

LANES, VECTORS = 16, 4
"""Longest vector, and most of them in a block of columns."""

SHARED_BYTES = 512 << 10
"""Threads share each step of layers whose matrix is larger, and divide the sequences of others among them.
Measured on a Zen 3 with one sequence: sharing takes 1.3 to 2 times as long with 64 KiB, 0.6 with 768 KiB and
with 4 MiB."""


@dataclass(frozen=True)
class Recurrence:
    """What a layer computes.

    Directions of which ``backwards`` says so begin at the end. ``activations`` are those of each direction in
    ONNX's order, by default the usual ones of the ``kind``. Each is of what is kept between ``-clip`` and
    ``clip``, where that is not 0. With ``input_forget`` an LSTM forgets as much as enters.
    """

    kind: Kind
    backwards: tuple[bool, ...] = (False,)
    activations: tuple[tuple[Activation, ...], ...] = ()
    clip: float = 0.0
    input_forget: bool = False

    def __post_init__(self) -> None:
        usual = (_USUAL[self.kind],) * len(self.backwards)
        object.__setattr__(self, "activations", self.activations or usual)

    @property
    def gates(self) -> int:
        return _GATES[self.kind]

    @property
    def states(self) -> tuple[str, ...]:
        """The names of the states that a step hands to the next."""
        return OPTIONAL[: 2 if self.kind == "LSTM" else 1]


def packed(kind: Kind, weight: np.ndarray, *, reset_first: bool = False) -> np.ndarray:
    """A weight [D, H, gates * H] in blocks of columns, each in one piece: [D, blocks, H, block].

    ``reset_first`` is for a GRU without a bias of its own, whose gates are not computed all at once.
    """
    directions, hidden, columns = weight.shape
    block = _block(kind, hidden, columns, reset_first)
    return np.ascontiguousarray(weight.reshape(directions, hidden, -1, block).swapaxes(1, 2))


def pack(kind: Kind, weight: te.Tensor, *, reset_first: bool = False) -> te.Tensor:
    """:func:`packed` of a weight that is computed when the layer runs."""
    directions, hidden, columns = (int(extent) for extent in weight.shape)
    block = _block(kind, hidden, columns, reset_first)
    return te.compute(
        (directions, columns // block, hidden, block),
        lambda direction, part, place, own: weight[direction, place, part * block + own],
        name="packed",
    )


def _block(kind: Kind, hidden: int, columns: int, reset_first: bool) -> int:
    return gcd(hidden if kind == "GRU" and reset_first else columns, LANES * VECTORS)


def recurrent(
    recurrence: Recurrence, projected: te.Tensor, weight: te.Tensor, optional: Mapping[str, te.Tensor]
) -> list[te.Tensor]:
    """The hidden states [T, D, B, H] of all steps and directions, and the last of each state [D, B, H].

    All are float32. ``projected`` [T, B, D * gates * H] are the data by their weights, with the bias;
    ``weight`` is :func:`packed` and multiplies the hidden state. Some of :data:`OPTIONAL` may be given:
    ``hidden`` and ``cell`` [D, B, H], the first states, zero by default. ``lengths`` [B], int32, are how many
    steps each sequence has: its states stay as they are behind them, where its results are zero. ``bias``
    [D, gates * H] of a GRU is added to the product of the hidden state before the reset (ONNX's
    ``linear_before_reset``); without one the reset comes before that product. ``peepholes`` [D, 3 * H] of an
    LSTM multiply the cell for the gates input, output and forget.
    """
    length, batch, _ = projected.shape
    directions, blocks, hidden, block = (int(extent) for extent in weight.shape)
    width = blocks * block
    states = recurrence.states
    state = ((directions, batch, hidden), "float32")
    scratch = [((directions, batch, width), "float32"), state]
    outputs = [((length, directions, batch, hidden), "float32"), *[state] * len(states), *scratch]
    sequences, backwards = directions * batch, recurrence.backwards

    def body(*buffers: Any) -> None:
        data, matrix, *rest = buffers
        given = dict(zip(optional, rest, strict=False))
        result, *filled = rest[len(optional) :]
        after, (gates, reset) = filled[: len(states)], filled[len(states) :]
        limits = given.get("lengths")
        own = given.get("bias"), given.get("peepholes")
        layer = _Layer(recurrence, hidden, width, block, data, matrix, after, gates, reset, *own)

        def at(sequence: Any) -> _Sequence:
            return _Sequence(tirx.floordiv(sequence, batch), tirx.floormod(sequence, batch))

        def begin(sequence: Any, part: Any) -> None:
            where = at(sequence)
            for name, new in zip(states, after, strict=True):
                layer.begin(part, where, given.get(name), new)

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

    found: list[te.Tensor] = written("recurrent", [projected, weight, *optional.values()], outputs, body)
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

    recurrence: Recurrence
    hidden: int
    width: int
    block: int
    data: Any
    matrix: Any
    states: Sequence[Any]
    gates: Any
    reset: Any
    bias: Any
    peepholes: Any

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

    def begin(self, part: Any, at: "_Sequence", first: Any, state: Any) -> None:
        """Set one vector of a state to what comes first, zero where that is None."""
        self.each(
            part,
            lambda place: _set(state, at(place), T.float32(0) if first is None else first[at(place)]),
        )

    def phases(self) -> list[_Phase]:
        """A step: products of the hidden state, in one phase or around a reset, and what is made of them."""
        hidden, width = self.hidden, self.width
        kind = self.recurrence.kind
        blend = {"LSTM": self._long_short_term, "GRU": self._gated, "RNN": self._simple}[kind]

        def blended(at: _Sequence, step: Any, part: Any) -> None:
            self.each(part, lambda place: blend(at, step, place))

        def reset(at: _Sequence, step: Any, part: Any) -> None:
            del step
            self.each(part, lambda place: self._reset(at, place))

        last = _Phase(self.parts, blended)
        if kind != "GRU":
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

    def _activated(self, at: _Sequence, index: int, value: Any) -> Any:
        """One of the direction's activations."""
        clip = self.recurrence.clip
        if clip:
            value = tirx.max(tirx.min(value, T.float32(clip)), T.float32(-clip))
        forms = [direction[index] for direction in self.recurrence.activations]
        first, last = (activated(form, value) for form in (forms[0], forms[-1]))
        return first if forms[0] == forms[-1] else tirx.Select(at.direction == 0, first, last)

    def _simple(self, at: _Sequence, step: Any, place: Any) -> None:
        del step
        _set(self.states[0], at(place), self._activated(at, 0, self._gate(at, 0, place)))

    def _long_short_term(self, at: _Sequence, step: Any, place: Any) -> None:
        """Gates in the order input, output, forget, cell."""
        del step
        hidden, cell = self.states

        def opened(index: int) -> Any:
            gate = self._gate(at, index, place)
            if self.peepholes is not None:
                gate = gate + self.peepholes[at.direction, index * self.hidden + place] * cell[at(place)]
            return self._activated(at, 0, gate)

        fresh = opened(0) * self._activated(at, 1, self._gate(at, 3, place))
        kept = T.float32(1) - opened(0) if self.recurrence.input_forget else opened(2)
        _set(cell, at(place), kept * cell[at(place)] + fresh)
        # Its peephole sees the cell as it is now.
        _set(hidden, at(place), opened(1) * self._activated(at, 2, cell[at(place)]))

    def _reset(self, at: _Sequence, place: Any) -> None:
        """The hidden state as far as the second gate lets it through."""
        passed = self._activated(at, 0, self._gate(at, 1, place))
        _set(self.reset, at(place), passed * self.states[0][at(place)])

    def _gated(self, at: _Sequence, step: Any, place: Any) -> None:
        """Gates in the order update, reset, hidden; with a bias their products are still without the data."""

        def gate(index: int) -> Any:
            own = self._gate(at, index, place)
            return own if self.bias is None else own + data(index)

        def data(index: int) -> Any:
            return self._from_data(at, step, index * self.hidden + place)

        (hidden,) = self.states
        if self.bias is not None:
            again = data(2) + self._activated(at, 0, gate(1)) * self._gate(at, 2, place)
            _set(self.gates, at(2 * self.hidden + place), again)
        _set(self.gates, at(place), self._activated(at, 0, gate(0)))
        update, fresh = self._gate(at, 0, place), self._activated(at, 1, self._gate(at, 2, place))
        _set(hidden, at(place), (T.float32(1) - update) * fresh + update * hidden[at(place)])


__all__ = ["OPTIONAL", "Kind", "Recurrence", "pack", "packed", "recurrent"]
