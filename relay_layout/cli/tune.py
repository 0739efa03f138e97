"""``relay-layout tune MODEL... -o LOG``."""

import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relay_layout.cli import options
from relay_layout.cli.interrupts import INTERRUPTED, stop_requests
from relay_layout.cli.log import tell_problems
from relay_layout.cli.output import Outcome, is_watched, note, one_line, progress
from relay_layout.cli.search import SEARCH, tuning_job
from relay_layout.columns import columns
from relay_layout.errors import InputError

if TYPE_CHECKING:
    from relay_layout.targets import BuildTarget
    from topi_ext.tune.measuring.measurement import Measurer
    from topi_ext.tune.measuring.tracker import RemoteDevice
    from topi_ext.tune.transform_tuner import TransformProgress
    from topi_ext.tune.tuner import TuneProgress

_LINE_SECONDS = 10.0
"""How often progress becomes a line of its own where nobody looks at a terminal."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declares the verb's arguments."""
    options.add(parser, options.MODELS)
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="LOG",
        help="the log to append to; tuning goes on from what it holds, after an interruption too",
    )
    options.add(parser, options.TARGET, *options.CONVERSION, *SEARCH)
    parser.add_argument(
        "--modelled",
        action="store_true",
        help="run nothing: model the time from the compiled loop and llvm-mca; for ARM, without a board",
    )
    options.add(parser, *options.remote("measure on the machines that this tracker lends, on all at once"))


def run(arguments: Namespace) -> Outcome:
    """Tunes the kernels of the models; the exit status is 130 where it was interrupted."""
    asked = options.ModelOptions.read(arguments)
    remote = options.remote_device(arguments)
    if arguments.modelled and remote is not None:
        raise InputError(
            "--modelled runs nothing, so --rpc-tracker cannot be combined with it; give one of them"
        )
    if arguments.modelled and arguments.tasks == "transforms":
        raise InputError("--modelled has no model of layout transforms; leave out --tasks transforms")
    options.check_writable("-o", arguments.output, options.sources(arguments))
    from relay_layout.tuning.job import Listener, Tuning

    job = tuning_job(
        arguments,
        asked,
        Path(arguments.output),
        arguments.target,
        modelled=arguments.modelled,
    )
    listener = Listener(tell=lambda line: note(one_line(line)), problems=tell_problems)
    stopped: list[int] = []
    target = job.resolved_target()
    # What cannot measure says so before layouts are chosen, which takes longer.
    with closing(_measurer(target, remote, modelled=arguments.modelled, stopped=stopped)) as measurer:
        progress("choosing layouts")
        tuning = Tuning.prepare(job, target, listener)
        with stop_requests(note, stopped), _Display() as display:
            listener = replace(
                listener, kernel=display.show, transform=display.show_transform, stop=lambda: bool(stopped)
            )
            report = tuning.run(measurer, listener)
    status = INTERRUPTED if report["ended"] == "interrupted" else 0
    return Outcome(report, format_report(report), status)


def format_report(report: Mapping[str, Any]) -> str:
    """The report of a tuning for people."""
    rows = [["task", "uses", "trials", "default us", "best us", "GFLOP/s"]]
    for task in report["tasks"]:
        times = ["-" if task[name] is None else f"{task[name]:.1f}" for name in ("default_us", "best_us")]
        # Of a task that the tuner never came to nobody has counted the knobs.
        trials = "0" if task["space"] is None else f"{task['trials']} of {task['space']}"
        rows.append([task["name"], str(task["weight"]), trials, *times, f"{task['gigaflops']:.0f}"])
    transforms = report["transforms"]
    moved = [["transforms", f"{transforms['measured']} of {transforms['tasks']} measured now"]]
    measured = f"{report['measured']} kernels in {report['seconds']:.0f} s, {report['failed']} failed"
    if report["lost"]:
        measured += f", {report['lost']} left out with the machines they lost"
    totals = columns(
        [
            *(moved if transforms["tasks"] else []),
            ["measured", measured],
            ["gain", f"{report['gain']:.3f} times as fast as with default knobs"],
            ["log", one_line(report["log"])],
            ["ended", report["ended"]],
        ]
    )
    return f"{columns(rows)}\n{totals}" if report["tasks"] else totals


def _measurer(
    target: "BuildTarget", remote: "RemoteDevice | None", *, modelled: bool, stopped: Sequence[int]
) -> "Measurer":
    from relay_layout.tuning.measurers import core_model, local_measurer, remote_measurer

    if modelled:
        return core_model(target)

    def stop() -> bool:
        return bool(stopped)

    if remote is None:
        return local_measurer(target, stop=stop)
    return remote_measurer(target, remote, tell=note, stop=stop)


class _Display:
    """Progress on standard error: one line that is written over on a terminal, now and then one elsewhere."""

    def __init__(self) -> None:
        self._live = is_watched()
        self._width = 0
        self._last = -inf

    def __enter__(self) -> "_Display":
        return self

    def __exit__(self, *_: object) -> None:
        if self._width:
            print(file=sys.stderr, flush=True)

    def show(self, state: "TuneProgress") -> None:
        """Tells where tuning stands."""
        self._show(progress_line(state))

    def show_transform(self, state: "TransformProgress") -> None:
        """Tells which layout transform was measured."""
        self._show(f"layout transform {state.measured} of {state.transforms} ({state.name})")

    def _show(self, line: str) -> None:
        if self._live:
            print(f"\r{line:<{self._width}}", end="", file=sys.stderr, flush=True)
            self._width = max(self._width, len(line))
        elif time.monotonic() - self._last >= _LINE_SECONDS:
            self._last = time.monotonic()
            note(line)


def progress_line(state: "TuneProgress") -> str:
    """Task, trials, speed, gain and time left on one line."""
    minutes, seconds = divmod(round(max(0.0, state.seconds_left)), 60)
    return (
        f"task {state.task} of {state.tasks} ({state.name}), {state.trials} trials, at most "
        f"{state.trials_left} left, best {state.gigaflops:.0f} GFLOP/s, all {state.gain:.3f} times as fast, "
        f"{minutes}:{seconds:02} left"
    )
