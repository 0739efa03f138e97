"""Building and running kernels in batches: what measurers of CPUs and of GPUs share.

Workers stay alive between kernels, because starting one takes longer than measuring: MetaSchedule's own
builder starts new ones for every batch, and each imports all tensor intrinsics, which takes 15 seconds.
"""

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from topi_ext.errors import RelayLayoutError
from topi_ext.messages import last_line
from topi_ext.tune.measuring import workers
from topi_ext.tune.measuring.library import Library
from topi_ext.tune.measuring.measurement import Measurement
from topi_ext.tune.measuring.timing import too_long

_USES = 500
"""Kernels after which a builder's process is replaced: code generation does not give all memory back."""

Built = tuple[Library | None, str]
"""A library, or what went wrong."""


class Runner(Protocol):
    """Something that runs libraries."""

    def run(self, kernels: Sequence[Library]) -> Iterator[Measurement]:
        """One measurement for each kernel in order, each as soon as it is there."""
        ...

    def close(self) -> None:
        """End the processes."""
        ...


@contextmanager
def needing_packages() -> Iterator[None]:
    """RelayLayoutError that says how to install a package that is missing."""
    try:
        yield
    except ImportError as error:
        raise RelayLayoutError(
            f"tuning needs the package {error.name}: pip install 'relay-layout[tune]'"
        ) from None


def builder_pool(processes: int, timeout: float) -> Any:
    """Processes that build kernels, each kernel for at most ``timeout`` seconds. ImportError."""
    from tvm.support.popen_pool import PopenPoolExecutor

    return PopenPoolExecutor(
        max_workers=processes,
        timeout=timeout,
        initializer=workers.prepare_worker,
        initargs=(1,),
        maximum_process_uses=_USES,
        stderr=subprocess.DEVNULL,
    )


def built(pool: Any, build: Callable[[Any], Library], jobs: Sequence[Any], timeout: float) -> list[Built]:
    """What ``build`` makes of each job in a process of the pool; of a job that is an error already, that."""
    from tvm.support.popen_pool import StatusKind

    results = iter(pool.map_with_error_catching(build, [job for job in jobs if not isinstance(job, str)]))
    outcomes: list[Built] = []
    for job in jobs:
        if isinstance(job, str):
            outcomes.append((None, job))
            continue
        result = next(results)
        if result.status == StatusKind.COMPLETE:
            outcomes.append((result.value, ""))
        elif result.status == StatusKind.TIMEOUT:
            outcomes.append((None, too_long("build", timeout)))
        else:
            outcomes.append((None, f"build: {last_line(str(result.value))}"))
    return outcomes


def finished(future: Any, timeout: float) -> Built:
    """What became of one job that a pool was given alone."""
    try:
        return future.result(), ""
    except TimeoutError:
        return None, too_long("build", timeout)
    except Exception as error:
        return None, f"build: {last_line(str(error))}"


def measured(runner: Runner, outcomes: Sequence[Built], rounds: int) -> Iterator[Measurement]:
    """One measurement for each job in order, each as soon as it is there; all are run once in each round."""
    seconds: list[tuple[float, ...]] = [() for _ in outcomes]
    errors = [error for _, error in outcomes]
    libraries = [library for library, _ in outcomes]
    for turn in range(rounds):
        ready = [library for library, error in zip(libraries, errors, strict=True) if library and not error]
        runs = runner.run(ready)
        for place, library in enumerate(libraries):
            if library and not errors[place]:
                found = next(runs)
                errors[place] = found.error
                seconds[place] += found.seconds
            if turn < rounds - 1:
                continue
            if errors[place]:
                yield Measurement((), errors[place])
            else:
                yield Measurement(seconds[place], lost=not seconds[place])
