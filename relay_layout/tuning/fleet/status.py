"""The status of a fleet: the progress of each target, and the state of each board."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from relay_layout.tuning.fleet.messages import Failed, Finished, LogLine, Message, Started, TaskStarted
from topi_ext.tune.measuring.boards import BoardEvent
from topi_ext.tune.transform_tuner import TransformProgress
from topi_ext.tune.tuner import TuneProgress

CHOOSING = "choosing layouts"
FAILED = "failed"


@dataclass
class TargetStatus:
    """The progress of the target that is tuned under a tracker's key.

    ``now`` is what is measured, ``tasks`` and ``finished`` count tasks, ``trials`` those of all tasks with
    those of earlier runs; ``gain`` is how many times faster the tasks together are than with default knobs.
    ``ended`` is empty while it is tuned, then "done", "time limit", "interrupted" or "failed", with the
    ``report`` of the tuning, or the ``reason``.
    """

    key: str
    target: str
    log: str
    now: str = CHOOSING
    tasks: int = 0
    finished: int = 0
    trials: int = 0
    gain: float = 1.0
    seconds_left: float | None = None
    ended: str = ""
    report: Mapping[str, Any] | None = None
    reason: str = ""
    internal: bool = False

    @property
    def name(self) -> str:
        """Target and key for people."""
        return f"{self.target} ({self.key})"

    def update(self, message: Message) -> None:
        """Apply a message of the target's worker."""
        match message:
            case Started(tasks):
                self.tasks = tasks
            case TaskStarted(name):
                self.now = name
            case TransformProgress():
                self.now = f"layout transform {message.measured} of {message.transforms}"
            case TuneProgress():
                self.tasks, self.finished, self.trials = message.tasks, message.finished, message.trials
                self.gain, self.seconds_left = message.gain, message.seconds_left
            case Finished(report):
                self._end(str(report["ended"]))
                self.report, self.gain = report, report["gain"]
                self.tasks, self.trials = (
                    len(report["tasks"]),
                    sum(task["trials"] for task in report["tasks"]),
                )
                if self.ended == "done":
                    self.finished = self.tasks
            case Failed(reason, internal):
                self._end(FAILED)
                self.reason, self.internal = reason, internal

    def _end(self, how: str) -> None:
        self.ended, self.now, self.seconds_left = how, "", None


@dataclass
class BoardStatus:
    """A board: its address, its state, and how many kernels it measured, failed to run, and was lost with.

    ``now`` is the task of the kernel that it runs. ``listed``: the tracker knows it. One that is "unfit"
    cannot run what is compiled for the target.
    """

    place: str
    key: str
    state: Literal["idle", "busy", "lost", "unfit"] = "idle"
    measured: int = 0
    failed: int = 0
    lost: int = 0
    now: str = ""
    listed: bool = True

    def update(self, event: BoardEvent, now: str) -> None:
        """Apply an event of the board while it works on the task ``now``."""
        self.now = now if event.what == "busy" else ""
        match event.what:
            case "busy":
                self.state = "busy"
            case "ran":
                self.state = "idle"
                self.measured += 1
            case "failed":
                self.state = "idle"
                self.measured += 1
                self.failed += 1
            case "fit":
                self.state = "idle"
            case "unfit":
                self.state = "unfit"
            case "unreachable":
                self.state = "lost"
            case "lost":
                self.state = "lost"
                self.lost += 1


@dataclass
class FleetStatus:
    """All targets, and all boards by their addresses; ``tracker_error`` is why the tracker was silent."""

    tracker: str
    targets: Sequence[TargetStatus]
    boards: dict[str, BoardStatus] = field(default_factory=dict)
    tracker_error: str = ""
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._start = self.clock()
        self._listed_once = False

    @property
    def seconds(self) -> float:
        """Since the start."""
        return self.clock() - self._start

    def boards_of(self, key: str) -> list[BoardStatus]:
        """The boards of a key."""
        return [board for board in self.boards.values() if board.key == key]

    def update(self, target: TargetStatus, message: Message) -> str:
        """Apply a message of a target's worker; returns the line to print, or an empty one."""
        if isinstance(message, LogLine):
            return f"{target.name}: {message.line}"
        if isinstance(message, BoardEvent):
            board = self.boards.setdefault(message.place, BoardStatus(message.place, target.key))
            board.update(message, target.now)
            return ""
        target.update(message)
        if isinstance(message, Failed):
            return f"{target.name}: failed: {target.reason}"
        if isinstance(message, Finished):
            return f"{target.name}: {target.ended}, {target.gain:.3f} times as fast as with default knobs"
        return ""

    def update_boards(self, machines: Mapping[str, str]) -> list[str]:
        """Apply the tracker's list of keys by address; returns a line for each board that came or went."""
        keys = {target.key for target in self.targets}
        lines = []
        for place, key in machines.items():
            if key in keys and place not in self.boards:
                self.boards[place] = BoardStatus(place, key)
                if self._listed_once:
                    lines.append(f"a board came: {place} ({key})")
        for board in self.boards.values():
            listed = board.place in machines
            if listed and not board.listed:
                board.state = "idle"
                lines.append(f"a board is back: {board.place} ({board.key})")
            if not listed and board.listed:
                board.state, board.now = "lost", ""
                lines.append(f"the tracker has lost a board: {board.place} ({board.key})")
            board.listed = listed
        self._listed_once = True
        return lines
