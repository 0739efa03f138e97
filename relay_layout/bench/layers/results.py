"""What ``bench --layers`` returns: dictionaries that JSON can hold as they are."""

from collections.abc import Sequence
from dataclasses import asdict
from statistics import geometric_mean
from typing import Any, TypedDict

from relay_layout.bench.compare import TOLERANCE
from relay_layout.bench.layers.measurer import LayerTimes
from relay_layout.bench.machine import Machine
from relay_layout.tuning.tasks import describe
from topi_ext.kernel_choice import KernelChoice
from topi_ext.knobs import Knobs, WinogradKnobs
from topi_ext.workloads.convolution import ConvolutionWorkload

NOISY = 1.5
"""A median that is this many times the least of its times says more about the machine than about a kernel."""


class LayerRow(TypedDict):
    """One kernel of a network, times as medians; what was not measured is None, and ``failures`` says why.

    ``gflops``: operations of the direct convolution over our time; ``peak_share``: that over the machine's
    multiply-add peak. ``ratio``: our time over oneDNN's, below 1 ours is faster. ``relative_error``: the
    largest difference of the results over oneDNN's largest value; ``agrees``: is it within the tolerance.
    """

    layer: str
    workload: dict[str, Any]
    uses: int
    gigaflop: float
    algorithm: str
    knobs: dict[str, Any]
    source: str
    ours_us: float | None
    gflops: float | None
    peak_share: float | None
    onednn_us: float | None
    ours_least_us: float | None
    onednn_least_us: float | None
    ratio: float | None
    relative_error: float | None
    agrees: bool | None
    failures: list[str]


class LayerTotals(TypedDict):
    """Sums over the uses of all layers that have a time.

    ``ratio`` is of the sums over the layers that both have timed, ``geometric_mean`` of their single ratios,
    each distinct layer once. Layers whose results differ are left out of both.
    """

    uses: int
    gigaflop: float
    ours_us: float
    gflops: float | None
    peak_share: float | None
    onednn_us: float
    ratio: float | None
    geometric_mean: float | None


class ModelLayers(TypedDict):
    """The layers of one network, most work first; ``notes`` names kernels that could not be measured."""

    model: str
    layers: list[LayerRow]
    totals: LayerTotals
    notes: list[str]


class LayersResult(TypedDict):
    """A whole ``bench --layers``; ``call_us`` is what the quickest call of a tiny layer takes."""

    models: list[ModelLayers]
    threads: int
    peak_gflops: float
    call_us: dict[str, float]
    versions: dict[str, str]
    machine: Machine


def layer_row(
    workload: ConvolutionWorkload, uses: int, choice: KernelChoice, times: LayerTimes, peak_gflops: float
) -> LayerRow:
    """A layer's times with what follows from them."""
    gigaflop = 2 * workload.macs / 1e9
    ours, onednn = times.ours_us, times.onednn_us
    gflops = None if ours is None else gigaflop / ours * 1e6
    both = ours is not None and onednn is not None
    return LayerRow(
        layer=describe(workload),
        workload=asdict(workload),
        uses=uses,
        gigaflop=gigaflop,
        algorithm=algorithm(choice.knobs),
        knobs=choice.knobs.to_dict(),
        source=choice.source,
        ours_us=ours,
        gflops=gflops,
        peak_share=None if gflops is None else gflops / peak_gflops,
        onednn_us=onednn,
        ours_least_us=times.ours_least_us,
        onednn_least_us=times.onednn_least_us,
        ratio=None if ours is None or onednn is None else ours / onednn,
        relative_error=times.relative_error,
        agrees=(times.relative_error is not None and times.relative_error <= TOLERANCE) if both else None,
        failures=list(times.failures),
    )


def algorithm(knobs: Knobs) -> str:
    """The name of what knobs are for, such as ``direct`` or ``winograd F(4,3)``."""
    return f"winograd F({knobs.tile},3)" if isinstance(knobs, WinogradKnobs) else "direct"


def totals(rows: Sequence[LayerRow], peak_gflops: float) -> LayerTotals:
    """The sums over the rows, weighted by their uses."""
    timed = [(row, row["ours_us"]) for row in rows if row["ours_us"] is not None]
    ours = sum(row["uses"] * microseconds for row, microseconds in timed)
    work = sum(row["uses"] * row["gigaflop"] for row, _ in timed)
    compared = [row for row in rows if row["ratio"] is not None and row["agrees"] is not False]
    ratios = [row["ratio"] for row in compared if row["ratio"] is not None]
    sides = [sum(row["uses"] * (row[side] or 0.0) for row in compared) for side in ("ours_us", "onednn_us")]
    gflops = work / ours * 1e6 if ours else None
    return LayerTotals(
        uses=sum(row["uses"] for row in rows),
        gigaflop=sum(row["uses"] * row["gigaflop"] for row in rows),
        ours_us=ours,
        gflops=gflops,
        peak_share=gflops / peak_gflops if gflops is not None else None,
        onednn_us=sum(row["uses"] * (row["onednn_us"] or 0.0) for row in rows),
        ratio=sides[0] / sides[1] if compared else None,
        geometric_mean=geometric_mean(ratios) if ratios else None,
    )


def is_noisy(median: float | None, least: float | None) -> bool:
    """Whether calls usually took far longer than the quickest: something else kept the processors busy."""
    return median is not None and least is not None and median > NOISY * least


def failed(result: LayersResult) -> bool:
    """Whether relay-layout has no time for some layer, or computes something else."""
    rows = [row for model in result["models"] for row in model["layers"]]
    return any(row["ours_us"] is None or row["agrees"] is False for row in rows)
