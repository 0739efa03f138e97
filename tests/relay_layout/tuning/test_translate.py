"""AutoTVM's tasks as workloads and knobs of ours."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from relay_layout.errors import InputError
from relay_layout.tuning.autotvm import AutoTvmRecord, parse_line
from relay_layout.tuning.translate import NEAR, nearest, processor_named, translate
from topi_ext.machine.processor import Processor
from topi_ext.spaces.convolution import cheapest
from topi_ext.tune.space import Candidate, Space

DATA = Path(__file__).parents[2] / "data" / "autotvm"
ARM = "llvm -keys=arm_cpu,cpu -device=arm_cpu -mattr=+neon -mtriple=aarch64-linux-gnu"


def record(
    task: str, arguments: list[Any], target: str = "llvm -mcpu=cascadelake", **knobs: Any
) -> AutoTvmRecord:
    return AutoTvmRecord(target, task, arguments, knobs, (1e-3,), "", 0.0, "0.17")


def tensor(*shape: int) -> list[Any]:
    return ["TENSOR", list(shape), "float32"]


def blocked(ic: int = 16, oc: int = 32, ow: int = 7, **changes: Any) -> AutoTvmRecord:
    fields: dict[str, Any] = {
        "data": tensor(1, 64, 56, 56),
        "kernel": tensor(128, 64, 3, 3),
        "strides": [2, 2],
        "padding": [1, 1, 1, 1],
        "dilation": [1, 1],
        "layout": "NCHW",
        "out_layout": "NCHW",
        "out_dtype": "float32",
    }
    arguments = list((fields | changes).values())
    return record("conv2d_NCHWc.x86", arguments, tile_ic=[-1, ic], tile_oc=[-1, oc], tile_ow=[-1, ow])


def test_blocks_come_from_the_splits() -> None:
    found = translate(blocked()).workload
    assert (found.data_layout, found.kernel_layout, found.out_layout) == ("NCHW16c", "OIHW16i32o", "NCHW32c")
    assert (found.in_channels, found.out_channels, found.in_height, found.in_width) == (64, 128, 56, 56)
    assert (found.kernel, found.strides, found.padding) == ((3, 3), (2, 2), (1, 1, 1, 1))
    assert (found.groups, found.dtype, found.out_dtype) == (1, "float32", "float32")


@pytest.mark.parametrize(
    ("ic", "oc", "layouts"),
    [
        (1, 16, ("NCHW", "NCHW16c")),
        (16, 1, ("NCHW16c", "NCHW")),
        (2, 16, ("NHWC", "NCHW16c")),
    ],
)
def test_blocks_too_small_for_a_vector(ic: int, oc: int, layouts: tuple[str, str]) -> None:
    found = translate(blocked(ic, oc)).workload
    assert (found.data_layout, found.out_layout) == layouts


def test_a_first_layer_stays_as_its_image_comes() -> None:
    found = translate(blocked(3, 16, data=tensor(1, 3, 224, 224), kernel=tensor(64, 3, 7, 7))).workload
    assert (found.data_layout, found.kernel_layout) == ("NCHW", "OIHW16o")


def test_a_depthwise_convolution_has_one_block() -> None:
    arguments = [tensor(1, 32, 14, 14), tensor(32, 1, 3, 3), 1, 1, 1, "NCHW", "NCHW", "float32"]
    knobs = {"tile_ic": [-1, 8], "tile_oc": [-1, 16], "tile_ow": [-1, 7]}
    found = translate(record("depthwise_conv2d_NCHWc.x86", arguments, **knobs)).workload
    assert (found.data_layout, found.kernel_layout, found.out_layout) == ("NCHW16c", "OIHW16o", "NCHW16c")
    assert (found.groups, found.padding, found.strides) == (32, (1, 1, 1, 1), (1, 1))


def test_an_arm_convolution_gets_blocks() -> None:
    arguments = [tensor(1, 64, 56, 56), tensor(128, 64, 3, 3), [1, 1], [1, 1], [1, 1], "float32"]
    knobs = {"tile_co": [-1, 16], "tile_oh": [-1, 2], "tile_ow": [-1, 4]}
    found = translate(record("conv2d_nchw_spatial_pack.arm_cpu", arguments, ARM, **knobs))
    assert (found.workload.data_layout, found.workload.out_layout) == ("NCHW8c", "NCHW8c")
    assert found.wishes == {"tile_pixels": 8, "tile_channels": 2}
    small = translate(
        record("conv2d_nchw_spatial_pack.arm_cpu", arguments, ARM, **(knobs | {"tile_co": [-1, 4]}))
    )
    assert small.workload.out_layout == "NCHW4c"


def test_an_arm_convolution_of_channels_last() -> None:
    arguments = [tensor(1, 56, 56, 64), tensor(3, 3, 64, 128), [1, 1], [0, 0], [1, 1], "float32"]
    knobs = {"tile_co": [-1, 8], "tile_oh": [-1, 1], "tile_ow": [-1, 4]}
    found = translate(record("conv2d_nhwc_spatial_pack.arm_cpu", arguments, ARM, **knobs))
    assert (found.workload.data_layout, found.workload.out_layout) == ("NHWC", "NHWC")
    assert (found.workload.in_channels, found.workload.out_channels) == (64, 128)
    assert found.wishes == {"tile_pixels": 4, "tile_channels": 2}


def test_a_depthwise_convolution_of_channels_last() -> None:
    arguments = [tensor(1, 56, 56, 64), tensor(3, 3, 64, 2), [1, 1], [0, 0], [1, 1], "float32"]
    found = translate(record("depthwise_conv2d_nhwc.arm_cpu", arguments, ARM, tile_c=[-1, 8])).workload
    assert (found.groups, found.in_channels, found.out_channels) == (64, 64, 128)


def test_winograd_is_wished_where_it_was_used() -> None:
    arguments = [tensor(1, 64, 56, 56), tensor(64, 64, 3, 3), [1, 1], [1, 1], [1, 1], "float32"]
    found = translate(record("conv2d_nchw_winograd.arm_cpu", arguments, ARM, tile_p=[-1, 4], tile_k=[-1, 16]))
    assert found.algorithm == "winograd"
    assert found.wishes == {"tile_pixels": 4, "tile_channels": 2}


@pytest.mark.parametrize(("outputs", "kernel"), [(1000, "OI16o"), (1024, "OI16o")])
def test_a_dense_layer_is_a_convolution_without_an_image(outputs: int, kernel: str) -> None:
    arguments = [tensor(2, 512), tensor(outputs, 512), None, "float32"]
    found = translate(record("dense_pack.x86", arguments, tile_y=[-1, 1, 2])).workload
    assert (found.data_layout, found.kernel_layout, found.out_layout) == ("WC", kernel, "WC")
    assert (found.in_width, found.in_channels, found.out_channels) == (2, 512, outputs)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (record("layout_transform", []), "layout_transform: the graph tuner's rows hold no knobs"),
        (record("conv3d.cuda", []), "task conv3d.cuda has no kernel with knobs here"),
        (record("dense_pack.x86", [1]), "1 arguments where dense_pack.x86 has 4"),
        (blocked(layout="NHWC"), "layouts NHWC and NCHW where the task has NCHW"),
        (blocked(ic=7), "blocks of 7 and 32 do not divide the channels"),
        (blocked(kernel=tensor(128, 32, 3, 3)), "a kernel of 32 channels where the data has 64"),
        (blocked(kernel=tensor(128, 64, 99, 3)), "the kernel is larger than the image"),
        (blocked(strides=[0, 1]), "strides: expected two whole numbers of at least 1"),
        (blocked(dilation="1"), "dilation: expected two whole numbers of at least 1"),
        (blocked(padding=[1, 2, 3]), "padding: expected one, two or four whole numbers"),
        (blocked(out_dtype="float31"), "unknown data type 'float31'"),
        (blocked(out_dtype=[1]), "unknown data type '[1]'"),
        (
            record("conv2d_NCHWc.x86", blocked().arguments, tile_ic=4),
            "config: expected splits tile_ic, tile_oc and tile_ow",
        ),
        (
            record("conv2d_nchw_spatial_pack.arm_cpu", [None] * 6),
            "expected a tensor, not null",
        ),
    ],
)
def test_what_has_no_kernel_is_refused(found: AutoTvmRecord, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        translate(found)
    assert str(caught.value) == reason


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("llvm -keys=cpu -mcpu=cascadelake", "x86-64 AVX-512 Intel"),
        ("llvm -keys=cpu -mcpu=znver4", "x86-64 AVX-512 Zen 4"),
        ("llvm -mcpu=core-avx2", "x86-64 AVX2"),
        ("llvm", "x86-64 SSE"),
        (ARM, "aarch64 NEON"),
    ],
)
def test_the_processor_of_a_target(target: str, name: str) -> None:
    found = processor_named(target, 3)
    assert (found.name, found.threads) == (name, 3)


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("cuda -model=t4", "target 'cuda -model=t4' is no CPU"),
        ("", "target '' is no CPU"),
        (
            "llvm -mtriple=armv7l-linux-gnueabihf",
            "target 'llvm -mtriple=armv7l-linux-gnueabihf': there are no kernels for armv7l",
        ),
    ],
)
def test_other_targets_are_refused(target: str, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        processor_named(target, 1)
    assert str(caught.value) == reason


@pytest.fixture
def avx512() -> Processor:
    return processor_named("llvm -mcpu=cascadelake", 2)


def test_knobs_are_near_and_their_estimate_is_good(avx512: Processor) -> None:
    for line in (DATA / "x86.log").read_text().splitlines()[1:]:
        translation = translate(parse_line(line))
        candidate = nearest(translation, avx512)
        assert candidate.cycles <= NEAR * cheapest(translation.workload, avx512)[0]


@pytest.mark.parametrize("width", [2, 7, 14, 28])
def test_of_good_knobs_the_nearest_are_taken(width: int, avx512: Processor) -> None:
    translation = translate(blocked(16, 16, width))
    space = Space(translation.workload, avx512)

    def distance(candidate: Candidate) -> float:
        fields = candidate.fields
        return abs(math.log2(fields["tile_pixels"] / width)) + math.log2(fields["tile_channels"])

    good = [one for one in space.candidates if one.cycles <= NEAR * space.default.cycles]
    assert len({distance(one) for one in good}) > 1
    assert distance(nearest(translation, avx512)) == min(map(distance, good))


def test_every_task_of_the_samples_is_known() -> None:
    tasks = set()
    for log in DATA.glob("*.log"):
        for line in log.read_text().splitlines()[1:]:
            translate(parse_line(line))
            tasks.add(json.loads(line)["input"][1])
    assert len(tasks) == 7
