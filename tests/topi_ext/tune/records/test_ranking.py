"""Which of several records count: those of the CPU that is compiled for come first."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from topi_ext.tune.records.ranking import best_repeated, rank_records
from topi_ext.tune.records.record import TransformRecord, TuningRecord
from topi_ext.workloads.transform import TransformWorkload

MakeRecord = Callable[..., TuningRecord]

MOVED = TransformRecord(
    TransformWorkload("NCHW", (1, 64, 56, 56), "NCHW", "NHWC", "float32"),
    "x86-64 AVX2",
    2,
    (3.0,),
    cpu="slow",
)


def test_what_the_own_model_measured_beats_what_a_faster_one_did(make_record: MakeRecord) -> None:
    faster = make_record(1.0, cpu="fast", knobs={"lanes": 8})
    own = make_record(3.0, cpu="slow")
    assert rank_records([faster, own], "slow") == [own, faster]
    assert rank_records([faster, own], "fast") == [faster, own]
    assert rank_records([own, faster]) == [faster, own]


def test_of_the_same_knobs_the_own_models_time_counts(make_record: MakeRecord) -> None:
    faster, own = make_record(*[1.0] * 9, cpu="fast"), make_record(3.0, cpu="slow")
    assert rank_records([own, faster], "slow") == [own]


def test_what_another_model_measured_beats_a_model_of_the_own(make_record: MakeRecord) -> None:
    modelled = make_record(1.0, cpu="slow", origin="modelled")
    measured = make_record(3.0, cpu="fast")
    assert rank_records([modelled, measured], "slow") == [measured, modelled]


@pytest.mark.parametrize(("cpu", "counts"), [("slow", 3.0), ("fast", 1.0), ("", 1.0)])
def test_a_transform_of_the_own_model_counts(cpu: str, counts: float) -> None:
    """Without an own model the one with more repeats does."""
    (best,) = best_repeated([replace(MOVED, cpu="fast", seconds=(1.0, 1.0)), MOVED], cpu)
    assert best.cost == counts
