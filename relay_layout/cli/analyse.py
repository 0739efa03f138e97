"""``relay-layout analyse MODEL... --target aarch64-cortex-a76``: inner loops as LLVM's analyser sees them."""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from relay_layout.cli import options
from relay_layout.cli.output import Outcome, progress
from relay_layout.columns import columns
from relay_layout.errors import InputError

if TYPE_CHECKING:
    from relay_layout.tuning.analysis import KernelAnalysis, TaskAnalysis


def add_arguments(parser: ArgumentParser) -> None:
    """Declares the verb's arguments."""
    options.add(parser, options.MODELS, options.TARGET, *options.CONVERSION)


def run(arguments: Namespace) -> Outcome:
    """A row for each kernel of the models, beside the kernel that it has without records."""
    asked = options.ModelOptions.read(arguments)
    from relay_layout.targets import resolve_target
    from relay_layout.tuning.analysis import GOAL, analyse_models

    target = resolve_target(asked.target, threads=asked.threads, precision=asked.precision, **asked.records)
    found = []
    for row in analyse_models(arguments.models, target, asked.layouts):
        progress(row.task.name)
        found.append(row)
    if not found:
        raise InputError("there is nothing to analyse: the models hold no convolution or dense layer")
    report = {
        "target": target.name,
        "goal": GOAL,
        "reached": sum(row.chosen.reaches_goal for row in found),
        "reached_attainable": sum(row.chosen.reaches_attainable for row in found),
        "tasks": [
            {
                "name": row.task.name,
                "uses": row.task.weight,
                "chosen": _fields(row.chosen),
                "default": _fields(row.default),
            }
            for row in found
        ],
    }
    return Outcome(report, format_analyses(found, GOAL))


def format_analyses(found: "Sequence[TaskAnalysis]", goal: float) -> str:
    """The table for people, with the sums of the modelled times."""
    head = ["", "share", "attainable", "busy", "spills", "loads/FMA", "us"]
    rows = [["kernel", "uses", "from", *head, *["default", *head[1:]]]]
    for row in found:
        chosen = [row.chosen.algorithm, *_columns(row.chosen)]
        default = [row.default.algorithm, *_columns(row.default)]
        rows.append([row.task.name, str(row.task.weight), row.chosen.source, *chosen, *default])
    reached = sum(row.chosen.reaches_goal for row in found)
    before = sum(row.default.reaches_goal for row in found)
    of_attainable = sum(row.chosen.reaches_attainable for row in found)
    before_of_attainable = sum(row.default.reaches_attainable for row in found)
    after = sum(row.task.weight * row.chosen.microseconds for row in found)
    untuned = sum(row.task.weight * row.default.microseconds for row in found)
    return (
        f"{columns(rows)}\n"
        f"{goal:.0%} of the multiply-add throughput without spills: {reached} of {len(found)} kernels, "
        f"by default {before}\n"
        f"{goal:.0%} of what epilogue and stores in a loop leave of it: {of_attainable} of {len(found)} "
        f"kernels, by default {before_of_attainable}\n"
        f"modelled, all uses: {after:.0f} us, by default {untuned:.0f} us"
    )


def _columns(kernel: "KernelAnalysis") -> list[str]:
    if kernel.loop is None:
        return ["-"] * 6
    return [
        f"{kernel.loop.share:.2f}",
        f"{kernel.attainable:.2f}",
        f"{kernel.loop.busy:.2f}",
        str(kernel.loop.loop.spills),
        f"{kernel.loop.loads_per_multiply_add:.2f}",
        f"{kernel.microseconds:.0f}",
    ]


def _fields(kernel: "KernelAnalysis") -> dict[str, Any]:
    fields: dict[str, Any] = {"knobs": asdict(kernel.knobs), "source": kernel.source, "error": kernel.error}
    if kernel.loop is not None:
        loop = kernel.loop.loop
        fields |= {
            "share": round(kernel.loop.share, 4),
            "attainable": round(kernel.attainable, 4),
            "busy": round(kernel.loop.busy, 4),
            "cycles_per_multiply_add": round(kernel.loop.cycles_per_multiply_add, 4),
            "multiply_adds": loop.multiply_adds,
            "lane_indexed": loop.lane_indexed,
            "loads": loop.loads,
            "spills": loop.spills,
            "microseconds": round(kernel.microseconds, 2),
        }
    return fields
