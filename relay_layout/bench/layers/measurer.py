"""Times of single convolutions and dense layers, in our kernels and in oneDNN.

Each runtime has a process of its own that sleeps while the other works
(:mod:`relay_layout.bench.workers.measure`). A layer has bias and ReLU in its kernel, and weights that come
from memory where they are too large for a cache.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from relay_layout.bench.compare import relative_error
from relay_layout.bench.layers.peers import DTYPE, KERNEL, ONEDNN, logical_result, write_job
from relay_layout.bench.peers import OURS, Array
from relay_layout.bench.workers.measure import measure_interleaved
from relay_layout.bench.workers.process import PeerError, WorkerProcess
from relay_layout.runtime.peak import STEPS, peak_operations
from relay_layout.targets import CpuTarget
from topi_ext.chooser import KernelChooser
from topi_ext.files.temporary_folder import TemporaryFolder
from topi_ext.knobs import Knobs
from topi_ext.workloads.convolution import ConvolutionWorkload

PEAK_SECONDS = 0.5
"""Running time for the multiply-add peak, before the layers and once more after them."""

TINY = ConvolutionWorkload(
    batch=1,
    in_channels=16,
    out_channels=16,
    in_height=1,
    in_width=1,
    kernel=(1, 1),
    strides=(1, 1),
    padding=(0, 0, 0, 0),
    dilation=(1, 1),
    groups=1,
    data_layout="NCHW16c",
    kernel_layout="OIHW16i16o",
    out_layout="NCHW16c",
    dtype=DTYPE,
    out_dtype=DTYPE,
)
"""A layer that computes next to nothing: its time is that of a call."""

_MODULE = "relay_layout.bench.layers.peers"


@dataclass(frozen=True)
class LayerTimes:
    """Median and least microseconds of one call, None where it failed.

    ``relative_error`` is the largest difference of the results over oneDNN's largest value; None where they
    cannot be compared.
    """

    ours_us: float | None = None
    onednn_us: float | None = None
    ours_least_us: float | None = None
    onednn_least_us: float | None = None
    relative_error: float | None = None
    failures: tuple[str, ...] = ()


class LayerMeasurer:
    """Measures layers, for about ``seconds`` of running time in each runtime; use as a context manager.

    Without torch there are no times of oneDNN; :attr:`missing` then says how to install it.
    """

    def __init__(self, target: CpuTarget, seconds: float) -> None:
        self.missing = ONEDNN.missing()
        self._target = target
        self._seconds = seconds
        self._folder = TemporaryFolder()
        self._ours, self._peak = self._side("KERNEL", OURS), self._side("PEAK", "peak")
        self._kernels: dict[str, _Side] = {}
        self._onednn = None if self.missing else self._side("ONEDNN", ONEDNN.name)

    def __enter__(self) -> LayerMeasurer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for side in (self._ours, self._peak, self._onednn, *self._kernels.values()):
            if side is not None:
                side.close()
        self._folder.cleanup()

    def peak_gflops(self) -> float:
        """What all threads together multiply and add, in 1e9 operations a second; PeerError if that fails.

        Of the quickest call: nothing makes one too quick, and any other work on the machine is no peak.
        """
        lanes = self._target.processor.lanes(np.dtype(DTYPE).itemsize)
        self._peak.prepare(target=self._described_target(), lanes=lanes, steps=STEPS)
        measured = measure_interleaved({"peak": self._peak}, PEAK_SECONDS)
        if measured.failures:
            raise PeerError(measured.failures["peak"])
        operations = peak_operations(self._target.threads, lanes, STEPS)
        return operations / min(measured.seconds["peak"]) / 1e9

    def measure(
        self, workload: ConvolutionWorkload, knobs: Knobs, original: ConvolutionWorkload | None = None
    ) -> LayerTimes:
        """The times of a float32 layer with static extents, and how far the results are from each other.

        ``original`` is the layer before its groups were merged, which is what oneDNN computes.
        """
        original = original or workload
        failures: dict[str, str] = {}
        results: dict[str, Array] = {}
        sides = {OURS: self._ours} | ({ONEDNN.name: self._onednn} if self._onednn else {})
        jobs: dict[str, dict[str, Any]] = {
            OURS: self._kernel_job(workload, knobs, original.groups),
            ONEDNN.name: {"workload": original},
        }
        for name, side in sides.items():
            try:
                results[name] = side.prepare(**jobs[name])
            except PeerError as error:
                failures[name] = str(error)
        measured = measure_interleaved({name: sides[name] for name in results}, self._seconds)
        failures |= measured.failures
        difference = None
        if len(results) == 2:
            ours = logical_result(results[OURS], workload)
            difference = relative_error([ours], [results[ONEDNN.name]])
        medians = {name: statistics.median(times) * 1e6 for name, times in measured.seconds.items()}
        least = {name: min(times) * 1e6 for name, times in measured.seconds.items()}
        return LayerTimes(
            ours_us=medians.get(OURS),
            onednn_us=medians.get(ONEDNN.name),
            ours_least_us=least.get(OURS),
            onednn_least_us=least.get(ONEDNN.name),
            relative_error=difference,
            failures=tuple(failures.values()),
        )

    def compare(self, workload: ConvolutionWorkload, kernels: Mapping[str, Knobs]) -> dict[str, float]:
        """Median microseconds of a layer's kernels by name, measured in turns; PeerError if one fails."""
        for name, knobs in kernels.items():
            side = self._kernels.setdefault(name, self._side("KERNEL", name))
            side.prepare(**self._kernel_job(workload, knobs, workload.groups))
        sides = {name: self._kernels[name] for name in kernels}
        measured = measure_interleaved(sides, self._seconds)
        if measured.failures:
            raise PeerError("; ".join(measured.failures.values()))
        return {name: statistics.median(times) * 1e6 for name, times in measured.seconds.items()}

    def call_us(self) -> dict[str, float]:
        """Microseconds of the quickest call of :data:`TINY` by runtime: what calling costs."""
        choice = KernelChooser(self._target.processor).choose(TINY)
        times = self.measure(TINY, choice.knobs)
        found = {OURS: times.ours_least_us, ONEDNN.name: times.onednn_least_us}
        return {name: microseconds for name, microseconds in found.items() if microseconds is not None}

    def versions(self) -> dict[str, str]:
        """The versions of the packages that are measured."""
        return {KERNEL.name: KERNEL.version()} | ({} if self.missing else {"torch": ONEDNN.version()})

    def _kernel_job(self, workload: ConvolutionWorkload, knobs: Knobs, groups: int) -> dict[str, Any]:
        target = self._described_target()
        return {"workload": workload, "groups": groups, "knobs": knobs.to_dict(), "target": target}

    def _side(self, attribute: str, name: str) -> _Side:
        return _Side(f"{_MODULE}:{attribute}", name, self._target.threads, Path(self._folder.name))

    def _described_target(self) -> dict[str, Any]:
        return json.loads(str(self._target.tvm_target))


class _Side:
    """One runtime, in a process that starts with the first job and is replaced when something goes wrong."""

    def __init__(self, peer: str, name: str, threads: int, folder: Path) -> None:
        self._peer, self._name, self._threads = peer, name, threads
        self._folder = folder
        self._worker: WorkerProcess | None = None

    def prepare(self, **job: Any) -> Array:
        """Load a job and run it once; the result. PeerError where that fails."""
        worker = self._worker = self._worker or WorkerProcess(self._peer, self._threads)
        inputs, outputs = self._folder / "inputs.npz", self._folder / f"{self._name}.npz"
        np.savez(inputs)
        try:
            worker.prepare(write_job(self._folder / "job.json", **job), inputs, [], outputs)
        except PeerError as error:
            raise self._failed(error) from None
        with np.load(outputs) as stored:
            return stored["arr_0"]

    def run(self, settle: int, repeats: int) -> list[float]:
        """As :meth:`WorkerProcess.run`."""
        assert self._worker is not None
        try:
            return self._worker.run(settle, repeats)
        except PeerError as error:
            raise self._failed(error) from None

    def close(self) -> None:
        """End the process."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def _failed(self, error: PeerError) -> PeerError:
        self.close()
        return PeerError(f"{self._name}{str(error).removeprefix(self._peer)}")
