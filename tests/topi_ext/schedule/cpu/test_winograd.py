"""Winograd convolutions against the definition, over odd sizes, layouts, knobs and epilogues."""

import random
import re
from dataclasses import replace

import numpy as np
import pytest
from kernel_harness import Array, check_kernel, compile_function, host_cpus, prim_func, target_for
from kernel_networks import workload_for
from kernel_reference import convolve, pack
from numpy.typing import NDArray
from tvm import te, tirx, topi
from tvm.target import Target

from topi_ext.errors import RelayLayoutError
from topi_ext.kernel import convolve as compute_convolution
from topi_ext.kernel import kernel_arguments, knob_space, schedule
from topi_ext.knobs import WinogradKnobs, check_knobs
from topi_ext.processor import processor_of
from topi_ext.winograd import transform_weight
from topi_ext.workload import ConvolutionWorkload, in_depth

LAYOUTS = [
    ("NCHW16c", "OIHW16i16o", "NCHW16c"),
    ("NCHW8c", "OIHW8i16o", "NCHW16c"),
    ("NHWC", "OHWI16o", "NHWC"),
    ("NCHW16c", "OIHW16i16o", "NHWC"),
    ("NCHW4c", "OIHW4i4o", "NCHW4c"),
]

CPU = host_cpus()[-1]


def random_workload(seed: int) -> ConvolutionWorkload:
    """Odd images and paddings; channels that no vector of full length divides in plain layouts."""
    rng = random.Random(seed)
    data, kernel, out = rng.choice(LAYOUTS)
    step = 16 if any(character.isdigit() for character in data + out) else 4
    channels = rng.randint(1, 4) * step, rng.randint(1, 4) * step
    if not all(character.isupper() for character in kernel):
        channels = channels[0], 16 * rng.randint(1, 3)
    return ConvolutionWorkload(
        batch=rng.randint(1, 3),
        in_channels=channels[0],
        out_channels=channels[1],
        in_height=rng.randint(3, 15),
        in_width=rng.randint(3, 15),
        kernel=(3, 3),
        strides=(1, 1),
        padding=(rng.randint(0, 2), rng.randint(0, 2), rng.randint(0, 2), rng.randint(0, 2)),
        dilation=(1, 1),
        groups=1,
        data_layout=data,
        kernel_layout=kernel,
        out_layout=out,
        dtype="float32",
        out_dtype="float32",
    )


def winograd_space(workload: ConvolutionWorkload, target: Target) -> list[WinogradKnobs]:
    return [
        knobs for _, knobs in knob_space(workload, processor_of(target)) if isinstance(knobs, WinogradKnobs)
    ]


def check(
    workload: ConvolutionWorkload, knobs: WinogradKnobs, epilogue: str, seed: int, *, any_batch: bool = False
) -> None:
    """``any_batch``: the function takes images of a symbolic number, of which the workload says one value."""
    rng = np.random.default_rng(seed)
    planes, taps = workload.depth[:1], workload.depth[1:2]
    extents = (workload.batch, workload.in_channels, *planes, workload.in_height, workload.in_width)
    image = rng.standard_normal(extents).astype("float32")
    weight = rng.standard_normal((workload.out_channels, workload.in_channels, *taps, 3, 3)).astype("float32")
    weight /= np.sqrt(9.0 * workload.summed_planes)
    expected = convolved(image, weight, workload)
    plain, batch = f"NC{workload.spatial}", workload.batch
    function = replace(workload, batch=tirx.Var("n", "int64")) if any_batch else workload
    arguments = kernel_arguments(function, knobs)
    data, packed = (te.placeholder(shape, dtype) for shape, dtype in arguments[:2])
    tensors = [data, packed]
    inputs = [
        pack(image, plain, workload.data_layout),
        transform_weight(weight, knobs.tile, knobs.weight_vector, knobs.order == "pixels"),
    ]
    result = compute_convolution(data, packed, function, knobs)
    if epilogue in ("bias", "residual"):
        shape = (
            expected.shape
            if epilogue == "residual"
            else (1, workload.out_channels, *[1] * len(workload.spatial))
        )
        term = rng.standard_normal(shape).astype("float32")
        expected = np.maximum(expected + term, 0)
        stored = pack(term, plain, workload.out_layout)
        other = te.placeholder(stored.shape, "float32")
        tensors.append(other)
        inputs.append(stored)
        result = topi.nn.relu(topi.add(result, other))
    if epilogue == "swish":
        expected = expected / (1 + np.exp(-expected))
        result = topi.multiply(result, topi.sigmoid(result))
    check_kernel(
        prim_func([*tensors, result], "int64"),
        target_for(CPU),
        inputs,
        pack(expected, plain, workload.out_layout).astype("float32"),
        tolerance=2e-4,
        symbols={"n": batch} if any_batch else None,
        case=(workload, knobs, epilogue, seed),
        schedule=lambda func, target: schedule(func, function, knobs),
    )


def convolved(image: Array, weight: Array, workload: ConvolutionWorkload) -> NDArray[np.float64]:
    """Planes of the result as sums of 2-D convolutions, one for each plane of the kernel."""
    if not workload.depth:
        return convolve(image, weight, padding=workload.padding)
    _, taps, stride, front, behind, apart = workload.depth
    padded = np.pad(image, ((0, 0), (0, 0), (front, behind), (0, 0), (0, 0)))
    return np.stack(
        [
            sum(
                convolve(padded[:, :, first + tap * apart], weight[:, :, tap], padding=workload.padding)
                for tap in range(taps)
            )
            for first in range(0, workload.out_depth * stride, stride)
        ],
        axis=2,
    )


@pytest.mark.parametrize("seed", range(24))
def test_random_convolutions(seed: int) -> None:
    check_any_knobs(random_workload(seed), seed)


def check_any_knobs(workload: ConvolutionWorkload, seed: int) -> None:
    rng = random.Random(seed)
    space = winograd_space(workload, target_for(CPU))
    assert space, workload
    check(workload, rng.choice(space), rng.choice(["none", "bias", "residual", "swish"]), seed)


def random_volume(seed: int) -> ConvolutionWorkload:
    """The same of planes, any number of which the kernel has, at any distance and step."""
    rng = random.Random(seed)
    planes = random_workload(seed)
    taps, apart = rng.randint(1, 3), rng.randint(1, 2)
    depth = (rng.randint(5, 7), taps, rng.randint(1, 2), rng.randint(0, 2), rng.randint(0, 2), apart)
    layouts = {
        name: getattr(planes, name).replace("HW", "DHW")
        for name in ("data_layout", "kernel_layout", "out_layout")
    }
    return in_depth(replace(planes, batch=rng.randint(1, 2), **layouts), depth)


@pytest.mark.parametrize("seed", range(16))
def test_random_volumes(seed: int) -> None:
    check_any_knobs(random_volume(seed), seed)


@pytest.mark.parametrize("seed", range(1000, 1004))
def test_any_number_of_images(seed: int) -> None:
    workload = (random_workload, random_volume)[seed % 4 // 2](seed)
    rng = random.Random(seed)
    order = ("pixels", "channels")[seed % 2]
    space = [knobs for knobs in winograd_space(workload, target_for(CPU)) if knobs.order == order]
    check(workload, rng.choice(space), rng.choice(["none", "bias"]), seed, any_batch=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24, 400))
def test_more_random_convolutions(seed: int) -> None:
    test_random_convolutions(seed)
    test_random_volumes(seed)


BLOCKED = workload_for((32, 64, 14, 3, 1, 1), "NCHW16c", "OIHW16i16o", "NCHW16c")
KNOBS = WinogradKnobs(4, 16, 16, 4, 2, "pixels", 1)


@pytest.mark.parametrize(
    ("workload", "knobs", "reason"),
    [
        (replace(BLOCKED, strides=(2, 2)), KNOBS, "Winograd is for 3x3 kernels without strides"),
        (replace(BLOCKED, groups=2), KNOBS, "Winograd is for 3x3 kernels without strides"),
        (
            replace(BLOCKED, data_layout="NCHW"),
            KNOBS,
            "Winograd is for 3x3 kernels .* and for channels innermost",
        ),
        (replace(BLOCKED, dtype="int8"), KNOBS, "Winograd is for 3x3 kernels without strides"),
        (BLOCKED, replace(KNOBS, tile=3), "no tiles of 3 results"),
        (BLOCKED, replace(KNOBS, tile_pixels=0), "a tile is empty"),
        (BLOCKED, replace(KNOBS, tile_pixels=3), "3 tiles do not divide 4"),
        (BLOCKED, replace(KNOBS, rows=3), "chunks of 3 rows do not divide 4"),
        (BLOCKED, replace(KNOBS, out_lanes=8), "8 lanes for blocks of 16"),
        (BLOCKED, replace(KNOBS, in_lanes=64), "64 lanes of 32 channels"),
        (BLOCKED, replace(KNOBS, tile_channels=3), "tile of 3 times 16 channels of 64"),
        (BLOCKED, replace(KNOBS, order="rows"), "unknown order 'rows'"),
        (BLOCKED, replace(KNOBS, pad_at="row"), "unknown place to pad 'row'"),
        (
            BLOCKED,
            replace(KNOBS, order="channels", pad_at="chunk"),
            "padding by chunk where chunks are of channels",
        ),
    ],
)
def test_knobs_that_do_not_fit_are_refused(
    workload: ConvolutionWorkload, knobs: WinogradKnobs, reason: str
) -> None:
    with pytest.raises(RelayLayoutError, match=reason):
        check_knobs(workload, knobs)


@pytest.mark.skipif(CPU != "x86-64-v4", reason="needs AVX-512")
def test_the_products_stay_in_registers() -> None:
    """The inner loop multiplies and adds without a store; a spill would be one."""
    workload = workload_for((64, 64, 56, 3, 1, 1), "NCHW16c", "OIHW16i16o", "NCHW16c")
    knobs = WinogradKnobs(4, 16, 16, 14, 2, "pixels", 1)
    arguments = kernel_arguments(workload, knobs)
    tensors = [te.placeholder(shape, dtype) for shape, dtype in arguments[:2]]
    func = prim_func([*tensors, compute_convolution(*tensors, workload, knobs)])
    library = compile_function(schedule(func, workload, knobs).mod["main"], target_for(CPU))
    source = library.mod.inspect_source("asm")
    backward = re.finditer(r"jne\t(\.L\w+)\n", source)
    loops = [source[source.find(f"\n{jump[1]}:") : jump.start()] for jump in backward]
    products = [loop for loop in loops if "prefetch" in loop and loop.count("\n.L") == 1]
    assert products
    for loop in products:
        assert loop.count("vfmadd231ps") >= 28
        assert not re.search(r"vmov\w+\s+%zmm\d+, -?\d*\(", loop), loop
