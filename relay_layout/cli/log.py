"""``relay-layout log merge LOG... -o OUT`` and ``relay-layout log check LOG...``."""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relay_layout.cli import options
from relay_layout.cli.output import Outcome, note, one_line
from relay_layout.columns import columns
from relay_layout.errors import InputError
from relay_layout.explanation.words import counted

if TYPE_CHECKING:
    from topi_ext.tune.records.log import Problem

_MOST_PROBLEMS = 20


def add_arguments(parser: ArgumentParser) -> None:
    """Declares the verb's arguments."""
    parser.add_argument(
        "action",
        choices=("merge", "check"),
        help="merge: the best record of each kernel into one log; check: report lines that are no records",
    )
    parser.add_argument("logs", nargs="+", metavar="LOG", help="tuning logs (.jsonl)")
    parser.add_argument("-o", "--output", metavar="OUT", help="the log to write; merge needs it")


def run(arguments: Namespace) -> Outcome:
    """Merges or checks; the exit status of check is 1 where a line is no record."""
    if arguments.action == "merge":
        if arguments.output is None:
            raise InputError("log merge needs -o OUT, the log to write")
        options.check_writable("-o", arguments.output, arguments.logs)
        _check_no_loss(Path(arguments.output))
        return _merge(arguments.logs, arguments.output)
    if arguments.output is not None:
        raise InputError("log check writes nothing; leave out -o")
    return _check(arguments.logs)


def _check_no_loss(output: Path) -> None:
    from topi_ext.tune.records.log import is_log

    if output.exists() and not is_log(output):
        raise InputError(f"-o: {output} is there and no tuning log; give the name of a new file")


def _merge(logs: Sequence[str], output: str) -> Outcome:
    from topi_ext.tune.records.log import load, merged, write

    records, problems = load(map(Path, logs))
    best = merged(records)
    if problems and not best:
        raise InputError(
            f"log merge: no line of {', '.join(logs)} is a record, as {problems[0]}; "
            f"{output} is left as it was"
        )
    tell_problems(problems)
    write(Path(output), best)
    report = {
        "output": output,
        "records_read": len(records),
        "records_written": len(best),
        "problems": problem_list(problems),
    }
    text = columns(
        [
            [
                "read",
                f"{counted(len(records), 'record')} of {counted(len(logs), 'log')}, "
                f"{counted(len(problems), 'line')} skipped",
            ],
            ["written", f"{counted(len(best), 'record')} to {one_line(output)}"],
        ]
    )
    return Outcome(report, text)


def _check(logs: Sequence[str]) -> Outcome:
    from topi_ext.tune.records.log import load

    records, problems = load(map(Path, logs))
    failed = sum(1 for record in records if record.error)
    by_origin: dict[str, int] = {}
    for record in records:
        by_origin[record.origin] = by_origin.get(record.origin, 0) + 1
    workloads = len({(record.workload, record.processor, record.threads) for record in records})
    tell_problems(problems)
    report = {
        "records": len(records),
        "workloads": workloads,
        "failed": failed,
        "origins": by_origin,
        "problems": problem_list(problems),
    }
    origins = ", ".join(f"{count} {origin}" for origin, count in sorted(by_origin.items()))
    text = columns(
        [
            ["records", f"{len(records)} ({origins})" if origins else "none"],
            ["workloads", str(workloads)],
            ["failed trials", str(failed)],
            ["bad lines", str(len(problems))],
        ]
    )
    return Outcome(report, text, 1 if problems else 0)


def problem_list(problems: "Sequence[Problem]") -> list[dict[str, Any]]:
    """Problems as fields of JSON."""
    return [
        {"log": str(problem.path), "line": problem.line, "reason": problem.reason} for problem in problems
    ]


def tell_problems(problems: "Sequence[Problem]") -> None:
    """Says on standard error which lines were skipped, the first of them in full."""
    for problem in problems[:_MOST_PROBLEMS]:
        note(f"skipped {one_line(str(problem))}")
    if len(problems) > _MOST_PROBLEMS:
        note(f"skipped {len(problems) - _MOST_PROBLEMS} lines more")
