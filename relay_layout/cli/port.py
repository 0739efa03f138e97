"""``relay-layout port SCRIPT``: a script written for Relay, rewritten for today's TVM."""

import os
import stat
from argparse import ArgumentParser, Namespace

from relay_layout.cli import options
from relay_layout.cli.output import Outcome, note, one_line
from relay_layout.errors import InputError
from topi_ext.files.whole_file import replaced

_MOST_BYTES = 16 << 20


def add_arguments(parser: ArgumentParser) -> None:
    """Declares the verb's arguments."""
    parser.add_argument("script", metavar="SCRIPT", help="a Python script that uses Relay (TVM up to 0.18)")
    parser.add_argument(
        "-o", "--output", metavar="OUT", help="the file to write; otherwise the script is printed"
    )
    parser.add_argument("--force", action="store_true", help="with -o, write over a file that differs")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if a line cannot be carried"
    )


def run(arguments: Namespace) -> Outcome:
    """Ports the script; says on standard error which lines could not be carried."""
    for option, given in (("-o", arguments.output is not None), ("--force", arguments.force)):
        if arguments.check and given:
            raise InputError(f"--check writes nothing, so it cannot be combined with {option}")
    if arguments.force and arguments.output is None:
        raise InputError("--force says what to do with the file of -o, but there is no -o")
    if arguments.output is not None:
        options.check_writable("-o", arguments.output)
    source = _read(arguments.script)
    from relay_layout.port import port_source

    ported = port_source(source, arguments.script)
    for place in ported.not_carried:
        where = f"{arguments.script}:{place.line}:{place.column}"
        note(one_line(f"{where}: {place.name}: {place.reason}"))
    summary = _summary(ported.changed, len(ported.not_carried))
    places = [
        {"line": place.line, "column": place.column, "name": place.name, "reason": place.reason}
        for place in ported.not_carried
    ]
    report = {"changed": ported.changed, "not_carried": places}
    if arguments.check:
        return Outcome(report, summary, 1 if places else 0)
    if arguments.output is not None:
        _write(arguments.output, ported.source, arguments.script, arguments.force)
        return Outcome(report, summary)
    note(summary)
    # Whoever prints the text ends the last line.
    return Outcome(report, ported.text.removesuffix("\n"))


def _summary(changed: int, left: int) -> str:
    lines = f"{changed} line{'' if changed == 1 else 's'} changed"
    return f"{lines}, {f'{left} could not be carried' if left else 'everything carried'}"


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise InputError(f"{path}: not a regular file")
        source = file.read(_MOST_BYTES + 1)
    if len(source) > _MOST_BYTES:
        raise InputError(f"{path}: a script of more than {_MOST_BYTES >> 20} MiB")
    return source


def _write(path: str, source: bytes, script: str, force: bool) -> None:
    """Writes the file whole or not at all, with the script's permissions."""
    target = os.path.realpath(path)
    if os.path.exists(target):
        with open(target, "rb") as file:
            if file.read() == source:
                return
        if not force:
            raise InputError(f"-o: {path} exists and differs; --force writes over it")
    with replaced(target, stat.S_IMODE(os.stat(script).st_mode) & 0o777) as file:
        file.write(source)
