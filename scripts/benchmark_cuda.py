"""Networks on a GPU beside torch: ``python -m scripts.benchmark_cuda [MODEL ...]``, unattended.

With ``--tune-seconds`` first tunes for so long, into the log that ``--records`` names; what that holds
already counts, so that a command that was cut off goes on where it was. Then compiles everything, in as many
processes as there are cores, and measures: each network and batch (milliseconds by CUDA events, medians of
warm runs that take turns, and whether its outputs are torch's), each convolution layer beside cuDNN with the
share of the peak, and the outputs of all built-in networks beside torch's on the CPU. Last is a table of
what is asked of an H100.
All that is measured runs in a process of its own, which a kernel that crashes or hangs costs: what fails
costs its line alone. What would come after ``--time-limit``, which tuning counts towards, is left out. Each
line is in the file that ``--results`` names as soon as it is there. Needs a GPU, nvcc or NVRTC, and torch
with CUDA.
"""

import argparse
import builtins
import json
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import TimeoutError  # Python 3.10 has two.
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np
import tvm

from relay_layout.bench.cuda import measure as cuda_measure
from relay_layout.bench.cuda.bars import LAYER_BATCH, TOLERANCES, Seen, bars
from relay_layout.bench.cuda.layers import LayerTime, layers, peak_share
from relay_layout.bench.cuda.peers import COMPILED, DTYPES, GRAPH, OURS, PEERS
from relay_layout.bench.cuda.prepare import Case, Prepared, target_of
from relay_layout.cli.tune import format_report, progress_line
from relay_layout.cli.values import positive
from relay_layout.errors import TargetError
from relay_layout.models import build, names, to_relax
from relay_layout.targets import require_cuda, resolve_target
from relay_layout.tuning.job import Listener, Tuning, TuningJob
from relay_layout.tuning.measurers import local_measurer
from relay_layout.tuning.tasks import describe
from topi_ext.cuda.codegen.nvcc import find_compiler
from topi_ext.cuda.kernel import Convolution
from topi_ext.messages import last_line
from topi_ext.tune.measuring import gpu_workers
from topi_ext.tune.measuring.measurement import Measurer
from topi_ext.tune.measuring.process import Process
from topi_ext.tune.options import TuneOptions
from topi_ext.tune.tuner import TuneProgress

BuiltinTimeoutError = builtins.TimeoutError

MODELS = ("resnet50", "mobilenet_v2", "efficientnet_b0")
PROGRESS_SECONDS = 20.0

PREPARE_SHARE = 0.6
"""The share of the time left after which measuring begins with what is compiled by then."""

LINE_SECONDS, COMPILED_SECONDS = 60.0, 400.0
"""What one line may take, without and with torch.compile; more is a kernel that hangs."""


def main(arguments: list[str]) -> int:
    """Measures what ``arguments`` ask for; the exit status is 1 where a result is wrong or anything fails."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        import torch
    except ModuleNotFoundError:
        parser.error("torch is not installed; install one with CUDA beside the GPU")
    if not torch.cuda.is_available():
        parser.error("torch finds no GPU on this machine; run it on one with an NVIDIA GPU")
    if find_compiler() is None:
        parser.error("neither nvcc nor NVRTC is installed; install relay-layout[nvrtc]")
    if not tvm.cuda(0).exist:
        # TVM says nothing where it cannot load its half for CUDA, and every line would fail by itself.
        parser.error("TVM finds no GPU; put the folder of libcudart.so.13 into LD_LIBRARY_PATH")
    major, minor = torch.cuda.get_device_capability()
    name = options.target or f"cuda-sm_{major}{minor}"
    _check(parser, options, name)
    common = {"gpu": torch.cuda.get_device_name(), "precision": options.precision}
    results = Results(options.results, common, options.time_limit)
    if options.tune_seconds is not None:
        results.guarded("tuning", tune, name, options)
    print(f"{common['gpu']}, {name}, {options.precision}", flush=True)
    run = _Run(options, name, results)
    try:
        run.prepare()
        for stage, measure in (("networks", run.networks), ("layers", run.layers), ("outputs", run.outputs)):
            if options.only in (None, stage):
                measure()
    finally:
        run.close()
    print("asked: seen; verdict")
    for bar in bars(run.seen, options.outputs, options.precision):
        print(bar.row(), flush=True)
        results.add(asked=bar.asked, seen=bar.seen, met=bar.met)
    return int(results.failed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmark_cuda", description=__doc__)
    parser.add_argument("models", nargs="*", default=MODELS, metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--batches", type=positive, nargs="+", default=[1, 32], metavar="N")
    parser.add_argument("--precision", choices=DTYPES, default="fp16", help="of ours and of torch (fp16)")
    parser.add_argument(
        "--outputs",
        nargs="*",
        default=names(),
        metavar="MODEL",
        help="networks whose outputs are compared in every precision that the GPU has (all)",
    )
    parser.add_argument(
        "--target", metavar="NAME", help="such as cuda-sm_90+nowgmma; by default that of the GPU"
    )
    parser.add_argument("--only", choices=("outputs", "networks", "layers"), help="one of the tables alone")
    parser.add_argument(
        "--torch-compile", action="store_true", help="torch.compile with max-autotune too; takes minutes"
    )
    parser.add_argument(
        "--time-limit", type=positive, default=560, metavar="S", help="with tuning (%(default)s)"
    )
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
    return parser


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace, target: str) -> None:
    """Ends the command where what it is to measure is not known, or cannot be written down."""
    unknown = [name for name in (*options.models, *options.outputs) if name not in names()]
    if unknown:
        parser.error(f"unknown built-in network '{unknown[0]}'; available: {', '.join(names())}")
    try:
        require_cuda(resolve_target(target))
        resolve_target(target, precision=options.precision)
    except TargetError as error:
        parser.error(str(error))
    try:
        options.results.open("a").close()
    except OSError as error:
        parser.error(f"cannot write {options.results}: {error.strerror}")


def tune(target: str, options: argparse.Namespace, measurer: Measurer | None = None) -> None:
    """Tunes all networks together, for at most ``options.tune_seconds``, by default on this machine's GPU."""
    job = TuningJob(
        [to_relax(build(name, batch=batch)) for name in options.models for batch in options.batches],
        options.records,
        target,
        options=TuneOptions(time_limit=options.tune_seconds),
        # Transforms, of which these networks keep two each, would take a quarter of the time.
        tasks="kernels",
        precision=options.precision,
    )
    listener = Listener(tell=print, kernel=_Progress().show)
    tuning = Tuning.prepare(job, job.resolved_target(), listener)
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
    """A file of what was measured, and whether something was wrong or failed."""

    def __init__(self, path: Path, common: dict[str, Any], seconds: float) -> None:
        """``common`` is what every line says, ``seconds`` how long all may take."""
        self._path, self._common, self._seconds = path, common, seconds
        self.failed = False
        self.begin()

    def begin(self) -> None:
        """The time that all may take begins now."""
        self._end = time.monotonic() + self._seconds

    @property
    def seconds_left(self) -> float:
        return max(0.0, self._end - time.monotonic())

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
            text = str(error) or type(error).__name__
            print(f"{name}: failed: {last_line(text)}", flush=True)
            self.add(name=name, error=text)

    def in_time(self, name: str, measure: Callable[..., None], *arguments: Any) -> None:
        """The same where there is time left, also for what it waits for."""
        if self.seconds_left > 0:
            self.guarded(name, self._until_late, name, measure, *arguments)
        else:
            self._leave_out(name)

    def _until_late(self, name: str, measure: Callable[..., None], *arguments: Any) -> None:
        try:
            measure(*arguments)
        except TimeoutError:
            if self.seconds_left > 0:
                raise
            self._leave_out(name)

    def _leave_out(self, name: str) -> None:
        print(f"{name}: left out, no time is left; see --time-limit", flush=True)
        self.add(name=name, error="time limit")


class _Run:
    """One command's measurements, and what they have shown."""

    def __init__(self, options: argparse.Namespace, target: str, results: Results) -> None:
        self.options, self.results = options, results
        self.seen = Seen()
        self._target = target
        self._records = (options.records,) if options.records.exists() else ()
        self._folder = tempfile.TemporaryDirectory(prefix="benchmark-cuda-")
        self.prepared = Prepared(Path(self._folder.name))
        self._gpu = Process(gpu_workers.prepare, tells=True)
        self._pairs = [(name, batch) for name in options.models for batch in options.batches]
        self._layers: dict[tuple[str, int], dict[Convolution, int]] = {}

    def close(self) -> None:
        """End all processes."""
        self._gpu.close()
        self.prepared.close()

    def _measured(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What a function of :mod:`relay_layout.bench.cuda.measure` returns in the GPU's process."""
        most = COMPILED_SECONDS if self.options.torch_compile else LINE_SECONDS
        limit = min(most, self.results.seconds_left)
        try:
            return self._gpu.ask(function, *arguments, limit=limit)
        except ChildProcessError:
            raise RuntimeError("the process that uses the GPU has crashed") from None
        except BuiltinTimeoutError:
            if limit < most:
                raise TimeoutError from None
            raise RuntimeError(f"takes longer than {most:.0f} s") from None

    def _case(self, model: str, batch: int, precision: str) -> Case:
        return Case(model, batch, precision, self._target, self._records)

    def prepare(self) -> None:
        """Compiles what networks and layers need; nothing is compiled while they are measured."""
        only, precision = self.options.only, self.options.precision
        if only in (None, "networks"):
            cases = [self._case(name, batch, precision) for name, batch in self._pairs]
            self.prepared.start(cases, self._pairs)
        if only in (None, "layers"):
            for name, batch in self._pairs:
                if batch == LAYER_BATCH or only == "layers":
                    case = self._case(name, batch, precision)
                    self._layers[name, batch] = layers(name, batch, target_of(case))
                    self.prepared.start_layers(list(self._layers[name, batch]), case)
        self._wait()

    def _wait(self) -> None:
        self.prepared.wait(PREPARE_SHARE * self.results.seconds_left, lambda line: print(line, flush=True))

    def _precisions(self) -> list[str]:
        """Those that the GPU has, that of the times first."""
        target = require_cuda(resolve_target(self._target, precision=self.options.precision))
        has_tf32 = bool(target.multiprocessor.macs["tf32"])
        known = [each for each in DTYPES if each != "tf32" or has_tf32]
        return sorted(known, key=lambda each: each != self.options.precision)

    def outputs(self) -> None:
        """Compiles every network, and prints by how much its outputs are off, in every precision."""
        references = [(name, 1) for name in self.options.outputs]
        for precision in self._precisions():
            self.prepared.start([self._case(name, 1, precision) for name in self.options.outputs], references)
        if self.results.seconds_left > 0:
            self._wait()
        tolerances = ", ".join(f"{name} {TOLERANCES[name]:g}" for name in self._precisions())
        print(f"outputs beside torch on the CPU, of the largest element at most: {tolerances}", flush=True)
        for precision in self._precisions():
            for name in self.options.outputs:
                case = self._case(name, 1, precision)
                self.results.in_time(f"outputs of {case.name}", self._output, case)

    def _output(self, case: Case) -> None:
        artifact, expected = self._files(case)
        difference = self._measured(cuda_measure.output_difference, artifact, expected)
        print(f"outputs of {case.name}: {difference:.1e}", flush=True)
        self.results.add(outputs=case.model, batch=case.batch, compared=case.precision, difference=difference)
        self._judge(case, difference)

    def _files(self, case: Case) -> tuple[Path, list[np.ndarray]]:
        """The artifact, and what its outputs should be."""
        artifact = self.prepared.artifact(case, self.results.seconds_left)
        return artifact, self.prepared.reference(case.model, case.batch, self.results.seconds_left)

    def _judge(self, case: Case, difference: float) -> None:
        self.results.failed |= not difference < TOLERANCES[case.precision]
        if case.batch == 1:
            self.seen.differences.setdefault(case.precision, {})[case.model] = difference

    def networks(self) -> None:
        """Prints the milliseconds of each network and batch."""
        print(f"networks, ms: {', '.join(PEERS)}; largest difference; on the host", flush=True)
        for name, batch in self._pairs:
            self.results.in_time(f"{name} batch {batch}", self._network, name, batch)

    def _network(self, name: str, batch: int) -> None:
        case = self._case(name, batch, self.options.precision)
        artifact, expected = self._files(case)
        peers = [peer for peer in PEERS if peer != COMPILED or self.options.torch_compile]
        times = self._measured(cuda_measure.network_times, case, artifact, expected, peers)
        difference, found, host = times.difference, times.milliseconds, times.host_us
        row = ", ".join(f"{found[peer]:.3f}" if peer in found else "-" for peer in PEERS)
        print(f"{name} batch {batch}: {row}; {difference:.1e}; {host:.0f} us", flush=True)
        self.results.add(network=name, batch=batch, milliseconds=found, difference=difference, host_us=host)
        self._judge(case, difference)
        self.seen.host_us[name, batch] = host
        if GRAPH in found:
            self.seen.ratios[name, batch] = found[GRAPH] / found[OURS]

    def layers(self) -> None:
        """Prints the table of each network's layers."""
        print("layers, us: relay-layout, cuDNN, times faster, share of peak", flush=True)
        for (name, batch), found in self._layers.items():
            for workload, uses in found.items():
                self.results.in_time(describe(workload), self._layer, name, batch, workload, uses)
        for batch, ratios in self.seen.layers.items():
            mean = geometric_mean(ratios)
            print(f"batch {batch}, geometric mean: {mean:.2f} times faster than cuDNN", flush=True)

    def _layer(self, name: str, batch: int, workload: Convolution, uses: int) -> None:
        case = self._case(name, batch, self.options.precision)
        known = self.prepared.layer(workload, case, self.results.seconds_left)
        ours, cudnn = self._measured(cuda_measure.layer_times, workload, case, known)
        share = peak_share(workload, ours, target_of(case))
        print(LayerTime(workload, uses, ours, cudnn, share).row(), flush=True)
        self.results.add(
            network=name, workload=json.loads(workload.to_json()), uses=uses, ours_us=ours, cudnn_us=cudnn
        )
        self.seen.layers.setdefault(batch, []).append(cudnn / ours)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
