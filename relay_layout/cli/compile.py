"""``relay-layout compile MODEL -o ARTIFACT``."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from typing import Any

from relay_layout.cli import options
from relay_layout.cli.layout_report import layout_rows
from relay_layout.cli.output import Outcome, one_line, progress, size_text, table


def add_arguments(parser: ArgumentParser) -> None:
    """Declares the verb's arguments."""
    parser.add_argument("model", metavar="MODEL", help=options.MODEL_HELP)
    parser.add_argument("-o", "--output", required=True, metavar="ARTIFACT", help="the file to write")
    options.add_layout_options(parser)
    options.add_threads_option(parser)


def run(arguments: Namespace) -> Outcome:
    """Compiles the model and writes the artifact, complete or not at all."""
    keywords = options.layout_options(arguments)
    options.check_writable("-o", arguments.output, [arguments.model])
    import relay_layout

    compiled = relay_layout.compile(arguments.model, **keywords, threads=arguments.threads, progress=progress)
    progress(f"writing {arguments.output}")
    compiled.save(arguments.output)
    report = {
        **compiled.report,
        "artifact": arguments.output,
        "artifact_bytes": os.path.getsize(arguments.output),
        "target": compiled.manifest.target,
        "threads": compiled.manifest.num_threads_hint,
    }
    return Outcome(report, format_report(report))


def format_report(report: Mapping[str, Any]) -> str:
    """The report of a compilation for people."""
    kernels = report["kernels"]
    rows = [
        ["artifact", f"{one_line(report['artifact'])}, {size_text(report['artifact_bytes'])}"],
        ["target", f"{target_text(report['target'])}, threads: {report['threads'] or 'any number'}"],
        ["operators", str(report["ops"])],
        *layout_rows(report),
        ["layout transforms", transforms_text(report["layout_transforms"], report["layout_transform_bytes"])],
        ["solver", solver_text(report["solver"])],
        ["kernels", ", ".join(f"{kernels[kind]} {kind}" for kind in ("tuned", "default", "fallback"))],
        ["compiled in", f"{report['compile_seconds']:.1f} s"],
    ]
    return table(rows)


def target_text(target: Mapping[str, Any]) -> str:
    """A target, as a manifest holds it, in a few words."""
    words = [str(target[key]) for key in ("kind", "mtriple", "arch", "mcpu") if target.get(key)]
    return one_line(" ".join(words))


def transforms_text(count: int, moved: int) -> str:
    """How many layout transforms are left, and what they move."""
    return f"{count} left, {size_text(moved)} moved per run" if count else "none left"


def solver_text(solver: Mapping[str, Any]) -> str:
    """How the solver ended."""
    parts = [str(solver["status"])]
    if solver.get("objective_us") is not None:
        parts.append(f"{solver['objective_us']:.1f} us estimated")
    if solver.get("seconds") is not None:
        parts.append(f"{solver['seconds']:.2f} s")
    return ", ".join(parts)
