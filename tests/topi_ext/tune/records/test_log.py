"""Logs: appending together, being killed, reading what others left, merging."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from topi_ext.tune.records.log import LONGEST_LINE, Problem, append, is_log, load, merged, read, write
from topi_ext.tune.records.record import TuningRecord

MakeRecord = Callable[..., TuningRecord]

ROOT = Path(__file__).resolve().parents[4]

APPENDER = """
import os
import signal
import sys
from dataclasses import replace
from itertools import count
from pathlib import Path
from topi_ext.tune.records.log import append
from topi_ext.tune.records.record import TuningRecord

log, record = Path(sys.argv[1]), TuningRecord.from_json(sys.argv[2])
parent = os.getpid()
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for name in map(str.strip, sys.stdin):
    if os.fork():
        continue
    for number in count():
        if os.getppid() != parent:
            os._exit(1)
        append(log, replace(record, cpu=f"{name} {number} " + "x" * (number * 37 % 5000)))
        os.write(1, f"{os.getpid()} {name} {number}\\n".encode())
"""
"""Starts a writer for each name that it reads; each tells of the records that it has written."""


def test_appended_records_are_read_in_order(tmp_path: Path, make_record: MakeRecord) -> None:
    log = tmp_path / "log.jsonl"
    records = [make_record(float(number)) for number in range(1, 4)]
    for record in records:
        append(log, record)
    assert list(read(log)) == records


def test_a_torn_line_takes_no_other_with_it(tmp_path: Path, make_record: MakeRecord) -> None:
    log = tmp_path / "log.jsonl"
    append(log, make_record(1.0))
    whole = log.read_bytes()
    log.write_bytes(whole + whole[:100])
    append(log, make_record(2.0))
    first, torn, second = read(log)
    assert (first, second) == (make_record(1.0), make_record(2.0))
    assert isinstance(torn, Problem)
    assert (torn.path, torn.line) == (log, 2)
    assert torn.reason.startswith("not JSON: ")


def test_bad_lines_are_reported_with_their_number(tmp_path: Path, make_record: MakeRecord) -> None:
    log = tmp_path / "log.jsonl"
    good = make_record(1.0).to_json().encode()
    long = b'{"schema": "' + b"x" * LONGEST_LINE + b'"}'
    log.write_bytes(b"\n".join([good, b"", b"\xff\xfe", long, b"{}", good]))
    found = list(read(log))
    assert [str(item) for item in found[1:-1]] == [
        f"{log}:3: not UTF-8 text",
        f"{log}:4: longer than {LONGEST_LINE} bytes",
        f"{log}:5: not a tuning record: it has no schema",
    ]
    assert found[0] == found[-1] == make_record(1.0)


@pytest.mark.parametrize(
    ("text", "found"),
    [("", True), ('{"workload": {', True), ('{"a": 1}\n', False), ('{"a": 1}', True), ("a\nb\n", False)],
)
def test_what_may_be_a_log(tmp_path: Path, text: str, found: bool) -> None:
    """A file of other lines is none; a single line that nobody ended may be torn."""
    path = tmp_path / "log.jsonl"
    path.write_text(text)
    assert is_log(path) == found


def test_a_log_may_begin_with_what_is_no_record(tmp_path: Path, make_record: MakeRecord) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("# notes\n")
    append(path, make_record(1.0))
    assert is_log(path)


def test_what_editors_put_at_the_beginning_costs_no_record(tmp_path: Path, make_record: MakeRecord) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(make_record(1.0).to_json() + "\n", encoding="utf-8-sig")
    assert list(read(log)) == [make_record(1.0)]


def test_the_longest_line_that_counts(tmp_path: Path, make_record: MakeRecord) -> None:
    log = tmp_path / "log.jsonl"
    length = len(make_record(1.0, cpu="").to_json()) + 1
    longest = make_record(1.0, cpu="x" * (LONGEST_LINE - length))
    append(log, longest)
    assert log.stat().st_size == LONGEST_LINE
    assert list(read(log)) == [longest]


def test_a_disk_that_is_full_is_told(
    tmp_path: Path, make_record: MakeRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "write", lambda descriptor, data: len(data) // 2)
    with pytest.raises(OSError, match="only part of a record could be written; is the disk full"):
        append(tmp_path / "log.jsonl", make_record(1.0))


def test_errors_of_a_full_disk_name_the_log(
    tmp_path: Path, make_record: MakeRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    log = tmp_path / "log.jsonl"
    for work in (lambda: append(log, make_record(1.0)), lambda: write(log, [make_record(1.0)])):
        with pytest.raises(OSError) as error:
            work()
        assert (error.value.errno, error.value.filename) == (errno.ENOSPC, str(log))


def test_killed_writers_lose_no_record(tmp_path: Path, make_record: MakeRecord) -> None:
    log = tmp_path / "log.jsonl"
    words = [sys.executable, "-c", APPENDER, str(log), make_record(1.0).to_json()]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    told: list[str] = []
    kills = 0
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
    ) as starter:
        assert starter.stdin is not None and starter.stdout is not None
        for turn in range(10):
            writers: dict[str, int] = {}
            print(f"{turn}a", f"{turn}b", sep="\n", file=starter.stdin, flush=True)
            while len(writers) < 2:
                told.append(starter.stdout.readline())
                process, name, _ = told[-1].split()
                if name.startswith(str(turn)):
                    writers[name] = int(process)
            for place, process_number in enumerate(writers.values()):
                # Another moment of the write each time.
                time.sleep(0.0007 * (2 * turn + place))
                os.kill(process_number, signal.SIGKILL)
                kills += 1
        starter.stdin.close()
        told += starter.stdout
    said = {line.partition(" ")[2].strip() for line in told}
    records, problems = load([log])
    written = [" ".join(record.cpu.split(" ")[:2]) for record in records]
    assert kills == 20 and len({line.split()[0] for line in said}) == 20
    assert said <= set(written)
    assert len(written) == len(set(written))
    assert len(problems) <= kills


def test_merging_keeps_the_best_of_each_kind(make_record: MakeRecord) -> None:
    slow, fast = make_record(*[2.0] * 9), make_record(*[1.0] * 9, knobs={"lanes": 8})
    failed = make_record(error="run: no", threads=4)
    single = make_record(3.0, threads=1)
    inherited = make_record(0.5, origin="inherited")
    winograd = make_record(4.0, knobs={"algorithm": "winograd"})
    found = merged([slow, inherited, fast, failed, single, winograd])
    assert sorted(found, key=lambda record: record.cost) == [inherited, fast, single, winograd]


def test_the_best_of_each_model_of_cpu_stays(make_record: MakeRecord) -> None:
    fast, slow = make_record(1.0, cpu="fast"), make_record(3.0, cpu="slow")
    assert merged([slow, make_record(4.0, cpu="slow", knobs={"lanes": 8}), fast]) == [fast, slow]


def test_merging_does_not_depend_on_the_order(make_record: MakeRecord) -> None:
    records = [make_record(1.0), make_record(2.0, threads=1), make_record(3.0, processor="aarch64 NEON")]
    assert merged(records) == merged(records[::-1])


def test_what_was_measured_longer_counts(make_record: MakeRecord) -> None:
    lucky, confirmed = make_record(1.0, 1.0, 1.0), make_record(*[1.3] * 9)
    rival = make_record(*[1.2] * 9, knobs={"lanes": 8})
    assert merged([lucky, confirmed, rival]) == [rival]


def test_one_short_measurement_must_be_clearly_better(make_record: MakeRecord) -> None:
    confirmed = make_record(*[1.0] * 9)
    nearly, clearly = (make_record(time, knobs={"lanes": 8}) for time in (0.97, 0.9))
    assert merged([confirmed, nearly]) == [confirmed]
    assert merged([confirmed, clearly]) == [clearly]


def test_writing_replaces_a_log_as_a_whole(tmp_path: Path, make_record: MakeRecord) -> None:
    log = tmp_path / "log.jsonl"
    write(log, [make_record(1.0)])
    write(log, [make_record(2.0), make_record(3.0)])
    assert list(read(log)) == [make_record(2.0), make_record(3.0)]
    assert [path.name for path in tmp_path.iterdir()] == ["log.jsonl"]


def test_writing_that_fails_leaves_what_was_there(tmp_path: Path, make_record: MakeRecord) -> None:
    log = tmp_path / "log.jsonl"
    write(log, [make_record(1.0)])
    with pytest.raises(ValueError, match="Out of range float values are not JSON compliant"):
        write(log, [make_record(2.0), make_record(float("inf"))])
    assert list(read(log)) == [make_record(1.0)]
    assert [path.name for path in tmp_path.iterdir()] == ["log.jsonl"]


def test_a_line_is_json_for_anybody(tmp_path: Path, make_record: MakeRecord) -> None:
    log = tmp_path / "log.jsonl"
    append(log, make_record(0.25, cpu="ein Prozessor für alle"))
    (line,) = log.read_text().splitlines()
    assert json.loads(line)["seconds"] == [0.25]


def test_an_unfinished_last_line_says_so(tmp_path: Path, make_record: MakeRecord) -> None:
    log = tmp_path / "log.jsonl"
    append(log, make_record(1.0))
    log.write_text(log.read_text() + make_record(1.0).to_json()[:-40])
    _, problems = load([log])
    assert list(map(str, problems)) == [f"{log}:2: unfinished, as of a writer that was killed"]


def test_a_device_is_no_log() -> None:
    with pytest.raises(OSError, match="it is a device, not a file"):
        next(read(Path("/dev/null")))
