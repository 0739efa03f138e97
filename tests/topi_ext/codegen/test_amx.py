"""Products of matrices: which tiles there are, the instructions they become, and their numbers."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from kernel_bfloat16 import check_bfloat16, floats
from kernel_harness import check_kernel, compile_function, cpu_features
from kernel_reference import convolve as reference
from kernel_reference import pack
from test_integer_kernels import filled, workload
from tvm.target import Target

from topi_ext.codegen.amx import REGISTERS, Matrices, registers_held
from topi_ext.errors import RelayLayoutError
from topi_ext.kernel import kernel_arguments, kernel_function, scheduled_kernel
from topi_ext.kernel import schedule as arrange
from topi_ext.knobs import ConvolutionKnobs, check_knobs, knobs_from_dict
from topi_ext.machine.amx_permission import may_use_amx
from topi_ext.machine.processor import processor_of
from topi_ext.spaces.convolution import knob_space
from topi_ext.tune.measuring.cpu_measure import CpuMeasurer
from topi_ext.tune.measuring.timing import Timing
from topi_ext.tune.measuring.workplace import Workplace
from topi_ext.workloads.word_forms import bfloat16_form, integer_form

TARGET = Target({"kind": "llvm", "num-cores": 2, "mcpu": "sapphirerapids", "mattr": ["-prefer-256-bit"]})
PROCESSOR = processor_of(TARGET)
runs_here = pytest.mark.skipif(
    not ({"amx_int8", "avx512_vnni"} <= cpu_features() and may_use_amx()),
    reason="this machine has no AMX",
)

multiplies_bfloat16 = pytest.mark.skipif(
    not ({"amx_bf16", "avx512_vnni"} <= cpu_features() and may_use_amx()),
    reason="this machine has no AMX for bfloat16",
)

PADDED = workload(64, 32, (14, 14), (3, 3), "NHWC OHWI16o NHWC", padding=(1, 1, 1, 1))
POINTWISE = workload(24, 48, (9, 10), (1, 1), "NHWC OHWI16o NHWC")
ODD = workload(
    40, 48, (11, 13), (3, 2), "NHWC OHWI16o NCHW16c", strides=(2, 1), padding=(1, 0, 2, 1), batch=2
)
DILATED = workload(20, 24, (13, 12), (3, 3), "NHWC HWIO NHWC", dilation=(2, 2), padding=(2, 2, 2, 2))
FILLED = workload(64, 40, (9, 8), (3, 3), "NHWC OHWI16o NHWC", padding=(1, 1, 1, 1))
SMALL = workload(128, 64, (7, 7), (3, 3), "NHWC OHWI16o NHWC", padding=(1, 1, 1, 1))


def knobs(pixels: int, vectors: int, matrix_rows: int, steps: int, **others: object) -> ConvolutionKnobs:
    plain = ConvolutionKnobs(16, pixels, vectors, steps=steps, matrix_rows=matrix_rows)
    return replace(plain, **others)  # type: ignore[arg-type]


@runs_here
@pytest.mark.parametrize(
    ("case", "chosen"),
    [
        (PADDED, knobs(14, 2, 14, 16)),
        (PADDED, knobs(14, 1, 7, 16, tile_rows=2, order="pixels", rows=7, pad_at="chunk")),
        (PADDED, knobs(14, 1, 14, 8, tile_rows=4, parallel=False)),
        (POINTWISE, knobs(32, 2, 16, 6, order="pixels")),
        (POINTWISE, knobs(14, 3, 14, 2)),
        (ODD, knobs(13, 1, 13, 10)),
        (ODD, knobs(12, 2, 6, 5, order="pixels", rows=2, pad_at="chunk")),
        (DILATED, knobs(9, 1, 9, 5, order="pixels", rows=1, pad_at="chunk")),
        (SMALL, knobs(7, 2, 7, 16, tile_rows=2)),
        (SMALL, knobs(7, 1, 7, 16, tile_rows=4, order="pixels")),
    ],
    ids=lambda value: (
        f"{value.tile_pixels}x{value.tile_channels}x{value.matrix_rows}-{value.order}"
        if isinstance(value, ConvolutionKnobs)
        else f"{value.in_channels}-{value.kernel}"
    ),
)
def test_numbers(case: object, chosen: ConvolutionKnobs) -> None:
    check(case, chosen)


@runs_here
@pytest.mark.parametrize(
    "case", [PADDED, POINTWISE, ODD, DILATED, FILLED, SMALL], ids=lambda case: case.to_json()
)
def test_numbers_of_the_space(case: object) -> None:
    """Every twentieth of the knobs with matrices."""
    form = integer_form(case)  # type: ignore[arg-type]
    found = [chosen for _, chosen in knob_space(form, PROCESSOR) if getattr(chosen, "matrix_rows", 0)]
    assert found
    for chosen in found[::20]:
        check(case, chosen)


def check(case: object, chosen: object) -> None:
    """The kernel with bias and ReLU beside numpy, to the bit."""
    form = integer_form(case)  # type: ignore[arg-type]
    rng = np.random.default_rng(form.in_channels)
    data = rng.integers(0, 256, (form.batch, form.in_channels, form.in_height, form.in_width))
    weight = rng.integers(-128, 128, (form.out_channels, form.in_channels, *form.kernel))
    bias = rng.integers(-(10**6), 10**6, form.out_channels)
    sums = reference(data, weight, form.strides, form.padding, form.dilation, 1)
    expected = np.maximum(sums + bias[:, None, None], 0)
    check_kernel(
        kernel_function(form, chosen),  # type: ignore[arg-type]
        TARGET,
        [
            pack(data.astype("uint8"), "NCHW", form.data_layout),
            pack(filled(weight, form).astype("int8"), "OIHW", form.kernel_layout),
            pack(bias.astype("int32")[None, :, None, None], "NCHW", form.out_layout),
        ],
        pack(expected.astype("int32"), "NCHW", form.out_layout),
        schedule=lambda func, target: arrange(func, form, chosen),  # type: ignore[arg-type]
        case=f"{form.to_json()} {chosen}",
    )


@multiplies_bfloat16
@pytest.mark.parametrize(
    "case", [PADDED, POINTWISE, ODD, DILATED, FILLED, SMALL], ids=lambda case: case.to_json()
)
def test_numbers_of_bfloat16(case: object) -> None:
    """Every thirtieth of the knobs with matrices, and a kernel of vectors."""
    form = bfloat16_form(floats(case))
    assert form.dtype == "bfloat16"
    found = [chosen for _, chosen in knob_space(form, PROCESSOR) if getattr(chosen, "matrix_rows", 0)]
    assert found
    for chosen in [*found[::30], ConvolutionKnobs(16, 2, 1)]:
        check_bfloat16(floats(case), form, chosen, TARGET)


@pytest.mark.parametrize("case", [PADDED, POINTWISE], ids=lambda case: str(case.kernel))
def test_bfloat16_has_an_instruction_of_its_own(case: object) -> None:
    form = bfloat16_form(floats(case))
    source = compile_function(scheduled_kernel(form, knobs(7, 2, 7, 4)), TARGET).mod.inspect_source("asm")
    counts = [len(re.findall(rf"^\s+{name}\b", source, re.MULTILINE)) for name in ("tdpbf16ps", "tdpbusd")]
    assert counts[0] > 0 == counts[1]


@pytest.mark.parametrize(("case", "copies"), [(PADDED, True), (POINTWISE, False)])
def test_bits_without_a_border_are_not_copied(case: object, copies: bool) -> None:
    form = bfloat16_form(floats(case))
    assert ("data_pad" in scheduled_kernel(form, knobs(7, 2, 7, 4)).script()) == copies


@pytest.mark.parametrize("case", [PADDED, POINTWISE])
def test_weights_are_asked_for_where_matrices_read_them_once(case: object) -> None:
    """Sixteen words of each vector for each step; by order of pixels all of them are read again and again."""
    form, chosen = bfloat16_form(floats(case)), knobs(7, 2, 7, 4)
    scripts = [
        scheduled_kernel(form, replace(chosen, **change)).script()  # type: ignore[arg-type]
        for change in ({}, {"prefetch": False}, {"order": "pixels"})
    ]
    assert [script.count("T.prefetch") for script in scripts] == [8, 0, 0]


@pytest.mark.parametrize(
    ("change", "kernel_layout"),
    [
        ({}, "OHWI16o2i"),
        ({"kernel_layout": "HWIO"}, "HWIO2i"),
        ({"kernel_layout": "OHWI16o", "out_channels": 40}, "OHWI16o2i"),
    ],
)
def test_forms_of_bfloat16(change: dict[str, object], kernel_layout: str) -> None:
    form = bfloat16_form(replace(floats(PADDED), **change))  # type: ignore[arg-type]
    assert (form.dtype, form.out_dtype, form.kernel_layout) == ("bfloat16", "float32", kernel_layout)
    assert form.weight_dtype == "uint16"


@pytest.mark.parametrize(
    "change",
    [
        {"in_channels": 63},
        {"groups": 2, "kernel_layout": "OHWI16o"},
        {"data_layout": "NCHW16c", "kernel_layout": "OIHW16i16o"},
        {"data_layout": "NCHW"},
        {"out_layout": "NCHW", "data_layout": "NCHW", "kernel_layout": "OIHW"},
        {"dtype": "float64", "out_dtype": "float64"},
    ],
    ids=str,
)
def test_what_does_not_suit_matrices_stays_float32(change: dict[str, object]) -> None:
    case = replace(floats(PADDED), **change)  # type: ignore[arg-type]
    assert bfloat16_form(case, vectors=False) is case


def test_instructions() -> None:
    """A step of two by two matrices loads each of them once."""
    form, chosen = integer_form(PADDED), knobs(14, 2, 14, 16, tile_rows=2)
    source = compile_function(scheduled_kernel(form, chosen), TARGET).mod.inspect_source("asm")
    counts = {
        name: len(re.findall(rf"^\s+{name}\b", source, re.MULTILINE))
        for name in ("ldtilecfg", "tilerelease", "tilezero", "tilestored")
    }
    assert counts == {"ldtilecfg": 1, "tilerelease": 1, "tilezero": 4, "tilestored": 4}
    loads, products = (len(re.findall(rf"^\s+{name}\b", source, re.MULTILINE)) for name in _STEP)
    assert loads == products > 0


_STEP = ("tileloadd", "tdpbusd")


def test_sums_begin_with_a_cache_line() -> None:
    source = compile_function(scheduled_kernel(integer_form(PADDED), knobs(14, 2, 14, 16)), TARGET)
    assert re.search(r"andq\s+\$-64, ", source.mod.inspect_source("asm"))


def test_signed_data_is_multiplied_by_an_instruction_of_its_own() -> None:
    form = replace(integer_form(PADDED), dtype="int8")
    source = compile_function(scheduled_kernel(form, knobs(14, 2, 14, 16)), TARGET).mod.inspect_source("asm")
    assert "tdpbssd" in source and "tdpbusd" not in source


@pytest.mark.parametrize(("data", "weights", "held"), [(2, 2, 7), (1, 6, 8), (6, 1, 8), (1, 1, 3), (3, 2, 9)])
def test_registers_of_a_tile(data: int, weights: int, held: int) -> None:
    assert registers_held(data, weights) == held


@pytest.mark.parametrize(("data", "weights"), [(2, 2), (1, 6), (4, 1), (1, 3)])
def test_no_register_is_used_twice(data: int, weights: int) -> None:
    """Sums, data and weights have registers of their own, at most eight."""
    addresses = [[object() for _ in range(count)] for count in (data, weights)]
    seen: list[tuple[int, int, int]] = []

    class Recorded(Matrices):
        def _product(self, dtype: str, registers: tuple[int, int, int]) -> object:
            seen.append(registers)
            return None

        def _load(self, register: int, address: object, stride: int) -> object:
            return None

    Recorded(data, weights, 16, 16).multiply(addresses[0], 64, addresses[1], 64, "uint8")
    sums, left, right = ({registers[place] for registers in seen} for place in range(3))
    assert len(sums) == data * weights
    assert not (sums & left or sums & right or left & right)
    assert max(sums | left | right) < REGISTERS


@pytest.mark.parametrize(
    ("chosen", "problem"),
    [
        (knobs(14, 2, 5, 16), "its matrices fit no registers"),
        (knobs(14, 2, 14, 17), "its matrices fit no registers"),
        (knobs(14, 2, 14, 16, tile_rows=3), "its matrices fit no registers"),
        (knobs(14, 1, 14, 16, tile_rows=3, order="pixels", pad_at="chunk"), "tiles of 3 rows overlap"),
        (ConvolutionKnobs(16, 14, 2, tile_rows=2), "tile of 2 rows"),
    ],
)
def test_knobs_that_do_not_fit(chosen: ConvolutionKnobs, problem: str) -> None:
    with pytest.raises(RelayLayoutError, match=problem):
        check_knobs(integer_form(PADDED), chosen)


def test_blocks_of_channels_are_multiplied_as_vectors() -> None:
    blocked = integer_form(workload(32, 32, (8, 8), (1, 1), "NCHW16c OIHW16i16o NCHW16c"))
    assert not any(getattr(chosen, "matrix_rows", 0) for _, chosen in knob_space(blocked, PROCESSOR))


def test_other_processors_have_no_matrices() -> None:
    other = processor_of(Target({"kind": "llvm", "mcpu": "icelake-server"}))
    assert not any(getattr(chosen, "matrix_rows", 0) for _, chosen in knob_space(integer_form(PADDED), other))


def test_records_hold_the_knobs() -> None:
    form, chosen = integer_form(PADDED), knobs(14, 2, 14, 16, tile_rows=2)
    assert knobs_from_dict(form, chosen.to_dict()) == chosen
    assert kernel_arguments(form, chosen)[1] == ((2, 3, 3, 16, 16, 4), "int8")


@runs_here
def test_kernels_are_measured_by_processes_that_may_use_amx(monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux ends a process that uses the registers and has not asked."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[3]))
    measurer = CpuMeasurer(TARGET, Workplace("here"), threads=2, timing=Timing(min_repeat_ms=1))
    try:
        form, chosen = integer_form(SMALL), knobs(7, 2, 7, 16, tile_rows=2)
        (found,) = measurer.measure(form, [chosen])
        assert not found.error and len(found.seconds) == 3
        assert not measurer.result_error(form, chosen)
    finally:
        measurer.close()
