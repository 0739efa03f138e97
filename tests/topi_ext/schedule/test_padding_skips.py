"""Kernels larger than their image: rows and columns that meet only padding are left out."""

import random
from dataclasses import replace

import pytest
from kernel_cases import ConvolutionCase, convolution_function, run_convolution, workload_of
from kernel_harness import host_cpus

from topi_ext.knobs import ConvolutionKnobs
from topi_ext.schedule.cpu.direct import schedule_convolution
from topi_ext.schedule.padding_skips import SKIPPED
from topi_ext.workloads.convolution import ConvolutionWorkload
from topi_ext.workloads.facts import share_of_taps_inside

ORDINARY = ConvolutionCase(
    1,
    4,
    16,
    9,
    9,
    (3, 3),
    padding=(1, 1, 1, 1),
    data_layout="NHWC",
    kernel_layout="OHWI16o",
    out_layout="NHWC",
)
LOW = replace(ORDINARY, height=2, kernel=(5, 1), padding=(4, 0, 4, 0), dilation=(2, 1))
NARROW = replace(ORDINARY, width=2, kernel=(1, 5), padding=(0, 4, 0, 4), dilation=(1, 2))


def workload(case: ConvolutionCase) -> ConvolutionWorkload:
    return workload_of(convolution_function(case)[0])


def skipping_case(seed: int) -> ConvolutionCase:
    """The convolution of that seed: a small image with much padding, in any layout of the data."""
    rng = random.Random(seed)
    while True:
        layout = rng.choice(["NHWC", "NCHW", "NCHW8c"])
        groups = rng.choice([1, 1, 2])
        channels = (8 * groups, 8 * groups)
        kernel_layout = "OIHW8o"
        if layout != "NCHW8c":
            channels = (groups * rng.randint(1, 9), groups * rng.randint(1, 20))
            kernel_layout = "OIHW" if layout == "NCHW" else rng.choice(["HWIO", "OHWI8o"])
        if layout == "NHWC" and groups > 1 and kernel_layout == "OHWI8o":
            kernel_layout = "GOHWI8o"
        if layout != "NCHW8c" and rng.random() < 0.2:
            groups = rng.randint(2, 9)
            channels, kernel_layout = (groups, groups), "HWOI" if layout == "NHWC" else "OIHW"
        case = ConvolutionCase(
            rng.randint(1, 2),
            *channels,
            rng.randint(1, 4),
            rng.randint(1, 4),
            (rng.randint(2, 6), rng.randint(1, 5)),
            (rng.randint(1, 3), rng.randint(1, 2)),
            (rng.randint(1, 5), rng.randint(0, 5), rng.randint(1, 5), rng.randint(0, 5)),
            (rng.randint(1, 3), rng.randint(1, 3)),
            groups,
            layout,
            kernel_layout,
            layout,
            rng.choice(["none", "bias_relu"]),
            cpu=rng.choice(host_cpus()),
        )
        if min(case.out_extents) < 1 or (layout == "NHWC" and case.out_channels % 8 == 0):
            continue
        if min(share_of_taps_inside(workload(case), side) for side in (0, 1)) < 1.0:
            return case


@pytest.mark.parametrize("seed", range(20))
def test_random_convolution(seed: int) -> None:
    run_convolution(skipping_case(seed))


@pytest.mark.parametrize("case", [LOW, NARROW])
@pytest.mark.parametrize("tile_pixels", [1, 2])
def test_tiles_that_overlap(case: ConvolutionCase, tile_pixels: int) -> None:
    run_convolution(replace(case, knobs=ConvolutionKnobs(16, tile_pixels, 1, "pixels", 1, "chunk")))


@pytest.mark.parametrize(
    ("case", "shares"),
    [
        (ORDINARY, (1.0, 1.0)),
        # Two rows of results; of five taps two apart each meets one of the two rows of the image.
        (LOW, (0.2, 1.0)),
        (NARROW, (1.0, 0.2)),
    ],
)
def test_share_that_meets_the_image(case: ConvolutionCase, shares: tuple[float, float]) -> None:
    found = workload(case)
    assert (share_of_taps_inside(found, 0), share_of_taps_inside(found, 1)) == pytest.approx(shares)


def test_a_tile_meets_what_one_of_its_pixels_meets() -> None:
    assert share_of_taps_inside(workload(NARROW), 1, 2) == pytest.approx(0.2)
    assert share_of_taps_inside(workload(replace(NARROW, dilation=(1, 1))), 1, 6) == 1.0


@pytest.mark.parametrize(("case", "marked"), [(ORDINARY, False), (LOW, True), (NARROW, True)])
def test_only_what_is_worth_it_has_a_condition(case: ConvolutionCase, marked: bool) -> None:
    func = convolution_function(case)[0]
    text = str(schedule_convolution(func, workload_of(func), ConvolutionKnobs(16, 2, 1)).mod["main"])
    assert ("if T.likely(" in text) == marked
    assert SKIPPED not in text
