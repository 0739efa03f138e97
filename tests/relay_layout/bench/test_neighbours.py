"""Processes that compute beside what is measured."""

import os
import time
from pathlib import Path

import pytest

from relay_layout.bench.neighbours import NICENESS, neighbours


def children() -> dict[int, list[str]]:
    """The fields of /proc/PID/stat from the state on, of every process that this one has started."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            found[int(path.parent.name)] = fields
    return found


def test_they_compute_until_the_block_ends() -> None:
    before = set(children())
    lowered = min(19, os.getpriority(os.PRIO_PROCESS, 0) + NICENESS)
    with pytest.raises(ZeroDivisionError), neighbours(2):
        time.sleep(0.5)
        beside = {pid: fields for pid, fields in children().items() if pid not in before}
        assert [int(fields[16]) for fields in beside.values()] == [lowered] * 2
        assert all(fields[0] == "R" for fields in beside.values())
        raise ZeroDivisionError
    assert set(children()) == before
