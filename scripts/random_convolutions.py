"""Random convolutions with untuned kernels beside oneDNN: none may fall off a cliff, and all must be right.

Prints the slowest of them relative to oneDNN and quantiles of the ratio. The exit status is 1 where a ratio,
of medians or of quickest calls, is above 2, a result is off, or a kernel failed. Every convolution comes from
the seed and its own number: ``--only NUMBER`` repeats one.
"""

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean

import numpy as np
import tvm
from tvm import relax

from relay_layout.bench.layers.measurer import LayerMeasurer, LayerTimes
from relay_layout.bench.layers.results import algorithm, is_noisy
from relay_layout.bench.layers.table import calls_text, knobs_text
from relay_layout.cli.output import note
from relay_layout.columns import columns
from relay_layout.errors import RelayLayoutError
from relay_layout.graph import build_graph
from relay_layout.layout.transform import apply
from relay_layout.ops import ConvolutionLayouts
from relay_layout.targets import CpuTarget, TargetOffers, require_cpu, resolve_target
from relay_layout.tuning.tasks import describe, module_workloads
from topi_ext.workloads.convolution import ConvolutionWorkload

BOUND = 2.0
"""Our time over oneDNN's that no convolution may exceed."""

TOLERANCE = 1e-5
"""Largest difference to torch over torch's largest value; F(4,3) is off by some 2e-6."""

LEAST_MACS, MOST_MACS = 1e6, 500e6
"""Below, a call costs more than what it computes; above, a single convolution takes too long."""

WORST = 20
QUANTILES = (0, 10, 25, 50, 75, 90, 95, 99, 100)


@dataclass(frozen=True)
class Outcome:
    """A convolution by its number, its kernel in a few words, and what was measured."""

    number: int
    workload: ConvolutionWorkload
    kernel: str
    times: LayerTimes

    @property
    def ratio(self) -> float | None:
        """Our median time over oneDNN's; None where one is missing."""
        return _quotient(self.times.ours_us, self.times.onednn_us)

    @property
    def worst_ratio(self) -> float | None:
        """The larger of the ratios of medians and of quickest calls.

        A busy machine stretches the calls of one runtime; that must not hide a slow kernel of the other.
        """
        least = _quotient(self.times.ours_least_us, self.times.onednn_least_us)
        return None if self.ratio is None else max(self.ratio, least or 0.0)

    @property
    def is_noisy(self) -> bool:
        """Whether something else kept the machine busy meanwhile."""
        times = self.times
        return is_noisy(times.ours_us, times.ours_least_us) or is_noisy(
            times.onednn_us, times.onednn_least_us
        )

    @property
    def problems(self) -> list[str]:
        """What is wrong with it, if anything."""
        error = self.times.relative_error
        found = list(self.times.failures)
        if self.worst_ratio is not None and self.worst_ratio > BOUND:
            found.append(f"{self.worst_ratio:.2f} times oneDNN's time")
        if not found and error is None:
            found.append("results cannot be compared")
        if error is not None and error > TOLERANCE:
            found.append(f"relative error {error:.1e}")
        return found


def _quotient(ours: float | None, onednn: float | None) -> float | None:
    return None if ours is None or onednn is None else ours / onednn


def random_workload(seed: int, number: int) -> ConvolutionWorkload:
    """A convolution in NCHW and OIHW: kernels of 1 to 7, odd sizes, groups, strides, dilation, batches."""
    random = np.random.default_rng([seed, number])

    def size(most: int) -> int:
        """Small ones as often as large ones."""
        return round(math.exp(random.uniform(0, math.log(most))))

    while True:
        kernel = int(random.integers(1, 8))
        rows = kernel if random.random() < 0.8 else int(random.integers(1, 8))
        channels, outputs, groups = size(512), size(512), 1
        kind = random.choice(["plain", "depthwise", "grouped"], p=[0.6, 0.25, 0.15])
        if kind == "depthwise":
            outputs = groups = channels
        elif kind == "grouped":
            groups = int(random.choice([2, 3, 4, 8, 16, 32]))
            channels, outputs = (groups * max(1, extent // groups) for extent in (channels, outputs))
        dilation = int(random.choice([1, 2, 3], p=[0.7, 0.2, 0.1]))
        stride = int(random.choice([1, 2, 3], p=[0.6, 0.3, 0.1]))
        reach = [dilation * (extent - 1) + 1 for extent in (rows, kernel)]
        padding = [int(random.integers(0, extent // 2 + 1)) for extent in reach]
        workload = ConvolutionWorkload(
            batch=int(random.integers(1, 5)),
            in_channels=channels,
            out_channels=outputs,
            in_height=size(150),
            in_width=size(150),
            kernel=(rows, kernel),
            strides=(stride, stride),
            padding=(padding[0], padding[1], padding[0], padding[1]),
            dilation=(dilation, dilation),
            groups=groups,
            data_layout="NCHW",
            kernel_layout="OIHW",
            out_layout="NCHW",
            dtype="float32",
            out_dtype="float32",
        )
        if min(workload.out_height, workload.out_width) > 0 and LEAST_MACS <= workload.macs <= MOST_MACS:
            return workload


def in_cheapest_layouts(workload: ConvolutionWorkload, target: CpuTarget) -> ConvolutionWorkload:
    """The convolution as it is compiled inside a network, where neighbours follow the target's layouts.

    Those are the ones in which it is estimated to be the fastest; lowering then merges groups and fills up
    vectors as it does for a model.
    """
    (node,) = build_graph(_convolution(workload, ConvolutionLayouts("NCHW", "OIHW", "NCHW"))["main"]).nodes
    layouts = min(TargetOffers(target).convolution_layouts(node), key=lambda offer: offer.cost)
    workloads, _ = module_workloads(_convolution(workload, layouts), target)
    (compiled,) = workloads
    assert isinstance(compiled, ConvolutionWorkload)
    return compiled


def _convolution(workload: ConvolutionWorkload, layouts: ConvolutionLayouts) -> tvm.IRModule:
    """A module of the convolution in these layouts, with a constant weight."""
    image = (workload.batch, workload.in_channels, workload.in_height, workload.in_width)
    kernel = (workload.out_channels, workload.group_in_channels, *workload.kernel)
    data = relax.Var(
        "data", relax.TensorType(apply(np.empty(image), "NCHW", layouts.data).shape, workload.dtype)
    )
    builder = relax.BlockBuilder()
    with builder.function("main", [data]):
        result = relax.op.nn.conv2d(
            data,
            relax.const(apply(np.zeros(kernel, workload.dtype), "OIHW", layouts.kernel)),
            strides=workload.strides,
            padding=workload.padding,
            dilation=workload.dilation,
            groups=workload.groups,
            data_layout=layouts.data,
            kernel_layout=layouts.kernel,
            out_layout=layouts.out,
        )
        with builder.dataflow():
            output = builder.emit_output(result)
        builder.emit_func_output(output)
    return builder.finalize()


def measure(numbers: Sequence[int], seed: int, target: CpuTarget, measurer: LayerMeasurer) -> list[Outcome]:
    """The convolutions of these numbers, one after the other; problems are said as they arise."""
    outcomes = []
    for place, number in enumerate(numbers, 1):
        plain = random_workload(seed, number)
        workload = in_cheapest_layouts(plain, target)
        choice = target.kernels.choose(workload)
        times = measurer.measure(workload, choice.knobs, plain)
        outcome = Outcome(
            number, workload, f"{algorithm(choice.knobs)} {knobs_text(choice.knobs.to_dict())}", times
        )
        outcomes.append(outcome)
        ratio = "-" if outcome.ratio is None else f"{outcome.ratio:.2f}"
        problems = "".join(f"; {problem}" for problem in outcome.problems)
        note(f"{place}/{len(numbers)}: number {number}: {describe(workload)}: {ratio}{problems}")
    return outcomes


def report(outcomes: Sequence[Outcome], seed: int, calls: Mapping[str, float]) -> str:
    """The worst ratios, their quantiles, and how to repeat each convolution with a problem.

    ``calls`` are the microseconds that a call costs in each runtime.
    """
    compared = sorted(
        ((outcome.worst_ratio, outcome) for outcome in outcomes if outcome.worst_ratio is not None),
        key=lambda pair: -pair[0],
    )
    rows = [["number", "convolution", "kernel", "us", "oneDNN us", "ratio", "worst", "error"]]
    for worst, outcome in compared[:WORST]:
        times = outcome.times
        rows.append(
            [
                str(outcome.number),
                describe(outcome.workload),
                outcome.kernel,
                f"{times.ours_us:.1f}",
                f"{times.onednn_us:.1f}",
                f"{outcome.ratio:.2f}{'?' if outcome.is_noisy else ''}",
                f"{worst:.2f}",
                "-" if times.relative_error is None else f"{times.relative_error:.1e}",
            ]
        )
    lines = [columns(rows)]
    if compared:
        ratios = [outcome.ratio for _, outcome in compared if outcome.ratio is not None]
        found = np.percentile(ratios, QUANTILES)
        quantiles = ", ".join(
            f"{quantile}%: {value:.2f}" for quantile, value in zip(QUANTILES, found, strict=True)
        )
        lines.append(f"ratio, quantiles over {len(ratios)}: {quantiles}")
        lines.append(f"geometric mean {geometric_mean(ratios):.2f}")
    if calls:
        lines.append(calls_text(calls))
    noisy = sum(outcome.is_noisy for outcome in outcomes)
    if noisy:
        lines.append(f"? {noisy} measured while the machine was busy: repeat them when it is idle")
    bad = [outcome for outcome in outcomes if outcome.problems]
    again = f"python -m scripts.random_convolutions --seed {seed} --only"
    lines += [f"{'; '.join(outcome.problems)}: {again} {outcome.number}" for outcome in bad]
    lines.append(f"{len(bad)} of {len(outcomes)} convolutions with problems")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report; 1 where there are problems, 2 without torch."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=200, metavar="N", help="convolutions (200)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, metavar="NUMBER", help="this one alone, counted from 0")
    parser.add_argument("--threads", type=int, help="otherwise one per core")
    parser.add_argument("--seconds", type=float, default=0.2, help="for each convolution and runtime (0.2)")
    options = parser.parse_args(arguments)
    if options.count < 1 or options.seconds <= 0:
        parser.error("--count and --seconds must be positive")
    if min(options.seed, options.only or 0) < 0:
        parser.error("--seed and --only must not be negative")
    try:
        target = require_cpu(resolve_target(threads=options.threads, shipped_records=False))
    except RelayLayoutError as error:
        parser.error(str(error))
    numbers = range(options.count) if options.only is None else [options.only]
    with LayerMeasurer(target, options.seconds) as measurer:
        if measurer.missing:
            parser.error(measurer.missing)
        outcomes = measure(numbers, options.seed, target, measurer)
        calls = measurer.call_us()
    print(report(outcomes, options.seed, calls))
    return 1 if any(outcome.problems for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
