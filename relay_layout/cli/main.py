"""The command: finds the verb, and turns every way it can end into output and an exit status."""

import importlib
import sys
import traceback
import warnings
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from relay_layout.cli.interrupts import INTERRUPTED, noted_interrupts
from relay_layout.cli.options import Parser
from relay_layout.cli.output import (
    Outcome,
    discard_stdout,
    hold_standard_descriptors,
    note,
    one_line,
    stdout_to_stderr,
    write_stdout,
)
from relay_layout.columns import columns
from relay_layout.environment.versions import __version__, needed_packages
from relay_layout.environment.without_torch import without_torch
from relay_layout.errors import InputError, RelayLayoutError, RelayLayoutWarning
from topi_ext.messages import first_line, system_message

VERBS = {
    "compile": "compile a model into an artifact",
    "run": "run an artifact and measure its latency",
    "export": "write an artifact as a folder that a C++ program runs without Python",
    "convert": "convert a model's layouts and report the transforms that are left",
    "explain": "tell which layouts were chosen for a model's operators, and why",
    "diff": "compare the reports of two compilations",
    "bench": "compare with other runtimes, side by side",
    "tune": "measure the kernels of models with other knobs, and log the times",
    "fleet": "tune for several targets at once, on all boards of a tracker",
    "analyse": "show the inner loops of a model's kernels for an ARM core, as LLVM's analyser sees them",
    "log": "merge tuning logs, or check them",
    "import-log": "translate a log of AutoTVM into starting points for tuning",
    "port": "rewrite a Python script that uses Relay for today's TVM",
}
"""Every verb and what it does; its module in this package has its name, with underscores for hyphens."""

BAD_INPUT = 2
INTERNAL_ERROR = 1
STDOUT_CLOSED = 141


class Verb(Protocol):
    """What a verb's module offers."""

    def add_arguments(self, parser: Parser) -> None:
        """Declares the verb's arguments."""

    def run(self, arguments: Namespace) -> Outcome:
        """Does the work; raises RelayLayoutError for anything that the caller can mend."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command with the arguments of ``argv``, or of the process; returns the exit status.

    0: done. 1: the work found something wrong, or failed for a reason that is not the caller's. 2: bad
    input. 130: interrupted, by Ctrl-C or SIGTERM. 141: standard output was closed, as by ``| head``.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    return guarded(lambda: _run(words), with_traceback="--traceback" in words)


def guarded(work: Callable[[], "Printed"], *, with_traceback: bool) -> int:
    """Does the work and prints what it returns; whatever is raised becomes a line and an exit status."""
    with noted_interrupts() as interrupts:
        hold_standard_descriptors()
        try:
            with warnings.catch_warnings():
                if not sys.warnoptions:
                    # Warnings of libraries are for developers, and an error is to be the only line.
                    warnings.simplefilter("ignore")
                    warnings.simplefilter("always", RelayLayoutWarning)
                    warnings.showwarning = _noted
                printed = work()
        except (Exception, KeyboardInterrupt) as error:
            if with_traceback:
                traceback.print_exc()
            line, status = _verdict(error, with_traceback)
            if interrupts:
                line, status = "interrupted", INTERRUPTED
            note(f"relay-layout: {line}")
            return status
    return printed.to_stdout()


def _noted(message: Warning | str, *_: Any, **__: Any) -> None:
    note(f"relay-layout: {message}")


@dataclass(frozen=True)
class Printed:
    """Lines for standard output, and the exit status when they are written."""

    text: str
    exit_status: int = 0

    def to_stdout(self) -> int:
        """Writes the lines; returns the exit status."""
        try:
            write_stdout(self.text)
        except BrokenPipeError:
            discard_stdout()
            return STDOUT_CLOSED
        except OSError as error:
            discard_stdout()
            note(f"relay-layout: error: standard output: {one_line(_reason(error))}")
            return BAD_INPUT
        return self.exit_status


def _run(words: Sequence[str]) -> Printed:
    if not words:
        raise InputError(f"no verb given; the verbs are {', '.join(VERBS)}; see relay-layout --help")
    verb, *rest = words
    if verb in ("-h", "--help"):
        return Printed(_help())
    if verb == "--version":
        return Printed(f"relay-layout {__version__}")
    if verb not in VERBS:
        kind = "option" if verb.startswith("-") else "verb"
        raise InputError(
            f"unknown {kind} '{verb}'; the verbs are {', '.join(VERBS)}; see relay-layout --help"
        )
    module = cast(Verb, importlib.import_module(f"relay_layout.cli.{verb.replace('-', '_')}"))
    parser = Parser(verb, f"{VERBS[verb][0].upper()}{VERBS[verb][1:]}.")
    module.add_arguments(parser)
    return perform(parser, rest, module.run)


def perform(parser: Parser, words: Sequence[str], run: Callable[[Namespace], Outcome]) -> Printed:
    """Parses the words and does the work, keeping standard output clean for the JSON if that is wanted."""
    # argparse would print the help itself, and end the process.
    if any(word in ("-h", "--help") for word in words):
        return Printed(parser.format_help().rstrip())
    arguments = parser.read(words)
    with needed_packages(), without_torch():
        if not arguments.json:
            outcome = run(arguments)
            return Printed(outcome.text, outcome.exit_status)
        with stdout_to_stderr():
            outcome = run(arguments)
            note(outcome.text)
    return Printed(outcome.json_line(), outcome.exit_status)


def _verdict(error: BaseException, with_traceback: bool) -> tuple[str, int]:
    """What to say of an error, and the exit status."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", INTERRUPTED
    if isinstance(error, RelayLayoutError | OSError):
        return f"error: {one_line(_reason(error))}", BAD_INPUT
    if isinstance(error, MemoryError):
        return f"error: out of memory: {one_line(first_line(error))}", INTERNAL_ERROR
    # TVM's errors may hold the whole module, below what they say of it.
    message = one_line(f"{type(error).__name__}: {first_line(error)}")
    hint = "please report it" if with_traceback else "please report it with the output of --traceback"
    return f"internal error: {message}; {hint}", INTERNAL_ERROR


def _reason(error: Exception) -> str:
    return system_message(error) if isinstance(error, OSError) else str(error)


def _help() -> str:
    verbs = columns([["", verb, description] for verb, description in VERBS.items()])
    return (
        "usage: relay-layout VERB ...\n\n"
        "Compile convolutional networks with layouts chosen for the whole graph.\n\n"
        f"verbs:\n{verbs}\n\n"
        "options:\n"
        "  -h, --help  show this help; relay-layout VERB --help shows a verb's\n"
        "  --version   show the version"
    )


if __name__ == "__main__":
    sys.exit(main())
