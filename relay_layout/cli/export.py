"""``relay-layout export ARTIFACT -o FOLDER``."""

import shlex
from argparse import ArgumentParser, Namespace
from pathlib import Path

from relay_layout.cli import options
from relay_layout.cli.output import Outcome, size_text
from relay_layout.columns import columns


def add_arguments(parser: ArgumentParser) -> None:
    """Declares the verb's arguments."""
    parser.add_argument("artifact", metavar="ARTIFACT", help="what relay-layout compile wrote")
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER", help="the folder to write")
    parser.add_argument(
        "--target", metavar="NAME", help="which of the artifact's targets; needed where it has several"
    )


def run(arguments: Namespace) -> Outcome:
    """Writes code, weights, and the sources of a program in C++ that runs them."""
    folder = Path(arguments.output)
    options.check_folder("-o", arguments.output)
    from relay_layout.deployment import export_folder

    exported = export_folder(arguments.artifact, folder, arguments.target)
    report = {
        "folder": arguments.output,
        "target": exported.target,
        "bytes": exported.nbytes,
        "has_runtime": exported.has_runtime,
    }
    runtime = f"TVM's, in {folder / 'cpp' / 'lib'}"
    if not exported.has_runtime:
        runtime = f"put libtvm_ffi.so and libtvm_runtime*.so of that machine into {folder / 'cpp' / 'lib'}"
    sources, network = shlex.quote(str(folder / "cpp")), shlex.quote(str(folder))
    rows = [
        ["target", exported.target],
        ["network", f"{size_text(exported.nbytes)} in {folder}"],
        ["runtime", runtime],
        ["build", f"cmake -S {sources} -B build && cmake --build build && build/example {network}"],
    ]
    return Outcome(report, columns(rows))
