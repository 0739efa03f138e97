"""Convolutions of bytes: the form that computes them, the instructions it becomes, and its numbers."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm
from kernel_harness import (
    Array,
    check_kernel,
    compile_function,
    convolution_rule,
    cpu_features,
    prim_func,
    target_for,
)
from kernel_reference import convolve as reference
from kernel_reference import pack
from tvm import te
from tvm.s_tir import Schedule

from topi_ext.codegen.dot_products import dot
from topi_ext.kernel import direct_convolution, kernel_arguments, scheduled_kernel
from topi_ext.machine.processor import processor_of
from topi_ext.spaces.convolution import cheapest
from topi_ext.weights import fill_vectors
from topi_ext.workloads.convolution import ConvolutionWorkload
from topi_ext.workloads.word_forms import (
    ByteWeight,
    integer_form,
    integer_forms,
    pairs_fit,
)

CPUS = {
    "znver5": ({"avx512_vnni", "avx512vl"}, "vpdpbusd"),
    "x86-64-v4": ({"avx512bw", "avx512vl"}, "vpmaddwd"),
    "x86-64-v3": ({"avx2", "fma"}, "vpmaddwd"),
    "x86-64-v2": ({"ssse3"}, "pmaddwd"),
}
"""Processors with the features that running their code needs, and the instruction that it must use."""


def workload(
    channels: int,
    outputs: int,
    image: tuple[int, int],
    kernel: tuple[int, int],
    layouts: str,
    *,
    batch: int = 1,
    strides: tuple[int, int] = (1, 1),
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilation: tuple[int, int] = (1, 1),
    groups: int = 1,
) -> ConvolutionWorkload:
    """Of bytes; ``layouts`` are those of data, kernel and result."""
    data, weight, out = layouts.split()
    return ConvolutionWorkload(
        batch,
        channels,
        outputs,
        *image,
        kernel,
        strides,
        padding,
        dilation,
        groups,
        data,
        weight,
        out,
        "uint8",
        "int32",
    )


SUMS_25, SUMS_29 = (1 << 25) - 1, (1 << 29) - 1
"""Largest sums that leave 6 and 2 bits of int32 free."""

CASES = [
    workload(32, 32, (9, 11), (3, 3), "NCHW16c OIHW16i16o NCHW16c", padding=(1, 1, 1, 1), batch=2),
    workload(32, 48, (7, 6), (1, 1), "NCHW16c OIHW16i16o NCHW16c", strides=(2, 1)),
    workload(24, 32, (13, 9), (3, 3), "NCHW8c OIHW8i16o NCHW16c", dilation=(2, 1), padding=(2, 0, 1, 1)),
    workload(12, 8, (9, 9), (2, 3), "NCHW4c OIHW4i8o NCHW8c"),
    workload(20, 24, (9, 9), (3, 3), "NHWC HWIO NHWC", padding=(1, 1, 1, 1)),
    workload(32, 64, (5, 7), (1, 1), "NHWC OHWI16o NHWC"),
    workload(3, 32, (15, 14), (7, 7), "NCHW OIHW16o NCHW16c", strides=(2, 2), padding=(3, 3, 3, 3)),
    workload(1, 16, (9, 9), (3, 3), "NCHW OIHW16o NCHW16c", padding=(0, 1, 0, 1)),
    workload(32, 32, (9, 9), (3, 3), "NCHW16c OIHW16o NCHW16c", padding=(1, 1, 1, 1), groups=32),
    workload(21, 21, (8, 9), (5, 5), "NHWC HWIO NHWC", strides=(2, 2), padding=(2, 2, 2, 2), groups=21),
    workload(32, 64, (8, 8), (3, 3), "NCHW16c OIHW16o NCHW16c", groups=4),
    workload(13, 16, (8, 8), (3, 3), "NHWC HWIO NHWC"),
    workload(70, 16, (6, 6), (3, 3), "NHWC HWIO NHWC", padding=(1, 1, 1, 1)),
    workload(16, 6, (9, 10), (3, 3), "NCHW OIHW NCHW"),
    workload(28, 40, (9, 7), (3, 2), "NHWC OHWI16o NHWC", padding=(1, 0, 1, 1), batch=2),
]


def filled(weight: Array, form: ConvolutionWorkload) -> Array:
    """An OIHW weight with zeros behind its outputs where these do not fill the form's vectors."""
    return fill_vectors(weight, 1, form.padded_lanes) if form.padded_lanes else weight


def form_of(case: ConvolutionWorkload, cpu: str, *, fit: bool = False) -> ConvolutionWorkload:
    """The direct form for a processor, of weights whose pairs of products fit or do not."""
    weight = ByteWeight(np.full((1, 1), 64 if fit else 127, "int8"))
    return replace(integer_forms(case, processor_of(target_for(cpu)), weight)[0], spare_bits=0)


def check(case: ConvolutionWorkload, cpu: str, pad_value: int = 0, *, bits: int = 8) -> None:
    """The kernel of a form, scheduled by its rule, beside numpy; weights have so many ``bits``."""
    form = form_of(case, cpu, fit=bits < 8)
    rng = np.random.default_rng(case.in_channels)
    data = rng.integers(0, 256, (case.batch, case.in_channels, case.in_height, case.in_width))
    most = 1 << (bits - 1)
    weight = rng.integers(-most, most, (case.out_channels, case.group_in_channels, *case.kernel))
    if bits < 8:
        # The largest sums that there are, of both signs.
        data[:], weight[0], weight[1] = 255, most, -most
    top, left, bottom, right = case.padding
    bordered = np.pad(data, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=pad_value)
    expected = reference(bordered, weight, case.strides, (0, 0, 0, 0), case.dilation, case.groups)
    wider = form.kernel[1] - case.kernel[1]
    stored = filled(np.pad(weight, ((0, 0), (0, 0), (0, 0), (0, wider))), form)
    if form.pairs_fit:
        assert pairs_fit(pack(stored, "OIHW", form.kernel_layout))
    arguments = kernel_arguments(form, cheapest(form, processor_of(target_for(cpu)))[1])
    data_tensor, weight_tensor = (te.placeholder(shape, dtype) for shape, dtype in arguments[:2])
    result = direct_convolution(data_tensor, weight_tensor, form, pad_value)
    check_kernel(
        prim_func([data_tensor, weight_tensor, result]),
        target_for(cpu),
        [
            pack(data.astype("uint8"), "NCHW", form.data_layout),
            pack(stored.astype(form.weight_dtype), "OIHW", form.kernel_layout),
        ],
        pack(expected.astype(form.out_dtype), "NCHW", form.out_layout),
        schedule=lambda func, target: convolution_rule(target).apply(func, target, False),
        case=case.to_json(),
    )


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case.data_layout}-{case.in_channels}-{case.kernel}"
)
def test_numbers(case: ConvolutionWorkload) -> None:
    check(case, _fastest())


@pytest.mark.parametrize("cpu", CPUS)
def test_numbers_of_every_instruction_set(cpu: str) -> None:
    if not CPUS[cpu][0] <= cpu_features():
        pytest.skip(f"this machine cannot run code for {cpu}")
    check(CASES[0], cpu)


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("case", [CASES[0], CASES[4], CASES[6]], ids=["channels", "NHWC", "rows"])
def test_numbers_of_weights_of_seven_bits(case: ConvolutionWorkload, cpu: str) -> None:
    """Sums of two products that are as large as they may be, and all of one sign."""
    if not CPUS[cpu][0] <= cpu_features():
        pytest.skip(f"this machine cannot run code for {cpu}")
    check(case, cpu, bits=7)


@pytest.mark.parametrize(
    ("word", "fits"),
    [
        ([64, 64, -64, -64], True),
        ([127, 1, -128, 127], True),
        ([127, 2, 0, 0], False),
        ([0, 0, -128, -1], False),
        ([0, 127, 127, 0], True),
    ],
)
def test_pairs_of_a_word_that_add_up_to_16_bits(word: list[int], fits: bool) -> None:
    assert pairs_fit(np.array([[0, 0, 0, 0], word], "int8")) == fits


@pytest.mark.parametrize(
    ("weight", "fits"), [([64, -64, 3], True), ([65, 0, 0], False), ([0, -65, 0], False)]
)
def test_pairs_that_add_up_to_16_bits_whichever_they_are(weight: list[int], fits: bool) -> None:
    assert ByteWeight(np.array(weight, "int8")).pairs_fit == fits


SMALL = workload(16, 16, (4, 4), (7, 7), "NHWC HWIO NHWC", padding=(3, 3, 3, 3), groups=16)
"""Of the window's rows and columns many meet nothing but the border."""


@pytest.mark.parametrize(
    "case", [CASES[0], CASES[6], CASES[8], SMALL], ids=["channels", "rows", "float32", "small"]
)
def test_the_border_may_hold_any_byte(case: ConvolutionWorkload) -> None:
    check(case, _fastest(), pad_value=201)


@pytest.mark.parametrize("cpu", CPUS)
def test_instructions(cpu: str) -> None:
    """One for each word of channels, accumulator and data of the tile; nothing is spilled."""
    target = target_for(cpu)
    block = 16 if cpu in ("znver5", "x86-64-v4") else processor_of(target).lanes(4)
    form = form_of(workload(32, 32, (8, 8), (1, 1), f"NCHW16c OIHW16i{block}o NCHW{block}c"), cpu)
    assembly = compile_function(scheduled_kernel(form, cheapest(form, processor_of(target))[1]), target)
    text = assembly.mod.inspect_source("asm")
    assert text.count(CPUS[cpu][1]) >= 12
    assert "vpmulld" not in text and "pmuludq" not in text


@pytest.mark.parametrize(
    ("cpu", "instruction"), [("x86-64-v4", "pmaddubsw"), ("x86-64-v3", "pmaddubsw"), ("znver5", "vpdpbusd")]
)
def test_instructions_of_weights_of_seven_bits(cpu: str, instruction: str) -> None:
    target = target_for(cpu)
    block = processor_of(target).lanes(4)
    form = form_of(workload(32, 32, (8, 8), (1, 1), f"NCHW16c OIHW16i{block}o NCHW{block}c"), cpu, fit=True)
    knobs = cheapest(form, processor_of(target))[1]
    data, weight = (te.placeholder(shape, dtype) for shape, dtype in kernel_arguments(form, knobs)[:2])
    function = prim_func([data, weight, direct_convolution(data, weight, form)])
    scheduled = convolution_rule(target).apply(function, target, False)
    assert scheduled is not None
    text = compile_function(scheduled.mod["main"], target).mod.inspect_source("asm")
    assert text.count(instruction) >= 12
    assert ("pmaddubsw" in text) == (instruction == "pmaddubsw")


@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v2"])
def test_words_of_more_lanes_than_a_register_are_multiplied_in_parts(cpu: str) -> None:
    target = target_for(cpu)
    form = form_of(workload(32, 32, (8, 8), (1, 1), "NCHW16c OIHW16i16o NCHW16c"), cpu)
    assert processor_of(target).lanes(4) < 16
    assembly = compile_function(scheduled_kernel(form, cheapest(form, processor_of(target))[1]), target)
    text = assembly.mod.inspect_source("asm")
    assert text.count("pmaddwd") >= 2 * 16 // processor_of(target).lanes(4)
    assert "pmulld" not in text and "pmuludq" not in text and "pmullw" not in text


ON_ARM = workload(32, 32, (8, 8), (1, 1), "NCHW8c OIHW8i8o NCHW8c")


def _code_for_arm(form: ConvolutionWorkload, cpu: str) -> str:
    target = target_for(cpu)
    knobs = cheapest(form, processor_of(target))[1]
    return str(compile_function(scheduled_kernel(form, knobs), target).mod.inspect_source("asm"))


@pytest.mark.parametrize(("cpu", "instruction"), [("cortex-a76", "sdot"), ("neoverse-n2", "sudot")])
def test_dot_products_of_arm(cpu: str, instruction: str) -> None:
    """Words of data are read from a lane, and copied to no other one."""
    form = form_of(ON_ARM, cpu)
    assert (form.dtype, form.kernel_layout) == ("uint8" if cpu == "neoverse-n2" else "int8", "OIHW2i8o4i")
    text = _code_for_arm(form, cpu)
    found = re.findall(rf"\t{instruction}2?\tv.*", text)
    assert len(found) >= 12
    assert all(re.search(r"\.4b\[0\]$", line) for line in found)
    assert "ld1r" not in text


def test_words_of_a_pixel_are_lanes_of_one_register_on_cores_in_order() -> None:
    text = _code_for_arm(form_of(ON_ARM, "cortex-a55"), "cortex-a55")
    lanes = re.findall(r"\tsdot\tv.*\.4b\[(\d)\]", text)
    assert lanes.count("0") == lanes.count("1") >= 12
    assert not re.findall(r"\t(ins|zip1|zip2|ext|dup)\t", text)


@pytest.mark.parametrize(
    ("fit", "for_each_sum"), [(True, {"smull": 1, "smlal": 1}), (False, {"smull": 2, "smlal": 0})]
)
def test_long_products_of_arm(fit: bool, for_each_sum: dict[str, int]) -> None:
    """Products are added to sums with their neighbours, two at once where they fit; nothing else is done."""
    form = replace(form_of(ON_ARM, "cortex-a72"), pairs_fit=fit)
    assert (form.dtype, form.kernel_layout) == ("int8", "OIHW2i2i8o2i")
    text = _code_for_arm(form, "cortex-a72")
    counts = {name: len(re.findall(rf"\t{name}\tv", text)) for name in ("smull", "smlal", "sadalp")}
    assert counts["sadalp"] == (1 if fit else 2) * counts["smull"] / for_each_sum["smull"] >= 12
    assert counts["smlal"] == for_each_sum["smlal"] * counts["sadalp"]
    assert not re.findall(r"\t(ext|dup|ld2|saddlp|addp)\t", text)


@pytest.mark.parametrize(
    ("case", "kernel_layout", "out_dtype", "kernel"),
    [
        (CASES[0], "OIHW4i16o4i", "int32", (3, 3)),
        (CASES[3], "OIHW8o4i", "int32", (2, 3)),
        (CASES[4], "HWIO4i", "int32", (3, 3)),
        (CASES[6], "OIHW16o4w", "int32", (7, 8)),
        (CASES[8], "OIHW16o", "float32", (3, 3)),
        (CASES[12], "HWIO", "int32", (3, 3)),
        (CASES[14], "OHWI16o4i", "int32", (3, 2)),
    ],
)
def test_forms(
    case: ConvolutionWorkload, kernel_layout: str, out_dtype: str, kernel: tuple[int, int]
) -> None:
    form = integer_form(case)
    assert (form.kernel_layout, form.out_dtype, form.kernel) == (kernel_layout, out_dtype, kernel)
    assert (form.out_height, form.out_width) == (case.out_height, case.out_width)


@pytest.mark.parametrize(
    ("case", "kernel_layout"),
    [
        (CASES[0], "OIHW4i2i16o2i"),
        (CASES[3], "OIHW2i8o2i"),
        (CASES[4], "HWI2iO2i"),
        (CASES[6], "OIHW2w16o2w"),
        (CASES[14], "OHWI2i16o2i"),
    ],
)
def test_forms_in_halves_of_words(case: ConvolutionWorkload, kernel_layout: str) -> None:
    form = integer_form(case, signed_words=True, words="halves")
    assert (form.kernel_layout, form.word) == (kernel_layout, 4)
    assert replace(form, kernel_layout="") == replace(integer_form(case, signed_words=True), kernel_layout="")


@pytest.mark.parametrize(("weight", "fit"), [([-127, 127], True), ([-128, 0], False)])
def test_all_products_of_signed_bytes_fit_in_pairs_but_the_largest(weight: list[int], fit: bool) -> None:
    assert ByteWeight(np.array(weight, "int8")).signed_pairs_fit == fit


@pytest.mark.parametrize(
    ("case", "kernel_layout", "kernel"),
    [
        (CASES[0], "OIHW8i16o2i", (3, 3)),
        (CASES[4], "HWIO2i", (3, 3)),
        (CASES[6], "OIHW16o2w", (7, 8)),
        (CASES[12], "HWIO2i", (3, 3)),
    ],
)
def test_forms_in_words_of_two(
    case: ConvolutionWorkload, kernel_layout: str, kernel: tuple[int, int]
) -> None:
    form = integer_form(case, words="wide")
    assert (form.kernel_layout, form.kernel) == (kernel_layout, kernel)
    assert (form.data_dtype, form.dtype, form.weight_dtype, form.out_dtype) == (
        "uint8",
        "int16",
        "int16",
        "int32",
    )


@pytest.mark.parametrize(
    ("cpu", "fit", "found"),
    [
        ("znver4", False, ("uint8", False)),
        ("znver4", True, ("uint8", False)),
        ("x86-64-v4", False, ("int16", False)),
        ("x86-64-v3", False, ("int16", False)),
        ("x86-64-v3", True, ("uint8", True)),
        ("x86-64", True, ("int16", False)),
        ("cortex-a72", False, ("int8", True)),
        ("cortex-a76", True, ("int8", False)),
    ],
)
def test_forms_of_processors(cpu: str, fit: bool, found: tuple[str, bool]) -> None:
    """Bytes are widened where no instruction takes four, nor pairs of these weights."""
    form = form_of(CASES[0], cpu, fit=fit)
    assert (form.dtype, form.pairs_fit) == found


DEPTHWISE = [
    workload(32, 32, (9, 9), (3, 3), "NCHW16c OIHW16o NCHW16c", padding=(1, 1, 1, 1), groups=32, batch=2),
    workload(16, 16, (11, 8), (3, 3), "NCHW16c OIHW16o NCHW16c", strides=(2, 2), groups=16),
    workload(48, 48, (13, 17), (5, 5), "NCHW16c OIHW16o NCHW16c", padding=(2, 2, 2, 2), groups=48),
    workload(16, 16, (23, 20), (7, 7), "NCHW16c OIHW16o NCHW16c", padding=(3, 3, 3, 3), groups=16),
    workload(
        16, 16, (9, 9), (3, 2), "NCHW16c OIHW16o NCHW16c", dilation=(2, 1), padding=(2, 0, 1, 1), groups=16
    ),
    workload(32, 32, (7, 30), (1, 4), "NCHW16c OIHW16o NCHW16c", strides=(1, 3), groups=32),
]


@pytest.mark.parametrize("case", DEPTHWISE, ids=lambda case: f"{case.kernel}-{case.strides}")
@pytest.mark.parametrize("pad_value", [0, 201])
def test_depthwise_convolutions_in_words_of_pixels(case: ConvolutionWorkload, pad_value: int) -> None:
    assert integer_form(case, pixel_words=True).kernel_layout == "OIHW16o4w"
    assert integer_form(case).out_dtype == "float32"
    check(case, "znver4" if "avx512_vbmi" in cpu_features() else _fastest(), pad_value)


@pytest.mark.parametrize(
    "change",
    [{"dilation": (1, 2)}, {"data_layout": "NHWC"}, {"out_layout": "NCHW8c"}, {"kernel": (3, 1)}],
    ids=str,
)
def test_other_depthwise_convolutions_have_no_words_of_pixels(change: dict[str, Any]) -> None:
    case = replace(DEPTHWISE[0], **change)
    assert integer_form(case, pixel_words=True) == integer_form(case)


def test_words_of_pixels_are_one_permutation() -> None:
    processor = processor_of(target_for("znver4"))
    form = integer_form(DEPTHWISE[0], pixel_words=processor.pixel_words)
    kernel = scheduled_kernel(form, cheapest(form, processor)[1])
    text = compile_function(kernel, target_for("znver4")).mod.inspect_source("asm")
    assert text.count("vpdpbusd") >= 3
    assert re.search(r"\bvpermb\b", text)
    assert not re.search(r"vpermt2b|vpermi2b|vpslld|vpunpck", text)


@pytest.mark.parametrize(
    ("cpu", "found"), [("znver4", True), ("icelake-server", True), ("cascadelake", False), ("znver3", False)]
)
def test_processors_with_words_of_pixels(cpu: str, found: bool) -> None:
    assert processor_of(target_for(cpu)).pixel_words == found


def test_other_dtypes_keep_their_form() -> None:
    case = ConvolutionWorkload(
        1, 16, 16, 8, 8, (3, 3), (1, 1), (0, 0, 0, 0), (1, 1), 1, "NHWC", "HWIO", "NHWC", "float32", "float32"
    )
    assert integer_form(case) is case


def test_bytes_that_do_not_lie_side_by_side() -> None:
    """Words are then put together."""
    data, weight = te.placeholder((4, 16), "uint8"), te.placeholder((4, 16), "int8")
    result = te.compute(
        (16,),
        lambda lane: dot(
            [data[place, lane] for place in range(4)], [weight[place, lane] for place in range(4)]
        ),
    )
    schedule = Schedule(te.create_prim_func([data, weight, result]).with_attr("global_symbol", "main"))
    schedule.vectorize(schedule.get_loops(schedule.get_child_blocks(schedule.get_sblock("root"))[0])[0])
    rng = np.random.default_rng(0)
    bytes_, factors = (
        rng.integers(0, 256, (4, 16)).astype("uint8"),
        rng.integers(-128, 128, (4, 16)).astype("int8"),
    )
    out = tvm.runtime.tensor(np.zeros(16, "int32"))
    library = compile_function(schedule.mod["main"], target_for(_fastest()))
    library["main"](tvm.runtime.tensor(bytes_), tvm.runtime.tensor(factors), out)
    np.testing.assert_array_equal(out.numpy(), (bytes_.astype("int32") * factors).sum(axis=0))


def _fastest() -> str:
    return next(cpu for cpu, (features, _) in CPUS.items() if features <= cpu_features())


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("total", "bits"),
    [(SUMS_25 // 255, 6), (SUMS_25 // 255 + 1, 2), (SUMS_29 // 255, 2), (SUMS_29 // 255 + 1, 0)],
)
def test_spare_bits_are_those_that_no_sum_of_bytes_reaches(total: int, bits: int, sign: int) -> None:
    """Of one output whose weights have one sign, as bytes of 255 give the largest sum."""
    weight = np.zeros((2, -(-total // 127)), "int8")
    weight[1] = sign * 127
    weight[1, 0] = sign * (total - 127 * (weight.shape[1] - 1))
    assert ByteWeight(weight).spare_bits == bits


def test_sums_of_both_signs_count_apart() -> None:
    weight = np.array([[127, -127] * 1000], "int8")
    assert ByteWeight(weight).spare_bits == ByteWeight(weight[:, ::2]).spare_bits


def test_weights_of_seven_bits_have_two_forms_where_winograd_has_one() -> None:
    processor = processor_of(target_for("x86-64-v3"))
    weight = ByteWeight(np.full((32, 32, 3, 3), 63, "int8"))
    pairs, wide = integer_forms(CASES[0], processor, weight)
    assert (pairs.dtype, pairs.pairs_fit, wide.dtype, wide.spare_bits) == ("uint8", True, "int16", 6)
    assert [form.dtype for form in integer_forms(CASES[1], processor, weight)] == ["uint8"]
