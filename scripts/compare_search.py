"""How quickly tuning finds good kernels, on logs that hold every kernel of their workloads.

With --measure LOG such a log is made first, of five workloads; it may be stopped at any time, and goes on
with the same command. Then the learned search and random search are replayed on the logs: nothing is compiled
or run for that. The exit status is 1 where the learned search needs more than a quarter of a space, or loses
to random search on half of them.
"""

import argparse
import math
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from relay_layout.cli import values
from relay_layout.cli.main import Printed, guarded
from relay_layout.cli.output import note, one_line, progress
from relay_layout.cli.tune import progress_line
from relay_layout.columns import columns
from relay_layout.errors import InputError
from relay_layout.targets import CpuTarget, require_cpu, resolve_target
from relay_layout.tuning.measurers import local_measurer
from relay_layout.tuning.tasks import as_tasks, describe
from topi_ext.tune.comparison import COVERAGE, GOOD, Comparison, compare, replays
from topi_ext.tune.options import TuneOptions
from topi_ext.tune.records.database import Database
from topi_ext.tune.records.log import appender, load
from topi_ext.tune.records.record import TuningRecord
from topi_ext.tune.search import ModelSearch, RandomSearch
from topi_ext.tune.tuner import TuneProgress, Tuner
from topi_ext.workloads.convolution import ConvolutionWorkload

EVERYTHING = 1 << 30


def workload(
    channels: int, size: int, out_channels: int, kernel: int, *, stride: int = 1, groups: int = 1
) -> ConvolutionWorkload:
    """A convolution of NCHW16c, padded by half its kernel."""
    pad = kernel // 2
    return ConvolutionWorkload(
        batch=1,
        in_channels=channels,
        out_channels=out_channels,
        in_height=size,
        in_width=size,
        kernel=(kernel, kernel),
        strides=(stride, stride),
        padding=(pad, pad, pad, pad),
        dilation=(1, 1),
        groups=groups,
        data_layout="NCHW16c",
        kernel_layout="OIHW16o" if groups > 1 else "OIHW16i16o",
        out_layout="NCHW16c",
        dtype="float32",
        out_dtype="float32",
    )


WORKLOADS = (
    workload(512, 7, 512, 3),
    workload(160, 7, 960, 1),
    workload(192, 28, 192, 3, groups=192),
    workload(128, 28, 256, 3, stride=2),
    workload(256, 14, 256, 3),
)
"""Late and early layers, pointwise, depthwise and strided; with spaces that can be measured in minutes."""


def rows(comparisons: Sequence[Comparison]) -> list[list[str]]:
    """The table: trials of both searches to the goal, and their best speed after a quarter of a space."""
    goal = f"trials to {GOOD:.0%}"
    found = [["workload", "space", "best us", goal, "worst", "share", "random", "after 1/4", "random"]]
    for each in comparisons:
        found.append(
            [
                describe(each.workload),
                str(each.size),
                f"{each.best * 1e6:.1f}",
                f"{mean(each.trials):.1f}",
                str(max(each.trials)),
                f"{mean(each.trials) / each.size:.1%}",
                f"{mean(each.random_trials):.1f}",
                f"{each.share:.3f}",
                f"{each.random_share:.3f}",
            ]
        )
    return found


def measure(log: Path, target: CpuTarget, time_limit: float) -> None:
    """Append to ``log`` what it lacks of the kernels of all workloads."""
    database, problems = Database.load([log] if log.exists() else [])
    for problem in problems:
        note(f"skipped {one_line(str(problem))}")

    def show(state: TuneProgress) -> None:
        progress(progress_line(state))

    everything = TuneOptions(
        trials=EVERYTHING, patience=EVERYTHING, strategy="exhaustive", time_limit=time_limit
    )
    measurer = local_measurer(target)
    try:
        tuner = Tuner(target.processor, measurer, appender(log), database, everything, progress=show)
        tuner.tune(as_tasks(dict.fromkeys(WORKLOADS, 1)))
    finally:
        measurer.close()


def main() -> int:
    """Prints the table and the two bars; bad input is one line."""
    return guarded(compare_logs, with_traceback=False)


def compare_logs() -> Printed:
    """The table and the two bars, and the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("logs", nargs="*", type=Path, metavar="LOG")
    parser.add_argument("--measure", type=Path, metavar="LOG", help="make this log first, or go on with it")
    parser.add_argument(
        "--time-limit", type=values.seconds, default=math.inf, metavar="S", help="seconds for measuring"
    )
    parser.add_argument("--target", default="native")
    parser.add_argument(
        "--threads", type=int, help="to measure with; otherwise all cores, and to compare what most logs have"
    )
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="searches for each workload (5)")
    arguments = parser.parse_args()
    if arguments.measure is not None:
        measure(
            arguments.measure,
            require_cpu(resolve_target(arguments.target, threads=arguments.threads)),
            arguments.time_limit,
        )
        arguments.logs.append(arguments.measure)
    if not arguments.logs:
        raise InputError("give a log, or --measure LOG to make one")
    records, problems = load(arguments.logs)
    for problem in problems:
        note(f"skipped {one_line(str(problem))}")
    counts = Counter(record.threads for record in records if isinstance(record, TuningRecord))
    threads = arguments.threads or max(counts, key=lambda count: counts[count], default=1)
    processor = require_cpu(resolve_target(arguments.target, threads=threads)).processor
    comparisons = []
    for replay in replays(records, processor):
        if replay.coverage < COVERAGE:
            note(f"{describe(replay.workload)}: only {replay.coverage:.0%} of its space is in the log")
            continue
        comparisons.append(
            compare(
                replay,
                lambda space, seed: ModelSearch(space, seed=seed),
                lambda space, seed: RandomSearch(space, seed=seed),
                range(arguments.seeds),
            )
        )
    if not comparisons:
        raise InputError("no workload is measured completely")
    quick = sum(each.is_quick for each in comparisons)
    beaten = sum(each.beats_random for each in comparisons)
    lines = [
        columns(rows(comparisons)),
        f"{GOOD:.0%} of the best within a quarter of the space: {quick} of {len(comparisons)} workloads",
        f"at least as good as random search at equal trials: {beaten} of {len(comparisons)} workloads",
    ]
    return Printed("\n".join(lines), 0 if quick == len(comparisons) and 2 * beaten > len(comparisons) else 1)


if __name__ == "__main__":
    sys.exit(main())
