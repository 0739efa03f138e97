"""What the verbs that tune share: how to search, and the job that their options describe."""

from argparse import Namespace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from relay_layout.cli import values
from relay_layout.cli.options import ModelOptions, option

if TYPE_CHECKING:
    from relay_layout.tuning.job import TuningJob

SEARCH = (
    option(
        "--trials", type=values.positive, default=64, metavar="N", help="kernels to measure for a task (64)"
    ),
    option(
        "--patience",
        type=values.positive,
        default=32,
        metavar="N",
        help="end a task when N trials have not made it 1%% faster (32)",
    ),
    option(
        "--strategy",
        choices=("model", "genetic", "random", "exhaustive", "tiles"),
        help="what to measure next: what a learned model predicts (the default), children of the fastest, "
        "kernels at random, everything, or the best of each register tile (the default of --modelled)",
    ),
    option(
        "--tasks",
        choices=("all", "kernels", "transforms"),
        default="all",
        help="measure layout transforms and tune kernels (the default), or one of both alone",
    ),
    option(
        "--time-limit",
        type=values.time_limit,
        default=inf,
        metavar="S",
        help="seconds after which to stop; otherwise when all tasks are done",
    ),
)
"""What to measure, how much of it, and for how long."""


def tuning_job(
    arguments: Namespace,
    asked: ModelOptions,
    log: Path,
    target: str,
    *,
    modelled: bool = False,
) -> "TuningJob":
    """The job of tuning for one target into one log; ``modelled`` runs nothing to know the times."""
    from relay_layout.tuning.job import TuningJob
    from topi_ext.tune.options import TuneOptions

    search = TuneOptions(
        trials=arguments.trials,
        patience=arguments.patience,
        strategy=arguments.strategy or ("tiles" if modelled else "model"),
        time_limit=arguments.time_limit,
        winograd=arguments.winograd,
    )
    return TuningJob(
        arguments.models,
        log,
        target,
        asked.threads,
        asked.layouts,
        asked.records,
        search,
        arguments.tasks,
        "modelled" if modelled else "measured",
        asked.precision,
    )
