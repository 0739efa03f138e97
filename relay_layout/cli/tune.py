"""``relay-layout tune MODEL... -o LOG``."""

import signal
import sys
import threading
import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from math import inf
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from relay_layout.cli import options
from relay_layout.cli.log import tell_problems
from relay_layout.cli.output import Outcome, note, one_line, progress, table
from relay_layout.errors import InputError

if TYPE_CHECKING:
    from relay_layout.targets import BuildTarget
    from relay_layout.tuning.tasks import ModelTasks
    from topi_ext.tune.measure import KernelMeasurer
    from topi_ext.tune.measurement import Measurer
    from topi_ext.tune.tracker import RemoteDevice
    from topi_ext.tune.transform_tuner import TransformProgress
    from topi_ext.tune.tuner import TuneProgress

STRATEGIES = ("model", "random", "exhaustive", "tiles")
TASKS = ("all", "kernels", "transforms")
INTERRUPTED = 130
_LINE_SECONDS = 10.0
"""How often progress becomes a line of its own where nobody looks at a terminal."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declares the verb's arguments."""
    parser.add_argument("models", nargs="+", metavar="MODEL", help=options.MODEL_HELP)
    parser.add_argument(
        "-o", "--output", required=True, metavar="LOG", help="the log to append to; what it holds counts"
    )
    options.add_layout_options(parser)
    options.add_threads_option(parser)
    parser.add_argument(
        "--trials", type=options.positive, default=64, metavar="N", help="kernels to measure for a task (64)"
    )
    parser.add_argument(
        "--patience",
        type=options.positive,
        default=32,
        metavar="N",
        help="end a task when N trials have not made it 1%% faster (32)",
    )
    parser.add_argument(
        "--strategy",
        choices=STRATEGIES,
        help="what to measure next: what a learned model predicts (the default), at random, everything, or "
        "the best of each register tile (the default of --modelled)",
    )
    parser.add_argument(
        "--modelled",
        action="store_true",
        help="run nothing: model the time from the compiled loop and llvm-mca; for ARM, without a board",
    )
    parser.add_argument(
        "--tasks",
        choices=TASKS,
        default="all",
        help="measure layout transforms and tune kernels (the default), or one of both alone",
    )
    options.add_remote_options(parser, "measure on the machines that this tracker lends, on all at once")
    parser.add_argument(
        "--time-limit", type=_time_limit, default=inf, metavar="S", help="seconds after which to stop"
    )


def run(arguments: Namespace) -> Outcome:
    """Tunes the kernels of the models; the exit status is 130 where it was interrupted."""
    records = options.record_options(arguments)
    keywords = options.layout_options(arguments)
    keywords = {name: value for name, value in keywords.items() if name not in records}
    remote = options.remote_device(arguments)
    if arguments.modelled and remote is not None:
        raise InputError(
            "--modelled runs nothing, so --rpc-tracker cannot be combined with it; give one of them"
        )
    if arguments.modelled and arguments.tasks == "transforms":
        raise InputError("--modelled has no model of layout transforms; leave out --tasks transforms")
    options.check_writable("-o", arguments.output, [*arguments.models, *arguments.tuning_records])
    import tuning_logs
    from relay_layout import __version__
    from relay_layout.targets import resolve_target
    from relay_layout.tuning.tasks import model_tasks
    from relay_layout.tuning.transforms import transform_function
    from relay_layout.tuning.turns import Turns, with_transforms
    from topi_ext.tune.database import Database
    from topi_ext.tune.transform_tuner import TransformMeasurer
    from topi_ext.tune.tuner import TuneOptions, Tuner, summary

    target = resolve_target(keywords.pop("target"), threads=arguments.threads, **records)
    log = Path(arguments.output)
    shipped = [] if arguments.no_shipped_records else tuning_logs.paths()
    logs = [*shipped, *map(Path, arguments.tuning_records), *([log] if log.exists() else [])]
    database, problems = Database.load(logs)
    tell_problems(problems)
    progress("choosing layouts")
    target = with_transforms(target, database)

    def tasks_of(target: "BuildTarget") -> "ModelTasks":
        return model_tasks(arguments.models, target, keywords)

    found = tasks_of(target)
    for line in found.notes:
        note(one_line(line))
    if not found.tasks:
        raise InputError("there is nothing to tune: the models hold no convolution or dense layer")
    measurer = _measurer(target, remote, modelled=arguments.modelled)
    versions = {"relay_layout": __version__, "tvm": _tvm_version()}
    tune_options = TuneOptions(
        trials=arguments.trials,
        patience=arguments.patience,
        strategy=arguments.strategy or ("tiles" if arguments.modelled else "model"),
        time_limit=arguments.time_limit,
        winograd=not arguments.no_winograd,
    )
    try:
        with _stop_requests() as stopped, _Display() as display:

            def stop() -> bool:
                return bool(stopped)

            transforms = TransformMeasurer(
                target.processor,
                measurer,
                log,
                database,
                partial(transform_function, target),
                progress=display.show_transform,
                stop=stop,
                versions=versions,
                time_limit=arguments.time_limit,
            )
            tuner = Tuner(
                target.processor,
                measurer,
                log,
                database,
                tune_options,
                progress=display.show,
                stop=stop,
                versions=versions,
                origin="modelled" if arguments.modelled else "measured",
            )
            turns = Turns(
                target,
                database,
                tasks_of,
                found,
                transforms if arguments.tasks != "kernels" and not arguments.modelled else None,
                tuner if arguments.tasks != "transforms" else None,
                stop,
            )
            result = turns.run()
    finally:
        measurer.close()
    report = {
        "log": arguments.output,
        "target": target.name,
        "threads": target.threads,
        "transforms": {"tasks": len(turns.found.transforms), "measured": turns.transforms_measured},
        **summary(result),
    }
    return Outcome(report, format_report(report), INTERRUPTED if result.ended == "interrupted" else 0)


def format_report(report: Mapping[str, Any]) -> str:
    """The report of a tuning for people."""
    rows = [["task", "uses", "trials", "default us", "best us", "GFLOP/s"]]
    for task in report["tasks"]:
        times = ["-" if task[name] is None else f"{task[name]:.1f}" for name in ("default_us", "best_us")]
        trials = f"{task['trials']} of {task['space']}"
        rows.append([task["name"], str(task["weight"]), trials, *times, f"{task['gigaflops']:.0f}"])
    transforms = report["transforms"]
    moved = [["transforms", f"{transforms['measured']} of {transforms['tasks']} measured now"]]
    measured = f"{report['measured']} kernels in {report['seconds']:.0f} s, {report['failed']} failed"
    if report["lost"]:
        measured += f", {report['lost']} left out with the machines they lost"
    totals = table(
        [
            *(moved if transforms["tasks"] else []),
            ["measured", measured],
            ["gain", f"{report['gain']:.3f} times as fast as with default knobs"],
            ["log", one_line(report["log"])],
            ["ended", report["ended"]],
        ]
    )
    return f"{table(rows)}\n{totals}" if report["tasks"] else totals


def _measurer(target: "BuildTarget", remote: "RemoteDevice | None", *, modelled: bool) -> "Measurer":
    from relay_layout import host
    from relay_layout.lower.link import link_command
    from topi_ext.tune.measure import KernelMeasurer

    if modelled:
        from topi_ext.tune.static_model import KernelModel

        return KernelModel(target.tvm_target, target.processor, target.facts.gigahertz)
    if remote is None:
        return local_measurer(target)
    return KernelMeasurer(
        target.tvm_target,
        threads=target.threads,
        cpu=f"rpc:{remote.key}",
        link=link_command(target.foreign_machine),
        remote=remote,
        builders=host.cpu_count(),
        tell=note,
    )


def local_measurer(target: "BuildTarget") -> "KernelMeasurer":
    """Measures on this machine; an error where it cannot run what is built for the target."""
    from relay_layout import host
    from relay_layout.artifact import check_runnable
    from relay_layout.bench.machine import describe_machine
    from relay_layout.lower.link import link_command
    from topi_ext.tune.measure import KernelMeasurer

    check_runnable(target.manifest(), name=f"target {target.name}")
    return KernelMeasurer(
        target.tvm_target,
        threads=target.threads,
        cpu=describe_machine()["cpu"],
        link=link_command(),
        builders=host.cpu_count(),
    )


def _tvm_version() -> str:
    import tvm

    return str(tvm.__version__)


@contextmanager
def _stop_requests() -> Iterator[Sequence[int]]:
    """Yields a sequence that gets an entry with the first Ctrl-C; the second one interrupts."""
    requests: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield requests
        return
    previous = signal.getsignal(signal.SIGINT)

    def request(number: int, frame: FrameType | None) -> None:
        del frame
        requests.append(number)
        note("stopping; once more to stop at once")
        signal.signal(signal.SIGINT, previous)

    signal.signal(signal.SIGINT, request)
    try:
        yield requests
    finally:
        signal.signal(signal.SIGINT, previous)


class _Display:
    """Progress on standard error: one line that is written over on a terminal, now and then one elsewhere."""

    def __init__(self) -> None:
        self._live = sys.stderr is not None and sys.stderr.isatty()
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


def _time_limit(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < inf:
        raise ArgumentTypeError(f"expected a number of seconds above 0, got '{text}'")
    return number
