"""Whole AutoTVM logs as records of ours, with a report of what could not be carried."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from relay_layout.errors import InputError
from relay_layout.tuning.autotvm import AutoTvmRecord, parse_line
from relay_layout.tuning.translate import nearest, processor_named, translate
from topi_ext.errors import RelayLayoutError
from topi_ext.files.whole_file import opened
from topi_ext.tune.records.record import ANY_THREADS, TuningRecord, knobs_key

LONGEST_LINE = 1 << 20
"""Bytes."""


@dataclass
class Import:
    """What became of a log.

    ``records`` are one for each kernel with the same knobs, the fastest. ``carried`` counts the lines behind
    them, ``failed`` those that AutoTVM itself could not measure; ``refused`` has the numbers of all others by
    reason.
    """

    records: list[TuningRecord] = field(default_factory=list)
    lines: int = 0
    carried: int = 0
    failed: dict[str, list[int]] = field(default_factory=dict)
    refused: dict[str, list[int]] = field(default_factory=dict)

    def report(self) -> dict[str, Any]:
        """The same as fields of JSON."""
        return {
            "lines": self.lines,
            "carried": self.carried,
            "records": len(self.records),
            "workloads": len({record.workload for record in self.records}),
            "failed": self.failed,
            "refused": self.refused,
        }


def import_log(path: Path, threads: int) -> Import:
    """Translate a log of AutoTVM; ``threads`` is what knobs are chosen for.

    Never fails for what the log holds; OSError where it cannot be read.
    """
    found = Import()
    best: dict[tuple[str, str, str], TuningRecord] = {}
    for number, text in _lines(path):
        if text is not None and (not text.strip() or text.startswith("#")):
            continue
        found.lines += 1
        try:
            if text is None:
                raise InputError(f"longer than {LONGEST_LINE} bytes, or not UTF-8 text")
            old = parse_line(text)
            record = _record(old, threads)
        except RelayLayoutError as error:
            found.refused.setdefault(str(error), []).append(number)
            continue
        if old.error:
            found.failed.setdefault(old.error, []).append(number)
            continue
        found.carried += 1
        key = (record.workload.to_json(), record.processor, knobs_key(record.knobs))
        if key not in best or record.cost < best[key].cost:
            best[key] = record
    found.records = [best[key] for key in sorted(best)]
    return found


def _record(old: AutoTvmRecord, threads: int) -> TuningRecord:
    processor = processor_named(old.target, threads)
    translation = translate(old)
    candidate = nearest(translation, processor)
    return TuningRecord(
        workload=translation.workload,
        processor=processor.name,
        threads=ANY_THREADS,
        knobs=candidate.fields,
        seconds=old.seconds,
        error=old.error,
        origin="inherited",
        cpu=old.target,
        time=_time(old.timestamp),
        versions={"tvm": old.tvm_version} if old.tvm_version else {},
    )


def _time(timestamp: float) -> str:
    if not timestamp:
        return ""
    try:
        return datetime.fromtimestamp(timestamp, timezone.utc).isoformat(timespec="seconds")
    except (OverflowError, OSError, ValueError):
        return ""


def _lines(path: Path) -> Iterator[tuple[int, str | None]]:
    """Numbered lines, None where one is too long or no text."""
    with opened(path) as file:
        number = 0
        while line := file.readline(LONGEST_LINE + 1):
            number += 1
            if len(line) > LONGEST_LINE:
                while line and not line.endswith(b"\n"):
                    line = file.readline(LONGEST_LINE)
                yield number, None
                continue
            try:
                yield number, line.decode()
            except UnicodeDecodeError:
                yield number, None
