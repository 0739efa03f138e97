"""The benchmark as a whole: every model in every runtime, side by side in one run."""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from relay_layout.bench.compare import QUANTIZED_TOLERANCE, TOLERANCE, relative_error
from relay_layout.bench.machine import describe_machine
from relay_layout.bench.model_file import (
    fix_input_shapes,
    is_quantized,
    known_shapes,
    make_inputs,
    open_images,
)
from relay_layout.bench.peers import OURS, PEERS, PeerUnavailable, find_peer
from relay_layout.bench.results import (
    BenchResult,
    ModelResult,
    PeerResult,
    geometric_mean_of_ratios,
    ratios,
)
from relay_layout.bench.workers.measure import measure_interleaved, summarize
from relay_layout.bench.workers.process import PeerError, WorkerProcess
from topi_ext.files.temporary_folder import TemporaryFolder

Array = np.ndarray[Any, Any]

REFERENCE = "onnxruntime"
"""Whose outputs the others are compared with."""

CompileOurs = Callable[[Path, int], Path]
"""Compiles an ONNX file for a number of threads; returns the artifact for workers to load."""

Progress = Callable[[str], None]


def print_progress(line: str) -> None:
    """Say on standard error what is going on."""
    print(line, file=sys.stderr, flush=True)


def run_bench(
    models: Sequence[tuple[str, Path]],
    peers: Sequence[str] | None = None,
    *,
    threads: int,
    seconds: float = 5.0,
    ours: CompileOurs | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    require_peers: bool = False,
    tolerance: float | None = None,
    any_size: bool = False,
    progress: Progress = print_progress,
    measured: Callable[[BenchResult], None] | None = None,
    interrupted: Callable[[], bool] = lambda: False,
) -> BenchResult:
    """Measure relay-layout and its peers on every model.

    ``models`` are label and ONNX file of each; ``input_shapes``, by input name, are for those that leave
    dimensions open. ``peers`` are names from :data:`PEERS`, or ``package.module:attribute``; all if None.
    relay-layout is always measured: ``ours`` compiles a model to an artifact, without it the worker compiles
    the ONNX file itself. Every peer has so many ``threads``, and ``seconds`` of running time on each model.
    Outputs of the same network may differ by ``tolerance``, relative to the largest. With ``any_size`` the
    peers get networks that take images of any number and size, and are measured on images of the shapes that
    there are. ``measured`` is called after each model with the result so far.

    KeyboardInterrupt ends it with the models that were measured, and is raised where there is none yet.
    ``interrupted`` says whether an error may come of an interrupt that others met, such as a linker.

    Raises InputError for an unknown peer or a model with open dimensions, ModelError for a model that cannot
    be read, and with ``require_peers`` PeerUnavailable where a peer's package is missing, which is reported
    otherwise.
    """
    wanted = list(dict.fromkeys([OURS, *(PEERS if peers is None else peers)]))
    missing = {name: hint for name in wanted if (hint := find_peer(name).missing()) is not None}
    if missing and require_peers:
        raise PeerUnavailable("; ".join(missing.values()))
    runtimes = _Runtimes(wanted, missing, threads, seconds, ours, progress, interrupted)
    with TemporaryFolder() as directory:
        # Every file is checked before the first is measured: that takes minutes.
        tasks = [
            _make_task(
                label, Path(path), input_shapes or {}, Path(directory) / str(index), tolerance, any_size
            )
            for index, (label, path) in enumerate(models)
        ]
        machine = describe_machine()
        result = BenchResult(models=[], geometric_mean={}, machine=machine)
        try:
            for task in tasks:
                results = [*result["models"], runtimes.measure(task)]
                mean = geometric_mean_of_ratios(results)
                result = BenchResult(models=results, geometric_mean=mean, machine=machine)
                if measured is not None:
                    measured(result)
        except KeyboardInterrupt:
            if not result["models"]:
                raise
    return result


@dataclass(frozen=True)
class _Task:
    """One model, ready to be handed to workers."""

    label: str
    model: Path
    inputs: Path
    input_names: list[str]
    directory: Path
    tolerance: float


def _make_task(
    label: str,
    onnx_path: Path,
    input_shapes: Mapping[str, Sequence[int]],
    directory: Path,
    tolerance: float | None,
    any_size: bool,
) -> _Task:
    directory.mkdir()
    if any_size:
        model = open_images(onnx_path, directory)
        fixed = fix_input_shapes(model, {**known_shapes(onnx_path), **input_shapes}, directory)
    else:
        model = fixed = fix_input_shapes(onnx_path, input_shapes, directory)
    arrays = make_inputs(fixed)
    inputs = directory / "inputs.npz"
    np.savez(inputs, *arrays.values())
    usual = QUANTIZED_TOLERANCE if is_quantized(model) else TOLERANCE
    return _Task(label, model, inputs, list(arrays), directory, tolerance or usual)


@dataclass(frozen=True)
class _Prepared:
    """A worker that has run its model once."""

    worker: WorkerProcess
    version: str
    prepare_seconds: float
    outputs: list[Array]


@dataclass(frozen=True)
class _Runtimes:
    """What models are measured in, and how; ``missing`` says of those that are not installed how to do it."""

    wanted: Sequence[str]
    missing: Mapping[str, str]
    threads: int
    seconds: float
    ours: CompileOurs | None
    progress: Progress
    interrupted: Callable[[], bool]

    def measure(self, task: _Task) -> ModelResult:
        """A model in all of them, in turns."""
        failures = {name: self.missing[name] for name in self.wanted if name in self.missing}
        prepared: dict[str, _Prepared] = {}
        with ExitStack() as workers:
            for name in self.wanted:
                if name in self.missing:
                    continue
                self.progress(f"{task.label}: preparing {name}")
                try:
                    prepared[name] = self._prepare(task, name, workers)
                except PeerError as error:
                    self._raise_if_interrupted()
                    failures[name] = str(error)
                    self.progress(f"{task.label}: {error}")
            reference = self._reference_outputs(task, prepared)
            self.progress(f"{task.label}: measuring {', '.join(prepared)}")
            ready = {name: entry.worker for name, entry in prepared.items()}
            measured = measure_interleaved(ready, self.seconds)
        self._raise_if_interrupted()
        for name, message in measured.failures.items():
            failures[name] = message
            self.progress(f"{task.label}: {message}")
        peers = {
            name: _result(times, prepared[name], reference, task.tolerance)
            for name, times in measured.seconds.items()
        }
        return ModelResult(
            model=task.label, threads=self.threads, peers=peers, failures=failures, ratios=ratios(peers)
        )

    def _raise_if_interrupted(self) -> None:
        """What failed was not the runtime."""
        if self.interrupted():
            raise KeyboardInterrupt

    def _prepare(self, task: _Task, name: str, workers: ExitStack) -> _Prepared:
        """Start a worker that lives as long as ``workers``, and have it run the model once."""
        model = task.model
        if name == OURS and self.ours is not None:
            try:
                model = self.ours(task.model, self.threads)
            except Exception as error:  # a model that we cannot compile must not hide what the others do
                raise PeerError(f"{OURS}: {error}") from error
        worker = workers.enter_context(WorkerProcess(name, self.threads))
        outputs = task.directory / f"outputs_{name.replace(':', '_')}.npz"
        reply = worker.prepare(model, task.inputs, task.input_names, outputs)
        with np.load(outputs) as stored:
            arrays = [stored[f"arr_{index}"] for index in range(len(stored.files))]
        return _Prepared(worker, reply["version"], reply["prepare_seconds"], arrays)

    def _reference_outputs(self, task: _Task, prepared: Mapping[str, _Prepared]) -> list[Array] | None:
        """The reference's outputs, from a worker of its own if it is not among the peers."""
        if REFERENCE in prepared:
            return prepared[REFERENCE].outputs
        if find_peer(REFERENCE).missing() is not None:
            self.progress(f"{task.label}: {REFERENCE} is not installed, outputs are not compared")
            return None
        try:
            with ExitStack() as workers:
                return self._prepare(task, REFERENCE, workers).outputs
        except PeerError as error:
            self.progress(f"{task.label}: outputs are not compared: {error}")
            return None


def _result(
    times: list[float], entry: _Prepared, reference: list[Array] | None, tolerance: float
) -> PeerResult:
    difference = None if reference is None else relative_error(entry.outputs, reference)
    return PeerResult(
        **summarize(times),
        version=entry.version,
        prepare_seconds=entry.prepare_seconds,
        relative_error=difference,
        agrees=None if reference is None else difference is not None and difference <= tolerance,
    )
