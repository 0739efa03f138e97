"""Whole logs of AutoTVM: what is carried, and what the report says of the rest."""

import json
import random
from pathlib import Path

import pytest

from relay_layout.tuning.importing import LONGEST_LINE, import_log
from topi_ext.kernel import scheduled_kernel
from topi_ext.knobs import knobs_from_dict
from topi_ext.machine.processor import Processor
from topi_ext.tune.records.database import Database
from topi_ext.tune.records.record import TuningRecord

DATA = Path(__file__).parents[2] / "data" / "autotvm"


@pytest.mark.parametrize("name", ["x86", "arm_cpu"])
def test_a_sample_is_carried_as_a_whole(name: str) -> None:
    log = DATA / f"{name}.log"
    found = import_log(log, 2)
    measured = [line for line in log.read_text().splitlines()[1:] if json.loads(line)["result"][1] == 0]
    assert found.refused == {}
    assert found.carried == len(measured)
    assert found.lines == len(measured) + sum(map(len, found.failed.values()))
    for record in found.records:
        assert (record.origin, record.threads) == ("inherited", 0)
        assert TuningRecord.from_json(record.to_json()) == record


def test_costs_are_kept() -> None:
    log = DATA / "x86.log"
    costs = {
        tuple(raw["result"][0])
        for raw in map(json.loads, log.read_text().splitlines()[1:])
        if raw["result"][1] == 0
    }
    records = import_log(log, 2).records
    assert {record.seconds for record in records} <= costs
    assert all(record.time.startswith("2026-11-2") for record in records)


def test_inherited_knobs_make_kernels() -> None:
    for record in import_log(DATA / "x86.log", 2).records[:4]:
        scheduled_kernel(record.workload, knobs_from_dict(record.workload, record.knobs))


def test_tuning_starts_from_inherited_records_whatever_the_threads() -> None:
    records = import_log(DATA / "x86.log", 2).records
    database = Database(records)
    for threads in (1, 16):
        processor = Processor("x86-64 AVX-512 Intel", 64, 32, 2, 4, 2, 48 << 10, 2 << 20, threads)
        assert all(record in database.inherited(record.workload, processor) for record in records)


def test_the_fastest_of_equal_records_is_kept(tmp_path: Path) -> None:
    first = (DATA / "x86.log").read_text().splitlines()[1]
    faster = json.loads(first)
    faster["result"][0] = [1e-9]
    log = tmp_path / "twice.log"
    log.write_text(f"{first}\n{json.dumps(faster)}\n{first}\n")
    found = import_log(log, 2)
    assert (found.lines, found.carried) == (3, 3)
    assert [record.seconds for record in found.records] == [(1e-9,)]


def test_other_lines_are_reported_by_reason(tmp_path: Path) -> None:
    good = (DATA / "x86.log").read_text().splitlines()[1]
    unknown = good.replace("conv2d_NCHWc.x86", "conv2d_hwcn.x86")
    log = tmp_path / "mixed.log"
    lines = [b"# comment", good.encode(), b"oops", unknown.encode(), b"", b"\xff\xfe", unknown.encode()]
    lines.append(b'{"' + b"x" * LONGEST_LINE)
    log.write_bytes(b"\n".join([*lines, good.encode()]))
    found = import_log(log, 2)
    assert found.refused == {
        "not JSON: Expecting value at column 1": [3],
        "task conv2d_hwcn.x86 has no kernel with knobs here": [4, 7],
        f"longer than {LONGEST_LINE} bytes, or not UTF-8 text": [6, 8],
    }
    assert (found.lines, found.carried) == (7, 2)


def test_a_damaged_log_is_read_to_its_end(tmp_path: Path) -> None:
    draw = random.Random(1)
    lines = (DATA / "x86.log").read_text().splitlines()[1:] * 20
    damaged = []
    for line in lines:
        letters = list(line)
        for _ in range(draw.randint(1, 3)):
            letters[draw.randrange(len(letters))] = draw.choice('0123456789-.,:"[]{}abcT ')
        damaged.append("".join(letters))
    log = tmp_path / "damaged.log"
    log.write_text("\n".join(damaged))
    found = import_log(log, 2)
    refused = sum(map(len, found.refused.values()))
    assert found.lines == len(lines)
    assert found.carried + refused + sum(map(len, found.failed.values())) == len(lines)
    assert 0 < refused < len(lines)
    assert not any("\n" in reason for reason in found.refused)


def test_a_device_is_no_log() -> None:
    with pytest.raises(OSError, match="it is a device, not a file"):
        import_log(Path("/dev/null"), threads=1)
