"""Recurrent layers over sequences of any length, as one loop over time.

The product of the data and its weights, for all steps at once, comes from before. A step
(:mod:`topi_ext.compute.recurrence_step`) multiplies the hidden states of some sequences by a matrix, and
blends what comes out. The equations are those of ONNX (``LSTM``, ``GRU``, ``RNN``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, gcd
from typing import Any

import numpy as np
from tvm import te, tirx
from tvm.script.ir_builder import tirx as T

from topi_ext.compute.imperative import written
from topi_ext.compute.recurrence_step import LANES, ROWS, Group, Kind, Phase, Recurrence, Step

SHARED_BYTES = 512 << 10
"""Threads share each step of layers whose matrix is larger, and divide the sequences of others among them.
Measured on a Zen 3 with one sequence: sharing takes 1.3 to 2 times as long with 64 KiB, 0.6 with 768 KiB and
with 4 MiB."""


def packed(weight: np.ndarray) -> np.ndarray:
    """A weight [D, H, gates * H] in vectors of columns, each in one piece: [D, vectors, H, lanes]."""
    directions, hidden, columns = weight.shape
    vectors = weight.reshape(directions, hidden, -1, gcd(columns, LANES))
    return np.ascontiguousarray(vectors.swapaxes(1, 2))


def pack(weight: te.Tensor) -> te.Tensor:
    """:func:`packed` of a weight that is computed when the layer runs."""
    directions, hidden, columns = (int(extent) for extent in weight.shape)
    lanes = gcd(columns, LANES)
    return te.compute(
        (directions, columns // lanes, hidden, lanes),
        lambda direction, vector, place, lane: weight[direction, place, vector * lanes + lane],
        name="packed",
    )


def recurrent(
    recurrence: Recurrence,
    projected: te.Tensor,
    weight: te.Tensor,
    optional: Mapping[str, te.Tensor],
    *,
    threads: int = 1,
) -> list[te.Tensor]:
    """The hidden states [T, D, B, H] of all steps and directions, and the last of each state [D, B, H].

    All are float32. ``projected`` [T, B, D * gates * H] are the data by their weights, with the bias;
    ``weight`` is :func:`packed` and multiplies the hidden state. Some of :data:`.OPTIONAL` may be given:
    ``hidden`` and ``cell`` [D, B, H], the first states, zero by default. ``lengths`` [B], int32, are how many
    steps each sequence has: its states stay as they are behind them, where its results are zero. ``bias``
    [D, gates * H] of a GRU is added to the product of the hidden state before the reset (ONNX's
    ``linear_before_reset``); without one the reset comes before that product. ``peepholes`` [D, 3 * H] of an
    LSTM multiply the cell for the gates input, output and forget. There is work for ``threads`` at a time.
    """
    length, batch, _ = projected.shape
    directions, vectors, hidden, lanes = (int(extent) for extent in weight.shape)
    width = vectors * lanes
    state = ((directions, batch, hidden), "float32")
    states = [state] * len(recurrence.states)
    scratch = [((directions, batch, width), "float32"), state]
    outputs = [((length, directions, batch, hidden), "float32"), *states, *scratch]
    is_shared = 4 * hidden * width > SHARED_BYTES
    rows = _rows(batch, 1 if is_shared else ceil(threads / directions))
    tasks = _Tasks(directions, tirx.ceildiv(batch, rows), rows, length, recurrence.backwards)

    def body(*buffers: Any) -> None:
        data, matrix, *rest = buffers
        given = dict(zip(optional, rest, strict=False))
        result, *filled = rest[len(optional) :]
        after, (gates, reset) = filled[: len(states)], filled[len(states) :]
        step = Step(recurrence, batch, rows, hidden, width, data, matrix, after, gates, reset, result, given)
        run = tasks.share if is_shared else tasks.divide
        run(Phase(step.parts, step.begin), step.phases())

    found: list[te.Tensor] = written("recurrent", [projected, weight, *optional.values()], outputs, body)
    return found[: 1 + len(states)]


@dataclass(frozen=True)
class _Tasks:
    """Loops over ``groups`` of ``rows`` sequences each, in every direction, and over ``length`` steps."""

    directions: int
    groups: Any
    rows: int
    length: Any
    backwards: tuple[bool, ...]

    def share(self, begin: Phase, phases: Sequence[Phase]) -> None:
        """All threads compute one phase after the other, each some parts of some groups."""
        self._share(begin)
        with T.serial(0, self.length) as turn:
            for phase in phases:
                self._share(phase, turn)

    def divide(self, begin: Phase, phases: Sequence[Phase]) -> None:
        """Each thread computes all phases of a group, alone."""
        with T.parallel(0, self.directions * self.groups) as task:
            where = tirx.floordiv(task, self.groups), tirx.floormod(task, self.groups)
            self._alone(*where, begin)
            with T.serial(0, self.length) as turn:
                for phase in phases:
                    self._alone(*where, phase, turn)

    def _share(self, phase: Phase, turn: Any = None) -> None:
        """Groups that read the same weights come one after the other."""
        with T.parallel(0, self.directions * phase.parts * self.groups) as task:
            outer, group = tirx.floordiv(task, self.groups), tirx.floormod(task, self.groups)
            direction, part = tirx.floordiv(outer, phase.parts), tirx.floormod(outer, phase.parts)
            self._take(phase, turn, direction, part, group)

    def _alone(self, direction: Any, group: Any, phase: Phase, turn: Any = None) -> None:
        with T.serial(0, phase.parts) as part:
            self._take(phase, turn, direction, part, group)

    def _take(self, phase: Phase, turn: Any, direction: Any, part: Any, group: Any) -> None:
        time = None if turn is None else _in_order(turn, self.length, direction, self.backwards)
        phase.run(Group(direction, group * self.rows), time, part)


def _rows(batch: Any, tasks: int) -> int:
    """How many sequences a thread takes at once: so few that there are ``tasks``, where that is known."""
    if not isinstance(batch, int | tirx.IntImm):
        return ROWS
    count = int(batch)
    groups = max(ceil(count / ROWS), min(count, tasks), 1)
    return max(1, ceil(count / groups))


def _in_order(turn: Any, length: Any, direction: Any, backwards: tuple[bool, ...]) -> Any:
    """The step that a direction takes at its turn."""
    if not any(backwards):
        return turn
    reverse = length - 1 - turn
    return reverse if all(backwards) else tirx.Select(direction == backwards.index(True), reverse, turn)


__all__ = ["Kind", "Recurrence", "pack", "packed", "recurrent"]
