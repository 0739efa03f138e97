"""Networks on a GPU beside torch: ``python -m scripts.benchmark_cuda [MODEL ...]``, unattended.

Prints one line for each network and batch, milliseconds by CUDA events, medians of warm runs that take turns.
Needs a GPU, nvcc, and torch with CUDA.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import relay_layout
from relay_layout.cli.options import positive
from relay_layout.models import build, to_onnx

MODELS = ("resnet50", "mobilenet_v2", "efficientnet_b0")
PEERS = ("relay-layout", "torch eager", "torch graph", "torch.compile")
RUNS, ROUNDS = 20, 15


def main(arguments: list[str]) -> int:
    """Measures what ``arguments`` ask for; the exit status is 1 where a result is wrong."""
    parser = argparse.ArgumentParser(prog="benchmark_cuda", description=__doc__)
    parser.add_argument("models", nargs="*", default=MODELS, metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--batches", type=positive, nargs="+", default=[1, 32], metavar="N")
    options = parser.parse_args(arguments)
    try:
        import torch
    except ModuleNotFoundError:
        parser.error("torch is not installed; install one with CUDA beside the GPU")
    if not torch.cuda.is_available():
        parser.error("torch finds no GPU on this machine; run it on one with an NVIDIA GPU")
    major, minor = torch.cuda.get_device_capability()
    print(f"{torch.cuda.get_device_name()}, float16, ms: {', '.join(PEERS)}; largest difference")
    wrong = False
    for name in options.models:
        for batch in options.batches:
            runners, difference = _runners(torch, name, batch, f"cuda-sm_{major}{minor}")
            times = _measured(torch, runners)
            row = ", ".join(f"{statistics.median(found):.3f}" for found in times)
            print(f"{name} batch {batch}: {row}; {difference:.1e}", flush=True)
            wrong |= not difference < 2e-2
    return int(wrong)


def _runners(torch: Any, name: str, batch: int, target: str) -> tuple[list[Callable[[], Any]], float]:
    """One call for each of :data:`PEERS`, and by how much ours is off, relative to the largest output."""
    from relay_layout.bench.torch_onnx import convert

    network = build(name, batch=batch)
    with tempfile.TemporaryDirectory() as folder:
        onnx, artifact = Path(folder) / "model.onnx", Path(folder) / "model.rla"
        onnx.write_bytes(to_onnx(network).SerializeToString())
        module = convert(onnx).eval()
        relay_layout.compile(str(onnx), target=target, precision="fp16").save(artifact)
        session = relay_layout.load(artifact)
    (spec,) = session.inputs
    shape = tuple(int(extent) for extent in spec.shape)
    image = np.random.default_rng(0).standard_normal(shape, np.float32)
    found = next(iter(session.run({spec.name: image}).values()))
    expected = module(torch.from_numpy(image))[0].detach().numpy()
    session.feed({spec.name: image})
    difference = float(np.abs(found - expected).max() / np.abs(expected).max())
    torch.backends.cudnn.benchmark = True
    half = module.half().cuda().to(memory_format=torch.channels_last)
    data = torch.from_numpy(image).half().cuda().to(memory_format=torch.channels_last)

    def eager() -> Any:
        with torch.inference_mode():
            return half(data)

    compiled = torch.compile(half, mode="max-autotune")

    def autotuned() -> Any:
        with torch.inference_mode():
            return compiled(data)

    for _ in range(3):
        eager()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        eager()
    return [session.launch, eager, graph.replay, autotuned], difference


def _measured(torch: Any, runners: list[Callable[[], Any]]) -> list[list[float]]:
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
