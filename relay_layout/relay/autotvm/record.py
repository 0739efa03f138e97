"""``autotvm.record``: logs, as pairs of what was measured and what came of it."""

import os
from collections.abc import Iterator
from pathlib import Path

from relay_layout.relay.autotvm.measure import MeasureInput, MeasureResult, outcome
from relay_layout.relay.autotvm.task import ConfigEntity, Task
from relay_layout.relay.missing import refuser
from relay_layout.targets.records import records_of
from topi_ext.tune.records.log import merged, write
from topi_ext.tune.records.record import TuningRecord

__getattr__ = refuser(__name__, "tvm.autotvm.record")

_FilePath = str | os.PathLike[str]


def load_from_file(path: _FilePath) -> Iterator[tuple[MeasureInput, MeasureResult]]:
    """The kernels of a log in order. InputError for what is no log; OSError where it cannot be read."""
    return (pair(record) for record in records_of([Path(path)]) if isinstance(record, TuningRecord))


def pair(record: TuningRecord) -> tuple[MeasureInput, MeasureResult]:
    """A record as callbacks are told of it; its task has no target."""
    return MeasureInput(Task(record.workload), ConfigEntity(record.knobs), record), outcome(record)


def encode(inp: MeasureInput, result: MeasureResult, protocol: str = "json") -> str:
    """The line of a log."""
    if protocol != "json":
        raise ValueError(f"encode: protocol {protocol!r} is not known; use 'json'")
    return inp.record.to_json()


def decode(row: str, protocol: str = "json") -> tuple[MeasureInput, MeasureResult]:
    """What a line of a log says; RelayLayoutError with the first thing that is wrong with it."""
    if protocol != "json":
        raise ValueError(f"decode: protocol {protocol!r} is not known; use 'json'")
    return pair(TuningRecord.from_json(row))


def pick_best(in_file: _FilePath, out_file: _FilePath) -> None:
    """Keep of a log the best of each kernel, with what ``out_file`` holds already, as ``log merge`` does.

    InputError for what is no log; OSError for what cannot be read or written.
    """
    logs = [Path(path) for path in (out_file, in_file) if path == in_file or Path(path).exists()]
    write(Path(out_file), merged(records_of(logs)))
