"""Turns that a fork takes, too."""

import os
import signal
import threading

import pytest

from relay_layout.runtime import turns as turns_module
from relay_layout.runtime.turns import Turns


def exit_status(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def is_entered_in_child(turns: Turns) -> bool:
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        with turns.lock:
            os._exit(0)
    return exit_status(child) == 0


def test_a_fork_waits_until_nobody_is_inside() -> None:
    turns, entered, leave = Turns(), threading.Event(), threading.Event()
    left: list[bool] = []

    def work() -> None:
        with turns.lock:
            entered.set()
            leave.wait()
            left.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    entered.wait()
    threading.Timer(0.05, leave.set).start()
    child = os.fork()
    if child == 0:
        os._exit(int(left != [True]))
    assert exit_status(child) == 0
    thread.join()


def test_a_child_enters_what_its_parent_entered_before() -> None:
    turns = Turns()
    with turns.lock:
        pass
    assert is_entered_in_child(turns)
    assert turns.lock.acquire(blocking=False)


def test_who_forks_inside_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns_module, "PATIENCE", 0.05)
    turns = Turns()
    with turns.lock:
        assert is_entered_in_child(turns)
        assert not turns.lock.acquire(blocking=False)
    assert is_entered_in_child(turns)


def test_several_threads_that_fork_at_once() -> None:
    several = [Turns() for _ in range(8)]
    statuses: list[int] = []

    def work() -> None:
        for _ in range(3):
            child = os.fork()
            if child == 0:
                os._exit(0)
            statuses.append(exit_status(child))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert statuses == [0] * 9
    assert not any(turns.lock.locked() for turns in several)
