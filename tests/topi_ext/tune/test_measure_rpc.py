"""Measuring over RPC: a real server, lent by a tracker that knows just enough of the protocol."""

import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tvm.rpc import base
from tvm.target import Target

from topi_ext.cuda.codegen.nvcc import find_nvcc
from topi_ext.cuda.gemm_knobs import GemmKnobs
from topi_ext.cuda.multiprocessor import MULTIPROCESSORS
from topi_ext.cuda.workload import GemmConvolution
from topi_ext.errors import RelayLayoutError
from topi_ext.kernel import scheduled_kernel
from topi_ext.machine.architecture import architecture_of
from topi_ext.machine.processor import processor_of
from topi_ext.tune.measuring import boards, workers
from topi_ext.tune.measuring.boards import BoardRunner, Library
from topi_ext.tune.measuring.cpu_measure import CpuMeasurer
from topi_ext.tune.measuring.gpu_measure import GpuMeasurer
from topi_ext.tune.measuring.needs import Needs
from topi_ext.tune.measuring.timing import Timing
from topi_ext.tune.measuring.tracker import RemoteDevice, check_remote
from topi_ext.tune.measuring.workplace import Workplace
from topi_ext.tune.space import Space
from topi_ext.workloads.convolution import ConvolutionWorkload

ROOT = Path(__file__).resolve().parents[3]
TARGET = Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 1})


class Tracker:
    """Lends the servers that report to it, one request after the other; one thread for each connection."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self._free: dict[str, list[Any]] = {}
        self._servers: list[dict[str, Any]] = []
        self._changed = threading.Condition()
        threading.Thread(target=self._accept, daemon=True).start()

    def wait_for(self, key: str) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._free.get(key), timeout=60)

    def _lend(self, key: str, connection: socket.socket) -> Any:
        """The first machine that is free while whoever asked is still there."""
        with self._changed:
            while not self._free.get(key):
                self._changed.wait(0.1)
                if select.select([connection], [], [], 0)[0]:
                    raise ConnectionError("it says something else, or has gone")
            return self._free[key].pop(0)

    def close(self) -> None:
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        code = base.TrackerCode
        own: dict[str, Any] = {}
        try:
            base.recvall(connection, 4)
            connection.sendall(struct.pack("<i", base.RPC_TRACKER_MAGIC))
            while True:
                kind, *words = base.recvjson(connection)
                answer: Any = code.SUCCESS
                if kind == code.UPDATE_INFO:
                    own = {**words[0], "addr": ["127.0.0.1", words[0]["addr"][1]]}
                    self._servers.append(own)
                elif kind == code.PUT:
                    with self._changed:
                        self._free.setdefault(words[0], []).append(["127.0.0.1", *words[1]])
                        self._changed.notify_all()
                elif kind == code.REQUEST:
                    answer = [code.SUCCESS, self._lend(words[0], connection)]
                elif kind == code.SUMMARY:
                    answer = [code.SUCCESS, {"queue_info": {}, "server_info": self._servers}]
                elif kind == code.GET_PENDING_MATCHKEYS:
                    answer = [free[2] for found in self._free.values() for free in found]
                base.sendjson(connection, answer)
        except (OSError, struct.error):
            connection.close()
            if own:
                self._servers.remove(own)


@dataclass(frozen=True)
class Board:
    """A tracker, and the process of the one machine it has, whose key is "board"."""

    tracker: Tracker
    process: int


@pytest.fixture(scope="module")
def board() -> Iterator[Board]:
    with closing(Tracker()) as tracker, rpc_server(tracker) as process:
        yield Board(tracker, process)


@contextmanager
def rpc_server(tracker: Tracker) -> Iterator[int]:
    """A machine with the key "board"; gives the process."""
    words = ["--host=127.0.0.1", f"--tracker=127.0.0.1:{tracker.port}", "--key=board", "--silent"]
    server = subprocess.Popen(
        [sys.executable, "-m", "tvm.exec.rpc_server", *words],
        env={**os.environ, "TVM_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    tracker.wait_for("board")
    yield server.pid
    if server.poll() is None:
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()


def test_a_machine_that_there_is_not(board: Board) -> None:
    with pytest.raises(RelayLayoutError) as caught:
        check_remote(RemoteDevice("127.0.0.1", board.tracker.port, "phone"))
    assert str(caught.value) == (
        f"the RPC tracker at 127.0.0.1:{board.tracker.port} has no machine with key 'phone', only board"
    )


def test_kernels_for_another_architecture(board: Board, tmp_path: Path) -> None:
    """They fail to load, which says nothing of them."""
    library = tmp_path / "kernel.so"
    library.write_bytes(b"of another machine")
    remote = RemoteDevice("127.0.0.1", board.tracker.port, "board", wait=10.0)
    runner = BoardRunner(
        remote, threads=1, timing=Timing(1, 1, run_timeout=30.0), needs=Needs("another architecture")
    )
    with closing(runner), pytest.raises(RelayLayoutError) as caught:
        list(runner.run([Library(str(library), [])]))
    here = architecture_of(Target("llvm"))
    assert re.sub(r":\d+ ", ":PORT ", str(caught.value)) == (
        f"the machine at 127.0.0.1:PORT with key 'board' is {here}, and kernels for another architecture "
        "do not run there; tune for its processor, or give it another key"
    )


def test_kernels_run_on_the_machine_that_is_lent_until_it_is_gone(
    board: Board,
    workload: ConvolutionWorkload,
    squares: Callable[..., ConvolutionWorkload],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    port = board.tracker.port
    measurer = CpuMeasurer(
        TARGET,
        Workplace("rpc:board", remote=RemoteDevice("127.0.0.1", port, "board", wait=10.0)),
        threads=1,
        timing=Timing(min_repeat_ms=1, run_timeout=5.0),
    )
    with closing(measurer):
        knobs = [candidate.knobs for candidate in Space(workload, processor_of(TARGET)).candidates[:2]]
        found = list(measurer.measure(workload, knobs))
        assert [one.error for one in found] == ["", ""]
        assert all(len(one.seconds) == 3 and 1e-6 < min(one.seconds) < 1.0 for one in found)
        # Weights that no cache keeps: the board copies them for itself.
        large = squares(256, 3)
        assert workers.cold_copies(large.macs // 9 * 4) > 1
        knobs = [Space(large, processor_of(TARGET)).default.knobs]
        (cold,) = measurer.measure(large, knobs)
        assert (cold.error, len(cold.seconds)) == ("", 3)
        os.killpg(board.process, signal.SIGKILL)
        with pytest.raises(RelayLayoutError) as caught:
            list(measurer.measure(workload, knobs))
    assert str(caught.value) == (
        f"the RPC tracker at 127.0.0.1:{port} has no machine with key 'board', none at all"
    )


def _run_and_stop(process: int, *arguments: Any, **options: Any) -> Any:
    """As ``run_on_board``, on a machine that stops as soon as it has run the kernel."""

    def stop(*_: Any) -> list[float]:
        os.killpg(process, signal.SIGSTOP)
        return [1.0]

    workers._times_on_board = stop
    return workers.run_on_board(*arguments, **options)


def test_a_machine_that_stops_before_its_memory_is_freed(
    workload: ConvolutionWorkload, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(boards, "_GRACE", 1.0)
    kernel = scheduled_kernel(workload, Space(workload, processor_of(TARGET)).default.knobs)
    library = workers.build_and_export(str(tmp_path), (), workers.named(kernel), TARGET)
    told: list[str] = []
    with closing(Tracker()) as tracker, rpc_server(tracker) as process:
        runner = BoardRunner(
            RemoteDevice("127.0.0.1", tracker.port, "board", wait=5.0),
            threads=1,
            timing=Timing(1, 1, run_timeout=5.0),
            needs=Needs(architecture_of(TARGET)),
            tell=told.append,
        )
        monkeypatch.setattr(runner, "_run", partial(_run_and_stop, process, **runner._run.keywords))
        with closing(runner), pytest.raises(RelayLayoutError) as caught:
            list(runner.run([Library(library, [((16,), "float32")])]))
    assert "was free for 5 s; those it has are lent, or hang" in str(caught.value)
    lost = [re.sub(r":\d+,", ":PORT,", line) for line in told if line.startswith("lost ")]
    assert lost == [
        "lost the machine at 127.0.0.1:PORT, which did not answer any more; its kernel is run on another"
    ]


@pytest.mark.skipif(find_nvcc() is None, reason="nvcc is not installed")
def test_a_machine_without_a_gpu_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with closing(Tracker()) as tracker, rpc_server(tracker):
        place = Workplace("rpc:board", remote=RemoteDevice("127.0.0.1", tracker.port, "board", wait=10.0))
        with closing(GpuMeasurer(MULTIPROCESSORS["sm_90"], place)) as measurer:
            knobs = GemmKnobs("mma", 32, 32, 32, 1, 1, 2)
            work = GemmConvolution(1, 4, 4, 32, 32, (1, 1), (1, 1), (0,) * 4, (1, 1), 1, "float16")
            (found,) = measurer.measure(work, [knobs])
            assert measurer.result_error(work, knobs) == ""
    assert found.error == "run: the machine has no GPU that TVM can use"


def test_something_else_than_a_tracker() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

        def answer() -> None:
            connection, _ = listening.accept()
            connection.sendall(b"HTTP/1.1 400 Bad Request")
            connection.close()

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(RelayLayoutError, match=f"^the RPC tracker at 127.0.0.1:{port} does not answer: "):
            check_remote(RemoteDevice("127.0.0.1", port, "board"))
