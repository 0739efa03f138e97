"""Networks on a GPU beside torch: ``python -m scripts.benchmark_cuda [MODEL ...]``, unattended.

With ``--tune-seconds`` first tunes for so long, into the log that ``--records`` names; what that holds
already counts, so that a command that was cut off goes on where it was. Then prints one line for each
network and batch, milliseconds by CUDA events, medians of warm runs that take turns; then one line for each
of its convolution layers beside cuDNN, with the share of the peak. What fails costs its line alone. Each line
is in the file that ``--results`` names as soon as it is there. Needs a GPU, nvcc, and torch with CUDA.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tvm

import relay_layout
from relay_layout.bench.cuda_layers import (
    LayerTime,
    cudnn_layer,
    geometric_mean,
    layers,
    our_layer,
    peak_share,
)
from relay_layout.cli.tune import format_report, progress_line
from relay_layout.cli.values import positive
from relay_layout.models import build, to_onnx, to_relax
from relay_layout.targets import CudaTarget, resolve_target
from relay_layout.tuning.job import Listener, Tuning, TuningJob
from relay_layout.tuning.measurers import local_measurer
from relay_layout.tuning.tasks import describe
from topi_ext.cuda.kernel import Convolution
from topi_ext.tune.measurement import Measurer, last_line
from topi_ext.tune.tuner import TuneOptions, TuneProgress

MODELS = ("resnet50", "mobilenet_v2", "efficientnet_b0")
PEERS = ("relay-layout", "torch eager", "torch graph", "torch.compile")
RUNS, ROUNDS = 20, 15
PROGRESS_SECONDS = 20.0

DTYPES = {"fp16": "float16", "tf32": "float32", "fp32": "float32"}
"""What torch computes in, by precision."""

TOLERANCES = {"fp16": 2e-2, "tf32": 2e-2, "fp32": 1e-4}
"""Of the largest output."""


def main(arguments: list[str]) -> int:
    """Measures what ``arguments`` ask for; the exit status is 1 where a result is wrong."""
    parser = argparse.ArgumentParser(prog="benchmark_cuda", description=__doc__)
    parser.add_argument("models", nargs="*", default=MODELS, metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--batches", type=positive, nargs="+", default=[1, 32], metavar="N")
    parser.add_argument("--precision", choices=DTYPES, default="fp16", help="of ours and of torch (fp16)")
    parser.add_argument(
        "--target", metavar="NAME", help="such as cuda-sm_90+nowgmma; by default that of the GPU"
    )
    parser.add_argument("--only", choices=("networks", "layers"), help="one of both tables alone")
    parser.add_argument("--tune-seconds", type=positive, metavar="S", help="tune for so long first")
    parser.add_argument(
        "--records",
        type=Path,
        default=Path("cuda-records.jsonl"),
        metavar="LOG",
        help="the log of tuning, which kernels are chosen from where it exists (%(default)s)",
    )
    parser.add_argument(
        "--results",
        type=Path,
        default=Path("cuda-results.jsonl"),
        metavar="FILE",
        help="one JSON object for each line of the tables is added to this (%(default)s)",
    )
    options = parser.parse_args(arguments)
    try:
        import torch
    except ModuleNotFoundError:
        parser.error("torch is not installed; install one with CUDA beside the GPU")
    if not torch.cuda.is_available():
        parser.error("torch finds no GPU on this machine; run it on one with an NVIDIA GPU")
    major, minor = torch.cuda.get_device_capability()
    name = options.target or f"cuda-sm_{major}{minor}"
    results = Results(options.results, {"gpu": torch.cuda.get_device_name(), "precision": options.precision})
    if options.tune_seconds is not None:
        results.guarded("tuning", tune, name, options)
    records = [options.records] if options.records.exists() else []
    target = resolve_target(name, precision=options.precision, tuning_records=records)
    assert isinstance(target, CudaTarget)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = options.precision == "tf32"
    cases = [(name, batch) for name in options.models for batch in options.batches]
    if options.only != "layers":
        print(
            f"{torch.cuda.get_device_name()}, {options.precision}, ms: {', '.join(PEERS)}; largest difference"
        )
        for name, batch in cases:
            results.guarded(f"{name} batch {batch}", _network, torch, name, batch, target, results)
    if options.only != "networks":
        for name, batch in cases:
            results.guarded(f"{name} batch {batch}", _layers, torch, name, batch, target, results)
    return int(results.failed)


def tune(target: str, options: argparse.Namespace, measurer: Measurer | None = None) -> None:
    """Tunes all networks together, for at most ``options.tune_seconds``, by default on this machine's GPU."""
    job = TuningJob(
        [to_relax(build(name, batch=batch)) for name in options.models for batch in options.batches],
        options.records,
        target,
        options=TuneOptions(time_limit=options.tune_seconds),
        precision=options.precision,
    )
    listener = Listener(tell=print, kernel=_Progress().show)
    tuning = Tuning.prepare(job, listener)
    report = tuning.run(measurer or local_measurer(tuning.target), listener)
    print(format_report(report), flush=True)


class _Progress:
    """A line now and then."""

    def __init__(self) -> None:
        self._next = 0.0

    def show(self, state: TuneProgress) -> None:
        """Tells where tuning stands."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + PROGRESS_SECONDS
            print(progress_line(state), flush=True)


class Results:
    """A file of what was measured, and whether all of it was right."""

    def __init__(self, path: Path, common: dict[str, Any]) -> None:
        """``common`` is what every line says."""
        self._path, self._common = path, common
        self.failed = False

    def add(self, **line: Any) -> None:
        """One more line, which is in the file when this returns."""
        with self._path.open("a") as file:
            file.write(json.dumps({**self._common, **line}) + "\n")

    def guarded(self, name: str, measure: Callable[..., None], *arguments: Any) -> None:
        """Measures; what goes wrong is a line of its own."""
        try:
            measure(*arguments)
        except Exception as error:
            self.failed = True
            print(f"{name}: failed: {last_line(str(error) or type(error).__name__)}", flush=True)
            self.add(name=name, error=str(error) or type(error).__name__)


def _network(torch: Any, name: str, batch: int, target: CudaTarget, results: Results) -> None:
    """Prints the line of a network."""
    runners, difference = _runners(torch, name, batch, target)
    found: dict[str, float] = {}

    def measure() -> None:
        taken = _measured(torch, list(runners.values()))
        found.update(zip(runners, map(statistics.median, taken), strict=True))

    results.guarded(f"{name} batch {batch}", measure)
    host = host_us(torch, runners[PEERS[0]])
    row = ", ".join(f"{found[peer]:.3f}" if peer in found else "-" for peer in PEERS)
    print(f"{name} batch {batch}: {row}; {difference:.1e}; {host:.0f} us on the host", flush=True)
    results.add(network=name, batch=batch, milliseconds=found, difference=difference, host_us=host)
    results.failed |= not difference < TOLERANCES[target.precision]


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


def _layers(torch: Any, name: str, batch: int, target: CudaTarget, results: Results) -> None:
    """Prints the table of a network's layers."""
    print(f"{name} batch {batch}, layers, us: relay-layout, cuDNN, times faster, share of peak")
    device, found = tvm.cuda(0), []

    def measure(workload: Convolution, uses: int) -> None:
        pair = [our_layer(workload, target, device), cudnn_layer(workload, torch)]
        ours, cudnn = (1e3 * statistics.median(times) for times in _measured(torch, pair))
        found.append(LayerTime(workload, uses, ours, cudnn, peak_share(workload, ours, target)))
        print(found[-1].row(), flush=True)
        results.add(
            network=name, workload=json.loads(workload.to_json()), uses=uses, ours_us=ours, cudnn_us=cudnn
        )

    for workload, uses in layers(name, batch, target).items():
        results.guarded(describe(workload), measure, workload, uses)
    if found:
        mean = geometric_mean(found)
        print(f"{name} batch {batch}, geometric mean: {mean:.2f} times faster than cuDNN", flush=True)


def _runners(
    torch: Any, name: str, batch: int, target: CudaTarget
) -> tuple[dict[str, Callable[[], Any]], float]:
    """Calls by the names of :data:`PEERS`, of those that run at all, and by how much ours is off, relative to
    the largest output.
    """
    from relay_layout.bench.torch_onnx import convert

    network = build(name, batch=batch)
    with tempfile.TemporaryDirectory() as folder:
        onnx, artifact = Path(folder) / "model.onnx", Path(folder) / "model.rla"
        onnx.write_bytes(to_onnx(network).SerializeToString())
        module = convert(onnx).eval()
        relay_layout.compile(str(onnx), target=target).save(artifact)
        session = relay_layout.load(artifact)
    (spec,) = session.inputs
    shape = tuple(int(extent) for extent in spec.shape)
    image = np.random.default_rng(0).standard_normal(shape, np.float32)
    found = next(iter(session.run({spec.name: image}).values()))
    expected = module(torch.from_numpy(image))[0].detach().numpy()
    session.feed({spec.name: image})
    difference = float(np.abs(found - expected).max() / np.abs(expected).max())
    options = {"device": "cuda", "dtype": getattr(torch, DTYPES[target.precision])}
    peer = module.to(**options).to(memory_format=torch.channels_last)
    data = torch.from_numpy(image).to(**options).to(memory_format=torch.channels_last)

    def eager() -> Any:
        with torch.inference_mode():
            return peer(data)

    compiled = torch.compile(peer, mode="max-autotune")

    def autotuned() -> Any:
        with torch.inference_mode():
            return compiled(data)

    def captured() -> Callable[[], Any]:
        for _ in range(3):
            eager()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            eager()
        replay: Callable[[], Any] = graph.replay
        return replay

    def compiled_once() -> Callable[[], Any]:
        autotuned()
        return autotuned

    made: dict[str, Callable[[], Callable[[], Any]]] = {
        PEERS[0]: lambda: session.launch,
        PEERS[1]: lambda: eager,
        PEERS[2]: captured,
        PEERS[3]: compiled_once,
    }
    runners = {}
    for peer, make in made.items():
        try:
            runners[peer] = make()
        except Exception as error:
            print(f"{name} batch {batch}: {peer}: {last_line(str(error))}", flush=True)
    return runners, difference


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
