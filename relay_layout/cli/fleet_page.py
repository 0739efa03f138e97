"""The status page of a fleet: drawn over and over on a terminal, lines now and then elsewhere."""

import shutil
import sys
import time
from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING

from relay_layout.cli.output import is_watched, note, one_line
from relay_layout.columns import columns

if TYPE_CHECKING:
    from relay_layout.tuning.fleet.status import FleetStatus, TargetStatus

LINE_SECONDS = 10.0
"""How often each target has a line where nobody looks at a terminal."""

_UP_AND_CLEAR = "\x1b[{lines}F\x1b[J"
"""ECMA-48: to the start of the line so many lines above, and erase all below."""


class StatusPage:
    """What is told stays above the page."""

    def __init__(self) -> None:
        self._live = is_watched()
        self._page: list[str] = []
        self._drawn = 0
        self._last = -inf

    def show(self, status: "FleetStatus") -> None:
        """Shows the picture of now."""
        if self._live:
            self._page = page(status)
            self._draw([])
        elif time.monotonic() - self._last >= LINE_SECONDS:
            self._last = time.monotonic()
            for target in status.targets:
                if not target.ended:
                    note(one_line(target_line(status, target)))

    def tell(self, line: str) -> None:
        """Says something once."""
        if self._live:
            self._draw([one_line(line)])
        else:
            note(one_line(line))

    def _draw(self, above: Sequence[str]) -> None:
        size = shutil.get_terminal_size()
        lines = fitted(self._page, size.columns - 1, size.lines - 1)
        back = _UP_AND_CLEAR.format(lines=self._drawn) if self._drawn else ""
        text = "".join(f"{line}\n" for line in [*above, *lines])
        print(f"{back}{text}", end="", file=sys.stderr, flush=True)
        self._drawn = len(lines)


def page(status: "FleetStatus") -> list[str]:
    """The lines of the page: the fleet, a table of its targets, a table of its boards."""
    boards = list(status.boards.values())
    states = ["busy", "idle", "lost", *(["unfit"] if any(board.state == "unfit" for board in boards) else [])]
    counts = ", ".join(f"{sum(board.state == state for board in boards)} {state}" for state in states)
    head = f"{clock(status.seconds)}, boards: {counts}, tracker {status.tracker}"
    if status.tracker_error:
        head += f": {status.tracker_error}"
    targets = [["target", "key", "tasks done", "trials", "gain", "left", "now"]]
    for target in status.targets:
        targets.append(
            [
                target.target,
                target.key,
                f"{target.finished} of {target.tasks}" if target.tasks else "-",
                str(target.trials),
                f"{target.gain:.3f}",
                "-" if target.seconds_left is None else clock(target.seconds_left),
                target.ended or target.now,
            ]
        )
    rows = [["board", "key", "state", "measured", "failed", "task"]]
    for board in boards:
        rows.append(
            [board.place, board.key, board.state, str(board.measured), str(board.failed), board.now or "-"]
        )
    return [one_line(head), "", *columns(targets).splitlines(), "", *columns(rows).splitlines()]


def target_line(status: "FleetStatus", target: "TargetStatus") -> str:
    """A target and its boards on one line."""
    if not target.tasks:
        return f"{target.name}: {target.now}"
    boards = status.boards_of(target.key)
    working = sum(board.state not in ("lost", "unfit") for board in boards)
    left = "" if target.seconds_left is None else f", {clock(target.seconds_left)} left"
    return (
        f"{target.name}: {target.finished} of {target.tasks} tasks done, {target.trials} trials, "
        f"{target.gain:.3f} times as fast{left}, {working} of {len(boards)} boards, {target.now}"
    )


def fitted(lines: Sequence[str], columns: int, rows: int) -> list[str]:
    """As many lines as there are rows, none longer than a row; the last says what is left out."""
    shown = [line[:columns] for line in lines]
    if len(shown) <= rows:
        return shown
    left_out = len(shown) - max(rows, 1) + 1
    return [*shown[: max(rows, 1) - 1], f"... {left_out} lines more"[:columns]]


def clock(seconds: float) -> str:
    """Hours, minutes and seconds, such as ``1:02:03``."""
    minutes, rest = divmod(round(max(0.0, seconds)), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
