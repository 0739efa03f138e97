"""Matrices in vectors of ARM: the forms that they are for, their tiles, and the instructions they become."""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from kernel_bfloat16 import floats
from kernel_harness import compile_function, target_for
from test_integer_kernels import workload
from tvm import tirx

from topi_ext.errors import RelayLayoutError
from topi_ext.indexing import block_of
from topi_ext.kernel import scheduled_kernel
from topi_ext.knobs import ConvolutionKnobs, check_knobs
from topi_ext.machine.processor import processor_of
from topi_ext.spaces.convolution import cheapest
from topi_ext.spaces.direct import direct_knobs
from topi_ext.spaces.matrix import neon_tiles
from topi_ext.tune.models.assembly import hot_loop
from topi_ext.workloads.convolution import ConvolutionWorkload
from topi_ext.workloads.word_forms import bfloat16_form, bfloat16_forms, integer_form, integer_forms

CPU = "neoverse-n2"
PROCESSOR = processor_of(target_for(CPU))

BLOCKS = workload(64, 32, (12, 12), (1, 1), "NCHW8c OIHW8i8o NCHW8c")
LONG_BLOCKS = workload(64, 32, (12, 12), (3, 3), "NCHW16c OIHW16i16o NCHW16c", padding=(1, 1, 1, 1))
LAST = workload(64, 32, (12, 12), (3, 3), "NHWC OHWI16o NHWC", padding=(1, 1, 1, 1))


def paired(case: ConvolutionWorkload) -> ConvolutionWorkload:
    return integer_form(case, words="pairs")


def code(form: ConvolutionWorkload, knobs: ConvolutionKnobs, cpu: str = CPU) -> str:
    return str(compile_function(scheduled_kernel(form, knobs), target_for(cpu)).mod.inspect_source("asm"))


def count(instructions: Iterable[str], *names: str) -> int:
    """Those on vectors."""
    return sum(line.split()[0] in names and bool(re.search(r"\bv\d", line)) for line in instructions if line)


@pytest.mark.parametrize(
    ("case", "kernel_layout"),
    [
        (BLOCKS, "OIHW8o2i4i"),
        (LONG_BLOCKS, "OIHW2i16o2i4i"),
        (LAST, "OHWI16o2i4i"),
        (workload(40, 20, (9, 9), (3, 3), "NHWC OHWI16o NHWC"), "OHWI16o2i4i"),
        (workload(8, 6, (9, 9), (3, 3), "NHWC HWIO NHWC"), "HWIO2i4i"),
    ],
)
def test_forms(case: ConvolutionWorkload, kernel_layout: str) -> None:
    form = paired(case)
    assert (form.kernel_layout, form.word_axis, form.word, form.paired_words) == (kernel_layout, "I", 4, True)
    assert replace(form, kernel_layout="") == replace(integer_form(case), kernel_layout="")


@pytest.mark.parametrize(
    "case",
    [
        workload(12, 8, (9, 9), (3, 3), "NHWC HWIO NHWC"),
        workload(16, 16, (9, 9), (3, 3), "NCHW4c OIHW4i4o NCHW4c"),
        workload(16, 16, (9, 9), (3, 3), "NHWC HWIO NHWC", groups=2),
        workload(16, 16, (9, 9), (3, 3), "NHWC HWIO NHWC", groups=16),
        workload(16, 16, (9, 3), (3, 3), "NHWC HWIO NHWC"),
        workload(16, 3, (9, 9), (3, 3), "NHWC HWIO NHWC"),
        workload(16, 16, (9, 9), (3, 3), "NHWC HWIO NCHW"),
        workload(8, 16, (9, 9), (3, 3), "NCHW OIHW16o NCHW16c"),
    ],
    ids=["channels", "blocks", "groups", "depthwise", "one pixel", "few outputs", "rows", "words of rows"],
)
def test_forms_that_stay_as_they_are(case: ConvolutionWorkload) -> None:
    assert paired(case) is case


def test_images_of_any_size_have_no_pairs() -> None:
    case = replace(LAST, in_width=tirx.Var("width", "int64"))
    assert paired(case) is case


def test_lanes_that_are_left_over_are_told_from_words() -> None:
    assert paired(workload(40, 20, (9, 9), (3, 3), "NHWC OHWI16o NHWC")).padded_lanes == 16


@pytest.mark.parametrize(("cpu", "forms"), [(CPU, 2), ("cortex-a76", 1), ("znver4", 1)])
def test_processors_with_such_instructions(cpu: str, forms: int) -> None:
    found = integer_forms(BLOCKS, processor_of(target_for(cpu)))
    assert [form.paired_words for form in found] == [False, True][:forms]


@pytest.mark.parametrize(("cpu", "forms"), [(CPU, 2), ("cortex-a76", 0), ("znver4", 1)])
def test_processors_with_such_instructions_of_bfloat16(cpu: str, forms: int) -> None:
    found = bfloat16_forms(floats(BLOCKS), processor_of(target_for(cpu)))
    assert [form.kernel_layout for form in found] == ["OIHW4i8o2i", "OIHW2i8o2i2i"][:forms]


@pytest.mark.parametrize(
    ("case", "steps", "moves"),
    [(BLOCKS, 2, 0), (LAST, 4, 1), (LAST, 2, 1), (LONG_BLOCKS, 4, 1)],
    ids=["side by side", "two matrices", "halves", "long blocks"],
)
def test_a_product_is_one_instruction(case: ConvolutionWorkload, steps: int, moves: int) -> None:
    """Each row of two pixels is loaded whole, or put together once for all channels; nothing is spilled."""
    form = paired(replace(case, in_channels=512))
    lanes = block_of(form.kernel_layout, "O")
    knobs = ConvolutionKnobs(
        lanes, 4, 16 // lanes, "pixels", 1, "chunk" if case.is_copied else "stage", False, True, steps, 2
    )
    loop = hot_loop(code(form, knobs))
    assert loop is not None and loop.multiply_adds >= 16 and loop.spills == 0
    moved = count(loop.instructions, "zip1", "zip2", "mov", "ins", "ext", "ld1", "uzp1", "trn1", "trn2")
    # A product has one register of data for each eight channels of the tile.
    assert moved <= loop.multiply_adds // 8 * moves


def test_a_product_of_bfloat16_is_one_instruction() -> None:
    form = bfloat16_form(floats(workload(64, 32, (12, 12), (1, 1), "NCHW4c OIHW4i4o NCHW4c")), words="pairs")
    text = code(form, cheapest(form, PROCESSOR)[1]).splitlines()
    assert count(text, "bfmmla") >= 12
    assert count(text, "bfdot", "fmla", "zip1", "ext", "dup") == 0


@pytest.mark.parametrize("case", [BLOCKS, LONG_BLOCKS, LAST], ids=["blocks", "long blocks", "last"])
def test_tiles_fit_the_registers(case: ConvolutionWorkload) -> None:
    form = paired(case)
    lanes = block_of(form.kernel_layout, "O")
    tiles = list(neon_tiles(form, PROCESSOR, lanes, 12, 32 // lanes))
    held = [tile.pixels * tile.vectors * lanes // 4 + tile.pixels // 2 * tile.steps // 2 for tile in tiles]
    assert max(held) < PROCESSOR.vector_registers and max(tile.pixels for tile in tiles) >= 4
    assert all(tile.pixels % 2 == 0 and tile.matrix_rows == 2 for tile in tiles)
    assert {tile.steps for tile in tiles} == ({2} if case is BLOCKS else {2, 4})


def test_estimates_know_twice_the_products() -> None:
    whole, pairs = integer_forms(LAST, PROCESSOR)
    assert 0.4 < cheapest(pairs, PROCESSOR)[0] / cheapest(whole, PROCESSOR)[0] < 0.7


def test_all_knobs_of_the_space_fit() -> None:
    form = paired(LAST)
    found = [knobs for _, knobs in direct_knobs(form, PROCESSOR)]
    assert found
    for knobs in found:
        check_knobs(form, knobs)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"matrix_rows": 0, "steps": 1}, "weights in pairs of words are multiplied as matrices alone"),
        ({"tile_pixels": 3}, "its matrices fit no registers"),
        ({"steps": 3}, "its matrices fit no registers"),
        ({"matrix_rows": 4}, "its matrices fit no registers"),
    ],
)
def test_other_knobs_are_refused(change: dict[str, Any], message: str) -> None:
    form = paired(LAST)
    knobs = replace(cheapest(form, PROCESSOR)[1], **change)
    with pytest.raises(RelayLayoutError, match=message):
        check_knobs(form, knobs)
