"""The tuning records that targets know of: those of the package, and those of the caller."""

import os
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import tuning_logs
from relay_layout.errors import InputError, RelayLayoutWarning
from topi_ext.messages import system_message
from topi_ext.tune.records.database import Database
from topi_ext.tune.records.log import Problem, is_log, load, read
from topi_ext.tune.records.record import ANY_THREADS, Record
from topi_ext.tune.records.recorded import RecordedKernels

_MOST_NAMED = 3
_MOST_BYTES = 1 << 16
_OF_AUTOTVM = b'"tvm_version"'
"""What every line of AutoTVM's logs holds, and no line of ours."""


def recorded_kernels(
    processor: str,
    paths: Sequence[str | os.PathLike[str]] = (),
    shipped: bool = True,
    cpu: str = "",
    threads: int | None = None,
) -> RecordedKernels:
    """The kernels on record in ``paths`` and, if ``shipped``, in the package's logs of that processor.

    What was measured on the model ``cpu`` comes first; where ``paths`` hold nothing of that, the model that
    they hold most of. Lines that are no records are skipped with a warning, and so is it where none of
    ``paths`` is of that processor and, if given, that number of ``threads``. Raises InputError for a file
    that cannot be read, or that is no log.
    """
    if not _are_paths(paths):
        raise InputError(f"tuning records: a list of logs is needed, not {paths!r}")
    if not paths:
        return _shipped(processor, cpu) if shipped else RecordedKernels(Database())
    own = tuple(Path(path) for path in paths)
    try:
        records = records_of(own)
    except OSError as error:
        raise InputError(f"tuning records: {system_message(error)}") from None
    _warn_where_none_fits(records, processor, threads)
    theirs = load(tuning_logs.paths_of(processor))[0] if shipped else []
    return RecordedKernels(Database([*theirs, *records], _preferred(records, processor, cpu)))


def _warn_where_none_fits(records: Sequence[Record], processor: str, threads: int | None) -> None:
    wanted = (threads, ANY_THREADS)
    found = Counter((record.processor, record.threads) for record in records)
    if not found or any(name == processor and (threads is None or of in wanted) for name, of in found):
        return
    here = _machine(processor, threads or ANY_THREADS)
    listed = ", ".join(_machine(name, of) for (name, of), _ in found.most_common(_MOST_NAMED))
    more = ", ..." if len(found) > _MOST_NAMED else ""
    warnings.warn(
        f"tuning records: none of the {len(records)} is of {here}, so that they choose no kernel there; they "
        f"are of {listed}{more}",
        RelayLayoutWarning,
        stacklevel=3,
    )


def _machine(processor: str, threads: int) -> str:
    return processor if threads == ANY_THREADS else f"{processor} with threads: {threads}"


def _are_paths(paths: object) -> bool:
    if isinstance(paths, str | bytes) or not isinstance(paths, Sequence):
        return False
    return all(isinstance(path, str | os.PathLike) for path in paths)


def records_of(paths: Sequence[Path]) -> list[Record]:
    """All records of logs; lines that are none are skipped with a warning.

    InputError for a file in which nothing is a record; OSError where one cannot be read.
    """
    check_logs(paths)
    records, problems = load(paths)
    if problems:
        named = "; ".join(map(str, problems[:_MOST_NAMED]))
        more = len(problems) - _MOST_NAMED
        rest = f"; and {more} more" if more > 0 else ""
        warnings.warn(f"tuning records: lines skipped: {named}{rest}", RelayLayoutWarning, stacklevel=3)
    return records


def check_logs(paths: Iterable[Path]) -> None:
    """Raises InputError for a file in which nothing is a record; OSError where one cannot be read."""
    for path in paths:
        if not is_log(path):
            with open(path, "rb") as file:
                old = _OF_AUTOTVM in file.readline(_MOST_BYTES)
            first = next(found for found in read(path) if isinstance(found, Problem))
            why = (
                "; of AutoTVM's log relay-layout import-log makes starting points"
                if old
                else f"; line {first.line}: {first.reason}"
            )
            raise InputError(
                f"tuning records: {path} is no tuning log: not one of its lines is a record{why}"
            )


@cache
def _shipped(processor: str, cpu: str) -> RecordedKernels:
    return RecordedKernels(Database.load(tuning_logs.paths_of(processor), cpu)[0])


def _preferred(records: Iterable[Record], processor: str, cpu: str) -> str:
    measured = Counter(
        record.cpu for record in records if record.processor == processor and record.origin == "measured"
    )
    return cpu if cpu in measured or not measured else measured.most_common(1)[0][0]
