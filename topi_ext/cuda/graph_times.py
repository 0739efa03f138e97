"""How long launches take on a GPU, from a CUDA graph of many of them.

For a kernel of a few microseconds the host takes longer to launch it than the GPU to run it, so that events
around launches would see the host. Networks are launched as graphs, too.
"""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from math import ceil
from typing import Any

import tvm_ffi

from topi_ext.errors import CudaError

FEWEST_CALLS, MOST_CALLS = 4, 100
"""Calls in a graph."""

_GRAPH_SECONDS = 1e-3
"""How long a graph shall last, beside which its own launch is nothing."""

_CAPTURE_MODE = 1
"""CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: other threads may do what they like meanwhile."""

_STREAM_FLAGS = 1
"""CU_STREAM_NON_BLOCKING"""


@cache
def _driver() -> Any:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise CudaError(f"CUDA graphs need NVIDIA's driver: {error}") from None


def _ask(name: str, *arguments: Any) -> None:
    status = getattr(_driver(), name)(*arguments)
    if status:
        text = ctypes.c_char_p()
        _driver().cuGetErrorName(status, ctypes.byref(text))
        raise CudaError(f"{name} fails: {(text.value or b'').decode() or status}")


def _made(name: str, *arguments: Any) -> ctypes.c_void_p:
    """What a function of the driver makes, whose first argument is the place for it."""
    found = ctypes.c_void_p()
    _ask(name, ctypes.byref(found), *arguments)
    return found


def graph_seconds(run: Callable[[], None], device: Any, repeats: int, min_repeat_ms: float) -> list[float]:
    """Seconds of one ``run`` on ``device``, for each repeat, which lasts at least so many milliseconds.

    ``run`` launches kernels and waits for nothing; everything that it uses must stay at its address.
    CudaError where the driver refuses, as of launches that cannot be captured.
    """
    # What is written on another stream, as by who filled the operands, is there.
    device.sync()
    with _stream() as stream, tvm_ffi.use_raw_stream(device, stream.value or 0):
        # The first call loads the kernels, which must not happen while they are captured.
        run()
        _ask("cuStreamSynchronize", stream)
        with _graph(run, FEWEST_CALLS, stream) as few:
            _seconds(few, 1, stream)
            once = _seconds(few, 1, stream) / FEWEST_CALLS
        calls = min(MOST_CALLS, max(FEWEST_CALLS, ceil(_GRAPH_SECONDS / max(once, 1e-9))))
        with _graph(run, calls, stream) as graph:
            _seconds(graph, 1, stream)
            launches = max(1, ceil(min_repeat_ms / 1e3 / max(_seconds(graph, 1, stream), 1e-9)))
            return [_seconds(graph, launches, stream) / (launches * calls) for _ in range(repeats)]


@contextmanager
def _stream() -> Iterator[ctypes.c_void_p]:
    stream = _made("cuStreamCreate", ctypes.c_uint(_STREAM_FLAGS))
    try:
        yield stream
    finally:
        _ask("cuStreamDestroy_v2", stream)


@contextmanager
def _graph(run: Callable[[], None], calls: int, stream: ctypes.c_void_p) -> Iterator[ctypes.c_void_p]:
    """An executable graph of so many calls."""
    _ask("cuStreamBeginCapture_v2", stream, ctypes.c_int(_CAPTURE_MODE))
    try:
        for _ in range(calls):
            run()
    except BaseException:
        # What went wrong is said, not that there is nothing to end.
        with suppress(CudaError):
            _ask("cuGraphDestroy", _captured(stream))
        raise
    graph = _captured(stream)
    try:
        executable = _made("cuGraphInstantiateWithFlags", graph, ctypes.c_ulonglong(0))
    finally:
        _ask("cuGraphDestroy", graph)
    try:
        yield executable
    finally:
        _ask("cuGraphExecDestroy", executable)


def _captured(stream: ctypes.c_void_p) -> ctypes.c_void_p:
    """The graph of what a stream was asked for, which is no longer captured."""
    graph = ctypes.c_void_p()
    _ask("cuStreamEndCapture", stream, ctypes.byref(graph))
    return graph


def _seconds(graph: ctypes.c_void_p, launches: int, stream: ctypes.c_void_p) -> float:
    """Between two events around so many launches."""
    with _event() as begin, _event() as end:
        _ask("cuEventRecord", begin, stream)
        for _ in range(launches):
            _ask("cuGraphLaunch", graph, stream)
        _ask("cuEventRecord", end, stream)
        _ask("cuEventSynchronize", end)
        taken = ctypes.c_float()
        _ask("cuEventElapsedTime", ctypes.byref(taken), begin, end)
    return taken.value / 1e3


@contextmanager
def _event() -> Iterator[ctypes.c_void_p]:
    event = _made("cuEventCreate", ctypes.c_uint(0))
    try:
        yield event
    finally:
        _ask("cuEventDestroy_v2", event)
