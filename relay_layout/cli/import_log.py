"""``relay-layout import-log OLD.log -o NEW.jsonl``: AutoTVM's records as starting points."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from relay_layout.cli import options, values
from relay_layout.cli.output import Outcome, one_line
from relay_layout.columns import columns
from relay_layout.errors import InputError

_MOST_LINES = 8


def add_arguments(parser: ArgumentParser) -> None:
    """Declares the verb's arguments."""
    parser.add_argument("log", metavar="OLD.log", help="a log of AutoTVM, record version 0.2")
    parser.add_argument("-o", "--output", required=True, metavar="NEW.jsonl", help="the log to write")
    parser.add_argument(
        "--threads",
        type=values.threads,
        metavar="N",
        help="how many threads the kernels are made for; otherwise one per core",
    )


def run(arguments: Namespace) -> Outcome:
    """Translates what has a kernel here; the report names the lines that have none, by reason."""
    output = arguments.output
    options.check_writable("-o", output, [arguments.log])
    if os.path.exists(output) and os.path.getsize(output):
        raise InputError(f"-o: {output} exists; relay-layout log merge puts logs together")
    from relay_layout.environment import host
    from relay_layout.tuning.importing import import_log
    from topi_ext.tune.records.log import write

    found = import_log(Path(arguments.log), arguments.threads or host.cpu_count())
    report = {**found.report(), "output": output}
    if not found.records:
        reasons = next(iter([*found.refused, *found.failed]), "it is empty")
        raise InputError(f"{arguments.log}: nothing in it can be carried over: {reasons}")
    write(Path(output), found.records)
    return Outcome(report, format_report(report))


def format_report(report: Mapping[str, Any]) -> str:
    """The report for people."""
    records = f"{report['records']} records of {report['workloads']} workloads"
    rows = [
        ["carried", f"{report['carried']} of {report['lines']} lines, as {records}"],
        ["written", one_line(report["output"])],
        [
            "next",
            f"tune --tuning-records {one_line(report['output'])} starts from them; none is used untuned",
        ],
    ]
    for what, lines in report["failed"].items():
        rows.append(["failed there", f"{one_line(what)}: {_numbers(lines)}"])
    for reason, lines in report["refused"].items():
        rows.append(["not carried", f"{one_line(reason)}: {_numbers(lines)}"])
    return columns(rows)


def _numbers(lines: Sequence[int]) -> str:
    shown = ", ".join(map(str, lines[:_MOST_LINES]))
    more = f" and {len(lines) - _MOST_LINES} more" if len(lines) > _MOST_LINES else ""
    return f"line{'s' if len(lines) > 1 else ''} {shown}{more}"
