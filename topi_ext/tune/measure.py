"""Measuring kernels: built in worker processes, run by MetaSchedule's runners, here or over RPC.

A kernel that crashes, hangs or does not compile costs a worker and becomes an error text. Workers stay
alive between kernels, because starting one takes longer than measuring: MetaSchedule's own builder starts
new ones for every batch, and each imports all tensor intrinsics, which takes 15 seconds.
"""

import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import tvm
from tvm import tirx

from topi_ext.errors import RelayLayoutError
from topi_ext.kernel import scheduled_kernel
from topi_ext.processor import processor_of
from topi_ext.tune import workers
from topi_ext.tune.agreement import Kernel, difference, reference_knobs, tolerance
from topi_ext.tune.record import WRONG
from topi_ext.workload import ConvolutionWorkload

REPEATS = 3
MIN_REPEAT_MS = 30
BUILD_TIMEOUT = 30.0
RUN_TIMEOUT = 20.0
"""Seconds for one kernel."""

_USES = 500
"""Kernels after which a builder's process is replaced: code generation does not give all memory back."""


_LONGEST_ERROR = 305


@dataclass(frozen=True)
class Measurement:
    """Run times in seconds, or what went wrong."""

    seconds: tuple[float, ...]
    error: str = ""


class Measurer(Protocol):
    """Something that times kernels."""

    cpu: str
    """The model of the machine that runs them."""

    def measure(
        self, workload: ConvolutionWorkload, knobs: Sequence[Any], rounds: int = 1
    ) -> Iterator[Measurement]:
        """One measurement for each of ``knobs`` in order, each as soon as it is there.

        With several rounds all knobs are run once in each round, so that a busy moment of the machine
        hits all alike.
        """
        ...

    def measure_functions(self, functions: Sequence[tirx.PrimFunc], rounds: int = 1) -> Iterator[Measurement]:
        """The same for scheduled functions of one tensor each that is read, and one that is written."""
        ...

    def wrong(self, workload: ConvolutionWorkload, knobs: Any) -> str:
        """What is wrong with a kernel's result; empty where nothing is."""
        ...

    def close(self) -> None:
        """End the processes."""
        ...


@dataclass(frozen=True)
class RemoteDevice:
    """A machine that a tracker lends: address of the tracker, and the key of the machine."""

    host: str
    port: int
    key: str


class KernelMeasurer:
    """Measures on this machine, or on ``remote``."""

    def __init__(
        self,
        target: tvm.target.Target,
        *,
        threads: int,
        cpu: str,
        link: Sequence[str] = (),
        remote: RemoteDevice | None = None,
        builders: int = 1,
        repeats: int = REPEATS,
        min_repeat_ms: int = MIN_REPEAT_MS,
    ) -> None:
        """``link`` is the compiler driver to link with here; another machine links for itself.

        RelayLayoutError where the tracker does not answer, has no such machine, or a package is missing.
        """
        self.cpu = cpu
        self._target = target
        self._folder = tempfile.TemporaryDirectory(prefix="relay-layout-tune-")
        try:
            self._pool = _pool(builders)
            self._link = () if remote else tuple(link)
            self._runner = _runner(threads, remote, repeats, min_repeat_ms)
        except ImportError as error:
            raise RelayLayoutError(
                f"tuning needs the package {error.name}: pip install 'relay-layout[tune]'"
            ) from None
        self._remote = remote

    def measure(
        self, workload: ConvolutionWorkload, knobs: Sequence[Any], rounds: int = 1
    ) -> Iterator[Measurement]:
        """As :meth:`Measurer.measure`; RelayLayoutError where the remote machine is gone."""
        jobs: list[tirx.PrimFunc | str] = []
        for one in knobs:
            try:
                jobs.append(scheduled_kernel(workload, one))
            except (RelayLayoutError, RuntimeError) as error:
                jobs.append(f"schedule: {_last_line(str(error))}")
        return self._measure(jobs, rounds)

    def measure_functions(self, functions: Sequence[tirx.PrimFunc], rounds: int = 1) -> Iterator[Measurement]:
        """As :meth:`Measurer.measure_functions`; RelayLayoutError where the remote machine is gone."""
        return self._measure(functions, rounds)

    def _measure(self, jobs: Sequence[tirx.PrimFunc | str], rounds: int) -> Iterator[Measurement]:
        """Of scheduled functions; of what is an error already, that."""
        from tvm.s_tir.meta_schedule.arg_info import TensorInfo
        from tvm.s_tir.meta_schedule.runner import RunnerInput

        built = self._build(jobs)
        seconds: list[list[float]] = [[] for _ in jobs]
        for turn in range(rounds):
            for place, (path, error) in enumerate(built):
                if not error:
                    information = [TensorInfo(dtype, shape) for shape, dtype in _arguments(jobs[place])]
                    (future,) = self._runner.run([RunnerInput(path, "cpu", information)])
                    result = future.result()
                    error = "" if result.error_msg is None else self._failure(str(result.error_msg))
                    seconds[place] += [float(value) for value in result.run_secs or ()]
                    built[place] = path, error
                if turn == rounds - 1:
                    yield Measurement((), error) if error else Measurement(tuple(seconds[place]))

    def wrong(self, workload: ConvolutionWorkload, knobs: Any) -> str:
        """As :meth:`Measurer.wrong`, on this machine alone: of another one's results nothing is said."""
        from tvm.support.popen_pool import StatusKind

        reference = reference_knobs(workload, processor_of(self._target))
        if self._remote is not None or knobs == reference:
            return ""
        both = [knobs, reference]
        built = self._build([scheduled_kernel(workload, one) for one in both])
        if any(error for _, error in built):
            return ""  # It was built and run before: a machine that is busy says nothing of its result.
        kernels = [Kernel(path, one) for (path, _), one in zip(built, both, strict=True)]
        compare = partial(_difference, workload)
        (result,) = self._pool.map_with_error_catching(compare, [kernels])
        if result.status == StatusKind.TIMEOUT:
            return ""
        if result.status != StatusKind.COMPLETE:
            return f"{WRONG}{_last_line(str(result.value))}"
        allowed = tolerance(workload, knobs)
        if result.value <= allowed:
            return ""
        return f"{WRONG}differs by {result.value:.1e} of the largest, {allowed:.0e} are allowed"

    def close(self) -> None:
        """End the processes and remove what was built."""
        self._pool.shutdown(wait=False)
        pool = getattr(self._runner, "pool", None)
        if pool is not None:
            pool.shutdown(wait=False)
        self._folder.cleanup()

    def _build(self, jobs: Sequence[tirx.PrimFunc | str]) -> list[tuple[str, str]]:
        """Path and error of each kernel, one of them empty; all are built before any is run."""
        from tvm.support.popen_pool import StatusKind

        modules = [workers.named(job) for job in jobs if not isinstance(job, str)]
        build = partial(workers.build_and_export, self._folder.name, self._link)
        results = iter(self._pool.map_with_error_catching(partial(_apply, build, self._target), modules))
        outcomes: list[tuple[str, str]] = []
        for job in jobs:
            if isinstance(job, str):
                outcomes.append(("", job))
                continue
            result = next(results)
            if result.status == StatusKind.COMPLETE:
                outcomes.append((str(result.value), ""))
            elif result.status == StatusKind.TIMEOUT:
                outcomes.append(("", f"build: longer than {BUILD_TIMEOUT:.0f} s"))
            else:
                outcomes.append(("", f"build: {_last_line(str(result.value))}"))
        return outcomes

    def _failure(self, text: str) -> str:
        """The error to record for a kernel that did not run."""
        if self._remote is not None:
            check_remote(self._remote)
        if "Timeout, killed" in text:
            return f"run: longer than {RUN_TIMEOUT:.0f} s"
        return f"run: {_last_line(text)}"


def check_remote(remote: RemoteDevice) -> None:
    """RelayLayoutError unless the tracker answers and knows a machine of that key."""
    place = f"{remote.host}:{remote.port}"
    try:
        socket.create_connection((remote.host, remote.port), timeout=5).close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise RelayLayoutError(f"no RPC tracker at {place}: {reason}") from None
    from tvm import rpc

    try:
        summary = rpc.connect_tracker(remote.host, remote.port).summary()
        keys = sorted({str(server["key"]).partition(":")[2] for server in summary["server_info"]})
    except Exception as error:
        raise RelayLayoutError(
            f"the RPC tracker at {place} does not answer: {_last_line(str(error))}"
        ) from None
    if remote.key not in keys:
        others = f"only {', '.join(keys)}" if keys else "none at all"
        raise RelayLayoutError(f"the RPC tracker at {place} has no machine with key '{remote.key}', {others}")


def _arguments(function: tirx.PrimFunc) -> list[tuple[tuple[int, ...], str]]:
    """Shape and dtype of each parameter."""
    return [(tuple(map(int, tensor.shape)), str(tensor.dtype)) for tensor in function.params]


def _difference(workload: ConvolutionWorkload, kernels: Sequence[Kernel]) -> float:
    return difference(workload, *kernels)


def _apply(build: Any, target: Any, module: tvm.IRModule) -> str:
    return str(build(module, target))


def _pool(processes: int) -> Any:
    from tvm.support.popen_pool import PopenPoolExecutor

    return PopenPoolExecutor(
        max_workers=processes,
        timeout=BUILD_TIMEOUT,
        initializer=workers.prepare_worker,
        initargs=(1,),
        maximum_process_uses=_USES,
        stderr=subprocess.DEVNULL,
    )


def _runner(threads: int, remote: RemoteDevice | None, repeats: int, min_repeat_ms: int) -> Any:
    from tvm.s_tir.meta_schedule.runner import EvaluatorConfig, LocalRunner, RPCConfig, RPCRunner

    config = EvaluatorConfig(
        number=1, repeat=repeats, min_repeat_ms=min_repeat_ms, enable_cpu_cache_flush=False
    )
    if remote is None:
        return LocalRunner(
            timeout_sec=RUN_TIMEOUT,
            evaluator_config=config,
            f_run_evaluator=workers.run_here,
            initializer=partial(workers.prepare_worker, threads),
        )
    check_remote(remote)
    runner = RPCRunner(
        RPCConfig(remote.host, remote.port, remote.key, session_timeout_sec=int(RUN_TIMEOUT)),
        config,
        f_run_evaluator=partial(workers.run_remotely, threads),
        initializer=partial(workers.prepare_worker, 1),
    )
    # It has none of its own, and would wait for ever for a machine that is gone.
    runner.pool._timeout = RUN_TIMEOUT
    return runner


def _last_line(text: str) -> str:
    """The last line that says something, where a traceback has its message; both ends of a long one."""
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    line = lines[-1] if lines else "no message"
    return line if len(line) <= _LONGEST_ERROR else f"{line[:100]} ... {line[-200:]}"


__all__ = ["KernelMeasurer", "Measurement", "Measurer", "RemoteDevice", "check_remote"]
