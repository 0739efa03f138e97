"""Tuning records as a compilation asks for them."""

from dataclasses import replace

import pytest
from kernel_networks import workload_for

from topi_ext.chooser import estimated_us
from topi_ext.knobs import ConvolutionKnobs, Knobs
from topi_ext.machine.processor import Processor
from topi_ext.spaces.convolution import cheapest
from topi_ext.tune.records import recorded
from topi_ext.tune.records.database import Database
from topi_ext.tune.records.record import TuningRecord
from topi_ext.tune.records.recorded import RecordedKernels
from topi_ext.workloads.convolution import ConvolutionWorkload

PROCESSOR = Processor("x86-64 AVX-512", 64, 32, 2, 4, 2, 32 << 10, 1 << 20, threads=2)
WORKLOAD = workload_for((64, 64, 56, 3, 1, 1), "NCHW16c", "OIHW16i16o", "NCHW16c")
POINTWISE = workload_for((64, 256, 56, 1, 1, 1), "NCHW16c", "OIHW16i16o", "NCHW16c")
DIRECT = ConvolutionKnobs(16, 7, 2, "pixels", 28, "chunk")


def record(
    workload: ConvolutionWorkload,
    knobs: Knobs,
    microseconds: float,
    origin: str = "measured",
    cpu: str = "test",
) -> TuningRecord:
    return TuningRecord(
        workload=workload,
        processor=PROCESSOR.name,
        threads=2,
        knobs=knobs.to_dict(),
        seconds=(microseconds * 1e-6,) * 3,
        origin=origin,
        cpu=cpu,
    )


def kernels(*records: TuningRecord) -> RecordedKernels:
    return RecordedKernels(Database(records))


def test_a_measured_kernel_brings_its_time() -> None:
    choice = kernels(record(WORKLOAD, DIRECT, 400.0)).choice(WORKLOAD, PROCESSOR, 3.0, True)
    assert choice is not None
    assert (choice.knobs, choice.source, choice.microseconds) == (DIRECT, "tuned", pytest.approx(400.0))


def test_an_inherited_record_chooses_no_kernel_and_no_scale() -> None:
    """It was taken on another machine, years ago."""
    known = kernels(record(WORKLOAD, DIRECT, 400.0, "inherited"))
    assert known.choice(WORKLOAD, PROCESSOR, 3.0, True) is None
    assert known.estimate_scale(PROCESSOR, 3.0) == 1.0


def test_without_winograd_the_best_direct_kernel() -> None:
    fastest = cheapest(WORKLOAD, PROCESSOR)[1]
    known = kernels(record(WORKLOAD, fastest, 200.0), record(WORKLOAD, DIRECT, 400.0))
    choices = [known.choice(WORKLOAD, PROCESSOR, 3.0, winograd) for winograd in (True, False)]
    assert [choice and choice.knobs for choice in choices] == [fastest, DIRECT]


def test_a_symbolic_batch_takes_the_kernel_of_one_image() -> None:
    fastest = cheapest(WORKLOAD, PROCESSOR)[1]
    known = kernels(record(WORKLOAD, fastest, 200.0), record(WORKLOAD, DIRECT, 400.0))
    any_batch = replace(WORKLOAD, batch="n")
    choices = [known.choice(any_batch, PROCESSOR, 3.0, winograd) for winograd in (True, False)]
    assert [choice and choice.knobs for choice in choices] == [fastest, DIRECT]


def test_nothing_is_known_of_another_number_of_threads() -> None:
    known = kernels(record(WORKLOAD, DIRECT, 400.0))
    assert known.choice(WORKLOAD, replace(PROCESSOR, threads=4), 3.0, True) is None


def test_the_scale_is_the_mean_of_measured_over_estimated() -> None:
    estimates = [estimated_us(workload, PROCESSOR, 3.0) for workload in (WORKLOAD, POINTWISE)]
    known = kernels(
        record(WORKLOAD, DIRECT, 2 * estimates[0]),
        record(POINTWISE, cheapest(POINTWISE, PROCESSOR)[1], 8 * estimates[1]),
    )
    assert known.estimate_scale(PROCESSOR, 3.0) == pytest.approx(4.0)


def test_the_scale_is_that_of_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded, "SAMPLE", 2)
    workloads = [replace(POINTWISE, out_channels=channels) for channels in (16, 32, 48, 64)]
    known = kernels(
        *[
            record(
                workload,
                cheapest(workload, PROCESSOR)[1],
                factor * estimated_us(workload, PROCESSOR, 3.0),
            )
            for workload, factor in zip(workloads, (2.0, 100.0, 8.0, 100.0), strict=True)
        ]
    )
    assert known.estimate_scale(PROCESSOR, 3.0) == pytest.approx(4.0)


def test_the_scale_without_records_is_one() -> None:
    assert kernels().estimate_scale(PROCESSOR, 3.0) == 1.0


def test_a_modelled_kernel_brings_its_time() -> None:
    choice = kernels(record(WORKLOAD, DIRECT, 400.0, "modelled")).choice(WORKLOAD, PROCESSOR, 3.0, True)
    assert choice is not None
    assert (choice.knobs, choice.source, choice.microseconds) == (DIRECT, "modelled", pytest.approx(400.0))


def test_modelled_times_come_to_the_scale_of_measured_ones() -> None:
    """The machine is found to be twice as slow as the model says, relative to the estimates."""
    estimates = [estimated_us(workload, PROCESSOR, 3.0) for workload in (WORKLOAD, POINTWISE)]
    known = kernels(
        record(WORKLOAD, DIRECT, 6 * estimates[0]),
        record(POINTWISE, cheapest(POINTWISE, PROCESSOR)[1], 3 * estimates[1], "modelled"),
    )
    assert known.estimate_scale(PROCESSOR, 3.0) == pytest.approx(6.0)
    choice = known.choice(POINTWISE, PROCESSOR, 3.0, True)
    assert choice is not None and choice.microseconds == pytest.approx(6 * estimates[1])


def test_the_scale_is_that_of_modelled_times_where_none_is_measured() -> None:
    estimate = estimated_us(WORKLOAD, PROCESSOR, 3.0)
    assert kernels(record(WORKLOAD, DIRECT, 3 * estimate, "modelled")).estimate_scale(
        PROCESSOR, 3.0
    ) == pytest.approx(3.0)


def test_times_of_another_model_come_to_the_scale_of_the_own() -> None:
    """Layouts are chosen by both, and those that only a faster machine knows must not win by that."""
    estimates = [estimated_us(workload, PROCESSOR, 3.0) for workload in (WORKLOAD, POINTWISE)]
    records = (
        record(WORKLOAD, DIRECT, 6 * estimates[0]),
        record(POINTWISE, cheapest(POINTWISE, PROCESSOR)[1], 2 * estimates[1], cpu="a faster one"),
    )
    known = RecordedKernels(Database(records, "test"))
    assert known.estimate_scale(PROCESSOR, 3.0) == pytest.approx(6.0)
    choice = known.choice(POINTWISE, PROCESSOR, 3.0, True)
    assert choice is not None and choice.microseconds == pytest.approx(6 * estimates[1])
    own = known.choice(WORKLOAD, PROCESSOR, 3.0, True)
    assert own is not None and own.microseconds == pytest.approx(6 * estimates[0])
