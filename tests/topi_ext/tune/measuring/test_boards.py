"""Which machines get kernels, with machines that answer at once, here."""

from collections.abc import Callable
from concurrent.futures import Future
from itertools import cycle
from typing import Any

import pytest

from topi_ext.errors import RelayLayoutError
from topi_ext.tune.measuring import boards, workers
from topi_ext.tune.measuring.boards import BoardEvent, BoardRunner
from topi_ext.tune.measuring.library import Library
from topi_ext.tune.measuring.measurement import Measurement
from topi_ext.tune.measuring.needs import Needs
from topi_ext.tune.measuring.timing import Timing
from topi_ext.tune.measuring.tracker import Loan, RemoteDevice

FIT = ("fit", "")
LITTLE = ("unfit", "lacks dotprod, which the kernels need")
FOREIGN = ("unfit", "is x86_64, and kernels for aarch64 do not run there")
REMOTE = RemoteDevice("tracker", 9190, "pi5", wait=0.2)
KERNELS = [Library(f"/folder/{number}.so", []) for number in range(4)]

Answers = dict[str, tuple[str, str]]


class AtOnce:
    """A pool that runs what it is given before it says so."""

    def submit(self, function: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        future.set_result(function(*arguments))
        return future


class Fleet:
    """A runner whose tracker lends all machines in turn, one after the other."""

    def __init__(self, answers: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self.told: list[str] = []
        self.events: list[BoardEvent] = []
        self.ran: list[str] = []
        loans = cycle([Loan(place[0], int(place[2]), match="") for place in answers])

        class Lender:
            def __init__(self, remote: RemoteDevice) -> None:
                assert remote is REMOTE

            def lend(self, seconds: float) -> Loan:
                return next(loans)

            def close(self) -> None:
                pass

        def ask(loan: Loan, **_: Any) -> tuple[str, str]:
            self.asked.append(loan.place)
            return answers[loan.place]

        def run(loan: Loan, kernel: Library, **_: Any) -> tuple[str, list[float]]:
            self.ran.append(loan.place)
            return "ran", [1.0]

        monkeypatch.setattr(boards, "Lender", Lender)
        monkeypatch.setattr(boards, "check_remote", lambda remote: None)
        monkeypatch.setattr(boards, "none_left", lambda remote: RelayLayoutError("none was free"))
        monkeypatch.setattr(boards, "machines", lambda host, port: dict.fromkeys(answers, "pi5"))
        monkeypatch.setattr(workers, "ask_board", ask)
        monkeypatch.setattr(workers, "run_on_board", run)
        self.runner = BoardRunner(
            REMOTE,
            threads=1,
            timing=Timing(1, 1, run_timeout=1.0),
            needs=Needs("aarch64"),
            tell=self.told.append,
            watch=self.events.append,
        )
        monkeypatch.setattr(self.runner, "_pool", AtOnce())

    def error(self) -> str:
        with pytest.raises(RelayLayoutError) as caught:
            list(self.runner.run(KERNELS))
        return str(caught.value)


def test_machines_that_are_unfit_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet({"a:1": LITTLE, "b:2": FIT, "c:3": FOREIGN}, monkeypatch)
    assert list(fleet.runner.run(KERNELS)) == [Measurement((1.0,))] * 4
    assert fleet.ran == ["b:2"] * 4
    assert fleet.told == [
        "the machine at a:1 with key 'pi5' lacks dotprod, which the kernels need; tuning goes on with the "
        "others",
        "the machine at c:3 with key 'pi5' is x86_64, and kernels for aarch64 do not run there; "
        "tuning goes on with the others",
    ]
    assert [event for event in fleet.events if event.what == "unfit"] == [
        BoardEvent("a:1", "unfit"),
        BoardEvent("c:3", "unfit"),
    ]


def test_a_machine_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet({"a:1": LITTLE, "b:2": FIT}, monkeypatch)
    list(fleet.runner.run(KERNELS))
    list(fleet.runner.run(KERNELS))
    assert (fleet.asked, fleet.ran) == (["a:1", "b:2"], ["b:2"] * 8)


def test_no_machine_is_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Fleet({"a:1": LITTLE, "c:3": FOREIGN}, monkeypatch).error() == (
        "no machine with key 'pi5' can run the kernels: a:1 lacks dotprod, which the kernels need; c:3 is "
        "x86_64, and kernels for aarch64 do not run there; tune for its processor, or give it another key"
    )


def test_no_machine_is_left_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet({"a:1": LITTLE, "b:2": ("unreachable", "")}, monkeypatch)
    assert fleet.error() == "none was free; a:1 lacks dotprod, which the kernels need"
