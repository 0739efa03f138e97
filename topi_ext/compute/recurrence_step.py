"""One step in time of recurrent layers, of some sequences at once, as statements of TVM's script.

A block of columns of the product of hidden states and weights stays in registers: of one sequence as many
columns as lie in one piece, of several fewer columns, by weights that are read once for all.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from math import gcd
from typing import Any, Literal

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from topi_ext.compute.activations import SIGMOID, TANH, Activation, activated

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

ROWS = 6
"""Most sequences of which a step is taken at once. With sixteen columns each, their sums leave three of the
sixteen registers of AVX2 for weights and states."""


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
class _Sequence:
    """One direction of one sequence of the batch; called, the index of a place of its state or gates."""

    direction: Any
    row: Any

    def __call__(self, place: Any) -> tuple[Any, Any, Any]:
        return self.direction, self.row, place


@dataclass(frozen=True)
class Phase:
    """What of a step has to be done before the next: ``parts`` that do not depend on each other.

    ``run`` takes the group, the step and the part.
    """

    parts: int
    run: Callable[[Group, Any, Any], None]


@dataclass(frozen=True)
class Step:
    """The buffers of all sequences, and what a step does with them; ``width``: columns of all gates.

    A group has ``rows`` sequences, or what is left of the ``batch``. ``given`` are those of
    :data:`OPTIONAL` that there are.
    """

    recurrence: Recurrence
    batch: Any
    rows: int
    hidden: int
    width: int
    data: Any
    matrix: Any
    states: Sequence[Any]
    gates: Any
    reset: Any
    result: Any
    given: Mapping[str, Any]

    @property
    def bias(self) -> Any:
        return self.given.get("bias")

    @property
    def lanes(self) -> int:
        """Elements of a state in a vector."""
        return gcd(self.hidden, LANES)

    @property
    def parts(self) -> int:
        """Vectors of a state."""
        return self.hidden // self.lanes

    def begin(self, group: Group, step: Any, part: Any) -> None:
        """Set one vector of the states to what comes first."""
        del step

        def set_first(at: _Sequence, name: str, state: Any) -> None:
            first = self.given.get(name)
            self._each(
                part,
                lambda place: _set(state, at(place), T.float32(0) if first is None else first[at(place)]),
            )

        for name, state in zip(self.recurrence.states, self.states, strict=True):
            self._of_each(group, partial(set_first, name=name, state=state))

    def phases(self) -> list[Phase]:
        """A step: products of the hidden state, in one phase or around a reset, and what is made of them."""
        hidden, width, kind = self.hidden, self.width, self.recurrence.kind
        last = Phase(self.parts, self._blended)
        if kind != "GRU":
            return [self._product(self.states[0], 0, width, self._from_data), last]
        if self.bias is not None:
            return [self._product(self.states[0], 0, width, self._from_bias), last]
        return [
            self._product(self.states[0], 0, 2 * hidden, self._from_data),
            Phase(self.parts, self._before_product),
            self._product(self.reset, 2 * hidden, hidden, self._from_data),
            last,
        ]

    def _each(self, part: Any, do: Callable[[Any], None]) -> None:
        """For the elements of one vector of a state."""
        with T.vectorized(0, self.lanes) as lane:
            do(part * self.lanes + lane)

    def _of_each(self, group: Group, do: Callable[[_Sequence], None]) -> None:
        """For the sequences of a group."""
        with T.serial(0, self.rows) as place:
            row = group.first + place
            with self._inside(row):
                do(_Sequence(group.direction, row))

    @contextmanager
    def _inside(self, row: Any) -> Iterator[None]:
        """Of a row that may be behind the batch, for those that are not."""
        with ExitStack() as branch:
            if not isinstance(self.batch, int | tirx.IntImm) or int(self.batch) % self.rows:
                branch.enter_context(T.If(row < self.batch))
                branch.enter_context(T.Then())
            yield

    def _running(self, row: Any, step: Any) -> Any:
        """Whether a sequence has not ended before a step; None where all go to the end."""
        lengths = self.given.get("lengths")
        return None if lengths is None else step < lengths[row]

    def _before_product(self, group: Group, step: Any, part: Any) -> None:
        del step
        self._of_each(group, lambda at: self._each(part, lambda place: self._reset(at, place)))

    def _blended(self, group: Group, step: Any, part: Any) -> None:
        """What becomes of the gates, and the result."""
        kind = self.recurrence.kind
        blend = {"LSTM": self._long_short_term, "GRU": self._gated, "RNN": self._simple}[kind]

        def give(at: _Sequence, value: Callable[[Any], Any]) -> None:
            self._each(part, lambda place: _set(self.result, (step, *at(place)), value(place)))

        def after(at: _Sequence) -> None:
            self._each(part, lambda place: blend(at, step, place))
            give(at, lambda place: self.states[0][at(place)])

        def finished(at: _Sequence) -> None:
            running = self._running(at.row, step)
            if running is None:
                after(at)
                return
            with T.If(running):
                with T.Then():
                    after(at)
                with T.Else():
                    give(at, lambda place: T.float32(0))

        self._of_each(group, finished)

    def _from_data(self, sequence: _Sequence, step: Any, column: Any) -> Any:
        return self.data[step, sequence.row, sequence.direction * self.width + column]

    def _from_bias(self, sequence: _Sequence, step: Any, column: Any) -> Any:
        del step
        return self.bias[sequence.direction, column]

    def _product(self, state: Any, first: int, count: int, initial: Callable[..., Any]) -> Phase:
        """``count`` columns of the gates from ``first`` on: ``initial``, and a state by the matrix."""
        lanes = gcd(self.width, LANES)
        block = gcd(first, count, LANES * VECTORS)

        def tile(at: Sequence[_Sequence], step: Any, start: Any, vectors: int) -> None:
            """Vectors of columns from the vector ``start`` on, of some sequences."""
            sums = T.buffer_proxy(T.alloc_buffer((len(at) * vectors * lanes,), "float32", scope="local"))

            def each(do: Callable[[_Sequence, Any, Any], None]) -> None:
                for place, sequence in enumerate(at):
                    for vector in range(vectors):
                        with T.vectorized(0, lanes) as lane:
                            own = (place * vectors + vector) * lanes + lane
                            do(sequence, (own,), (start + vector, lane))

            def begin(sequence: _Sequence, own: Any, column: Any) -> None:
                _set(sums, own, initial(sequence, step, column[0] * lanes + column[1]))

            def end(sequence: _Sequence, own: Any, column: Any) -> None:
                _set(self.gates, sequence(column[0] * lanes + column[1]), sums[own])

            each(begin)
            with T.serial(0, self.hidden) as depth:

                def add(sequence: _Sequence, own: Any, column: Any) -> None:
                    factor = self.matrix[sequence.direction, column[0], depth, column[1]]
                    _set(sums, own, sums[own] + state[sequence(depth)] * factor)

                each(add)
            each(end)

        def vector_of(part: Any) -> Any:
            return first // lanes + part * (block // lanes)

        def alone(group: Group, step: Any, part: Any) -> None:
            running = self._running(group.first, step)
            with ExitStack() as branch:
                if running is not None:
                    branch.enter_context(T.If(running))
                    branch.enter_context(T.Then())
                tile([_Sequence(group.direction, group.first)], step, vector_of(part), block // lanes)

        def together(group: Group, step: Any, part: Any) -> None:
            # Rows behind the batch are computed as its last one, which has the same gates.
            rows = [tirx.min(group.first + row, self.batch - 1) for row in range(self.rows)]
            with T.serial(0, block // lanes) as vector:
                tile([_Sequence(group.direction, row) for row in rows], step, vector_of(part) + vector, 1)

        def run(group: Group, step: Any, part: Any) -> None:
            if self.rows == 1:
                alone(group, step, part)
                return
            with T.If(group.first == self.batch - 1):
                with T.Then():
                    alone(group, step, part)
                with T.Else():
                    together(group, step, part)

        return Phase(count // block, run)

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
        (hidden, cell), peepholes = self.states, self.given.get("peepholes")

        def opened(index: int) -> Any:
            gate = self._gate(at, index, place)
            if peepholes is not None:
                gate = gate + peepholes[at.direction, index * self.hidden + place] * cell[at(place)]
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


def _set(buffer: Any, index: tuple[Any, ...], value: Any) -> None:
    buffer[index] = value


__all__ = ["LANES", "OPTIONAL", "ROWS", "VECTORS", "Group", "Kind", "Phase", "Recurrence", "Step"]
