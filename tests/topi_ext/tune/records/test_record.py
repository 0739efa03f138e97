"""Records: what is written can be read again, and whatever is no record is refused with its reason."""

import json
import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from kernel_workloads import pair, volume

from topi_ext.errors import RelayLayoutError
from topi_ext.tune.records.record import TuningRecord
from topi_ext.workloads.convolution import ConvolutionWorkload

MakeRecord = Callable[..., TuningRecord]


def test_what_is_written_is_read(make_record: MakeRecord) -> None:
    for record in (
        make_record(1e-3, 2e-3, 4e-3),
        make_record(error="run: longer than 20 s"),
        make_record(1e-3, origin="inherited", threads=0),
    ):
        text = record.to_json()
        assert "\n" not in text
        assert TuningRecord.from_json(text) == record


def test_a_flag_of_a_workload_is_written_where_it_is_set(make_record: MakeRecord) -> None:
    plain = make_record(1e-3)
    fitting = replace(plain, workload=replace(plain.workload, pairs_fit=True, spare_bits=6))
    assert "pairs_fit" not in plain.to_json() and "spare_bits" not in plain.to_json()
    assert TuningRecord.from_json(fitting.to_json()) == fitting


@pytest.mark.parametrize("workload", [volume(), pair()], ids=["volume", "pair"])
def test_other_workloads_are_read_as_what_they_were(
    workload: ConvolutionWorkload, make_record: MakeRecord
) -> None:
    record = replace(make_record(1e-3), workload=workload)
    read = TuningRecord.from_json(record.to_json())
    assert read == record and type(read.workload) is type(workload)


@pytest.mark.parametrize(
    ("workload", "field", "value", "reason"),
    [
        (volume(), "depth", 3, "depth: expected extent, taps, stride, padding in front and behind"),
        (volume(), "depth", [5, 3, 0, 1, 0, 1], "depth: expected extent, taps, stride, padding in front"),
        (volume(), "depth", [1, 3, 1, 0, 1, 1], "the kernel is larger than the image"),
        (pair(), "before", [8, 8, 3, 3], "before: expected 12 whole numbers: image, kernel, strides"),
        (pair(), "before", [8] * 12, "the depthwise convolution and the pointwise one do not fit together"),
        (pair(), "data_layout", "NCHW", "the depthwise convolution and the pointwise one do not fit"),
        (pair(), "kernel", [3, 3], "the depthwise convolution and the pointwise one do not fit together"),
        (pair(), "operator", "conv2d", 'with unknown field "before"'),
    ],
)
def test_a_changed_workload_is_refused(
    workload: ConvolutionWorkload, field: str, value: Any, reason: str, make_record: MakeRecord
) -> None:
    found = json.loads(replace(make_record(1e-3), workload=workload).to_json())
    found["workload"][field] = value
    with pytest.raises(RelayLayoutError, match=f"^workload:? {reason}"):
        TuningRecord.from_json(json.dumps(found))


def test_keys_are_sorted_and_the_schema_is_told(make_record: MakeRecord) -> None:
    found = json.loads(make_record(1e-3).to_json())
    assert list(found) == sorted(found)
    assert list(found["workload"]) == sorted(found["workload"])
    assert found["schema"] == 1


def test_cost_is_the_median(make_record: MakeRecord) -> None:
    assert make_record(3.0, 1.0, 8.0).cost == 3.0
    assert math.isinf(make_record(error="build: no").cost)


def test_algorithm_is_direct_unless_told(make_record: MakeRecord) -> None:
    assert make_record(1.0, knobs={"algorithm": "winograd"}).algorithm == "winograd"
    assert make_record(1.0, knobs={}).algorithm == "direct"


_GONE = object()


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("schema", _GONE, "not a tuning record: it has no schema"),
        ("schema", 2, "unknown schema; this version reads schema 1"),
        ("schema", True, "unknown schema; this version reads schema 1"),
        ("threads", _GONE, "record without field 'threads'"),
        ("colour", "red", 'record with unknown field "colour"'),
        ("origin", ["measured"], "unknown origin; expected one of measured, modelled, inherited"),
        ("origin", "guessed", "unknown origin; expected one of measured, modelled, inherited"),
        ("threads", 0, "threads: expected a whole number of at least 1"),
        ("threads", True, "threads: expected a whole number of at least 1"),
        ("threads", 2.0, "threads: expected a whole number of at least 1"),
        ("processor", 5, "processor: expected a string"),
        ("processor", "", "processor: expected a name"),
        ("cpu", None, "cpu: expected a string"),
        ("seconds", [-1e-3], "seconds: expected a list of run times above 0"),
        ("seconds", [0], "seconds: expected a list of run times above 0"),
        ("seconds", [True], "seconds: expected a list of run times above 0"),
        ("seconds", "0.1", "seconds: expected a list of run times above 0"),
        ("seconds", [], "expected either seconds or an error"),
        ("error", "run: no", "expected either seconds or an error"),
        ("knobs", [], "knobs: expected an object of numbers and strings"),
        ("knobs", {"lanes": [16]}, "knobs: expected an object of numbers and strings"),
        ("knobs", {"lanes": None}, "knobs: expected an object of numbers and strings"),
        ("versions", {"tvm": 1}, "versions: expected an object of strings"),
        ("workload", "conv2d", "workload: expected an object"),
        ("workload.groups", _GONE, "workload without field 'groups'"),
        ("workload.depth", 1, 'workload with unknown field "depth"'),
        ("workload.batch", "n", "workload: batch: expected a whole number of at least 1"),
        ("workload.in_channels", 0, "workload: in_channels: expected a whole number of at least 1"),
        ("workload.in_width", 1 << 40, "workload: in_width: expected a whole number of at least 1"),
        ("workload.strides", [0, 1], "workload: strides: expected 2 whole numbers of at least 1"),
        ("workload.padding", [1, 1], "workload: padding: expected 4 whole numbers of at least 0"),
        ("workload.kernel", 3, "workload: kernel: expected 2 whole numbers of at least 1"),
        ("workload.kernel", [30, 1], "workload: the kernel is larger than the image"),
        ("workload.out_layout", "nchw", "workload: out_layout: expected a layout such as NCHW16c"),
        ("workload.dtype", "float", "workload: dtype: expected a data type such as float32"),
        ("workload.out_dtype", ["float32"], "workload: out_dtype: expected a data type such as float32"),
        ("workload.operator", 1, "workload: operator: expected a string"),
        ("workload.groups", 3, "workload: 3 groups do not divide the channels"),
        ("workload.pairs_fit", False, "workload: pairs_fit: expected true, or no such field"),
        (
            "workload.spare_bits",
            0,
            "workload: spare_bits: expected a whole number of at least 1, or no such field",
        ),
    ],
)
def test_a_changed_record_is_refused(path: str, value: Any, reason: str, make_record: MakeRecord) -> None:
    found = json.loads(make_record(1e-3).to_json())
    *folders, name = path.split(".")
    place = found
    for folder in folders:
        place = place[folder]
    if value is _GONE:
        del place[name]
    else:
        place[name] = value
    with pytest.raises(RelayLayoutError) as caught:
        TuningRecord.from_json(json.dumps(found))
    assert str(caught.value) == reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON: Expecting value at column 1"),
        ('{"schema": 1,', "not JSON: Expecting property name enclosed in double quotes at column 14"),
        ("[1]", "not a JSON object"),
        ('{"schema": NaN}', "holds NaN, which is no number"),
        ('{"schema": -Infinity}', "holds -Infinity, which is no number"),
        ("[" * 100_000, "not readable as JSON"),
        (f'{{"schema": {"9" * 5000}}}', "not readable as JSON"),
    ],
)
def test_other_text_is_refused(text: str, reason: str) -> None:
    with pytest.raises(RelayLayoutError) as caught:
        TuningRecord.from_json(text)
    assert str(caught.value) == reason


def test_a_number_that_overflows_is_refused(make_record: MakeRecord) -> None:
    text = make_record(0.5).to_json()
    with pytest.raises(RelayLayoutError, match="seconds: expected a list of run times above 0"):
        TuningRecord.from_json(text.replace("0.5", "1e999"))
    with pytest.raises(RelayLayoutError, match="knobs: a number is too large"):
        TuningRecord.from_json(text.replace('"lanes": 16', '"lanes": 1e999'))


def test_any_damage_is_refused_or_harmless(make_record: MakeRecord) -> None:
    draw = random.Random(0)
    text = make_record(1e-3).to_json()
    for _ in range(2000):
        letters = list(text)
        for _ in range(draw.randint(1, 3)):
            letters[draw.randrange(len(letters))] = draw.choice('0123456789-.,:"[]{}nulltrue eE')
        try:
            TuningRecord.from_json("".join(letters))
        except RelayLayoutError as error:
            assert "\n" not in str(error)


def test_blocks_may_stand_anywhere_in_a_layout(
    make_record: MakeRecord, workload: ConvolutionWorkload
) -> None:
    """Of data in blocks and 24 results the weights have the results innermost."""
    record = make_record(1e-3, workload=replace(workload, kernel_layout="IHW16iO", out_layout="NHWC"))
    assert TuningRecord.from_json(record.to_json()) == record
