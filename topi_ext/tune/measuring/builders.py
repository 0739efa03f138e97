"""Building and running kernels in batches: what measurers of CPUs and of GPUs share.

Workers stay alive between kernels, because starting one takes longer than measuring: MetaSchedule's own
builder starts new ones for every batch, and each imports all tensor intrinsics, which takes 15 seconds.
"""

import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, wait
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

_POLL = 0.1
"""Seconds between two questions whether to stop."""

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


def built(
    pool: Any, build: Callable[[Any], Library], jobs: Sequence[Any], timeout: float, stop: Callable[[], bool]
) -> list[Built]:
    """What ``build`` makes of each job in a process of the pool; of a job that is an error already, that.

    Where ``stop`` says so, what is not built by then is an error.
    """
    futures = {place: pool.submit(build, job) for place, job in enumerate(jobs) if not isinstance(job, str)}
    await_all(futures.values(), stop)
    return [
        finished(futures[place], timeout) if place in futures else (None, job)
        for place, job in enumerate(jobs)
    ]


def await_all(futures: Iterable[Future[Any]], stop: Callable[[], bool]) -> None:
    """Return when all are done, or when ``stop`` says so; those that have not begun are given up then."""
    waiting = set(futures)
    while waiting and not stop():
        waiting = wait(waiting, _POLL).not_done
    for future in waiting:
        future.cancel()


def finished(future: Future[Any], timeout: float) -> Built:
    """What became of one job that a pool was given; one that still runs is not waited for."""
    if not future.done():
        return None, "build: stopped"
    try:
        return future.result(), ""
    except TimeoutError:
        return None, too_long("build", timeout)
    except CancelledError:
        return None, "build: stopped"
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
