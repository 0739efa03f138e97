"""One time step of recurrent layers, for several sequences at once, as statements of TVMScript.

The products of all gates of a vector of the hidden state are summed in registers, and the cell function is
applied to them at once. There are two copies of every state, before and after a step, because each vector of
the new hidden state reads all of the old one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import ceil
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from topi_ext.compute.recurrent.activations import activated
from topi_ext.compute.recurrent.recurrence import Recurrence
from topi_ext.compute.recurrent.tiles import Tile, lanes_of, parts_of
from topi_ext.extents import fixed


@dataclass(frozen=True)
class Group:
    """Consecutive sequences of the batch, from the row ``first`` on, in one direction."""

    direction: Any
    first: Any


@dataclass(frozen=True)
class TimeStep:
    """A time step: its index ``time`` in the sequence, and the copies (0 or 1) of the states to read and
    write.
    """

    time: Any
    before: Any
    after: Any


@dataclass(frozen=True)
class _Sequence:
    """One sequence (``row`` of the batch) in one direction.

    ``sequence(place, *outer)`` is the index of element ``place`` of its state in a tensor [*outer, D, B, H].
    """

    direction: Any
    row: Any

    def __call__(self, place: Any, *outer: Any) -> tuple[Any, ...]:
        return (*outer, self.direction, self.row, place)


@dataclass(frozen=True)
class Phase:
    """A part of a time step that must be complete before the next phase begins.

    ``run(group, step, part)`` computes one of ``parts`` independent parts for a :class:`Group`; ``step`` is a
    :class:`TimeStep`, or None before the first and after the last one.
    """

    parts: int
    run: Callable[[Group, Any, Any], None]


Gates = Callable[[int], Any]
"""From the number of a gate: the sum of its products, in the lane that is computed."""

State = Callable[[_Sequence, TimeStep, Any], Any]
"""Element ``place`` of the vector of a sequence that the weight matrix is multiplied by."""

Cell = Callable[[_Sequence, TimeStep, Any, Gates], None]
"""Writes element ``place`` of a sequence's states, from the sums of its gates."""


@dataclass(frozen=True)
class _Sums:
    """The sums of a group's gates at a time step, ``found`` [rows, vectors, gates, lanes]."""

    step: TimeStep
    vectors: Sequence[Any]
    found: Any

    def of(self, row: Any, vector: int, lane: Any, gate: int) -> Any:
        return self.found[row, vector, gate, lane]


@dataclass(frozen=True)
class Step:
    """The statements of time steps, and the buffers that they read and write.

    A group has ``tile.rows`` sequences, the last one of the ``batch`` perhaps fewer. ``data`` [T, B, D *
    gates * H] and ``matrix`` are the arguments ``projected`` and ``weight`` of :func:`.layers.recurrent`,
    ``given`` the optional ones by name. ``kept`` has both copies of each state, [2, D, B, H]; ``update`` and
    ``reset`` [D, B, H] are what the first of two phases of a GRU passes to the second. ``result`` is [T, D,
    B, H].
    """

    recurrence: Recurrence
    tile: Tile
    batch: Any
    hidden: int
    data: Any
    matrix: Any
    kept: Sequence[Any]
    update: Any
    reset: Any
    result: Any
    given: Mapping[str, Any]

    @property
    def lanes(self) -> int:
        """Elements of a state in one vector."""
        return lanes_of(self.hidden)

    @property
    def parts(self) -> int:
        """Vectors in a state."""
        return parts_of(self.hidden)

    def begin(self) -> Phase:
        """Initialize the states."""

        def set_first(row: Any, at: _Sequence, part: Any) -> None:
            for name, copies in zip(self.recurrence.states, self.kept, strict=True):
                first = self.given.get(name)
                with self._each(part) as (_, place):
                    copies[at(place, 0)] = T.float32(0) if first is None else first[at(place)]

        return self._of_states(set_first)

    def end(self, last: Any, states: Sequence[Any]) -> Phase:
        """Copy the final states, whose copy ``last`` was written last, to ``states`` [D, B, H]."""

        def give(row: Any, at: _Sequence, part: Any) -> None:
            for state, copies in zip(states, self.kept, strict=True):
                with self._each(part) as (_, place):
                    state[at(place)] = copies[at(place, last)]

        return self._of_states(give)

    def phases(self) -> list[Phase]:
        """The phases of a time step: one, or two for a GRU whose reset gate is applied before the product."""
        cell: Cell = {"LSTM": self._lstm_cell, "GRU": self._gru_cell, "RNN": self._rnn_cell}[
            self.recurrence.kind
        ]
        if self.recurrence.kind == "GRU" and self.bias is None:
            return [
                self._phase(range(2), self._hidden, self._gru_reset),
                self._phase(range(2, 3), self._reset_hidden, self._gru_after_reset, is_last=True),
            ]
        return [self._phase(range(self.recurrence.gates), self._hidden, cell, is_last=True)]

    def _of_states(self, do: Callable[..., None]) -> Phase:
        """A phase outside of time steps that calls ``do(row, sequence, part)`` for each vector of the
        states.
        """
        return Phase(self.parts, lambda group, step, part: self._of_each(group, partial(do, part=part)))

    @property
    def bias(self) -> Any:
        return self.given.get("bias")

    def _hidden(self, at: _Sequence, step: TimeStep, place: Any) -> Any:
        return self.kept[0][at(place, step.before)]

    def _reset_hidden(self, at: _Sequence, step: TimeStep, place: Any) -> Any:
        return self.reset[at(place)]

    @contextmanager
    def _each(self, part: Any) -> Iterator[tuple[Any, Any]]:
        """A vector loop over the lanes and elements of a vector of a state; the last may overlap the one
        before.
        """
        with T.vectorized(0, self.lanes) as lane:
            yield lane, self._start(part) + lane

    def _start(self, part: Any) -> Any:
        start = part * self.lanes
        return start if self.hidden % self.lanes == 0 else tirx.min(start, self.hidden - self.lanes)

    def _of_each(self, group: Group, do: Callable[..., None]) -> None:
        """Call ``do(row, sequence)`` for each sequence of a group, ``row`` counting from 0 in it."""
        with T.serial(0, self.tile.rows) as place:
            row = group.first + place
            with self._inside(row):
                do(place, _Sequence(group.direction, row))

    @contextmanager
    def _inside(self, row: Any) -> Iterator[None]:
        """A branch for rows within the batch; none where all groups are whole."""
        with ExitStack() as branch:
            batch = fixed(self.batch)
            if batch is None or batch % self.tile.rows:
                branch.enter_context(T.If(row < self.batch))
                branch.enter_context(T.Then())
            yield

    def _where_running(
        self,
        at: _Sequence,
        step: TimeStep,
        do: Callable[[], None],
        otherwise: Callable[[], None] | None = None,
    ) -> None:
        """Emit ``do`` for sequences that have not ended before the step, and ``otherwise`` for the others."""
        lengths = self.given.get("lengths")
        if lengths is None:
            do()
            return
        with T.If(step.time < lengths[at.row]):
            with T.Then():
                do()
            if otherwise is not None:
                with T.Else():
                    otherwise()

    def _phase(self, gates: range, state: State, cell: Cell, *, is_last: bool = False) -> Phase:
        """The products of ``state`` for some gates and the cell function; the last phase writes states and
        results.
        """
        span = self.tile.span(len(gates), self.parts)

        def run(group: Group, step: TimeStep, part: Any) -> None:
            first = part * span if self.parts % span == 0 else tirx.min(part * span, self.parts - span)
            sums = _Sums(step, [first + number for number in range(span)], self._sums(span))
            self._multiply(sums, group, gates, state)

            def finish(row: Any, at: _Sequence) -> None:
                for number, vector in enumerate(sums.vectors):
                    with self._each(vector) as (lane, place):
                        cell(at, step, place, partial(sums.of, row, number, lane))

            def idle(at: _Sequence) -> None:
                for vector in sums.vectors:
                    with self._each(vector) as (_, place):
                        self._keep_state(at, step, place)

            self._of_each(
                group,
                lambda row, at: self._where_running(
                    at, step, partial(finish, row, at), partial(idle, at) if is_last else None
                ),
            )

        return Phase(ceil(self.parts / span), run)

    def _sums(self, span: int) -> Any:
        shape = (self.tile.rows, span, self.recurrence.gates, self.lanes)
        return T.buffer_proxy(T.alloc_buffer(shape, "float32", scope="local"))

    def _multiply(self, sums: _Sums, group: Group, gates: range, state: State) -> None:
        """Compute the sums of a group: of all its sequences together, or of the single one left of the
        batch.
        """
        last = _Sequence(group.direction, group.first)

        def alone() -> None:
            self._where_running(last, sums.step, lambda: self._products(sums, [last], list(gates), state))

        if self.tile.rows == 1:
            alone()
            return
        # Rows past the end of the batch repeat its last one.
        rows = [tirx.min(group.first + row, self.batch - 1) for row in range(self.tile.rows)]
        sequences = [_Sequence(group.direction, row) for row in rows]
        size = self.tile.portion(len(gates))
        with T.If(group.first == self.batch - 1):
            with T.Then():
                alone()
            with T.Else(), T.serial(0, len(gates) // size) as portion:
                some = [gates.start + portion * size + number for number in range(size)]
                self._products(sums, sequences, some, state)

    def _products(
        self, sums: _Sums, sequences: Sequence[_Sequence], gates: Sequence[Any], state: State
    ) -> None:
        """Compute the sums of some sequences and gates, in registers."""
        block = list(product(range(len(sequences)), range(len(sums.vectors)), gates))
        kept = T.buffer_proxy(T.alloc_buffer((len(block) * self.lanes,), "float32", scope="local"))

        def each(do: Callable[[Any, int, int, Any, Any], None]) -> None:
            for own, (row, number, gate) in enumerate(block):
                with T.vectorized(0, self.lanes) as lane:
                    do(own * self.lanes + lane, row, number, gate, lane)

        def begin(own: Any, row: int, number: int, gate: Any, lane: Any) -> None:
            place = self._start(sums.vectors[number]) + lane
            kept[own] = self._initial(sequences[row], sums.step, gate, place)

        def end(own: Any, row: int, number: int, gate: Any, lane: Any) -> None:
            sums.found[row, number, gate, lane] = kept[own]

        each(begin)
        with T.serial(0, self.hidden) as depth:

            def add(own: Any, row: int, number: int, gate: Any, lane: Any) -> None:
                at = sequences[row]
                factor = self.matrix[at.direction, sums.vectors[number], depth, gate, lane]
                kept[own] = kept[own] + state(at, sums.step, depth) * factor

            each(add)
        each(end)

    def _initial(self, at: _Sequence, step: TimeStep, gate: Any, place: Any) -> Any:
        """The initial value of a gate's sum: data and bias; for the candidate of a GRU with bias, the bias
        alone.
        """
        if self.bias is None:
            return self._from_data(at, step, gate, place)
        bias = self.bias[at.direction, gate * self.hidden + place]
        data = self._from_data(at, step, gate, place)
        if isinstance(gate, int):
            return bias if gate == 2 else bias + data
        return bias + tirx.Select(gate == 2, T.float32(0), data)

    def _from_data(self, at: _Sequence, step: TimeStep, gate: Any, place: Any) -> Any:
        column = (at.direction * self.recurrence.gates + gate) * self.hidden + place
        return self.data[step.time, at.row, column]

    def _activated(self, at: _Sequence, index: int, value: Any) -> Any:
        """The activation number ``index`` of the direction, of the clipped ``value``."""
        clip = self.recurrence.clip
        if clip:
            value = tirx.max(tirx.min(value, T.float32(clip)), T.float32(-clip))
        forms = [direction[index] for direction in self.recurrence.activations]
        first, last = (activated(form, value) for form in (forms[0], forms[-1]))
        return first if forms[0] == forms[-1] else tirx.Select(at.direction == 0, first, last)

    def _write_state(self, at: _Sequence, step: TimeStep, place: Any, hidden: Any) -> None:
        """Write the hidden state, and the result of the time step."""
        self.kept[0][at(place, step.after)] = hidden
        self.result[at(place, step.time)] = self.kept[0][at(place, step.after)]

    def _keep_state(self, at: _Sequence, step: TimeStep, place: Any) -> None:
        """After the end of a sequence: copy its states, and write zero as the result."""
        for copies in self.kept:
            copies[at(place, step.after)] = copies[at(place, step.before)]
        self.result[at(place, step.time)] = T.float32(0)

    def _rnn_cell(self, at: _Sequence, step: TimeStep, place: Any, gates: Gates) -> None:
        self._write_state(at, step, place, self._activated(at, 0, gates(0)))

    def _lstm_cell(self, at: _Sequence, step: TimeStep, place: Any, gates: Gates) -> None:
        """Gates in the order input, output, forget, cell."""
        cells, peepholes = self.kept[1], self.given.get("peepholes")
        old, new = cells[at(place, step.before)], at(place, step.after)

        def gate(index: int, peephole_state: Any) -> Any:
            total = gates(index)
            if peepholes is not None:
                total = total + peepholes[at.direction, index * self.hidden + place] * peephole_state
            return self._activated(at, 0, total)

        entering = gate(0, old) * self._activated(at, 1, gates(3))
        forget = T.float32(1) - gate(0, old) if self.recurrence.input_forget else gate(2, old)
        cells[new] = forget * old + entering
        self._write_state(at, step, place, gate(1, cells[new]) * self._activated(at, 2, cells[new]))

    def _gru_cell(self, at: _Sequence, step: TimeStep, place: Any, gates: Gates) -> None:
        """GRU with ``linear_before_reset``; gates in the order update, reset, hidden."""
        passed = self._activated(at, 0, gates(1)) * gates(2)
        fresh = self._activated(at, 1, self._from_data(at, step, 2, place) + passed)
        self._interpolate(at, step, place, self._activated(at, 0, gates(0)), fresh)

    def _gru_reset(self, at: _Sequence, step: TimeStep, place: Any, gates: Gates) -> None:
        """First phase of a GRU: the update gate, and the hidden state multiplied by the reset gate."""
        self.update[at(place)] = self._activated(at, 0, gates(0))
        self.reset[at(place)] = self._activated(at, 0, gates(1)) * self._hidden(at, step, place)

    def _gru_after_reset(self, at: _Sequence, step: TimeStep, place: Any, gates: Gates) -> None:
        self._interpolate(at, step, place, self.update[at(place)], self._activated(at, 1, gates(2)))

    def _interpolate(self, at: _Sequence, step: TimeStep, place: Any, update: Any, fresh: Any) -> None:
        self._write_state(
            at, step, place, (T.float32(1) - update) * fresh + update * self._hidden(at, step, place)
        )
