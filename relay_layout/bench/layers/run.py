"""Every distinct convolution and dense layer of a network, in our kernels and in oneDNN.

A layer has the layout and the knobs that compiling the network chooses.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeGuard

from relay_layout.bench.layers.measurer import LayerMeasurer, LayerTimes
from relay_layout.bench.layers.peers import DTYPE
from relay_layout.bench.layers.results import LayersResult, ModelLayers, layer_row, totals
from relay_layout.bench.machine import describe_machine
from relay_layout.targets import CpuTarget
from relay_layout.tuning.tasks import ModelTasks, model_tasks
from topi_ext.family import Workload
from topi_ext.workloads.convolution import ConvolutionWorkload
from topi_ext.workloads.separable import SeparableWorkload

Progress = Callable[[str], None]
Times = dict[ConvolutionWorkload, LayerTimes]


def run_layers(
    models: Sequence[str],
    target: CpuTarget,
    *,
    seconds: float = 0.5,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    progress: Progress = lambda line: None,
    interrupted: Callable[[], bool] = lambda: False,
) -> LayersResult:
    """Measure the layers of every model; kernels that models share are measured once.

    ``models`` are what :func:`relay_layout.convert` takes. ``target`` is what to compile for, this machine;
    both runtimes use its threads. ``seconds`` of running time are spent on each layer and runtime. Raises
    RelayLayoutError for a model that cannot be read or converted, and where there is no linker.

    KeyboardInterrupt ends it with the layers that were measured, and is raised where there is none yet.
    ``interrupted`` says whether an error may come of an interrupt that others met, such as a worker.
    """
    found = [_layers(model_tasks([model], target, {"input_shapes": input_shapes})) for model in models]
    with LayerMeasurer(target, seconds) as measurer:
        progress("measuring the multiply-add peak")
        peak, calls = measurer.peak_gflops(), measurer.call_us()
        versions, missing = measurer.versions(), measurer.missing
        times: Times = {}
        try:
            for model, layers in zip(models, found, strict=True):
                _measure(model, layers, target, measurer, times, progress, interrupted)
            # Its processor may have been slower in the beginning; what it reached at its best is its peak.
            peak = max(peak, measurer.peak_gflops())
        except KeyboardInterrupt:
            if not times:
                raise
    results = [
        _model_layers(str(model), layers, target, times, peak)
        for model, layers in zip(models, found, strict=True)
    ]
    for result in results:
        result["notes"] += [missing] if missing else []
    return LayersResult(
        models=results,
        threads=target.threads,
        peak_gflops=peak,
        call_us=calls,
        versions=versions,
        machine=describe_machine(),
    )


def _layers(found: ModelTasks) -> ModelTasks:
    """Without the kernels that compute two layers."""
    return replace(
        found, tasks=[task for task in found.tasks if not isinstance(task.workload, SeparableWorkload)]
    )


def _measure(
    model: str,
    layers: ModelTasks,
    target: CpuTarget,
    measurer: LayerMeasurer,
    times: Times,
    progress: Progress,
    interrupted: Callable[[], bool],
) -> None:
    """Add to ``times`` those layers of a model that can be measured and are not among them yet."""
    for place, task in enumerate(layers.tasks, 1):
        workload = task.workload
        if _measurable(workload) and workload not in times:
            progress(f"{model}: layer {place} of {len(layers.tasks)}: {task.name}")
            measured = measurer.measure(workload, target.kernels.choose(workload).knobs)
            if interrupted():
                raise KeyboardInterrupt
            times[workload] = measured


def _measurable(workload: Workload) -> TypeGuard[ConvolutionWorkload]:
    assert isinstance(workload, ConvolutionWorkload)
    return workload.dtype == workload.out_dtype == DTYPE


def _model_layers(
    model: str, layers: ModelTasks, target: CpuTarget, times: Times, peak_gflops: float
) -> ModelLayers:
    """The layers of a model that have ``times``, and notes on the others."""
    rows = []
    for task in layers.tasks:
        if task.workload in times:
            choice = target.kernels.choose(task.workload)
            rows.append(layer_row(task.workload, task.weight, choice, times[task.workload], peak_gflops))
    notes = [note.removeprefix(f"{model}: ") for note in layers.notes]
    missing = [task for task in layers.tasks if task.workload not in times]
    notes += [
        f"{task.name} computes in {task.workload.dtype} and is not measured"
        for task in missing
        if not _measurable(task.workload)
    ]
    left = sum(_measurable(task.workload) for task in missing)
    if left:
        notes.append(f"interrupted: {left} of {len(layers.tasks)} layers were not measured")
    return ModelLayers(model=model, layers=rows, totals=totals(rows, peak_gflops), notes=notes)
