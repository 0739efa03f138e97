"""Looking records up."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from topi_ext.machine.processor import Processor
from topi_ext.tune.records.database import Database
from topi_ext.tune.records.log import append
from topi_ext.tune.records.record import TuningRecord
from topi_ext.workloads.convolution import ConvolutionWorkload

MakeRecord = Callable[..., TuningRecord]
Knobs = dict[str, Any]


def test_the_best_is_the_fastest(
    workload: ConvolutionWorkload, processor: Processor, make_record: MakeRecord, knobs: Knobs
) -> None:
    fast = make_record(1.0, knobs=knobs | {"tile_pixels": 14})
    database = Database([make_record(2.0), fast, make_record(error="run: no", knobs=knobs | {"lanes": 16})])
    assert database.best(workload, processor) == fast


def test_nothing_is_found_of_another_kernel_or_machine(
    workload: ConvolutionWorkload, processor: Processor, make_record: MakeRecord
) -> None:
    database = Database([make_record(1.0)])
    assert database.best(replace(workload, in_height=15), processor) is None
    assert database.best(workload, replace(processor, threads=1)) is None
    assert database.best(workload, replace(processor, name="x86-64 AVX2")) is None


def test_measured_beats_modelled(
    workload: ConvolutionWorkload, processor: Processor, make_record: MakeRecord
) -> None:
    records = [make_record(1.0, origin="modelled"), make_record(3.0)]
    for count, origin in enumerate(("modelled", "measured"), 1):
        best = Database(records[:count]).best(workload, processor)
        assert best is not None
        assert best.origin == origin


def test_an_inherited_record_chooses_nothing(
    workload: ConvolutionWorkload, processor: Processor, make_record: MakeRecord
) -> None:
    inherited = make_record(1.0, origin="inherited", threads=0)
    assert Database([inherited]).best(workload, processor) is None
    modelled = make_record(2.0, origin="modelled")
    assert Database([inherited, modelled]).best(workload, processor) == modelled


def test_knobs_that_do_not_fit_are_left_out(
    workload: ConvolutionWorkload, processor: Processor, make_record: MakeRecord, knobs: Knobs
) -> None:
    longer_than_its_row = make_record(1.0, knobs=knobs | {"tile_pixels": 28})
    foreign = make_record(1.5, knobs={"tile_x": 4})
    database = Database([longer_than_its_row, foreign, make_record(2.0)])
    assert database.best(workload, processor) == make_record(2.0)


def test_a_winograd_kernel_can_be_refused(
    workload: ConvolutionWorkload, processor: Processor, make_record: MakeRecord
) -> None:
    winograd = {
        "algorithm": "winograd",
        "tile": 2,
        "in_lanes": 16,
        "out_lanes": 16,
        "tile_pixels": 7,
        "tile_channels": 2,
        "order": "pixels",
        "rows": 1,
    }
    fast = make_record(1.0, knobs=winograd)
    database = Database([fast, make_record(2.0)])
    assert database.best(workload, processor) == fast
    assert database.best(workload, processor, winograd=False) == make_record(2.0)


def test_what_is_added_is_found(
    workload: ConvolutionWorkload, processor: Processor, make_record: MakeRecord, knobs: Knobs
) -> None:
    database = Database([make_record(2.0)])
    assert database.best(workload, processor) == make_record(2.0)
    better = make_record(1.0, knobs=knobs | {"tile_pixels": 14})
    database.add(better)
    assert database.best(workload, processor) == better


def test_the_own_models_records_come_before_those_of_a_faster_one(
    workload: ConvolutionWorkload, processor: Processor, make_record: MakeRecord, knobs: Knobs
) -> None:
    """A slower machine would never see what was tuned on it."""
    faster = make_record(1.0, cpu="fast", knobs=knobs | {"tile_pixels": 14})
    own = make_record(3.0, cpu="slow")
    assert Database([faster, own], "slow").best(workload, processor) == own


def test_the_own_model_can_be_told_later(
    workload: ConvolutionWorkload, processor: Processor, make_record: MakeRecord, knobs: Knobs
) -> None:
    faster = make_record(1.0, cpu="fast", knobs=knobs | {"tile_pixels": 14})
    own = make_record(3.0, cpu="slow")
    database = Database([faster, own])
    assert database.best(workload, processor) == faster
    database.cpu = "slow"
    assert database.best(workload, processor) == own


def test_starting_points_are_what_others_found(
    workload: ConvolutionWorkload, processor: Processor, make_record: MakeRecord, knobs: Knobs
) -> None:
    inherited = make_record(2.0, origin="inherited", threads=0)
    single = make_record(1.0, threads=1, knobs=knobs | {"tile_pixels": 14})
    database = Database([make_record(3.0), inherited, single])
    assert database.inherited(workload, processor) == [single, inherited]


def test_the_best_records_of_other_processors(
    workload: ConvolutionWorkload, processor: Processor, make_record: MakeRecord, knobs: Knobs
) -> None:
    slow, fast = (
        make_record(seconds, processor="aarch64 NEON", knobs=knobs | {"tile_pixels": pixels})
        for seconds, pixels in ((2.0, 7), (1.0, 14))
    )
    other = make_record(3.0, processor="x86-64 SSE", threads=1)
    database = Database([make_record(1.0), slow, fast, other])
    assert database.of_others(workload, processor) == [fast, other]


def test_records_of_a_processor(processor: Processor, make_record: MakeRecord) -> None:
    ours = [make_record(1.0), make_record(2.0, threads=1)]
    database = Database([*ours, make_record(3.0, processor="aarch64 NEON")])
    assert database.of_processor(processor) == ours


def test_a_database_of_logs(tmp_path: Path, workload: ConvolutionWorkload, make_record: MakeRecord) -> None:
    log = tmp_path / "log.jsonl"
    append(log, make_record(1.0))
    with log.open("a") as file:
        file.write("oops\n")
    database, problems = Database.load([log])
    assert database.best(workload, Processor("x86-64 AVX-512", 64, 32, 2, 4, 2, 1, 1, 2)) == make_record(1.0)
    assert [problem.line for problem in problems] == [2]
