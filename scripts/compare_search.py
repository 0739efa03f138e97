"""How quickly tuning finds good kernels, on logs that hold every kernel of their workloads.

Such a log is made by ``relay-layout tune MODEL -o LOG --strategy exhaustive --trials 100000 --patience
100000``. The learned search and random search are replayed on it: nothing is compiled or run. The exit status
is 1 where the learned search needs more than a quarter of a space, or loses to random search on half of them.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

from relay_layout.cli.main import Printed, guarded
from relay_layout.cli.output import note, one_line, table
from relay_layout.errors import InputError
from relay_layout.targets import resolve_target
from relay_layout.tuning.tasks import describe
from topi_ext.tune.comparison import COVERAGE, GOOD, Comparison, compare, replays
from topi_ext.tune.log import load
from topi_ext.tune.search import ModelSearch, RandomSearch


def rows(comparisons: list[Comparison]) -> list[list[str]]:
    """The table: trials to reach the goal, and the best speed after a quarter of the space."""
    quarter = "speed after 1/4"
    found = [["workload", "space", f"trials to {GOOD:.0%}", "share", quarter, "random", "random beaten"]]
    for each in comparisons:
        found.append(
            [
                describe(each.workload),
                str(each.size),
                f"{each.trials:.1f}",
                f"{each.trials / each.size:.1%}",
                f"{each.share:.3f}",
                f"{each.random_share:.3f}",
                "yes" if each.beats_random else "no",
            ]
        )
    return found


def main() -> int:
    """Prints the table and the two bars; bad input is one line."""
    return guarded(compare_logs, with_traceback=False)


def compare_logs() -> Printed:
    """The table and the two bars, and the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("logs", nargs="+", type=Path, metavar="LOG")
    parser.add_argument("--target", default="native")
    parser.add_argument("--threads", type=int, help="what the log was measured with; otherwise what most was")
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="searches for each workload (5)")
    arguments = parser.parse_args()
    records, problems = load(arguments.logs)
    for problem in problems:
        note(f"skipped {one_line(str(problem))}")
    counts = Counter(record.threads for record in records)
    threads = arguments.threads or max(counts, key=lambda count: counts[count], default=1)
    processor = resolve_target(arguments.target, threads=threads).processor
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
        table(rows(comparisons)),
        f"{GOOD:.0%} of the best within a quarter of the space: {quick} of {len(comparisons)} workloads",
        f"at least as good as random search at equal trials: {beaten} of {len(comparisons)} workloads",
    ]
    return Printed("\n".join(lines), 0 if quick == len(comparisons) and 2 * beaten > len(comparisons) else 1)


if __name__ == "__main__":
    sys.exit(main())
