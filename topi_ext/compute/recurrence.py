"""Recurrent layers over sequences of any length, as one loop over time.

The product of the data and its weights, for all steps at once, comes from before. A step
(:mod:`topi_ext.compute.recurrence_step`) multiplies the hidden states of some sequences by a matrix, and
blends what comes out. The equations are those of ONNX (``LSTM``, ``GRU``, ``RNN``).
"""

from collections.abc import Callable, Mapping
from math import ceil
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import tirx as T

from topi_ext.compute.imperative import written
from topi_ext.compute.recurrence_step import Group, Kind, Phase, Recurrence, Step, Turn
from topi_ext.compute.recurrence_tiles import most_rows, pack, packed, tile_of
from topi_ext.processor import Processor

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
    """The hidden states [T, D, B, H] of all steps and directions, and the last of each state [D, B, H].

    All are float32. ``projected`` [T, B, D * gates * H] are the data by their weights, with the bias;
    ``weight`` is :func:`packed` and multiplies the hidden state. Some of :data:`.OPTIONAL` may be given:
    ``hidden`` and ``cell`` [D, B, H], the first states, zero by default. ``lengths`` [B], int32, are how many
    steps each sequence has: its states stay as they are behind them, where its results are zero. ``bias``
    [D, gates * H] of a GRU is added to the product of the hidden state before the reset (ONNX's
    ``linear_before_reset``); without one the reset comes before that product. ``peepholes`` [D, 3 * H] of an
    LSTM multiply the cell for the gates input, output and forget.
    """
    length, batch, _ = projected.shape
    directions, _, gates, hidden, _ = (int(extent) for extent in weight.shape)
    count, threads = len(recurrence.states), processor.threads
    state = (directions, batch, hidden)
    shapes = [(length, *state), *[state] * count, *[(2, *state)] * count, state, state]
    most = most_rows(processor, hidden)
    # A thread that has a direction for itself reads as much as one that shares them all, and waits for none.
    has_own = directions >= threads and _is_constant(batch) and int(batch) <= most
    is_shared = 4 * gates * hidden**2 > SHARED_BYTES and not has_own
    rows = _rows(batch, 1 if is_shared else ceil(threads / directions), most)
    groups = tirx.ceildiv(batch, rows)

    def body(*buffers: Any) -> None:
        data, matrix, *rest = buffers
        given = dict(zip(optional, rest, strict=False))
        result, *filled = rest[len(optional) :]
        states, kept, (update, reset) = filled[:count], filled[count : 2 * count], filled[2 * count :]
        tile = tile_of(processor, rows, hidden)
        step = Step(recurrence, tile, batch, hidden, data, matrix, kept, update, reset, result, given)
        begin, phases, end = step.begin(), step.phases(), step.end(tirx.floormod(length, 2), states)

        def take(phase: Phase, number: Any, direction: Any, part: Any, group: Any) -> None:
            turn = None
            if number is not None:
                time, before = _in_order(number, length, direction, recurrence.backwards), number % 2
                turn = Turn(time, before, 1 - before)
            phase.run(Group(direction, group * rows), turn, part)

        def share(phase: Phase, number: Any) -> None:
            """Groups that read the same weights come one after the other."""
            with T.parallel(0, directions * phase.parts * groups) as task:
                outer, group = tirx.floordiv(task, groups), tirx.floormod(task, groups)
                direction, part = tirx.floordiv(outer, phase.parts), tirx.floormod(outer, phase.parts)
                take(phase, number, direction, part, group)

        def alone(direction: Any, group: Any, phase: Phase, number: Any) -> None:
            with T.serial(0, phase.parts) as part:
                take(phase, number, direction, part, group)

        def in_order(run: Callable[[Phase, Any], None]) -> None:
            run(begin, None)
            with T.serial(0, length) as number:
                for phase in phases:
                    run(phase, number)
            run(end, None)

        if is_shared:
            in_order(share)
            return
        with T.parallel(0, directions * groups) as task:
            direction, group = tirx.floordiv(task, groups), tirx.floormod(task, groups)
            in_order(lambda phase, number: alone(direction, group, phase, number))

    outputs = [(shape, "float32") for shape in shapes]
    found: list[te.Tensor] = written("recurrent", [projected, weight, *optional.values()], outputs, body)
    return found[: 1 + count]


def _rows(batch: Any, tasks: int, most: int) -> int:
    """How many sequences a thread takes at once: so few that there are ``tasks``, where that is known."""
    if not _is_constant(batch):
        return most
    count = int(batch)
    groups = max(ceil(count / most), min(count, tasks), 1)
    return max(1, ceil(count / groups))


def _is_constant(extent: Any) -> bool:
    return isinstance(extent, int | tirx.IntImm)


def _in_order(turn: Any, length: Any, direction: Any, backwards: tuple[bool, ...]) -> Any:
    """The step that a direction takes at its turn."""
    if not any(backwards):
        return turn
    reverse = length - 1 - turn
    return reverse if all(backwards) else tirx.Select(direction == backwards.index(True), reverse, turn)


__all__ = ["Kind", "Recurrence", "pack", "packed", "recurrent"]
