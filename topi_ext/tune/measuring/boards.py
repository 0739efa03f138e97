"""Running kernels on all machines of a tracker's key at once, whatever becomes of a machine.

A kernel that fails on a machine that still answers afterwards is the kernel's fault. A machine that goes
away, or says nothing for too long, says nothing of its kernel, which is run once more, as a rule elsewhere,
since a machine that is gone is not lent again. Before its first kernel each machine is asked whether it can
run such kernels at all.
"""

import concurrent.futures
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from topi_ext.errors import RelayLayoutError
from topi_ext.messages import last_line
from topi_ext.tune.measuring import workers
from topi_ext.tune.measuring.library import Library
from topi_ext.tune.measuring.measurement import Measurement
from topi_ext.tune.measuring.needs import Needs
from topi_ext.tune.measuring.timing import Timing, too_long
from topi_ext.tune.measuring.tracker import Lender, Loan, RemoteDevice, check_remote, machines, none_left

MOST_BOARDS = 64
"""Machines that are used at once, one process here for each."""

ATTEMPTS = 2
"""How many machines a kernel may lose before it is left out."""

_Future = concurrent.futures.Future[Any]

_GRACE = 10.0
"""Seconds beyond a session's limit after which a machine that has not even ended the session is lost."""

_POLL = 0.02
"""Seconds that one request to the tracker waits for a free machine."""

_SILENT = 2.0
"""Seconds without a machine after which a message says so."""


@dataclass(frozen=True)
class BoardEvent:
    """What a machine does: it is busy with a kernel, ran it, found that it fails, or is lost with it.

    It is "fit" or "unfit" for all of them. One that is "unreachable" was lent, and did not answer in the
    first place.
    """

    place: str
    what: Literal["busy", "ran", "failed", "fit", "unfit", "lost", "unreachable"]


class BoardRunner:
    """Runs kernels on machines that a tracker lends."""

    def __init__(
        self,
        remote: RemoteDevice,
        *,
        threads: int,
        timing: Timing,
        needs: Needs,
        tell: Callable[[str], None] = lambda line: None,
        watch: Callable[[BoardEvent], None] = lambda event: None,
    ) -> None:
        """RelayLayoutError where the tracker does not answer or has no such machine.

        ``needs`` is what kernels need of machines. ``tell`` is called with a line where a machine is unfit,
        lost or waited for, ``watch`` with all that machines do.
        """
        from tvm.support.popen_pool import PopenPoolExecutor

        check_remote(remote)
        self._remote = remote
        self._limit = limit = timing.run_timeout
        self._fit: set[str] = set()
        self._unfit: dict[str, str] = {}
        self._tell = tell
        self._watch = watch
        self._run = partial(
            workers.run_on_board,
            threads=threads,
            repeats=timing.repeats,
            min_repeat_ms=timing.min_repeat_ms,
            limit=limit,
            grace=_GRACE,
        )
        self._ask = partial(workers.ask_board, needs=needs, limit=limit, grace=_GRACE)
        self._pool = PopenPoolExecutor(
            max_workers=MOST_BOARDS,
            initializer=workers.prepare_worker,
            initargs=(1,),
            stderr=subprocess.DEVNULL,
        )

    def run(self, kernels: Sequence[Library]) -> Iterator[Measurement]:
        """One measurement for each kernel in order, as many at once as the tracker lends machines.

        RelayLayoutError where for ``remote.wait`` seconds there was no machine, or all are unfit.
        """
        turn = _Turn(deque(range(len(kernels))), [0] * len(kernels))
        patience = _Patience(self._remote, self._tell)
        lender = Lender(self._remote)
        try:
            for place in range(len(kernels)):
                while place not in turn.found:
                    self._start(turn, kernels, lender)
                    for future in turn.finished():
                        self._finish(turn, patience, future)
                    if turn.waiting and not turn.running:
                        patience.check(self._unfit)
                yield turn.found.pop(place)
        except (GeneratorExit, RelayLayoutError):
            # The rest is not wanted, but TVM's servers end with a session that is cut.
            concurrent.futures.wait(turn.running)
            raise
        finally:
            lender.close()

    def _start(self, turn: "_Turn", kernels: Sequence[Library], lender: Lender) -> None:
        """Let a machine that is lent run the next kernel, or say whether it can, the first time."""
        if not turn.waiting or len(turn.running) >= MOST_BOARDS:
            return
        loan = lender.lend(_POLL)
        if loan is not None and loan.place in self._fit:
            future = self._pool.submit(self._run, loan, kernels[turn.waiting[0]])
            turn.running[future] = turn.waiting.popleft(), loan
            self._watch(BoardEvent(loan.place, "busy"))
        elif loan is not None and loan.place not in self._unfit:
            # A loan that nobody takes up goes back by itself.
            turn.running[self._pool.submit(self._ask, loan)] = None, loan

    def _finish(self, turn: "_Turn", patience: "_Patience", future: _Future) -> None:
        """Take what a machine has answered; a kernel that lost it may run again."""
        number, loan = turn.running.pop(future)
        outcome, value = _outcome(future)
        if number is None:
            self._learn(loan.place, outcome, value)
            return
        self._watch(BoardEvent(loan.place, "failed" if outcome == "slow" else outcome))
        if outcome == "unreachable":
            turn.waiting.appendleft(number)
            return
        if outcome == "lost":
            turn.losses[number] += 1
            again = turn.losses[number] < ATTEMPTS
            self._tell(
                f"lost the machine at {loan.place}, {value}; its kernel is "
                f"{'run on another' if again else 'left out, as on the machine before'}"
            )
            if again:
                turn.waiting.appendleft(number)
                return
        else:
            patience.renew()
        turn.found[number] = self._measurement(outcome, value)

    def close(self) -> None:
        """End the processes."""
        self._pool.shutdown(wait=False)

    def _learn(self, place: str, outcome: workers.Outcome, problem: Any) -> None:
        """What a machine answered that was asked; RelayLayoutError where none is left that may be fit."""
        self._watch(BoardEvent(place, outcome if outcome in ("fit", "unfit") else "unreachable"))
        if outcome == "fit":
            self._fit.add(place)
        if outcome != "unfit":
            return
        self._unfit[place] = str(problem)
        line = f"the machine at {place} with key '{self._remote.key}' {problem}"
        if self._fit or self._others_may_be_fit():
            self._tell(f"{line}; tuning goes on with the others")
            return
        if len(self._unfit) > 1:
            every = _described(self._unfit)
            line = f"no machine with key '{self._remote.key}' can run the kernels: {every}"
        raise RelayLayoutError(f"{line}; tune for its processor, or give it another key")

    def _others_may_be_fit(self) -> bool:
        try:
            listed = machines(self._remote.host, self._remote.port)
        except RelayLayoutError:
            return True  # The tracker knows, and does not answer now.
        return any(key == self._remote.key and place not in self._unfit for place, key in listed.items())

    def _measurement(self, outcome: str, value: Any) -> Measurement:
        match outcome:
            case "ran":
                return Measurement(tuple(float(seconds) for seconds in value))
            case "slow":
                return Measurement((), too_long("run", self._limit))
            case "lost":
                return Measurement((), lost=True)
            case _:
                return Measurement((), f"run: {last_line(value)}")


@dataclass
class _Turn:
    """Kernels by their numbers: those that wait, how many machines each has lost, and what was measured.

    ``running`` are the machines that are busy, with the number of a kernel, or None where they are asked.
    """

    waiting: deque[int]
    losses: list[int]
    found: dict[int, Measurement] = field(default_factory=dict)
    running: dict[_Future, tuple[int | None, Loan]] = field(default_factory=dict)

    def finished(self) -> set[_Future]:
        """Machines that have answered; waits for one where no kernel is to be started."""
        if not self.running:
            return set()
        timeout = 0.0 if self.waiting else None
        return concurrent.futures.wait(self.running, timeout, concurrent.futures.FIRST_COMPLETED).done


class _Patience:
    """How long there has been no machine."""

    def __init__(self, remote: RemoteDevice, tell: Callable[[str], None]) -> None:
        self._remote = remote
        self._tell = tell
        self.renew()

    def renew(self) -> None:
        """A machine has answered."""
        self._since = time.monotonic()
        self._told = False

    def check(self, unfit: Mapping[str, str]) -> None:
        """Say once that a machine is waited for; RelayLayoutError where that has taken too long.

        ``unfit`` says of machines that are there why they are none.
        """
        seconds = time.monotonic() - self._since
        if seconds > self._remote.wait:
            reason = none_left(self._remote)
            raise RelayLayoutError(f"{reason}; {_described(unfit)}") if unfit else reason
        if seconds > _SILENT and not self._told:
            self._told = True
            self._tell(
                f"no machine with key '{self._remote.key}' is free; "
                f"waiting for one at {self._remote.place} for at most {self._remote.wait:.0f} s"
            )


def _described(unfit: Mapping[str, str]) -> str:
    return "; ".join(f"{place} {problem}" for place, problem in sorted(unfit.items()))


def _outcome(future: _Future) -> tuple[workers.Outcome, Any]:
    """What the worker says; a worker that died or had to end itself lost its machine."""
    try:
        outcome, value = future.result()
    except ChildProcessError:
        return "lost", "which did not answer any more"
    except Exception as error:
        return "lost", last_line(str(error))
    return outcome, value
