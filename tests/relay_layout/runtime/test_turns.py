"""Turns that a fork takes, too."""

import os
import signal
import threading

from relay_layout.runtime.turns import Turns


def exit_status(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def entered_in_child(turns: Turns) -> bool:
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        with turns:
            os._exit(0)
    return exit_status(child) == 0


def test_one_thread_at_a_time() -> None:
    turns, inside = Turns(), []

    def work() -> None:
        for _ in range(200):
            with turns:
                inside.append(1)
                assert len(inside) == 1
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not inside


def test_a_fork_waits_until_nobody_is_inside() -> None:
    turns, entered, leave = Turns(), threading.Event(), threading.Event()
    left: list[bool] = []

    def work() -> None:
        with turns:
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
    with turns:
        pass
    assert entered_in_child(turns)
    with turns:
        assert turns.is_mine()
    assert not turns.is_mine()


def test_who_forks_inside_is_inside_in_the_child() -> None:
    turns = Turns()
    with turns:
        child = os.fork()
        if child == 0:
            os._exit(int(not turns.is_mine()))
    assert exit_status(child) == 0
    assert entered_in_child(turns)


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
    assert not any(turns.is_mine() for turns in several)
