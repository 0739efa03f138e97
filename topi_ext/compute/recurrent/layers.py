"""Recurrent layers over sequences of any length, as one loop over time.

The product of the data with its weights is computed before, for all time steps at once. A time step
(:mod:`topi_ext.compute.recurrent.step`) multiplies the hidden states of some sequences by the recurrence
matrix and applies the cell function. The equations are those of ONNX (``LSTM``, ``GRU``, ``RNN``).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import tirx as T

from topi_ext.compute.imperative import written
from topi_ext.compute.recurrent.recurrence import Kind, Recurrence
from topi_ext.compute.recurrent.step import Group, Phase, Step, TimeStep
from topi_ext.compute.recurrent.tiles import most_rows, pack, packed, tile_of
from topi_ext.extents import fixed
from topi_ext.machine.processor import Processor

SHARED_BYTES = 512 << 10
"""Threads share each step of layers whose matrix is larger, and divide the sequences of others among them.
Measured on a Zen 3 with one sequence: sharing takes 1.3 to 2 times as long with 64 KiB, 0.6 with 768 KiB and
with 4 MiB."""


def recurrent(
    recurrence: Recurrence,
    projected: te.Tensor,
    weight: te.Tensor,
    optional: Mapping[str, te.Tensor],
    *,
    processor: Processor,
) -> list[te.Tensor]:
    """The hidden states of all time steps, [T, D, B, H], and the final value of each state, [D, B, H];
    float32.

    T is the length, D the number of directions, B the batch, H the size of the hidden state. ``projected``
    [T, B, D * gates * H] is the product of the data with its weights, bias included; ``weight``, by which the
    hidden state is multiplied, is :func:`packed`. The optional inputs (:data:`.recurrence.OPTIONAL`) are:
    ``hidden`` and ``cell`` [D, B, H], the initial states, zero by default; ``lengths`` [B], int32, after
    which a sequence keeps its states and has results of zero; ``bias`` [D, gates * H] of a GRU with ONNX's
    ``linear_before_reset``, which is added to the product with the hidden state before the reset gate is
    applied (without it, the gate is applied before the product); ``peepholes`` [D, 3 * H] of an LSTM, for
    the gates input, output and forget.
    """
    length, batch, _ = projected.shape
    directions, _, hidden, gates, _ = (int(extent) for extent in weight.shape)
    count, threads = len(recurrence.states), processor.threads
    state = (directions, batch, hidden)
    shapes = [(length, *state), *[state] * count, *[(2, *state)] * count, state, state]
    most = most_rows(processor, hidden)
    # A thread with a direction of its own reads as many weights as one that shares all, and never waits.
    sequences = fixed(batch)
    has_own = directions >= threads and sequences is not None and sequences <= most
    is_shared = 4 * gates * hidden**2 > SHARED_BYTES and not has_own
    rows = _rows(batch, 1 if is_shared else ceil(threads / directions), most)
    tasks = _Tasks(directions, tirx.ceildiv(batch, rows), rows, length, recurrence.backwards)

    def body(*buffers: Any) -> None:
        data, matrix, *rest = buffers
        given = dict(zip(optional, rest, strict=False))
        result, *filled = rest[len(optional) :]
        states, kept, (update, reset) = filled[:count], filled[count : 2 * count], filled[2 * count :]
        tile = tile_of(processor, rows, hidden)
        step = Step(recurrence, tile, batch, hidden, data, matrix, kept, update, reset, result, given)
        run = tasks.share if is_shared else tasks.divide
        run(step.begin(), step.phases(), step.end(tirx.floormod(length, 2), states))

    outputs = [(shape, "float32") for shape in shapes]
    found: list[te.Tensor] = written("recurrent", [projected, weight, *optional.values()], outputs, body)
    return found[: 1 + count]


@dataclass(frozen=True)
class _Tasks:
    """The loops over directions, over ``groups`` of ``rows`` sequences, and over ``length`` time steps."""

    directions: int
    groups: Any
    rows: int
    length: Any
    backwards: tuple[bool, ...]

    def share(self, begin: Phase, phases: Sequence[Phase], end: Phase) -> None:
        """Parallelize each phase: all threads share its groups and parts, and wait for each other after
        it.
        """
        self._in_order(self._share, begin, phases, end)

    def divide(self, begin: Phase, phases: Sequence[Phase], end: Phase) -> None:
        """Parallelize over groups: each thread computes all time steps of a group by itself."""
        with T.parallel(0, self.directions * self.groups) as task:
            where = tirx.floordiv(task, self.groups), tirx.floormod(task, self.groups)
            self._in_order(partial(self._alone, *where), begin, phases, end)

    def _in_order(self, run: Callable[..., None], begin: Phase, phases: Sequence[Phase], end: Phase) -> None:
        run(begin)
        with T.serial(0, self.length) as number:
            for phase in phases:
                run(phase, number)
        run(end)

    def _share(self, phase: Phase, number: Any = None) -> None:
        """One phase, on all threads; groups are innermost, so that consecutive ones read the same weights."""
        with T.parallel(0, self.directions * phase.parts * self.groups) as task:
            outer, group = tirx.floordiv(task, self.groups), tirx.floormod(task, self.groups)
            direction, part = tirx.floordiv(outer, phase.parts), tirx.floormod(outer, phase.parts)
            self._take(phase, number, direction, part, group)

    def _alone(self, direction: Any, group: Any, phase: Phase, number: Any = None) -> None:
        with T.serial(0, phase.parts) as part:
            self._take(phase, number, direction, part, group)

    def _take(self, phase: Phase, number: Any, direction: Any, part: Any, group: Any) -> None:
        phase.run(Group(direction, group * self.rows), self._time_step(number, direction), part)

    def _time_step(self, number: Any, direction: Any) -> TimeStep | None:
        """The time step of a direction at iteration ``number``; None outside of time steps."""
        if number is None:
            return None
        before = tirx.floormod(number, 2)
        return TimeStep(_time(number, self.length, direction, self.backwards), before, 1 - before)


def _rows(batch: Any, tasks: int, most: int) -> int:
    """Sequences in a group, at most ``most``; fewer if the batch is known and would give less than
    ``tasks`` groups.
    """
    count = fixed(batch)
    if count is None:
        return most
    groups = max(ceil(count / most), min(count, tasks), 1)
    return max(1, ceil(count / groups))


def _time(number: Any, length: Any, direction: Any, backwards: tuple[bool, ...]) -> Any:
    """The index in the sequence that a direction is at in iteration ``number``."""
    if not any(backwards):
        return number
    reverse = length - 1 - number
    return reverse if all(backwards) else tirx.Select(direction == backwards.index(True), reverse, number)


__all__ = ["Kind", "Recurrence", "pack", "packed", "recurrent"]
