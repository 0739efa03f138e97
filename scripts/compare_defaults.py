"""Untuned kernels beside tuned ones: every workload of the tuning logs, both kernels measured in turns.

Prints the time of the default over that of the record for each, the slowest first, and the geometric mean.
The exit status is 1 where the mean is above 1.3.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean

from relay_layout.bench.layers.measurer import LayerMeasurer
from relay_layout.bench.layers.peers import DTYPE
from relay_layout.bench.layers.results import algorithm
from relay_layout.bench.layers.table import knobs_text
from relay_layout.cli.main import Printed, guarded
from relay_layout.cli.output import note
from relay_layout.columns import columns
from relay_layout.errors import InputError
from relay_layout.targets import CpuTarget, require_cpu, resolve_target
from relay_layout.targets.records import recorded_kernels
from relay_layout.tuning.tasks import describe
from topi_ext.knobs import Knobs, knobs_from_dict
from topi_ext.spaces.convolution import cheapest
from topi_ext.workloads.convolution import ConvolutionWorkload
from topi_ext.workloads.separable import SeparableWorkload

BOUND = 1.3
"""The mean time of defaults over that of tuned kernels."""


@dataclass(frozen=True)
class Pair:
    """A workload with the kernels that it has without and with tuning, and their median microseconds."""

    workload: ConvolutionWorkload
    default: Knobs
    tuned: Knobs
    default_us: float
    tuned_us: float

    @property
    def ratio(self) -> float:
        return self.default_us / self.tuned_us


def recorded(logs: Sequence[Path], target: CpuTarget) -> list[tuple[ConvolutionWorkload, Knobs]]:
    """The float32 layers with a measured record for the processor and the threads, and its knobs.

    ``logs`` are looked into beside those of the package. Two convolutions in one kernel are no layer.
    """
    best = recorded_kernels(target.processor.name, logs).database.best_of(target.processor)
    return [
        (record.workload, knobs_from_dict(record.workload, record.knobs))
        for record in best
        if record.origin == "measured"
        and isinstance(record.workload, ConvolutionWorkload)
        and not isinstance(record.workload, SeparableWorkload)
        and record.workload.dtype == record.workload.out_dtype == DTYPE
    ]


def measure(logs: Sequence[Path], target: CpuTarget, seconds: float) -> list[Pair]:
    """Each workload's pair; where tuning found the default, nothing needs to be measured."""
    found = recorded(logs, target)
    pairs = []
    with LayerMeasurer(target, seconds) as measurer:
        for place, (workload, tuned) in enumerate(found, 1):
            note(f"{place}/{len(found)}: {describe(workload)}")
            default = cheapest(workload, target.processor)[1]
            times = {"default": 1.0, "tuned": 1.0}
            if default != tuned:
                times = measurer.compare(workload, {"default": default, "tuned": tuned})
            pairs.append(Pair(workload, default, tuned, times["default"], times["tuned"]))
    return pairs


def report(pairs: Sequence[Pair]) -> str:
    """The pairs that differ, the slowest default first, and the mean over all."""
    rows = [["workload", "default", "us", "tuned", "us", "ratio"]]
    for pair in sorted(pairs, key=lambda pair: -pair.ratio):
        if pair.default != pair.tuned:
            cells = [describe(pair.workload)]
            for knobs, time in ((pair.default, pair.default_us), (pair.tuned, pair.tuned_us)):
                cells += [f"{algorithm(knobs)} {knobs_text(knobs.to_dict())}", f"{time:.1f}"]
            rows.append([*cells, f"{pair.ratio:.2f}"])
    same = sum(pair.default == pair.tuned for pair in pairs)
    mean = geometric_mean([pair.ratio for pair in pairs])
    lines = [
        columns(rows),
        f"{len(pairs)} workloads on record, of which {same} have the default",
        f"untuned over tuned, geometric mean: {mean:.2f}",
    ]
    return "\n".join(lines)


def main() -> int:
    """Prints the table; bad input is one line."""
    return guarded(compare_defaults, with_traceback=False)


def compare_defaults() -> Printed:
    """The report, and the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("logs", nargs="*", type=Path, metavar="LOG", help="beside those of the package")
    parser.add_argument("--threads", type=int, help="what the records were measured with; one per core")
    parser.add_argument("--seconds", type=float, default=0.2, help="for each kernel (0.2)")
    arguments = parser.parse_args()
    target = require_cpu(resolve_target(threads=arguments.threads))
    pairs = measure(arguments.logs, target, arguments.seconds)
    if not pairs:
        raise InputError(f"no record was measured on {target.processor.name} with {target.threads} threads")
    mean = geometric_mean([pair.ratio for pair in pairs])
    return Printed(report(pairs), 0 if mean <= BOUND else 1)


if __name__ == "__main__":
    sys.exit(main())
