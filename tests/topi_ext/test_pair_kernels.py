"""Convolutions of bfloat16 in vectors: the form that computes them, their instructions, and their numbers."""

import re

import pytest
from kernel_bfloat16 import check_bfloat16, floats
from kernel_harness import compile_function, cpu_features, target_for
from test_integer_kernels import CASES as BYTES
from test_integer_kernels import workload
from tvm.target import Target

from topi_ext.kernel import scheduled_kernel
from topi_ext.knobs import ConvolutionKnobs
from topi_ext.machine.processor import processor_of
from topi_ext.spaces.convolution import knob_space
from topi_ext.workloads.convolution import ConvolutionWorkload
from topi_ext.workloads.word_forms import bfloat16_form

CPUS = {
    "znver4": {"avx512_bf16", "avx512vl"},
    "x86-64-v4": {"avx512bw", "avx512vl"},
    "x86-64-v3": {"avx2", "fma"},
    "x86-64-v2": {"ssse3"},
}
"""Processors with the features that running their code needs; the first multiplies pairs."""

CASES = [
    *(floats(case) for case in BYTES if bfloat16_form(floats(case)).dtype == "bfloat16"),
    floats(workload(6, 16, (9, 8), (3, 3), "NHWC OHWI16o NHWC", padding=(1, 1, 1, 1))),
    floats(workload(16, 8, (7, 9), (3, 3), "NCHW16c OIHW16i8o NCHW8c", padding=(1, 1, 1, 1))),
    floats(workload(8, 4, (7, 9), (2, 2), "NCHW4c OIHW4i4o NCHW4c")),
    floats(workload(3, 24, (9, 16), (2, 4), "NCHW OHWI NHWC", strides=(1, 2))),
]


ARM_CASES = [
    floats(workload(32, 32, (9, 11), (3, 3), "NHWC OHWI8o NHWC", padding=(1, 1, 1, 1))),
    floats(workload(32, 32, (9, 11), (3, 3), "NCHW4c OIHW4i4o NCHW4c", padding=(1, 1, 1, 1))),
    floats(workload(3, 16, (14, 14), (3, 3), "NCHW OIHW8o NCHW8c", strides=(2, 2), padding=(1, 1, 1, 1))),
]


def fastest() -> str:
    return next((cpu for cpu, needed in CPUS.items() if needed <= cpu_features()), "")


def some(form: ConvolutionWorkload, target: Target, step: int) -> list[ConvolutionKnobs]:
    """Of the direct knobs every so many, and the one of least estimate."""
    found = sorted(knob_space(form, processor_of(target)), key=lambda pair: pair[0])
    direct = [chosen for _, chosen in found if isinstance(chosen, ConvolutionKnobs)]
    return [direct[0], *direct[step::step]]


@pytest.mark.skipif(not fastest(), reason="not an x86-64 processor")
@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case.data_layout}-{case.in_channels}-{case.kernel}"
)
def test_numbers(case: ConvolutionWorkload) -> None:
    form, target = bfloat16_form(case), target_for(fastest())
    for chosen in some(form, target, 150)[:6]:
        check_bfloat16(case, form, chosen, target)


@pytest.mark.parametrize("case", [CASES[0], CASES[6]], ids=["channels", "rows"])
@pytest.mark.parametrize("cpu", CPUS)
def test_numbers_of_every_instruction_set(cpu: str, case: ConvolutionWorkload) -> None:
    if not CPUS[cpu] <= cpu_features():
        pytest.skip(f"this machine cannot run code for {cpu}")
    form, target = bfloat16_form(case), target_for(cpu)
    check_bfloat16(case, form, some(form, target, 1)[0], target)


def products(cpu: str, form: ConvolutionWorkload) -> tuple[int, int]:
    """How many instructions of a kernel multiply pairs and floats."""
    target = Target({"kind": "llvm", "num-cores": 2, "mtriple": "x86_64-linux-gnu", "mcpu": cpu})
    kernel = compile_function(scheduled_kernel(form, some(form, target, 1)[0]), target)
    text = kernel.mod.inspect_source("asm")
    pairs, single = (len(re.findall(rf"^\s+{name}", text, re.MULTILINE)) for name in ("vdpbf16ps", "vfmadd"))
    return pairs, single


@pytest.mark.parametrize("cpu", ["znver4", "cooperlake", "sapphirerapids"])
@pytest.mark.parametrize("case", [CASES[0], CASES[6], CASES[-3], CASES[-2]], ids=lambda case: case.to_json())
def test_an_instruction_multiplies_pairs(cpu: str, case: ConvolutionWorkload) -> None:
    pairs, single = products(cpu, bfloat16_form(case))
    assert pairs > 0 == single


@pytest.mark.parametrize("cpu", ["x86-64-v4", "x86-64-v3"])
def test_without_it_halves_of_words_are_multiplied(cpu: str) -> None:
    pairs, single = products(cpu, bfloat16_form(CASES[0]))
    assert single > 0 == pairs


@pytest.mark.parametrize(
    ("order", "prefetch", "asked"), [("channels", True, 2), ("channels", False, 0), ("pixels", True, 0)]
)
def test_words_that_are_read_once_are_asked_for(order: str, prefetch: bool, asked: int) -> None:
    """A cache line for each row of 16 words of each of two vectors."""
    chosen = ConvolutionKnobs(16, 4, 2, order, prefetch=prefetch)  # type: ignore[arg-type]
    assert scheduled_kernel(bfloat16_form(CASES[0]), chosen).script().count("T.prefetch") == asked


ARM_LOOP = re.compile(r"^\s+(bfdot|fmla|dup|bfcvtn2?)\b.*", re.MULTILINE)


def arm_instructions(cpu: str, case: ConvolutionWorkload) -> list[str]:
    """Those of a kernel for ARM that multiply, repeat a word or round."""
    target = Target({"kind": "llvm", "num-cores": 2, "mtriple": "aarch64-linux-gnu", "mcpu": cpu})
    form = bfloat16_form(case)
    kernel = compile_function(scheduled_kernel(form, some(form, target, 1)[0]), target)
    return [found.group(0).strip() for found in ARM_LOOP.finditer(kernel.mod.inspect_source("asm"))]


@pytest.mark.parametrize("cpu", ["neoverse-n2", "neoverse-v1", "neoverse-v2", "cortex-x2", "cortex-a710"])
@pytest.mark.parametrize("case", ARM_CASES, ids=lambda case: case.kernel_layout)
def test_arm_reads_a_word_from_a_lane(cpu: str, case: ConvolutionWorkload) -> None:
    found = arm_instructions(cpu, case)
    assert found and all(re.search(r"^bfdot.*\.2h\[0\]$", each) for each in found), found[:5]


def test_arm_without_it_multiplies_halves() -> None:
    found = {each.split()[0] for each in arm_instructions("cortex-a76", ARM_CASES[0])}
    assert "fmla" in found and "bfdot" not in found


def test_first_layers_leave_registers_for_words_that_several_taps_meet() -> None:
    """Measured: tiles of 14 by 2 spill and take twice as long as those of 8 by 2."""
    case = floats(
        workload(3, 64, (224, 224), (7, 7), "NCHW OIHW16o NCHW16c", strides=(2, 2), padding=(3, 3, 3, 3))
    )
    target = Target({"kind": "llvm", "num-cores": 2, "mtriple": "x86_64-linux-gnu", "mcpu": "znver5"})
    (chosen, *_) = some(bfloat16_form(case), target, 1)
    assert chosen.tile_channels * (chosen.tile_pixels + 1) + chosen.tile_pixels <= 28


@pytest.mark.parametrize(
    ("layouts", "channels", "groups", "expected"),
    [
        ("NCHW16c OIHW16i16o NCHW16c", 32, 1, "OIHW8i16o2i"),
        ("NCHW8c OIHW8i16o NCHW16c", 32, 1, "OIHW4i16o2i"),
        ("NHWC OHWI16o NHWC", 32, 2, "OHWI16o2i"),
        ("NHWC HWIO NHWC", 32, 1, "HWIO2i"),
        ("NCHW OIHW16o NCHW16c", 3, 1, "OIHW16o2w"),
    ],
)
def test_forms(layouts: str, channels: int, groups: int, expected: str) -> None:
    case = floats(workload(channels, 32, (9, 9), (3, 3), layouts, groups=groups))
    form = bfloat16_form(case)
    assert (form.dtype, form.out_dtype, form.kernel_layout) == ("bfloat16", "float32", expected)
    assert form.kernel[1] == (4 if "w" in expected else 3)


@pytest.mark.parametrize(
    "case",
    [
        workload(15, 16, (9, 9), (3, 3), "NHWC HWIO NHWC"),
        workload(16, 16, (9, 9), (3, 3), "NCHW OIHW NCHW"),
        workload(16, 16, (9, 9), (3, 3), "NHWC HWIO NHWC", groups=16),
        workload(3, 16, (9, 9), (3, 3), "NCHW OIHW16o NCHW16c", dilation=(1, 2)),
    ],
    ids=["odd", "pixels", "depthwise", "dilated"],
)
def test_what_has_no_words_stays_float32(case: ConvolutionWorkload) -> None:
    assert bfloat16_form(floats(case)) == floats(case)
