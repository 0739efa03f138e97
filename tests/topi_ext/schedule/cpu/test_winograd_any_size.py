"""Winograd's convolution of images of any size against the definition, for other sizes than the usual one."""

import random
from dataclasses import replace

import pytest
from kernel_harness import target_for
from kernel_networks import workload_for
from kernel_winograd import CPU, EPILOGUES, check, of_bytes, random_workload

from topi_ext.errors import RelayLayoutError
from topi_ext.knobs import WinogradKnobs, check_strip
from topi_ext.machine.processor import processor_of
from topi_ext.spaces.winograd import winograd_any_size_knobs
from topi_ext.workloads.convolution import ConvolutionWorkload

OPEN = ("batch", "in_height", "in_width")


def check_any_size(seed: int, order: str, symbols: tuple[str, ...]) -> None:
    """Images of one size by a kernel that was chosen for another."""
    check_sizes(random_workload(seed), seed, order, symbols)


def check_sizes(
    usual: ConvolutionWorkload, seed: int, order: str, symbols: tuple[str, ...], pad_value: int = 0
) -> None:
    rng = random.Random(seed)
    epilogues = EPILOGUES if usual.dtype == "float32" else EPILOGUES[:3]
    space = [knobs for _, knobs in winograd_any_size_knobs(usual, processor_of(target_for(CPU)))]
    knobs = rng.choice([knobs for knobs in space if knobs.order == order])
    other = random_workload(seed + 10_000)
    sizes = {field: getattr(other if field in symbols else usual, field) for field in OPEN}
    check(replace(usual, **sizes), knobs, rng.choice(epilogues), seed, usual, symbols, pad_value)


@pytest.mark.parametrize("order", ["pixels", "channels"])
@pytest.mark.parametrize("seed", range(8))
def test_random_sizes(seed: int, order: str) -> None:
    check_any_size(seed, order, OPEN)


@pytest.mark.parametrize("order", ["pixels", "channels"])
@pytest.mark.parametrize("seed", range(2000, 2004))
def test_random_sizes_of_bytes(seed: int, order: str) -> None:
    usual = of_bytes(random_workload(seed), bits=2 + seed % 2 * 4)
    check_sizes(usual, seed, order, OPEN, pad_value=seed % 256)


@pytest.mark.parametrize("symbols", [OPEN[1:2], OPEN[2:], OPEN[1:]], ids=str)
def test_some_extents_are_known(symbols: tuple[str, ...]) -> None:
    check_any_size(3, "pixels", symbols)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8, 200))
def test_more_random_sizes(seed: int) -> None:
    test_random_sizes(seed, ("pixels", "channels")[seed % 2])
    test_random_sizes_of_bytes(seed, ("pixels", "channels")[seed % 2])


@pytest.mark.parametrize(
    ("knobs", "reason"),
    [
        (WinogradKnobs(4, 16, 16, 3, 2, "pixels", 8), "3 tiles do not divide 8"),
        (WinogradKnobs(4, 16, 16, 4, 3, "pixels", 8), "tile of 3 times 16 channels of 64"),
    ],
)
def test_knobs_that_do_not_fit_are_refused(knobs: WinogradKnobs, reason: str) -> None:
    workload = workload_for((32, 64, 14, 3, 1, 1), "NHWC", "OHWI16o", "NHWC")
    with pytest.raises(RelayLayoutError, match=reason):
        check_strip(workload, knobs)
