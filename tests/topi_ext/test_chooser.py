"""Which kernel a workload gets, and what it is said to cost."""

from dataclasses import replace

import pytest
from kernel_networks import workload_for

from topi_ext.chooser import KernelChooser, estimated_us
from topi_ext.kernel_choice import KernelChoice
from topi_ext.knobs import ConvolutionKnobs, WinogradKnobs
from topi_ext.machine.processor import Processor
from topi_ext.spaces.convolution import cheapest
from topi_ext.workloads.convolution import ConvolutionWorkload

PROCESSOR = Processor("x86-64 AVX-512", 64, 32, 2, 4, 2, 32 << 10, 1 << 20, threads=2)
WORKLOAD = workload_for((64, 64, 56, 3, 1, 1), "NCHW16c", "OIHW16i16o", "NCHW16c")
STRIDED = workload_for((64, 64, 56, 3, 2, 1), "NCHW16c", "OIHW16i16o", "NCHW16c")
RECORDED = ConvolutionKnobs(16, 7, 1)


class Records:
    """Knows one workload, and that all estimates are half of the truth."""

    def choice(
        self, workload: ConvolutionWorkload, processor: Processor, gigahertz: float, winograd: bool
    ) -> KernelChoice | None:
        return KernelChoice(RECORDED, "tuned", 123.0) if workload == STRIDED else None

    def estimate_scale(self, processor: Processor, gigahertz: float) -> float:
        return 2.0


def test_without_records_the_cheapest_by_estimate() -> None:
    choice = KernelChooser(PROCESSOR, 3.0).choose(WORKLOAD)
    assert choice.knobs == cheapest(WORKLOAD, PROCESSOR)[1]
    assert choice.source == "default"
    assert choice.microseconds == pytest.approx(cheapest(WORKLOAD, PROCESSOR)[0] / 2 / 3000)


def test_a_large_3x3_convolution_is_winograds() -> None:
    assert isinstance(KernelChooser(PROCESSOR).choose(WORKLOAD).knobs, WinogradKnobs)


@pytest.mark.parametrize(("of_all", "of_this"), [(True, False), (False, True)])
def test_winograd_can_be_ruled_out(of_all: bool, of_this: bool) -> None:
    choice = KernelChooser(PROCESSOR, winograd=of_all).choose(WORKLOAD, winograd=of_this)
    assert isinstance(choice.knobs, ConvolutionKnobs)
    assert choice.microseconds == pytest.approx(cheapest(WORKLOAD, PROCESSOR, winograd=False)[0] / 2 / 3000)


def test_what_is_on_record_wins() -> None:
    chooser = KernelChooser(PROCESSOR, records=Records())
    assert chooser.choose(STRIDED) == KernelChoice(RECORDED, "tuned", 123.0)


def test_estimates_beside_records_are_scaled() -> None:
    chooser = KernelChooser(PROCESSOR, records=Records())
    assert chooser.choose(WORKLOAD).microseconds == pytest.approx(2 * estimated_us(WORKLOAD, PROCESSOR, 3.0))


def test_a_symbolic_batch_has_a_kernel() -> None:
    chooser, workload = KernelChooser(PROCESSOR), replace(WORKLOAD, batch="n")
    for winograd in (False, True):
        open_batch, one_image = (chooser.choose(each, winograd=winograd) for each in (workload, WORKLOAD))
        assert open_batch.knobs == one_image.knobs


def of_one_row(
    channels: tuple[int, int], width: int, kernel: int, stride: int, layouts: tuple[str, str]
) -> ConvolutionWorkload:
    """Of inputs and outputs, without padding; ``layouts`` of the data and of the kernel."""
    return ConvolutionWorkload(
        batch=1,
        in_channels=channels[0],
        out_channels=channels[1],
        in_height=1,
        in_width=width,
        kernel=(1, kernel),
        strides=(1, stride),
        padding=(0, 0, 0, 0),
        dilation=(1, 1),
        groups=1,
        data_layout=layouts[0],
        kernel_layout=layouts[1],
        out_layout=layouts[0],
        dtype="float32",
        out_dtype="float32",
    )


def test_tiles_whose_weights_outgrow_the_first_cache_have_pixels_enough() -> None:
    """Each vector of weights that comes from the second one takes as long as four multiply-adds."""
    sequence = of_one_row((512, 512), 3199, 3, 2, ("NCW16c", "OIW16i16o"))
    _, knobs = cheapest(sequence, PROCESSOR)
    assert isinstance(knobs, ConvolutionKnobs)
    assert knobs.tile_pixels >= 4


def test_tiles_whose_weights_outgrow_the_second_cache_have_fewer_channels() -> None:
    """Every tile of pixels would read them from beyond it: 128 rows of 6144 sums took 1.3 times as long."""
    product = of_one_row((6144, 1536), 128, 1, 1, ("WC", "OI16o"))
    _, knobs = cheapest(product, PROCESSOR)
    assert isinstance(knobs, ConvolutionKnobs)
    assert 6144 * knobs.tile_channels * knobs.lanes * 4 <= PROCESSOR.l2_bytes
