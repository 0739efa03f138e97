"""One step in time of recurrent layers, of some sequences at once, as statements of TVM's script.

The gates of a vector of a state are multiplied in registers and blended at once. States are kept twice,
before a step and after it, since all of the first is read for each vector of the second.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import ceil
from typing import Any, Literal

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from topi_ext.compute.recurrent.activations import SIGMOID, TANH, Activation, activated
from topi_ext.compute.recurrent.tiles import Tile, lanes_of, parts_of
from topi_ext.extents import fixed

Kind = Literal["LSTM", "GRU", "RNN"]

_GATES: dict[Kind, int] = {"LSTM": 4, "GRU": 3, "RNN": 1}
_USUAL: dict[Kind, tuple[Activation, ...]] = {
    "LSTM": (SIGMOID, TANH, TANH),
    "GRU": (SIGMOID, TANH),
    "RNN": (TANH,),
}

OPTIONAL = ("hidden", "cell", "lengths", "bias", "peepholes")
"""What a layer may be given beside its data and weights; see :func:`recurrent`."""


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


@dataclass(frozen=True)
class Group:
    """Sequences next to each other in the batch, of one direction, from the row ``first`` on."""

    direction: Any
    first: Any


@dataclass(frozen=True)
class Turn:
    """A step: its ``time`` in the sequence, and which of both copies of the states is read and written."""

    time: Any
    before: Any
    after: Any


@dataclass(frozen=True)
class _Sequence:
    """One direction of a sequence; called, the index of a place of its state, in a copy or step of it."""

    direction: Any
    row: Any

    def __call__(self, place: Any, *outer: Any) -> tuple[Any, ...]:
        return (*outer, self.direction, self.row, place)


@dataclass(frozen=True)
class Phase:
    """What of a step has to be done before the next: ``parts`` that do not depend on each other.

    ``run`` takes the group, the :class:`Turn`, None where there is none, and the part.
    """

    parts: int
    run: Callable[[Group, Any, Any], None]


Gates = Callable[[int], Any]
"""Of a gate's number the sum of its products, in the lane that is computed."""

State = Callable[[_Sequence, Turn, Any], Any]
"""An element, by its place, of what of a sequence the matrix multiplies."""

Blend = Callable[[_Sequence, Turn, Any, Gates], None]
"""What becomes of the gates of one place of a sequence's states."""


@dataclass(frozen=True)
class _Sums:
    """Of a group's sequences at a turn, of ``vectors`` of all gates: [rows, vectors, gates, lanes]."""

    turn: Turn
    vectors: Sequence[Any]
    found: Any

    def of(self, row: Any, vector: int, lane: Any, gate: int) -> Any:
        return self.found[row, vector, gate, lane]


@dataclass(frozen=True)
class Step:
    """The buffers of all sequences, and what a step does with them.

    A group has ``tile.rows`` sequences, or what is left of the ``batch``. ``kept`` are both copies of each
    state [2, D, B, H], ``update`` and ``reset`` [D, B, H] what the first of two phases of a GRU hands to the
    second. ``given`` are those of :data:`OPTIONAL` that there are.
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
        """Elements of a state in a vector."""
        return lanes_of(self.hidden)

    @property
    def parts(self) -> int:
        """Vectors of a state."""
        return parts_of(self.hidden)

    def begin(self) -> Phase:
        """Set the states to what comes first."""

        def set_first(row: Any, at: _Sequence, part: Any) -> None:
            del row
            for name, copies in zip(self.recurrence.states, self.kept, strict=True):
                first = self.given.get(name)
                with self._each(part) as (_, place):
                    copies[at(place, 0)] = T.float32(0) if first is None else first[at(place)]

        return self._of_states(set_first)

    def end(self, last: Any, states: Sequence[Any]) -> Phase:
        """Give the ``states``, whose copy ``last`` was written last."""

        def give(row: Any, at: _Sequence, part: Any) -> None:
            del row
            for state, copies in zip(states, self.kept, strict=True):
                with self._each(part) as (_, place):
                    state[at(place)] = copies[at(place, last)]

        return self._of_states(give)

    def phases(self) -> list[Phase]:
        """All gates at once, or those that a reset needs before those that need the reset."""
        blend: Blend = {"LSTM": self._long_short_term, "GRU": self._gated, "RNN": self._simple}[
            self.recurrence.kind
        ]
        if self.recurrence.kind == "GRU" and self.bias is None:
            return [
                self._phase(range(2), self._hidden, self._reset),
                self._phase(range(2, 3), self._let_through, self._after_reset, is_last=True),
            ]
        return [self._phase(range(self.recurrence.gates), self._hidden, blend, is_last=True)]

    def _of_states(self, do: Callable[..., None]) -> Phase:
        """What is done with each vector of the states, at no turn."""
        return Phase(self.parts, lambda group, turn, part: self._of_each(group, partial(do, part=part)))

    @property
    def bias(self) -> Any:
        return self.given.get("bias")

    def _hidden(self, at: _Sequence, turn: Turn, place: Any) -> Any:
        return self.kept[0][at(place, turn.before)]

    def _let_through(self, at: _Sequence, turn: Turn, place: Any) -> Any:
        del turn
        return self.reset[at(place)]

    @contextmanager
    def _each(self, part: Any) -> Iterator[tuple[Any, Any]]:
        """The lanes of a vector of a state, and their places; the last may begin in the vector before."""
        with T.vectorized(0, self.lanes) as lane:
            yield lane, self._start(part) + lane

    def _start(self, part: Any) -> Any:
        start = part * self.lanes
        return start if self.hidden % self.lanes == 0 else tirx.min(start, self.hidden - self.lanes)

    def _of_each(self, group: Group, do: Callable[..., None]) -> None:
        """For the sequences of a group, whose place in it comes first."""
        with T.serial(0, self.tile.rows) as place:
            row = group.first + place
            with self._inside(row):
                do(place, _Sequence(group.direction, row))

    @contextmanager
    def _inside(self, row: Any) -> Iterator[None]:
        """Of a row that may be behind the batch, for those that are not."""
        with ExitStack() as branch:
            batch = fixed(self.batch)
            if batch is None or batch % self.tile.rows:
                branch.enter_context(T.If(row < self.batch))
                branch.enter_context(T.Then())
            yield

    def _where_running(
        self, at: _Sequence, turn: Turn, do: Callable[[], None], otherwise: Callable[[], None] | None = None
    ) -> None:
        """``do`` it if the sequence has not ended before the step, ``otherwise`` the other."""
        lengths = self.given.get("lengths")
        if lengths is None:
            do()
            return
        with T.If(turn.time < lengths[at.row]):
            with T.Then():
                do()
            if otherwise is not None:
                with T.Else():
                    otherwise()

    def _phase(self, gates: range, state: State, blend: Blend, *, is_last: bool = False) -> Phase:
        """Products of ``state`` for some gates, and what they blend to; the last sets states and results."""
        span = self.tile.span(len(gates), self.parts)

        def run(group: Group, turn: Turn, part: Any) -> None:
            first = part * span if self.parts % span == 0 else tirx.min(part * span, self.parts - span)
            sums = _Sums(turn, [first + number for number in range(span)], self._sums(span))
            self._multiply(sums, group, gates, state)

            def finish(row: Any, at: _Sequence) -> None:
                for number, vector in enumerate(sums.vectors):
                    with self._each(vector) as (lane, place):
                        blend(at, turn, place, partial(sums.of, row, number, lane))

            def idle(at: _Sequence) -> None:
                for vector in sums.vectors:
                    with self._each(vector) as (_, place):
                        self._stay(at, turn, place)

            self._of_each(
                group,
                lambda row, at: self._where_running(
                    at, turn, partial(finish, row, at), partial(idle, at) if is_last else None
                ),
            )

        return Phase(ceil(self.parts / span), run)

    def _sums(self, span: int) -> Any:
        shape = (self.tile.rows, span, self.recurrence.gates, self.lanes)
        return T.buffer_proxy(T.alloc_buffer(shape, "float32", scope="local"))

    def _multiply(self, sums: _Sums, group: Group, gates: range, state: State) -> None:
        """Set the sums of a group: of its sequences together, or of the only one that is left."""
        last = _Sequence(group.direction, group.first)

        def alone() -> None:
            self._where_running(last, sums.turn, lambda: self._products(sums, [last], list(gates), state))

        if self.tile.rows == 1:
            alone()
            return
        # Rows behind the batch are computed as its last one, which has the same gates.
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
        """Set the sums of some sequences and gates, which stay in registers meanwhile."""
        block = list(product(range(len(sequences)), range(len(sums.vectors)), gates))
        kept = T.buffer_proxy(T.alloc_buffer((len(block) * self.lanes,), "float32", scope="local"))

        def each(do: Callable[[Any, int, int, Any, Any], None]) -> None:
            for own, (row, number, gate) in enumerate(block):
                with T.vectorized(0, self.lanes) as lane:
                    do(own * self.lanes + lane, row, number, gate, lane)

        def begin(own: Any, row: int, number: int, gate: Any, lane: Any) -> None:
            place = self._start(sums.vectors[number]) + lane
            kept[own] = self._initial(sequences[row], sums.turn, gate, place)

        def end(own: Any, row: int, number: int, gate: Any, lane: Any) -> None:
            sums.found[row, number, gate, lane] = kept[own]

        each(begin)
        with T.serial(0, self.hidden) as depth:

            def add(own: Any, row: int, number: int, gate: Any, lane: Any) -> None:
                at = sequences[row]
                factor = self.matrix[at.direction, sums.vectors[number], depth, gate, lane]
                kept[own] = kept[own] + state(at, sums.turn, depth) * factor

            each(add)
        each(end)

    def _initial(self, at: _Sequence, turn: Turn, gate: Any, place: Any) -> Any:
        """To what the products of a gate are added; data of a new state come behind a reset of all these."""
        if self.bias is None:
            return self._from_data(at, turn, gate, place)
        bias = self.bias[at.direction, gate * self.hidden + place]
        data = self._from_data(at, turn, gate, place)
        if isinstance(gate, int):
            return bias if gate == 2 else bias + data
        return bias + tirx.Select(gate == 2, T.float32(0), data)

    def _from_data(self, at: _Sequence, turn: Turn, gate: Any, place: Any) -> Any:
        column = (at.direction * self.recurrence.gates + gate) * self.hidden + place
        return self.data[turn.time, at.row, column]

    def _activated(self, at: _Sequence, index: int, value: Any) -> Any:
        """One of the direction's activations."""
        clip = self.recurrence.clip
        if clip:
            value = tirx.max(tirx.min(value, T.float32(clip)), T.float32(-clip))
        forms = [direction[index] for direction in self.recurrence.activations]
        first, last = (activated(form, value) for form in (forms[0], forms[-1]))
        return first if forms[0] == forms[-1] else tirx.Select(at.direction == 0, first, last)

    def _leave(self, at: _Sequence, turn: Turn, place: Any, hidden: Any) -> None:
        """Set the hidden state, and the result."""
        self.kept[0][at(place, turn.after)] = hidden
        self.result[at(place, turn.time)] = self.kept[0][at(place, turn.after)]

    def _stay(self, at: _Sequence, turn: Turn, place: Any) -> None:
        """Behind the end of a sequence its states stay, and its results are zero."""
        for copies in self.kept:
            copies[at(place, turn.after)] = copies[at(place, turn.before)]
        self.result[at(place, turn.time)] = T.float32(0)

    def _simple(self, at: _Sequence, turn: Turn, place: Any, gates: Gates) -> None:
        self._leave(at, turn, place, self._activated(at, 0, gates(0)))

    def _long_short_term(self, at: _Sequence, turn: Turn, place: Any, gates: Gates) -> None:
        """Gates in the order input, output, forget, cell."""
        cells, peepholes = self.kept[1], self.given.get("peepholes")
        cell, fresh_cell = cells[at(place, turn.before)], at(place, turn.after)

        def opened(index: int, seen: Any) -> Any:
            gate = gates(index)
            if peepholes is not None:
                gate = gate + peepholes[at.direction, index * self.hidden + place] * seen
            return self._activated(at, 0, gate)

        fresh = opened(0, cell) * self._activated(at, 1, gates(3))
        passed = T.float32(1) - opened(0, cell) if self.recurrence.input_forget else opened(2, cell)
        cells[fresh_cell] = passed * cell + fresh
        self._leave(at, turn, place, opened(1, cells[fresh_cell]) * self._activated(at, 2, cells[fresh_cell]))

    def _gated(self, at: _Sequence, turn: Turn, place: Any, gates: Gates) -> None:
        """Gates in the order update, reset, hidden; reset is the product of the state, with its bias."""
        passed = self._activated(at, 0, gates(1)) * gates(2)
        fresh = self._activated(at, 1, self._from_data(at, turn, 2, place) + passed)
        self._blend(at, turn, place, self._activated(at, 0, gates(0)), fresh)

    def _reset(self, at: _Sequence, turn: Turn, place: Any, gates: Gates) -> None:
        """The hidden state as far as the second gate lets it through."""
        self.update[at(place)] = self._activated(at, 0, gates(0))
        self.reset[at(place)] = self._activated(at, 0, gates(1)) * self._hidden(at, turn, place)

    def _after_reset(self, at: _Sequence, turn: Turn, place: Any, gates: Gates) -> None:
        self._blend(at, turn, place, self.update[at(place)], self._activated(at, 1, gates(2)))

    def _blend(self, at: _Sequence, turn: Turn, place: Any, update: Any, fresh: Any) -> None:
        self._leave(at, turn, place, (T.float32(1) - update) * fresh + update * self._hidden(at, turn, place))


__all__ = ["OPTIONAL", "Group", "Kind", "Phase", "Recurrence", "Step", "Turn"]
