"""Logs: files of one record per line, that several tuners append to and that survive being killed."""

import os
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from topi_ext.errors import RelayLayoutError
from topi_ext.files.whole_file import opened, replaced
from topi_ext.tune.records.ranking import best_repeated, rank_records
from topi_ext.tune.records.record import Record, TransformRecord, TuningRecord, record_from_json

LONGEST_LINE = 64 << 10
"""Bytes; a record takes about 1000."""

_UNFINISHED = "unfinished, as of a writer that was killed"


@dataclass(frozen=True)
class Problem:
    """A line that is no record, and why; lines count from 1."""

    path: Path
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.reason}"


def append(path: Path, record: Record) -> None:
    """Add one line, on disk when this returns.

    Whoever is killed in the middle leaves a torn line at the end, which the next writer closes, so that no
    other record is lost. OSError where the file cannot be written.
    """
    import fcntl  # of POSIX systems alone, and only tuning appends

    line = record.to_json().encode() + b"\n"
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            line = b"\n" + line
        written = os.write(descriptor, line)
        if written != len(line):
            raise OSError(None, "only part of a record could be written; is the disk full?", str(path))
        os.fsync(descriptor)
    except OSError as error:
        # That of a full disk names no file.
        error.filename = str(path)
        raise
    finally:
        os.close(descriptor)


def appender(path: Path) -> Callable[[Record], None]:
    """What adds a record to that log, as :func:`append`."""
    return partial(append, path)


def read(path: Path) -> Iterator[Record | Problem]:
    """The records of a log in order, with a problem in place of each line that holds none.

    Lines are read as they are asked for. OSError where the file cannot be read.
    """
    with opened(path) as file:
        number = 0
        while line := file.readline(LONGEST_LINE + 1):
            number += 1
            if number == 1:
                line = line.removeprefix(BOM_UTF8)  # that editors leave
            if len(line) > LONGEST_LINE:
                _skip_line(file, line)
                yield Problem(path, number, f"longer than {LONGEST_LINE} bytes")
            elif line.strip():
                try:
                    yield record_from_json(line.decode())
                except UnicodeDecodeError:
                    yield Problem(path, number, "not UTF-8 text")
                except RelayLayoutError as error:
                    yield Problem(path, number, _UNFINISHED if _is_torn(line) else str(error))


def is_log(path: Path) -> bool:
    """Whether a file holds a record, or nothing but the torn line of a writer that was killed.

    Others are no logs, whatever their name is. OSError where the file cannot be read.
    """
    if not isinstance(next(read(path), None), Problem):
        return True
    with opened(path) as file:
        line = file.readline(LONGEST_LINE)
        alone = not file.read(1)
    return (alone and _is_torn(line)) or any(not isinstance(found, Problem) for found in read(path))


def load(paths: Iterable[Path]) -> tuple[list[Record], list[Problem]]:
    """All records of several logs, and all problems."""
    records: list[Record] = []
    problems: list[Problem] = []
    for path in paths:
        for found in read(path):
            if isinstance(found, Problem):
                problems.append(found)
            else:
                records.append(found)
    return records, problems


def merged(records: Iterable[Record]) -> list[Record]:
    """The best record of each workload, processor and model, number of threads, origin and algorithm.

    Sorted by these; failures are left out. Algorithms count apart because a compilation may refuse the less
    exact ones. Of a transform, which has nothing to choose, the record with the most repeats is best, then
    the latest.
    """
    kernels: dict[tuple[str, str, int, str, str, str], list[TuningRecord]] = {}
    transforms: dict[str, list[TransformRecord]] = {}
    for record in records:
        if isinstance(record, TransformRecord):
            transforms.setdefault(record.cpu, []).append(record)
            continue
        kernel = record.workload.to_json()
        key = (kernel, record.processor, record.threads, record.origin, record.algorithm, record.cpu)
        kernels.setdefault(key, []).append(record)
    ranked = (rank_records(kernels[key]) for key in sorted(kernels))
    moved = (best_repeated(transforms[cpu]) for cpu in sorted(transforms))
    return [*[found[0] for found in ranked if found], *chain.from_iterable(moved)]


def write(path: Path, records: Iterable[Record]) -> None:
    """Replace ``path`` by a log of ``records``, whole or not at all; OSError where it cannot be written."""
    with replaced(path) as file:
        file.writelines(record.to_json().encode() + b"\n" for record in records)


def _is_torn(line: bytes) -> bool:
    """Whether a line is the begin of a record, and not all of it."""
    return line.startswith(b"{") and not line.endswith(b"\n")


def _skip_line(file: BinaryIO, line: bytes) -> None:
    while line and not line.endswith(b"\n"):
        line = file.readline(LONGEST_LINE)
