"""Layout transforms: their records, and what others take by these."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from topi_ext.errors import RelayLayoutError
from topi_ext.machine.processor import Processor
from topi_ext.tune.records.database import Database
from topi_ext.tune.records.log import append, load, merged
from topi_ext.tune.records.record import TransformRecord, TuningRecord, record_from_json
from topi_ext.tune.records.transforms import TransformTimes
from topi_ext.workloads.transform import TransformWorkload


def moved(size: int, **changes: Any) -> TransformWorkload:
    return replace(TransformWorkload("NCHW", (1, 16, size, size), "NCHW", "NHWC", "float32"), **changes)


def record(workload: TransformWorkload, *microseconds: float, **changes: Any) -> TransformRecord:
    seconds = tuple(each * 1e-6 for each in microseconds)
    fields: dict[str, Any] = {"cpu": "test machine", "time": "2026-01-02T03:04:05.000+00:00"}
    return TransformRecord(workload, "x86-64 AVX-512", 2, seconds, **(fields | changes))


def test_a_record_is_a_line_like_those_of_kernels() -> None:
    line = record(moved(8), 1.0, 2.0, 4.0, versions={"tvm": "0.27"}).to_json()
    assert "\n" not in line
    assert record_from_json(line) == record(moved(8), 1.0, 2.0, 4.0, versions={"tvm": "0.27"})
    assert json.loads(line)["workload"] == {
        "axes": "NCHW",
        "dtype": "float32",
        "operator": "layout_transform",
        "shape": [1, 16, 8, 8],
        "source_layout": "NCHW",
        "target_layout": "NHWC",
    }
    assert record(moved(8), 1.0, 2.0, 4.0).cost == pytest.approx(2e-6)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("axes", "NCHC", "workload: axes: expected different capital letters such as NCHW"),
        ("axes", 4, "workload: axes: expected different capital letters such as NCHW"),
        ("shape", [1, 16, 8], "workload: shape: expected 4 whole numbers of at least 1"),
        ("shape", [1, 16, 8, 0], "workload: shape: expected 4 whole numbers of at least 1"),
        ("shape", [1, 16, 8, True], "workload: shape: expected 4 whole numbers of at least 1"),
        ("source_layout", "NCHD", "workload: source_layout: expected a layout of the axes NCHW"),
        ("target_layout", "NCHW16", "workload: target_layout: expected a layout of the axes NCHW"),
        ("target_layout", None, "workload: target_layout: expected a layout of the axes NCHW"),
        ("dtype", "", "workload: dtype: expected a data type such as float32"),
        ("groups", 1, 'workload with unknown field "groups"'),
    ],
)
def test_a_changed_record_is_refused(name: str, value: Any, reason: str) -> None:
    found = json.loads(record(moved(8), 1.0).to_json())
    found["workload"][name] = value
    with pytest.raises(RelayLayoutError) as caught:
        record_from_json(json.dumps(found))
    assert str(caught.value) == reason


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("threads", 0, "threads: expected a whole number of at least 1"),
        ("seconds", [], "expected either seconds or an error"),
        ("knobs", {}, 'record with unknown field "knobs"'),
        ("schema", 2, "unknown schema; this version reads schema 1"),
    ],
)
def test_its_own_fields_are_checked(name: str, value: Any, reason: str) -> None:
    found = json.loads(record(moved(8), 1.0).to_json()) | {name: value}
    with pytest.raises(RelayLayoutError) as caught:
        record_from_json(json.dumps(found))
    assert str(caught.value) == reason


def test_a_log_holds_both_kinds(tmp_path: Path, make_record: Any, processor: Processor) -> None:
    log = tmp_path / "log.jsonl"
    kernel, transform = make_record(1.0), record(moved(8), 1.0)
    append(log, transform)
    append(log, kernel)
    with open(log, "a") as file:
        file.write("oops\n")
    found, problems = load([log])
    assert found == [transform, kernel]
    assert [problem.line for problem in problems] == [3]
    database = Database(found)
    assert database.transforms(processor) == [transform]
    assert database.of_processor(processor) == [kernel]


def test_merging_keeps_the_one_with_most_repeats_then_the_latest(make_record: Any) -> None:
    short, often = record(moved(8), 1.0), record(moved(8), 3.0, 3.0)
    later = record(moved(8), 2.0, 2.0, time="2027-01-01T00:00:00.000+00:00")
    failed = record(moved(16), error="run: no")
    other = record(moved(16), 5.0)
    kernel = make_record(1.0)
    found = merged([other, short, later, failed, often, kernel])
    assert [one for one in found if isinstance(one, TuningRecord)] == [kernel]
    assert sorted((one.cost for one in found[1:]), reverse=True) == [other.cost, later.cost]


def test_transforms_are_of_a_processor_and_a_number_of_threads(processor: Processor) -> None:
    other = [replace(record(moved(8), 1.0), threads=1), replace(record(moved(8), 1.0), processor="other")]
    database = Database(other)
    assert database.transforms(processor) == []
    assert not database.has_transform(moved(8), processor, "test machine")
    database.add(record(moved(8), error="run: no"))
    assert database.transforms(processor) == []
    assert database.has_transform(moved(8), processor, "test machine")
    assert not database.has_transform(moved(8), processor, "another machine")


def test_a_measured_transform_takes_what_was_measured() -> None:
    times = TransformTimes([record(moved(8), 3.0), record(moved(16), 40.0)])
    found = times.time(moved(8))
    assert found is not None
    assert (found.source, found.microseconds) == ("measured", pytest.approx(3.0))


def microseconds(times: TransformTimes, size: int) -> float:
    found = times.time(moved(size))
    assert found is not None and found.source == "fitted"
    return found.microseconds


def test_of_others_the_time_is_read_off_a_curve() -> None:
    """Of ratios: where four times the elements take eight times as long, twice take the root of eight."""
    times = TransformTimes([record(moved(8), 1.0), record(moved(32), 64.0), record(moved(16), 8.0)])
    assert microseconds(times, 12) == pytest.approx((12 / 8) ** 3)
    assert microseconds(times, 24) == pytest.approx((24 / 8) ** 3)


def test_tensors_beyond_a_cache_take_longer_for_each_element() -> None:
    times = TransformTimes([record(moved(size), us) for size, us in ((8, 1.0), (32, 16.0), (64, 640.0))])
    assert microseconds(times, 16) == pytest.approx(4.0)
    assert 100.0 < microseconds(times, 48) < 300.0


def test_beyond_what_was_measured_the_time_grows_with_the_size() -> None:
    times = TransformTimes([record(moved(8), 1.0), record(moved(16), 40.0)])
    assert microseconds(times, 4) == pytest.approx(0.25)
    assert microseconds(times, 32) == pytest.approx(160.0)


def test_a_larger_tensor_never_takes_less() -> None:
    """Both that say so are taken to be as far off, by a factor."""
    measured = ((8, 1.0), (16, 9.0), (24, 4.0), (32, 36.0))
    times = TransformTimes([record(moved(size), us) for size, us in measured])
    assert microseconds(times, 20) == pytest.approx(6.0)
    found = [microseconds(times, size) for size in range(1, 60) if size not in (8, 16, 24, 32)]
    assert found == sorted(found)


@pytest.mark.parametrize(
    "workload",
    [
        moved(24, dtype="int8"),
        moved(24, source_layout="NHWC", target_layout="NCHW"),
        moved(24, target_layout="NCHW16c"),
    ],
)
def test_other_pairs_say_nothing(workload: TransformWorkload) -> None:
    times = TransformTimes([record(moved(8), 1.0), record(moved(16), 4.0)])
    assert times.time(workload) is None


def test_one_size_is_no_curve() -> None:
    records = [record(moved(8), 1.0), record(moved(8, shape=(1, 8, 8, 16)), 2.0)]
    assert TransformTimes(records).time(moved(16)) is None
