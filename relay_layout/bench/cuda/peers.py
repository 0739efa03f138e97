"""Calls of networks by torch on a GPU, and how long calls take; ``scripts.benchmark_cuda`` compares them."""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tvm_ffi

from relay_layout.bench.cuda.prepare import seeded_input, torch_module
from relay_layout.models import build
from topi_ext.messages import last_line

OURS, GRAPH, COMPILED = "relay-layout", "torch graph", "torch.compile"
PEERS = (OURS, "torch eager", GRAPH, COMPILED)
RUNS, ROUNDS = 20, 15

DTYPES = {"fp16": "float16", "tf32": "float32", "fp32": "float32"}
"""What torch computes in, by precision."""


@contextmanager
def fastest_kernels(torch: Any, *, tf32: bool) -> Iterator[None]:
    """Within this, cuDNN tries its kernels for the fastest, and float32 is multiplied in TF32 or as it is."""
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    before = cudnn.benchmark, cudnn.allow_tf32, matmul.allow_tf32
    cudnn.benchmark, cudnn.allow_tf32, matmul.allow_tf32 = True, tf32, tf32
    try:
        yield
    finally:
        cudnn.benchmark, cudnn.allow_tf32, matmul.allow_tf32 = before


def host_us(torch: Any, runner: Callable[[], Any]) -> float:
    """Microseconds until a call returns, while the GPU is still busy; the median."""
    found = []
    for _ in range(RUNS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        runner()
        found.append((time.perf_counter() - begin) * 1e6)
    torch.cuda.synchronize()
    return statistics.median(found)


def captured(torch: Any, call: Callable[[], Any], calls: int = 1) -> Callable[[], Any]:
    """A call that launches a CUDA graph of so many of ``call``, of torch's kernels or of TVM's."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), _tvm_too(torch):
        # cuDNN chooses its kernels, and modules are loaded.
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), _tvm_too(torch):
        for _ in range(calls):
            call()
    replay: Callable[[], Any] = graph.replay
    return replay


def _tvm_too(torch: Any) -> Any:
    """Within this, TVM launches on torch's current stream."""
    return tvm_ffi.use_raw_stream(tvm_ffi.device("cuda", 0), torch.cuda.current_stream().cuda_stream)


def peer_calls(
    torch: Any, name: str, batch: int, precision: str, peers: Sequence[str]
) -> dict[str, Callable[[], Any]]:
    """Calls by torch's names among :data:`PEERS`, of those of ``peers`` that run at all."""
    options = {"device": "cuda", "dtype": getattr(torch, DTYPES[precision])}
    peer = torch_module(name, batch).to(**options).to(memory_format=torch.channels_last)
    image = seeded_input(build(name, batch=batch).inputs[0].shape)
    data = torch.from_numpy(image).to(**options).to(memory_format=torch.channels_last)

    def eager() -> Any:
        with torch.inference_mode():
            return peer(data)

    def compiled_once() -> Callable[[], Any]:
        compiled = torch.compile(peer, mode="max-autotune")

        def autotuned() -> Any:
            with torch.inference_mode():
                return compiled(data)

        autotuned()
        return autotuned

    made: dict[str, Callable[[], Callable[[], Any]]] = {
        "torch eager": lambda: eager,
        GRAPH: lambda: captured(torch, eager),
        COMPILED: compiled_once,
    }
    runners = {}
    for found, make in made.items():
        if found not in peers:
            continue
        try:
            runners[found] = make()
        except Exception as error:
            print(f"{name} batch {batch}: {found}: {last_line(str(error))}", flush=True)
    return runners


def measured(torch: Any, runners: list[Callable[[], Any]]) -> list[list[float]]:
    """Milliseconds of a run, for each of ``runners`` and each round."""
    times: list[list[float]] = [[] for _ in runners]
    for runner in runners:
        for _ in range(RUNS):
            runner()
    for _ in range(ROUNDS):
        for runner, found in zip(runners, times, strict=True):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            runner()
            begin.record()
            for _ in range(RUNS):
                runner()
            end.record()
            end.synchronize()
            found.append(begin.elapsed_time(end) / RUNS)
    return times
