"""Default knobs of the networks' convolutions, and knobs that are refused."""

import math
from dataclasses import replace
from typing import Any

import pytest
from kernel_networks import WORKLOADS, workload_for
from tvm.target import Target

from topi_ext.errors import RelayLayoutError
from topi_ext.indexing import block_of
from topi_ext.knobs import ConvolutionKnobs, WinogradKnobs, check_knobs, may_prefetch
from topi_ext.machine.processor import Processor, processor_of
from topi_ext.spaces import convolution, direct
from topi_ext.spaces.convolution import cheapest, knob_space
from topi_ext.workloads.convolution import ConvolutionWorkload
from topi_ext.workloads.facts import lanes_are_pixels
from topi_ext.workloads.reading import convolution_from_json

PROCESSORS = {
    name: processor_of(Target({"kind": "llvm", "num-cores": cores, **target}))
    for name, cores, target in [
        ("avx512", 2, {"mcpu": "x86-64-v4"}),
        ("avx512-one", 1, {"mcpu": "x86-64-v4"}),
        ("avx2", 4, {"mcpu": "x86-64-v3"}),
        ("sse", 2, {"mcpu": "x86-64"}),
        ("neon", 4, {"mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a76"}),
    ]
}


def registers_per_vector(knobs: ConvolutionKnobs, processor: Processor) -> int:
    return math.ceil(knobs.lanes * 4 / processor.vector_bytes)


def direct_knobs(workload: ConvolutionWorkload, processor: Processor) -> ConvolutionKnobs:
    knobs = cheapest(workload, processor, winograd=False)[1]
    assert isinstance(knobs, ConvolutionKnobs)
    return knobs


@pytest.mark.parametrize("name", PROCESSORS)
def test_the_cheapest_knobs_are_the_first_of_the_least_estimate_in_the_space(name: str) -> None:
    """They are found without estimating all of the space."""
    for workload in WORKLOADS[::3]:
        found = min(knob_space(workload, PROCESSORS[name]), key=lambda found: found[0])
        assert cheapest(workload, PROCESSORS[name]) == found, workload.to_json()


@pytest.mark.parametrize("knobs", [ConvolutionKnobs(16, 7, 2), WinogradKnobs(4, 16, 16, 7, 2)])
def test_prefetches_are_named_where_there_are_none(knobs: ConvolutionKnobs | WinogradKnobs) -> None:
    """Records from before there was a choice are those of kernels with prefetches."""
    assert "prefetch" not in knobs.to_dict()
    without = replace(knobs, prefetch=False).to_dict()
    assert without == {**knobs.to_dict(), "prefetch": False}


@pytest.mark.parametrize("changes", [{"order": "pixels"}, {"lanes": 16}], ids=str)
def test_kernels_that_could_not_prefetch_are_tried_once(changes: dict[str, Any]) -> None:
    """Those that read all weights for every chunk of pixels, or in other vectors than they lie in."""
    workload = workload_for((64, 64, 7, 1, 1, 1), "NHWC", "OHWI8o", "NHWC")
    knobs = replace(ConvolutionKnobs(8, 4, 2), **changes)
    assert may_prefetch(workload, ConvolutionKnobs(8, 4, 2))
    assert not may_prefetch(workload, knobs)


def test_data_are_loaded_as_vectors_where_multiply_adds_read_lanes() -> None:
    dense = workload_for((64, 64, 14, 3, 1, 1), "NHWC", "OHWI16o", "NHWC")
    steps = {name: direct_knobs(dense, PROCESSORS[name]).steps for name in ("avx512", "sse", "neon")}
    assert steps == {"avx512": 1, "sse": 1, "neon": 4}


def test_a_step_is_named_where_it_takes_several_channels() -> None:
    knobs = ConvolutionKnobs(16, 7, 2)
    assert "steps" not in knobs.to_dict()
    assert replace(knobs, steps=4).to_dict() == {**knobs.to_dict(), "steps": 4}


def test_tiles_of_a_row_are_wide_where_loads_are_instructions_of_their_own() -> None:
    dense = replace(workload_for((512, 1000, 1, 1, 1, 1), "NHWC", "HWIO", "NHWC"), data_layout="WC")
    dense = replace(dense, kernel_layout="IO", out_layout="WC")
    widest = {
        name: max(knobs.tile_channels for _, knobs in direct.direct_knobs(dense, PROCESSORS[name]))
        for name in ("avx512", "neon")
    }
    assert widest == {"avx512": 4, "neon": 12}


@pytest.mark.parametrize("name", PROCESSORS)
def test_default_knobs_of_the_networks_fit(name: str) -> None:
    for workload in WORKLOADS:
        check_knobs(workload, cheapest(workload, PROCESSORS[name])[1])
        check_knobs(workload, direct_knobs(workload, PROCESSORS[name]))


def forget_knobs() -> None:
    for function in vars(convolution).values():
        if hasattr(function, "cache_clear"):
            function.cache_clear()


def test_default_knobs_are_deterministic() -> None:
    processor = PROCESSORS["avx512"]
    forget_knobs()
    first = [cheapest(workload, processor)[1] for workload in WORKLOADS]
    forget_knobs()
    again = [
        cheapest(convolution_from_json(workload.to_json()), processor)[1] for workload in reversed(WORKLOADS)
    ]
    assert first == again[::-1]


@pytest.mark.parametrize("name", PROCESSORS)
def test_default_tiles_stay_in_registers(name: str) -> None:
    """Accumulators, one vector of weights per vector of channels, and one broadcast or vector of data."""
    processor = PROCESSORS[name]
    for workload in WORKLOADS:
        knobs = direct_knobs(workload, processor)
        vector = registers_per_vector(knobs, processor)
        accumulators = knobs.tile_pixels * knobs.tile_channels * vector
        weights = 0 if lanes_are_pixels(workload) else knobs.tile_channels * vector
        assert accumulators + weights + 1 <= processor.vector_registers, (workload, knobs)


@pytest.mark.parametrize("name", ["avx512", "avx2"])
def test_default_tiles_hide_the_latency_of_the_multiply_add(name: str) -> None:
    """Fewer accumulators than a multiply-add takes cycles leave its unit idle."""
    processor = PROCESSORS[name]
    for workload in WORKLOADS:
        if not lanes_are_pixels(workload):
            knobs = direct_knobs(workload, processor)
            accumulators = knobs.tile_pixels * knobs.tile_channels * registers_per_vector(knobs, processor)
            assert accumulators >= processor.fma_latency, (workload, knobs)


def test_blocked_layouts_fix_the_lanes() -> None:
    for workload in WORKLOADS:
        block = block_of(workload.out_layout, "C")
        if block > 1:
            assert direct_knobs(workload, PROCESSORS["avx2"]).lanes == block


@pytest.mark.parametrize("batch", [4, "n"])
def test_any_batch_has_knobs(batch: int | str) -> None:
    for workload in WORKLOADS[::5]:
        check_knobs(workload, cheapest(replace(workload, batch=batch), PROCESSORS["avx512"])[1])


BLOCKED = workload_for((32, 64, 14, 3, 1, 1), "NCHW16c", "OIHW16i16o", "NCHW16c")
PLAIN = workload_for((32, 60, 14, 3, 1, 1), "NCHW", "OIHW", "NCHW")
POINTWISE = workload_for((32, 64, 14, 1, 1, 1), "NHWC", "OHWI16o", "NHWC")
MULTIPLIED = workload_for((32, 64, 14, 3, 1, 32), "NHWC", "HWOI", "NHWC")
DEPTHWISE = workload_for((48, 48, 14, 3, 1, 48), "NCHW16c", "OIHW4o", "NCHW4c")
ROWLESS = replace(POINTWISE, data_layout="WC", kernel_layout="OI16o", out_layout="WC", in_height=1)

FITTING = ConvolutionKnobs(16, 7, 2)


@pytest.mark.parametrize(
    ("workload", "knobs", "reason"),
    [
        (BLOCKED, replace(FITTING, lanes=0), "a tile is empty"),
        (BLOCKED, replace(FITTING, tile_pixels=0), "a tile is empty"),
        (BLOCKED, replace(FITTING, tile_channels=-1), "a tile is empty"),
        (POINTWISE, replace(FITTING, tile_pixels=0), "a tile is empty"),
        (DEPTHWISE, ConvolutionKnobs(4, 7, 0, pad_at="chunk"), "a tile is empty"),
        (BLOCKED, replace(FITTING, order="rows"), "unknown order 'rows'"),
        (BLOCKED, replace(FITTING, pad_at="tile"), "unknown place to pad 'tile'"),
        (BLOCKED, replace(FITTING, tile_pixels=15), "tile of 15 pixels on a run of 14"),
        (PLAIN, ConvolutionKnobs(8, 2, 3), "tile of 16 pixels on a run of 14"),
        (POINTWISE, replace(FITTING, tile_pixels=197), "tile of 197 pixels on a run of 196"),
        (BLOCKED, replace(FITTING, tile_channels=5), "tile of 80 channels of 64"),
        (PLAIN, ConvolutionKnobs(4, 1, 61), "tile of 61 channels of 60"),
        (BLOCKED, replace(FITTING, lanes=8), "8 lanes for blocks of 16"),
        (DEPTHWISE, ConvolutionKnobs(3, 7, 1), "3 lanes for blocks of 4"),
        (DEPTHWISE, ConvolutionKnobs(2, 7, 2), "2 lanes for blocks of 4"),
        (BLOCKED, replace(FITTING, rows=4, order="pixels"), "chunks of 4 rows do not divide 14"),
        (BLOCKED, replace(FITTING, rows=0), "chunks of 0 rows do not divide 14"),
        (POINTWISE, replace(FITTING, rows=3), "chunks of 3 rows do not divide 28"),
        (ROWLESS, replace(FITTING, order="pixels"), "no rows to split among threads"),
        *(
            (workload, replace(FITTING, steps=steps), f"no vectors of {steps} channels of the data")
            for workload, steps in [
                (BLOCKED, 4),
                (POINTWISE, 8),
                (replace(POINTWISE, in_channels=30), 4),
                (replace(POINTWISE, strides=(2, 2)), 4),
                (replace(POINTWISE, in_width=18), 4),
                (replace(POINTWISE, dtype="float16"), 4),
            ]
        ),
        *(
            (workload, knobs, "padding by chunk where a tile's input channels are no run of the same length")
            for workload, knobs in [
                (MULTIPLIED, replace(FITTING, pad_at="chunk")),
                (DEPTHWISE, ConvolutionKnobs(4, 7, 7, pad_at="chunk")),
            ]
        ),
    ],
)
def test_knobs_that_do_not_fit_are_refused(
    workload: ConvolutionWorkload, knobs: ConvolutionKnobs, reason: str
) -> None:
    with pytest.raises(RelayLayoutError) as refused:
        check_knobs(workload, knobs)
    assert str(refused.value) == f"knobs {knobs.to_dict()} do not fit {workload.to_json()}: {reason}"


@pytest.mark.parametrize(
    ("workload", "knobs"),
    [
        (BLOCKED, FITTING),
        (BLOCKED, replace(FITTING, tile_pixels=14, tile_channels=4, order="pixels", rows=14, pad_at="chunk")),
        (PLAIN, ConvolutionKnobs(14, 1, 60)),
        (PLAIN, ConvolutionKnobs(3, 4, 7, "pixels", 7, "chunk")),
        (POINTWISE, replace(FITTING, tile_pixels=196)),
        (POINTWISE, replace(FITTING, rows=4, order="pixels")),
        (MULTIPLIED, replace(FITTING, order="pixels", pad_at="chunk")),
        (DEPTHWISE, ConvolutionKnobs(4, 7, 6, pad_at="chunk")),
        (DEPTHWISE, ConvolutionKnobs(4, 7, 8, pad_at="chunk")),
        (DEPTHWISE, ConvolutionKnobs(4, 7, 7)),
        (ROWLESS, FITTING),
        (ROWLESS, replace(FITTING, tile_pixels=1, steps=4)),
        (POINTWISE, replace(FITTING, steps=4)),
        (replace(POINTWISE, strides=(2, 2)), replace(FITTING, tile_pixels=1, steps=4)),
    ],
)
def test_knobs_that_fit_are_accepted(workload: ConvolutionWorkload, knobs: ConvolutionKnobs) -> None:
    check_knobs(workload, knobs)


@pytest.mark.parametrize("stride", [1, 2])
def test_first_layers_leave_registers_for_the_pixels_that_taps_share(stride: int) -> None:
    """The compiler keeps them broadcast: 14 x 2 accumulators of 3x3 on NCHW data spill."""
    workload = workload_for((3, 64, 224, 3, stride, 1), "NCHW", "OIHW16o", "NCHW16c")
    knobs = direct_knobs(workload, PROCESSORS["avx512"])
    shared = (knobs.tile_pixels - 1) * stride + 3 - 2 if stride == 1 else knobs.tile_pixels - 1
    assert knobs.tile_pixels * knobs.tile_channels + knobs.tile_channels + shared <= 32


def test_large_images_of_winograd_are_taken_in_chunks() -> None:
    """Transformed whole, they would go to memory and come back."""
    workload = workload_for((64, 64, 256, 3, 1, 1), "NCHW16c", "OIHW16i16o", "NCHW16c")
    knobs = cheapest(workload, PROCESSORS["avx512"])[1]
    assert isinstance(knobs, WinogradKnobs)
    assert (knobs.order, knobs.pad_at) == ("pixels", "chunk")
