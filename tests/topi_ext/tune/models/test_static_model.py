"""Modelled run times: the assembly of each kernel family, the model's answers, and tuning with it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernel_harness import target_for
from tvm.target import Target

from topi_ext.errors import RelayLayoutError
from topi_ext.kernel import scheduled_kernel
from topi_ext.knobs import ConvolutionKnobs, Knobs, WinogradKnobs
from topi_ext.machine.processor import ARM_CORES, Processor, processor_of
from topi_ext.spaces.convolution import cheapest
from topi_ext.tune.measuring.workers import build, named
from topi_ext.tune.models.assembly import Loop, hot_loop
from topi_ext.tune.models.static_model import KernelModel
from topi_ext.tune.options import TuneOptions
from topi_ext.tune.records.database import Database
from topi_ext.tune.records.log import appender, load
from topi_ext.tune.task import Task
from topi_ext.tune.tuner import Tuner
from topi_ext.workloads.convolution import ConvolutionWorkload
from topi_ext.workloads.word_forms import bfloat16_form, bfloat16_forms, integer_form, integer_forms

TARGETS = {
    core: Target(
        {
            "kind": "llvm",
            "mtriple": "aarch64-linux-gnu",
            "mcpu": core,
            "num-cores": 4,
            **({"mattr": ["+disable-ldp"]} if core == "cortex-a55" else {}),
        }
    )
    for core in ("cortex-a55", "cortex-a76")
}


needs_analyser = pytest.mark.usefixtures("llvm_mca")


def processor(core: str) -> Processor:
    return replace(ARM_CORES[core], threads=4)


def workload(
    layout: str, kernel_layout: str, *, channels: tuple[int, int] = (96, 96), size: int = 28, **fields: Any
) -> ConvolutionWorkload:
    """A 3x3 convolution that keeps its image's size, but for what ``fields`` say."""
    given: dict[str, Any] = {
        "batch": 1,
        "in_channels": channels[0],
        "out_channels": channels[1],
        "in_height": size,
        "in_width": size,
        "kernel": (3, 3),
        "strides": (1, 1),
        "padding": (1, 1, 1, 1),
        "dilation": (1, 1),
        "groups": 1,
        "data_layout": layout,
        "kernel_layout": kernel_layout,
        "out_layout": layout,
        "dtype": "float32",
        "out_dtype": "float32",
    }
    return ConvolutionWorkload(**(given | fields))


POINTWISE = {"kernel": (1, 1), "padding": (0, 0, 0, 0)}


def direct(
    lanes: int, pixels: int, vectors: int, order: Any = "pixels", pad_at: Any = "chunk", steps: int = 1
) -> Knobs:
    return ConvolutionKnobs(lanes, pixels, vectors, order, 1, pad_at, prefetch=False, steps=steps)


FAMILIES: dict[str, tuple[ConvolutionWorkload, Knobs]] = {
    "3x3 NCHW4c": (workload("NCHW4c", "OIHW4i4o"), direct(4, 4, 3)),
    "3x3 NCHW8c": (workload("NCHW8c", "OIHW8i8o"), direct(8, 7, 1)),
    "3x3 NHWC": (workload("NHWC", "OHWI16o"), direct(16, 4, 1)),
    "stride 2": (workload("NCHW8c", "OIHW8i8o", strides=(2, 2)), direct(8, 7, 1)),
    "dilation 2": (
        workload("NCHW8c", "OIHW8i8o", dilation=(2, 2), padding=(2, 2, 2, 2)),
        direct(8, 7, 1),
    ),
    "grouped": (workload("NCHW8c", "OIHW8i8o", groups=2), direct(8, 7, 1)),
    "1x1 NCHW8c": (workload("NCHW8c", "OIHW8i8o", **POINTWISE), direct(8, 7, 1, pad_at="stage")),
    "1x1 NHWC": (workload("NHWC", "OHWI16o", **POINTWISE), direct(16, 4, 1, pad_at="stage")),
    "first layer": (
        workload("NCHW", "OIHW8o", channels=(3, 32), size=56, strides=(2, 2), out_layout="NCHW8c"),
        direct(8, 5, 1),
    ),
    "3x3 NHWC in steps": (workload("NHWC", "OHWI16o"), direct(16, 4, 1, steps=4)),
    "1x1 NHWC in steps": (workload("NHWC", "OHWI16o", **POINTWISE), direct(16, 4, 1, "pixels", "stage", 4)),
    "Winograd": (workload("NHWC", "OIHW"), WinogradKnobs(4, 4, 4, 7, 2, "pixels", 1, "chunk")),
    "float16": (
        workload("NCHW8c", "OIHW8i8o", dtype="float16", out_dtype="float16"),
        direct(8, 7, 2),
    ),
}


def hot(core: str, of: ConvolutionWorkload, knobs: Knobs) -> Loop:
    module = build(named(scheduled_kernel(of, knobs)), TARGETS[core])
    code = next(part for part in (module, *module.imports) if str(part.kind) == "llvm")
    found = hot_loop(str(code.inspect_source("asm")))
    assert found is not None
    return found


@pytest.mark.parametrize("core", TARGETS)
@pytest.mark.parametrize("family", FAMILIES)
def test_multiply_adds_take_lanes_and_nothing_spills(family: str, core: str) -> None:
    loop = hot(core, *FAMILIES[family])
    assert loop.lane_indexed >= 0.7 * loop.multiply_adds, loop
    assert loop.spills == 0, loop
    suffix = ".8h" if family == "float16" else ".4s"
    assert any(line.startswith("fmla") and suffix in line for line in loop.instructions), loop


@pytest.mark.parametrize("core", TARGETS)
@pytest.mark.parametrize("family", ["3x3 NHWC in steps", "1x1 NHWC in steps"])
def test_steps_load_data_as_vectors(family: str, core: str) -> None:
    of, knobs = FAMILIES[family]
    assert isinstance(knobs, ConvolutionKnobs)
    loops = hot(core, of, knobs), hot(core, of, replace(knobs, steps=1))
    together, single = (loop.loads / loop.multiply_adds for loop in loops)
    assert together < 0.75 * single, loops


@pytest.mark.parametrize("layout", ["NCHW4c", "NHWC"])
@pytest.mark.parametrize("core", TARGETS)
def test_depthwise_multiplies_whole_vectors(core: str, layout: str) -> None:
    kernel = "OIHW4o" if layout == "NCHW4c" else "HWOI"
    of = workload(layout, kernel, groups=96)
    loop = hot(core, of, ConvolutionKnobs(4, 7, 1, "channels", 7, "chunk", prefetch=False))
    assert loop.multiply_adds >= 21 and loop.lane_indexed == 0, loop
    assert loop.spills <= 2, loop


@needs_analyser
@pytest.mark.parametrize("core", TARGETS)
@pytest.mark.parametrize(
    "family", ["3x3 NCHW4c", "3x3 NCHW8c", "1x1 NHWC", "1x1 NHWC in steps", "Winograd", "float16"]
)
def test_inner_loops_reach_the_bar(family: str, core: str) -> None:
    model = KernelModel(TARGETS[core], processor(core), 2.0)
    found = model.analysis(*FAMILIES[family])
    assert found.share >= 0.9, found


DEPTHWISE: dict[str, tuple[ConvolutionWorkload, Knobs]] = {
    "NCHW4c": (
        workload("NCHW4c", "OIHW4o", groups=96),
        ConvolutionKnobs(4, 7, 1, "channels", 7, "chunk", prefetch=False),
    ),
    "NCHW8c": (
        workload("NCHW8c", "OIHW8o", groups=96),
        ConvolutionKnobs(8, 3, 1, "channels", 7, "chunk", prefetch=False),
    ),
    "stride 2": (
        workload("NCHW4c", "OIHW4o", groups=96, size=56, strides=(2, 2)),
        ConvolutionKnobs(4, 7, 1, "channels", 7, "chunk", prefetch=False),
    ),
}


@pytest.mark.parametrize("core", TARGETS)
@pytest.mark.parametrize("family", DEPTHWISE)
def test_depthwise_sums_start_from_the_bias(family: str, core: str) -> None:
    loop = hot(core, *DEPTHWISE[family])
    results = loop.multiply_adds // 9
    assert (loop.starts, loop.vector_stores, loop.spills) == (results, results, 0), loop
    assert loop.vector_operations == 10 * results, loop


@needs_analyser
@pytest.mark.parametrize(("core", "attainable"), [("cortex-a76", 9 / 11), ("cortex-a55", 9 / 10)])
@pytest.mark.parametrize("family", DEPTHWISE)
def test_depthwise_loops_reach_the_bar_of_what_their_epilogue_leaves(
    family: str, core: str, attainable: float
) -> None:
    of, knobs = DEPTHWISE[family]
    model = KernelModel(TARGETS[core], processor(core), 2.0)
    found = model.analysis(of, knobs)
    assert model.attainable(of, found) == pytest.approx(attainable)
    assert 0.9 * attainable <= found.share <= attainable + 1e-9, found


@needs_analyser
def test_modelled_seconds_are_above_those_of_the_multiply_adds() -> None:
    of, knobs = FAMILIES["3x3 NCHW8c"]
    core = processor("cortex-a76")
    model = KernelModel(TARGETS["cortex-a76"], core, 2.0)
    least = of.macs / 4 / core.fma_per_cycle / core.threads / 2e9
    assert least < model.seconds(of, knobs) < 3 * least


@needs_analyser
@pytest.mark.parametrize(
    ("layout", "kernel_layout"), [("NHWC", "OHWI8o"), ("NCHW8c", "OIHW8i8o")], ids=["NHWC", "NCHW8c"]
)
def test_words_take_as_many_fewer_steps(layout: str, kernel_layout: str) -> None:
    """Two bfloat16 in half of the cycles of float32, four bytes in a quarter, but for what is around them."""
    target = Target({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "neoverse-n2", "num-cores": 4})
    model = KernelModel(target, processor_of(target), 2.8)
    floats = workload(layout, kernel_layout)
    forms = (floats, bfloat16_form(floats), integer_form(replace(floats, dtype="uint8", out_dtype="int32")))
    seconds = [model.seconds(form, direct(8, 14, 1)) for form in forms]
    assert [form.word for form in forms] == [1, 2, 4]
    assert seconds[1] == pytest.approx(seconds[0] / 2, rel=0.15)
    assert seconds[2] == pytest.approx(seconds[0] / 4, rel=0.3)


@needs_analyser
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_matrices_take_half_the_steps_of_words(dtype: str) -> None:
    target = Target({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "neoverse-n2", "num-cores": 4})
    processor = processor_of(target)
    model = KernelModel(target, processor, 2.8)
    plain = replace(workload("NCHW8c", "OIHW8i8o"), in_channels=256, out_channels=256)
    if dtype == "uint8":
        whole, pairs = integer_forms(replace(plain, dtype="uint8", out_dtype="int32"), processor)
    else:
        whole, pairs = bfloat16_forms(plain, processor)
    seconds = [model.seconds(form, cheapest(form, processor)[1]) for form in (whole, pairs)]
    assert 0.45 < seconds[1] / seconds[0] < 0.7


@needs_analyser
@pytest.mark.parametrize(
    ("core", "attainable", "reached"), [("cortex-a53", 2 / 3, 0.6), ("cortex-a72", 1.0, 0.95)]
)
def test_products_of_bytes_are_told_by_their_own_share(core: str, attainable: float, reached: float) -> None:
    """Of three operations two multiply, and one vector unit of the A72 does while the other adds."""
    target = target_for(core, cores=4)
    model = KernelModel(target, processor_of(target), 1.4)
    floats = workload("NCHW8c", "OIHW8i8o")
    form = integer_form(replace(floats, dtype="uint8", out_dtype="int32"), signed_words=True, words="halves")
    fitting = replace(form, pairs_fit=True)
    found = model.analysis(fitting, direct(8, 2, 2))
    assert model.attainable(fitting, found) == pytest.approx(attainable, rel=0.05)
    assert found.share > reached * attainable and not found.loop.spills
    assert model.seconds(form, direct(8, 2, 2)) >= model.seconds(fitting, direct(8, 2, 2))


@needs_analyser
def test_chunks_that_leave_threads_idle_cost_more() -> None:
    of, knobs = FAMILIES["3x3 NCHW8c"]
    assert isinstance(knobs, ConvolutionKnobs)
    model = KernelModel(TARGETS["cortex-a76"], processor("cortex-a76"), 2.0)
    balanced, alone = (model.seconds(of, replace(knobs, rows=rows)) for rows in (7, 28))
    assert alone > 2 * balanced


@needs_analyser
def test_what_does_not_fit_is_an_error_of_its_own() -> None:
    of = FAMILIES["3x3 NCHW8c"][0]
    model = KernelModel(TARGETS["cortex-a76"], processor("cortex-a76"), 2.0)
    too_long, good = model.measure(of, [direct(8, 29, 1), direct(8, 7, 1)])
    assert too_long.error.startswith("model: knobs ") and "tile of 29 pixels" in too_long.error
    assert not good.error and len(good.seconds) == 1


@needs_analyser
def test_no_model_of_the_core() -> None:
    unknown = Processor("aarch64 NEON", 16, 32, 2, 4, 2, 32 << 10, 256 << 10)
    with pytest.raises(RelayLayoutError) as raised:
        KernelModel(TARGETS["cortex-a76"], unknown, 2.0)
    assert str(raised.value) == (
        "there is no scheduling model of aarch64 NEON; give a target such as aarch64-cortex-a76, whose core "
        "has one"
    )


@needs_analyser
@pytest.mark.parametrize(("padding", "compiled"), [((0, 0, 0, 0), 1), ((1, 1, 1, 1), 2)])
def test_knobs_of_outer_loops_do_not_compile_again(
    monkeypatch: pytest.MonkeyPatch, padding: tuple[int, int, int, int], compiled: int
) -> None:
    """Where the order of the loops says where padding goes, the inner loop may be another."""
    core = processor("cortex-a76")
    model = KernelModel(TARGETS["cortex-a76"], core, 2.0)
    assembly, seen = model.assembly, []

    def counted(of: ConvolutionWorkload, knobs: Knobs) -> str:
        seen.append(knobs)
        return assembly(of, knobs)

    monkeypatch.setattr(model, "assembly", counted)
    of = workload("NCHW8c", "OIHW8i8o", channels=(16, 16), size=16, padding=padding)
    knobs = [
        ConvolutionKnobs(8, 7, 1, "pixels", 2, "chunk", prefetch=False),
        ConvolutionKnobs(8, 7, 1, "pixels", 1, "chunk", prefetch=False),
        ConvolutionKnobs(8, 7, 1, "channels", 1, "chunk" if not any(padding) else "stage", prefetch=False),
    ]
    for each in knobs:
        assert model.seconds(of, each) == KernelModel(TARGETS["cortex-a76"], core, 2.0).seconds(of, each)
    assert len(seen) == compiled


@pytest.fixture
def tune(tmp_path: Path) -> Callable[[int], Any]:
    """Tune a small convolution by the model, going on with what the log holds."""
    log = tmp_path / "log.jsonl"
    of = workload("NCHW8c", "OIHW8i8o", channels=(16, 16), size=7)

    def run(trials: int) -> Any:
        records, _ = load([log]) if log.exists() else ([], [])
        core = processor("cortex-a76")
        tuner = Tuner(
            core,
            KernelModel(TARGETS["cortex-a76"], core, 2.0),
            appender(log),
            Database(records),
            TuneOptions(trials=trials, strategy="tiles"),
            origin="modelled",
        )
        result = tuner.tune([Task("small", of)])
        return result, load([log])[0]

    return run


@needs_analyser
def test_modelled_tuning_writes_modelled_records_and_goes_on(tune: Callable[[int], Any]) -> None:
    first, records = tune(3)
    assert (first.measured, first.ended, len(records)) == (3, "done", 3)
    assert {record.origin for record in records} == {"modelled"}
    assert records[0].cpu.startswith("llvm-mca") and records[0].cpu.endswith(" neoverse-n1")
    second, records = tune(5)
    assert (second.measured, len(records)) == (2, 5)
    assert second.states[0].best_seconds == min(record.cost for record in records)
