"""``relay-layout compile MODEL -o ARTIFACT``."""

import json
import os
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from typing import Any

from relay_layout.cli import options
from relay_layout.cli.layout_report import layout_rows
from relay_layout.cli.output import Outcome, one_line, progress, size_text
from relay_layout.columns import columns
from relay_layout.errors import InputError
from relay_layout.report.files import check_report_path


def add_arguments(parser: ArgumentParser) -> None:
    """Declares the verb's arguments."""
    options.add(parser, options.MODEL)
    parser.add_argument("-o", "--output", required=True, metavar="ARTIFACT", help="the file to write")
    parser.add_argument(
        "--report",
        metavar="FILE",
        help="also write what was chosen and why: a page (.html) or its data (.json)",
    )
    options.add(parser, options.TARGETS, *options.CONVERSION)


def run(arguments: Namespace) -> Outcome:
    """Compiles the model and writes the artifact, complete or not at all."""
    keywords = options.ModelOptions.read(arguments).keywords()
    options.check_writable("-o", arguments.output, options.sources(arguments))
    keywords["target"] = targets(arguments.target)
    if arguments.report is not None:
        options.check_writable("--report", arguments.report, options.sources(arguments))
        check_report_path(arguments.report)
        options.check_apart("-o", arguments.output, "--report", arguments.report)
        keywords["report"] = arguments.report
    import relay_layout

    compiled = relay_layout.compile(arguments.model, **keywords, progress=progress)
    progress(f"writing {arguments.output}")
    compiled.save(arguments.output)
    report = {
        "artifact": arguments.output,
        "artifact_bytes": os.path.getsize(arguments.output),
        **compiled.report,
    }
    return Outcome(report, format_report(report))


def targets(text: str) -> str | list[str]:
    """The targets of a list with commas; a single one is not a list. InputError for a list with a gap.

    A comma within JSON separates nothing. Text that is neither is left for the target's own error.
    """
    found: list[str] = []
    rest: str | None = text
    while rest is not None:
        rest = rest.strip()
        start = 0
        if rest.startswith("{"):
            try:
                _, start = json.JSONDecoder().raw_decode(rest)
            except ValueError:
                start = len(rest)
        comma = rest.find(",", start)
        found.append(rest[: comma if comma >= 0 else None].strip())
        rest = rest[comma + 1 :] if comma >= 0 else None
    if not all(found):
        raise InputError(f"--target: a name is missing in {text!r}")
    return found if len(found) > 1 else found[0]


def format_report(report: Mapping[str, Any]) -> str:
    """The report of a compilation for people."""
    rows = [["artifact", f"{one_line(report['artifact'])}, {size_text(report['artifact_bytes'])}"]]
    for build in report.get("targets", [report]):
        rows += _build_rows(build)
    rows.append(["compiled in", f"{report['compile_seconds']:.1f} s"])
    return columns(rows)


def _build_rows(report: Mapping[str, Any]) -> list[list[str]]:
    kernels = report["kernels"]
    return [
        ["target", f"{target_text(report['target'])}, threads: {report['threads'] or 'any number'}"],
        ["operators", str(report["ops"])],
        *layout_rows(report),
        ["layout transforms", transforms_text(report)],
        ["solver", solver_text(report["solver"])],
        ["kernels", ", ".join(f"{count} {kind}" for kind, count in kernels.items() if count)],
    ]


def target_text(target: Mapping[str, Any]) -> str:
    """A target, as a manifest holds it, in a few words."""
    words = [str(target[key]) for key in ("kind", "mtriple", "arch", "mcpu") if target.get(key)]
    return one_line(" ".join(words))


def transforms_text(report: Mapping[str, Any]) -> str:
    """How many layout transforms are left, what they move, and what they take if that is on record."""
    if not report["layout_transforms"]:
        return "none left"
    text = f"{report['layout_transforms']} left, {size_text(report['layout_transform_bytes'])} moved per run"
    prices = report.get("layout_transform_prices", {})
    if not prices.get("measured") and not prices.get("fitted"):
        return text
    sources = ", ".join(f"{count} {source}" for source, count in prices.items() if count)
    return f"{text}, {report['layout_transform_us']:.1f} us ({sources})"


def solver_text(solver: Mapping[str, Any]) -> str:
    """How the solver ended."""
    parts = [str(solver["status"])]
    if solver.get("objective_us") is not None:
        parts.append(f"{solver['objective_us']:.1f} us estimated")
    if solver.get("seconds") is not None:
        parts.append(f"{solver['seconds']:.2f} s")
    return ", ".join(parts)
