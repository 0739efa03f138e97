"""Threads and processes of sessions."""

import gc
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import relay_layout
from relay_layout.environment import host
from relay_layout.errors import InputError
from relay_layout.runtime import session as session_module
from relay_layout.runtime import threads as threads_module
from tests.relay_layout.runtime.random_arrays import randoms


def test_results_do_not_depend_on_threads(artifact: Path) -> None:
    image = np.random.default_rng(0).standard_normal((1, 3, 64, 64), dtype="float32")
    outputs = [
        relay_layout.load(artifact, threads=threads).run({"input": image})["output"] for threads in (1, 2, 64)
    ]
    np.testing.assert_array_equal(outputs[0], outputs[1])
    np.testing.assert_array_equal(outputs[0], outputs[2])


def test_one_thread_uses_one_core(artifact: Path) -> None:
    session = relay_layout.load(artifact, threads=1)
    image = np.zeros((1, 3, 64, 64), "float32")
    session.run({"input": image})
    wall, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    for _ in range(200):
        session.run({"input": image})
    after, wall = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter() - wall
    # Two threads would take twice the wall time; workers of an earlier session may still be going to sleep.
    assert after.ru_utime - before.ru_utime < 1.6 * wall


def in_threads(count: int, work: Callable[[int], None]) -> None:
    with ThreadPoolExecutor(count) as pool:
        for done in [pool.submit(work, index) for index in range(count)]:
            done.result()


@pytest.mark.parametrize("shared", [False, True])
def test_threads_do_not_disturb_each_other(artifact: Path, shared: bool) -> None:
    images = [randoms(seed, 1, 3, 64, 64) for seed in range(4)]
    one = relay_layout.load(artifact, threads=1)
    expected = [one.run({"input": image})["output"] for image in images]

    def work(index: int) -> None:
        session = one if shared else relay_layout.load(artifact, threads=1 + index % 2)
        for _ in range(20):
            np.testing.assert_array_equal(session.run({"input": images[index]})["output"], expected[index])

    in_threads(4, work)


def test_each_session_keeps_its_number_of_threads(artifact: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the pool that TVM has for every calling thread, where libraries have none of their own."""
    monkeypatch.setattr(session_module, "set_own_threads", lambda library, count: False)
    monkeypatch.setattr(threads_module, "cpu_count", lambda: 2)
    set_to: list[int] = []
    original = threads_module.set_threads
    monkeypatch.setattr(threads_module, "set_threads", lambda count: (set_to.append(count), original(count)))
    sessions = [relay_layout.load(artifact, threads=threads) for threads in (1, 2)]
    image = {"input": randoms(0, 1, 3, 64, 64)}

    def work(_: int) -> None:
        for session in (sessions[0], sessions[0], sessions[1], sessions[1], sessions[0]):
            session.run(image)

    in_threads(1, work)
    assert set_to == [1, 2, 1]


def test_threads_must_be_positive(artifact: Path) -> None:
    with pytest.raises(InputError) as raised:
        relay_layout.load(artifact, threads=0)
    assert str(raised.value) == "threads: expected a whole number from 1 on, got 0"


def test_threads_of_a_session_end_with_it(artifact: Path) -> None:
    if host.cpu_count() < 2:
        pytest.skip("one core: no thread is started")
    before = len(list(Path("/proc/self/task").iterdir()))
    session = relay_layout.load(artifact, threads=2)
    loaded = len(list(Path("/proc/self/task").iterdir()))
    session.run({"input": randoms(0, *session.inputs[0].shape)})
    assert len(list(Path("/proc/self/task").iterdir())) == loaded + 1
    del session
    gc.collect()
    assert len(list(Path("/proc/self/task").iterdir())) <= max(before, loaded)


def test_a_child_runs_a_session_that_was_busy_when_it_was_forked(artifact: Path) -> None:
    session = relay_layout.load(artifact, threads=2)
    image = {"input": randoms(0, *session.inputs[0].shape)}
    expected = session.run(image)["output"]
    done = threading.Event()

    def work() -> None:
        while not done.is_set():
            session.run(image)

    busy = threading.Thread(target=work)
    busy.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                os._exit(int(not np.array_equal(session.run(image)["output"], expected)))
            assert os.waitpid(child, 0)[1] == 0
    finally:
        done.set()
        busy.join()


BUSY_AT_THE_END = """
import atexit, sys, threading
import numpy as np

atexit.register(lambda: print(session.run(image)["output"].shape))
import relay_layout

session = relay_layout.load(sys.argv[1], threads=2)
image = {"input": np.zeros(session.inputs[0].shape, "float32")}
begun = threading.Event()

def work():
    while True:
        session.run(image)
        begun.set()

threading.Thread(target=work, daemon=True).start()
begun.wait()
"""


def test_a_process_ends_while_a_daemon_runs_a_session(artifact: Path) -> None:
    for _ in range(3):
        words = [sys.executable, "-c", BUSY_AT_THE_END, str(artifact)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "(1, 1000)\n", "")
