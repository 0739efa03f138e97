"""Winograd convolutions against the definition, over odd sizes, layouts, knobs and epilogues."""

import random
import re
from dataclasses import replace

import pytest
from kernel_harness import compile_function, prim_func, target_for
from kernel_networks import workload_for
from kernel_winograd import CPU, EPILOGUES, check, of_bytes, random_workload, runs, winograd_space
from tvm import te

from topi_ext.errors import RelayLayoutError
from topi_ext.kernel import convolve as compute_convolution
from topi_ext.kernel import kernel_arguments, schedule
from topi_ext.knobs import WinogradKnobs, check_knobs
from topi_ext.workloads.convolution import ConvolutionWorkload, SpatialAxis, volume_workload


@pytest.mark.parametrize("seed", range(16))
def test_random_convolutions(seed: int) -> None:
    check_any_knobs(random_workload(seed), seed)


def check_any_knobs(workload: ConvolutionWorkload, seed: int) -> None:
    rng = random.Random(seed)
    space = winograd_space(workload, target_for(CPU))
    assert space, workload
    check(workload, rng.choice(space), rng.choice(EPILOGUES), seed)


def random_volume(seed: int) -> ConvolutionWorkload:
    """The same of planes, any number of which the kernel has, at any distance and step."""
    rng = random.Random(seed)
    planes = random_workload(seed)
    taps, dilation = rng.randint(1, 3), rng.randint(1, 2)
    depth = SpatialAxis(
        extent=rng.randint(5, 7),
        taps=taps,
        stride=rng.randint(1, 2),
        pad_before=rng.randint(0, 2),
        pad_after=rng.randint(0, 2),
        dilation=dilation,
    )
    layouts = {
        name: getattr(planes, name).replace("HW", "DHW")
        for name in ("data_layout", "kernel_layout", "out_layout")
    }
    return volume_workload(replace(planes, batch=rng.randint(1, 2), **layouts), depth)


@pytest.mark.parametrize("seed", range(10))
def test_random_volumes(seed: int) -> None:
    check_any_knobs(random_volume(seed), seed)


@pytest.mark.parametrize("seed", range(2000, 2010))
def test_random_bytes(seed: int) -> None:
    rng = random.Random(seed)
    workload = of_bytes(random_workload(seed), bits=rng.choice((2, 6)))
    knobs = rng.choice(winograd_space(workload, target_for(CPU)))
    check(workload, knobs, rng.choice(EPILOGUES[:3]), seed, pad_value=rng.choice((0, 128, 255)))


@pytest.mark.parametrize("cpu", [cpu for cpu in ("x86-64-v2", "x86-64-v3", "x86-64-v4") if runs(cpu)])
@pytest.mark.parametrize("tile", [2, 4])
def test_bytes_on_every_instruction_set(cpu: str, tile: int) -> None:
    workload = of_bytes(random_workload(7))
    space = [knobs for knobs in winograd_space(workload, target_for(cpu)) if knobs.tile == tile]
    check(workload, space[0], "bias", tile, cpu=cpu)


@pytest.mark.parametrize("seed", range(1000, 1004))
def test_any_number_of_images(seed: int) -> None:
    workload = (random_workload, random_volume)[seed % 4 // 2](seed)
    rng = random.Random(seed)
    order = ("pixels", "channels")[seed % 2]
    space = [knobs for knobs in winograd_space(workload, target_for(CPU)) if knobs.order == order]
    check(workload, rng.choice(space), rng.choice(EPILOGUES[:2]), seed, symbols=("batch",))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(16, 400))
def test_more_random_convolutions(seed: int) -> None:
    test_random_convolutions(seed)
    test_random_volumes(seed)
    test_random_bytes(seed)


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
            "Winograd is for 3x3 kernels .* for channels innermost",
        ),
        (replace(BLOCKED, dtype="int8"), KNOBS, "Winograd is for 3x3 kernels without strides"),
        (
            replace(BLOCKED, dtype="int16", out_dtype="int32"),
            KNOBS,
            "no room in int32 for tiles of 4 results",
        ),
        (of_bytes(BLOCKED, bits=2), KNOBS, "no room in int32 for tiles of 4 results"),
        (of_bytes(BLOCKED), replace(KNOBS, in_lanes=1), "1 lanes of 32 channels"),
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
