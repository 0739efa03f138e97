"""What transforms cost by records, and that the choice of layouts follows it."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax

import relay_layout
from relay_layout.graph import Value
from relay_layout.layout import Layout
from relay_layout.targets import BuildTarget, resolve_target
from relay_layout.targets.transform_cost import transform_price, transform_workload
from tests.relax_modules import main_of
from topi_ext.tune.records.log import write
from topi_ext.tune.records.record import TransformRecord
from topi_ext.workloads.transform import TransformWorkload

LAYOUTS = ("NCHW", "NHWC", "NCHW16c", "NCHW8c")
SHAPE = (1, 64, 28, 28)
NCHW, NHWC, BLOCKED = (Layout.parse(text) for text in ("ABCD", "ACDB", "ABCD16b"))


def record(source: str, target: str, microseconds: float, shape: tuple[int, ...] = SHAPE) -> TransformRecord:
    workload = TransformWorkload("NCHW", shape, source, target, "float32")
    return TransformRecord(workload, "x86-64 AVX-512", 2, (microseconds * 1e-6,) * 3, cpu="test")


def log_of(path: Path, records: list[TransformRecord]) -> Path:
    log = path / "log.jsonl"
    write(log, records)
    return log


def machine(log: Path) -> BuildTarget:
    return resolve_target("x86-64-v4", threads=2, tuning_records=[log], shipped_records=False)


def tensor(*shape: int) -> Value:
    return Value("data", shape, "float32", None)


def test_a_transform_on_record_takes_what_was_measured(tmp_path: Path) -> None:
    log = log_of(tmp_path, [record("NCHW", "NHWC", 30.0), record("NCHW", "NHWC", 60.0, (1, 64, 56, 28))])
    target = machine(log)
    launch = target.facts.launch_us
    measured = transform_price(target, tensor(*SHAPE), NCHW, NHWC)
    assert (measured.microseconds, measured.source) == (pytest.approx(30.0 + launch), "measured")
    fitted = transform_price(target, tensor(1, 32, 42, 56), NCHW, NHWC)
    assert (fitted.microseconds, fitted.source) == (pytest.approx(45.0 + launch), "fitted")
    modelled = transform_price(target, tensor(*SHAPE), NHWC, NCHW)
    assert modelled.source == "modelled"
    moved = 2 * 4 * 64 * 28 * 28 / (target.facts.gigabytes_per_second * 1e3)
    assert modelled.microseconds == pytest.approx(moved + launch)


def test_a_model_of_a_transform_is_brought_to_the_scale_of_measured_kernels() -> None:
    plain = resolve_target("x86-64-v4", threads=2, shipped_records=False)

    class Slow:
        """Kernels take three times their estimates."""

        def choice(self, *_: object) -> None:
            return None

        def estimate_scale(self, *_: object) -> float:
            return 3.0

    slow = replace(plain, kernels=replace(plain.kernels, records=Slow()))
    launch = plain.facts.launch_us
    moved = [transform_price(one, tensor(*SHAPE), NCHW, NHWC).microseconds - launch for one in (plain, slow)]
    assert moved[1] == pytest.approx(3.0 * moved[0])


def test_other_targets_and_threads_have_other_times(tmp_path: Path) -> None:
    log = log_of(tmp_path, [record("NCHW", "NHWC", 30.0)])
    for name, threads in (("x86-64-v3", 2), ("x86-64-v4", 1)):
        target = resolve_target(name, threads=threads, tuning_records=[log], shipped_records=False)
        assert transform_price(target, tensor(*SHAPE), NCHW, NHWC).source == "modelled"


def test_what_has_no_name_on_record() -> None:
    size = tvm.tirx.Var("size", "int64")
    for shape in ((1, 64, size, 28), (1, 0, 28, 28)):
        assert transform_workload(Value("data", shape, "float32", None), NCHW, NHWC) is None
    # Padded to a block, aligned, and over more dimensions than the tensor has.
    assert transform_workload(tensor(1, 24, 28, 28), NCHW, BLOCKED) is None
    assert transform_workload(tensor(*SHAPE), NCHW, Layout.parse("AB[a=32]CD")) is None
    assert transform_workload(tensor(64, 28, 28), NCHW, NHWC) is None
    assert transform_workload(Value("mask", SHAPE, "bool", None), NCHW, NHWC) is None


@pytest.mark.parametrize(
    ("rank", "target", "axes", "named"),
    [
        (2, "BA", "AB", "BA"),
        (3, "ACB8b", "NCW", "NWC8c"),
        (4, "ABCD16b", "NCHW", "NCHW16c"),
        (5, "ACDEB", "NCDHW", "NDHWC"),
    ],
)
def test_names_of_dimensions_on_record(rank: int, target: str, axes: str, named: str) -> None:
    workload = transform_workload(tensor(*[16] * rank), Layout.generic(rank), Layout.parse(target))
    assert workload is not None
    assert (workload.axes, workload.source_layout, workload.target_layout) == (axes, axes, named)
    assert workload.shape == (16,) * rank


def two_convolutions() -> tvm.IRModule:
    data = relax.Var("data", relax.TensorType(SHAPE, "float32"))
    with main_of(data) as builder:
        value = data
        for name in ("first", "second"):
            weight = relax.const(np.full((64, 64, 3, 3), 0.01, "float32"))
            value = builder.emit(relax.op.nn.conv2d(value, weight, padding=1), name)
        builder.result = value
    return builder.finalize()


def chosen(costs: Mapping[tuple[str, str], float], folder: Path) -> tuple[str, list[str], float]:
    """The first convolution's layout, where the prices of transforms come from, and the estimate of all."""
    records = [record(*pair, costs.get(pair, 1e5)) for pair in permutations(LAYOUTS, 2)]
    explanation = relay_layout.explain(
        two_convolutions(),
        target="x86-64-v4",
        threads=2,
        tuning_records=[log_of(folder, records)],
        shipped_records=False,
    )
    first = next(fact for fact in explanation.operators if fact.operator == "nn.conv2d")
    return first.operands[0], [each.priced for each in explanation.transforms], explanation.objective_us


@pytest.mark.parametrize("cheap", ["NHWC", "NCHW16c", "NCHW8c"])
def test_the_choice_follows_what_was_measured(cheap: str, tmp_path: Path) -> None:
    layout, prices, objective = chosen({("NCHW", cheap): 0.1, (cheap, "NCHW"): 0.1}, tmp_path)
    assert layout == cheap
    assert prices == ["measured", "measured"]
    # Layouts that a dear transform alone leads to are left out, and where all are dear, all layouts.
    kept, prices, dearer = chosen({}, tmp_path)
    assert (kept, prices) == ("NCHW", [])
    assert objective < dearer


def test_one_direction_may_be_dear(tmp_path: Path) -> None:
    """Into blocks is cheap and out of them is not; channels last is cheap to leave."""
    costs = {("NCHW", "NCHW16c"): 0.1, ("NHWC", "NCHW"): 0.1, ("NCHW", "NHWC"): 1e5}
    layout, prices, _ = chosen(costs, tmp_path)
    assert (layout, prices) == ("NCHW16c", ["measured", "measured"])


def test_a_report_counts_where_prices_come_from(tmp_path: Path) -> None:
    cheap = [record("NCHW", "NCHW16c", 3.0), record("NCHW16c", "NCHW", 4.0)]
    options = {"target": "x86-64-v4", "threads": 2, "shipped_records": False, "desired_layout": "NCHW16c"}
    log = log_of(tmp_path, cheap)
    report = relay_layout.convert(two_convolutions(), tuning_records=[log], **options).report
    assert report["layout_transform_prices"] == {"measured": 2, "fitted": 0, "modelled": 0}
    assert report["layout_transform_us"] == pytest.approx(7.0 + 2 * machine(log).facts.launch_us)
    report = relay_layout.convert(two_convolutions(), **options).report
    assert report["layout_transform_prices"] == {"measured": 0, "fitted": 0, "modelled": 2}
