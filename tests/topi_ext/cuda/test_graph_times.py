"""Times of launches by a CUDA graph, of a driver that is made up: calls take three microseconds."""

import ctypes
from collections import Counter
from typing import Any

import pytest
import tvm
import tvm_ffi

from topi_ext.cuda import graph_times
from topi_ext.cuda.graph_times import MOST_CALLS, graph_seconds
from topi_ext.errors import CudaError

CALL_SECONDS, SPAN_SECONDS = 3e-6, 8e-6
"""Of a call, and between two events with nothing in between."""

STREAM, REFUSED = 7, 901


class Driver:
    """Counts what was not given back; knows how many calls each graph holds."""

    def __init__(self, refused: str = "") -> None:
        self.refused = refused
        self.held: Counter[str] = Counter()
        self.captured = 0
        self.capturing = False
        self.launched: list[int] = []
        self.in_graph = 0

    def run(self) -> None:
        assert tvm_ffi.get_raw_stream(tvm.cpu()) == STREAM
        self.captured += self.capturing

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)

        def called(*arguments: Any) -> int:
            if name == self.refused:
                return REFUSED
            return getattr(self, f"_{name}", lambda *_: 0)(*arguments)

        return called

    def _made(self, kind: str, place: Any) -> int:
        self.held[kind] += 1
        ctypes.cast(place, ctypes.POINTER(ctypes.c_void_p))[0] = STREAM
        return 0

    def _freed(self, kind: str) -> int:
        self.held[kind] -= 1
        return 0

    def _cuStreamCreate(self, place: Any, flags: Any) -> int:
        return self._made("stream", place)

    def _cuStreamDestroy_v2(self, stream: Any) -> int:
        return self._freed("stream")

    def _cuStreamBeginCapture_v2(self, stream: Any, mode: Any) -> int:
        self.capturing, self.captured = True, 0
        return 0

    def _cuStreamEndCapture(self, stream: Any, place: Any) -> int:
        self.capturing = False
        return self._made("graph", place)

    def _cuGraphDestroy(self, graph: Any) -> int:
        return self._freed("graph")

    def _cuGraphInstantiateWithFlags(self, place: Any, graph: Any, flags: Any) -> int:
        self.in_graph = self.captured
        return self._made("executable", place)

    def _cuGraphExecDestroy(self, executable: Any) -> int:
        return self._freed("executable")

    def _cuEventCreate(self, place: Any, flags: Any) -> int:
        return self._made("event", place)

    def _cuEventDestroy_v2(self, event: Any) -> int:
        return self._freed("event")

    def _cuEventRecord(self, event: Any, stream: Any) -> int:
        self.launched.append(0)
        return 0

    def _cuGraphLaunch(self, executable: Any, stream: Any) -> int:
        self.launched[-1] += 1
        return 0

    def _cuEventElapsedTime(self, place: Any, begin: Any, end: Any) -> int:
        taken = SPAN_SECONDS + self.launched[-2] * self.in_graph * CALL_SECONDS
        ctypes.cast(place, ctypes.POINTER(ctypes.c_float))[0] = taken * 1e3
        return 0

    def _cuGetErrorName(self, status: int, place: Any) -> int:
        ctypes.cast(place, ctypes.POINTER(ctypes.c_char_p))[0] = b"CUDA_ERROR_MADE_UP"
        return 0


def driver(monkeypatch: pytest.MonkeyPatch, refused: str = "") -> Driver:
    made = Driver(refused)
    monkeypatch.setattr(graph_times, "_driver", lambda: made)
    return made


def test_a_repeat_lasts_as_long_as_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs of as many calls as there may be, since calls are short, launched as often as it takes."""
    made = driver(monkeypatch)
    found = graph_seconds(made.run, tvm.cpu(), repeats=3, min_repeat_ms=30.0)
    assert found == pytest.approx([CALL_SECONDS] * 3, rel=1e-3)
    assert made.in_graph == MOST_CALLS
    assert made.launched[-2] == 98, "30 ms are 98 graphs of 300 us, with the events that they were timed with"
    assert not +made.held, "everything is given back"


@pytest.mark.parametrize(
    "refused", ["cuStreamCreate", "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuGraphLaunch"]
)
def test_what_the_driver_refuses_is_said(monkeypatch: pytest.MonkeyPatch, refused: str) -> None:
    made = driver(monkeypatch, refused)
    with pytest.raises(CudaError, match=f"^{refused} fails: CUDA_ERROR_MADE_UP$"):
        graph_seconds(made.run, tvm.cpu(), repeats=1, min_repeat_ms=1.0)
    assert not +made.held, "everything is given back"


def test_what_goes_wrong_while_a_graph_is_made_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    made = driver(monkeypatch)

    def run() -> None:
        made.run()
        if made.capturing:
            raise ValueError("made up")

    with pytest.raises(ValueError, match=r"^made up$"):
        graph_seconds(run, tvm.cpu(), repeats=1, min_repeat_ms=1.0)
    assert not +made.held, "everything is given back"


def test_without_a_driver_it_says_so() -> None:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        with pytest.raises(CudaError, match=r"^CUDA graphs need NVIDIA's driver: "):
            graph_seconds(lambda: None, tvm.cpu(), repeats=1, min_repeat_ms=1.0)
    else:
        pytest.skip("this machine has a driver")
