"""``autotvm.measure``: where kernels are built and run, what that gives, and boards for whole networks."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from relay_layout.errors import InputError
from relay_layout.relay.autotvm.task import ConfigEntity, Task
from relay_layout.relay.building.board import Board
from relay_layout.relay.missing import refuser
from relay_layout.targets import BuildTarget, CudaTarget
from topi_ext.errors import RelayLayoutError
from topi_ext.tune.measuring.timing import USUAL, USUAL_OF_GPUS, Timing
from topi_ext.tune.measuring.tracker import WAIT, RemoteDevice, borrow
from topi_ext.tune.records.record import TuningRecord

if TYPE_CHECKING:
    from topi_ext.tune.measuring.measurement import Measurer

__getattr__ = refuser(__name__, "tvm.autotvm.measure")


class MeasureErrorNo(IntEnum):
    """What went wrong."""

    NO_ERROR = 0
    INSTANTIATION_ERROR = 1
    COMPILE_HOST = 2
    COMPILE_DEVICE = 3
    RUNTIME_DEVICE = 4
    WRONG_ANSWER = 5
    BUILD_TIMEOUT = 6
    RUN_TIMEOUT = 7
    UNKNOWN_ERROR = 8


_ERRORS = {
    "schedule: ": MeasureErrorNo.INSTANTIATION_ERROR,
    "build: longer than": MeasureErrorNo.BUILD_TIMEOUT,
    "build: ": MeasureErrorNo.COMPILE_HOST,
    "run: longer than": MeasureErrorNo.RUN_TIMEOUT,
    "run: ": MeasureErrorNo.RUNTIME_DEVICE,
    "result: ": MeasureErrorNo.WRONG_ANSWER,
}
"""By how the error of a record begins, the longer beginnings first."""


@dataclass(frozen=True)
class MeasureInput:
    """What was measured: a kernel of a task."""

    task: Task
    config: ConfigEntity
    record: TuningRecord

    @property
    def target(self) -> Any:
        """TVM's target; None for what was read from a log."""
        return self.task.target


class MeasureResult(NamedTuple):
    """Run times in seconds, or a text that says what went wrong, as ``error_no`` does.

    ``all_cost`` is what the runs took together, ``timestamp`` when they ended, both in seconds.
    """

    costs: tuple[Any, ...]
    error_no: int
    all_cost: float
    timestamp: float


def outcome(record: TuningRecord) -> MeasureResult:
    """What a record says."""
    error = next((number for text, number in _ERRORS.items() if record.error.startswith(text)), None)
    if not record.error:
        error = MeasureErrorNo.NO_ERROR
    return MeasureResult(
        record.seconds or (record.error,),
        int(MeasureErrorNo.UNKNOWN_ERROR if error is None else error),
        sum(record.seconds),
        _seconds(record.time),
    )


def _seconds(time: str) -> float:
    """Since 1970; 0 for what is no time."""
    try:
        return datetime.fromisoformat(time).timestamp()
    except ValueError:
        return 0.0


@dataclass(frozen=True)
class LocalBuilder:
    """Builds kernels here, in ``n_parallel`` processes (one per core), each for at most ``timeout`` seconds.

    That is 30 where it is None, and 120 for GPUs.

    InputError for a ``build_func`` other than "default": libraries are linked as :func:`relay.build` does.
    """

    timeout: float | None = None
    n_parallel: int | None = None
    build_kwargs: Any = None
    build_func: Any = "default"
    do_fork: bool = False
    runtime: Any = None

    def __post_init__(self) -> None:
        if self.build_func != "default":
            raise InputError(
                f"LocalBuilder: build_func {self.build_func!r} is not there; leave it out, and for another "
                "linker, such as the NDK's clang, set $CROSS_CC"
            )


@dataclass(frozen=True)
class LocalRunner:
    """Runs kernels here: ``repeat`` times, each time for ``min_repeat_ms`` (30 where it is 0, 10 on GPUs).

    ``timeout`` is in seconds for one kernel, 20 where it is None. ``number`` is not needed, as a repeat has
    as many calls as fill its time; neither is ``enable_cpu_cache_flush``, since weights always take turns
    with copies that do not fit the cache together, nor ``cooldown_interval``.
    """

    timeout: float | None = None
    number: int = 1
    repeat: int = USUAL.repeats
    min_repeat_ms: int = 0
    cooldown_interval: float = 0.0
    enable_cpu_cache_flush: bool = False
    module_loader: Any = None


@dataclass(frozen=True)
class RPCRunner:
    """Runs kernels on all machines of ``key`` that the tracker at ``host`` and ``port`` lends.

    The others are those of :class:`LocalRunner`; ``n_parallel`` and ``priority`` are not needed.
    """

    key: str
    host: str
    port: int
    priority: int = 1
    timeout: float | None = None
    n_parallel: int | None = None
    number: int = 1
    repeat: int = USUAL.repeats
    min_repeat_ms: int = 0
    cooldown_interval: float = 0.0
    enable_cpu_cache_flush: bool = False
    module_loader: Any = None


class MeasureOption:
    """A builder and a runner. Processes that measure here stay for the next task."""

    def __init__(self, builder: LocalBuilder, runner: LocalRunner | RPCRunner) -> None:
        self.builder = builder
        self.runner = runner
        self._here: tuple[BuildTarget, Measurer, weakref.finalize[..., Any]] | None = None

    @contextmanager
    def measurer(self, target: BuildTarget) -> Iterator[Measurer]:
        """What measures for a target. Raises what :mod:`relay_layout.tuning.measurers` raises."""
        from relay_layout.tuning.measurers import local_measurer, remote_measurer

        builder, runner = self.builder, self.runner
        usual = USUAL_OF_GPUS if isinstance(target, CudaTarget) else USUAL
        timing = Timing(
            runner.repeat,
            runner.min_repeat_ms or usual.min_repeat_ms,
            builder.timeout or usual.build_timeout,
            runner.timeout or usual.run_timeout,
        )
        builders = builder.n_parallel
        if isinstance(runner, RPCRunner):
            remote = RemoteDevice(runner.host, runner.port, runner.key)
            # Boards go back to the tracker after each task.
            boards = remote_measurer(target, remote, tell=print, timing=timing, builders=builders)
            with closing(boards):
                yield boards
            return
        if self._here is None or self._here[0] is not target:
            if self._here is not None:
                self._here[2]()
            measurer = local_measurer(target, timing=timing, builders=builders)
            self._here = target, measurer, weakref.finalize(self, measurer.close)
        yield self._here[1]


def measure_option(builder: Any = "local", runner: Any = "local") -> MeasureOption:
    """Where to measure; "local" is this machine. InputError for another text."""
    for what, given in (("builder", builder), ("runner", runner)):
        if isinstance(given, str) and given != "local":
            raise InputError(f"measure_option: {what} {given!r} is not known; use 'local' or an object")
    return MeasureOption(
        LocalBuilder() if builder == "local" else builder, LocalRunner() if runner == "local" else runner
    )


def request_remote(
    device_key: str,
    host: str | None = None,
    port: int | str | None = None,
    priority: int = 1,
    timeout: float = 60,
) -> Board:
    """A machine of a tracker, for ``timeout`` seconds at most (0 for ever), to load networks on.

    Host and port default to ``$TVM_TRACKER_HOST`` and ``$TVM_TRACKER_PORT``. RelayLayoutError where there is
    no machine.
    """
    return Board(borrow(_named(device_key, host, port, WAIT), timeout))


def check_remote(
    target: Any,
    device_key: str,
    host: str | None = None,
    port: int | str | None = None,
    priority: int = 100,
    timeout: float = 10,
) -> bool:
    """Can a machine of the key be had within ``timeout`` seconds?"""
    remote = _named(device_key, host, port, timeout)
    try:
        borrow(remote, timeout)
    except RelayLayoutError:
        return False
    return True


def _named(key: str, host: str | None, port: int | str | None, wait: float) -> RemoteDevice:
    host = host or os.environ.get("TVM_TRACKER_HOST")
    port = port or os.environ.get("TVM_TRACKER_PORT")
    if not host or not port:
        raise InputError(
            "no tracker is named; give host and port, or set TVM_TRACKER_HOST and TVM_TRACKER_PORT"
        )
    return RemoteDevice(host, int(port), key, wait)
