"""What CUDA kernels compute, on a GPU that numpy simulates."""

import random

import pytest
from gpu_cases import (
    bound,
    depthwise,
    depthwise_error,
    impatient,
    lowered,
    product_error,
    scheduled_product,
    swept,
    workload,
)
from gpu_memory import SimulationError
from tvm import tirx
from tvm.ir import Call
from tvm_ffi import structural_map, structural_walk

from topi_ext.cuda.depthwise_knobs import DepthwiseKnobs, depthwise_misfit
from topi_ext.cuda.depthwise_space import cheapest_depthwise
from topi_ext.cuda.gemm_knobs import GemmKnobs
from topi_ext.cuda.gemm_space import cheapest_gemm
from topi_ext.cuda.multiprocessor import MULTIPROCESSORS, Multiprocessor
from topi_ext.tune.space import Space

SM_80, SM_75 = MULTIPROCESSORS["sm_80"], MULTIPROCESSORS["sm_75"]

PRODUCTS = {
    "stages": (workload(1, (9, 9), (32, 48)), GemmKnobs("mma", 64, 32, 32, 2, 2, 3)),
    "one stage": (workload(1, (9, 9), (32, 48)), GemmKnobs("mma", 64, 32, 32, 2, 2, 1)),
    "wide": (workload(1, (9, 14), (64, 128)), GemmKnobs("mma", 128, 128, 32, 2, 4, 4)),
    "odd": (
        workload(2, (9, 7), (20, 37), (3, 2), (2, 1), (1, 0, 2, 1), (1, 2)),
        GemmKnobs("mma", 32, 32, 32, 1, 2, 2),
    ),
    "pointwise": (
        workload(1, (7, 7), (32, 30), (1, 1), padding=(0, 0, 0, 0)),
        GemmKnobs("mma", 32, 32, 16, 2, 1, 4),
    ),
    "slices": (workload(1, (7, 7), (64, 48)), GemmKnobs("mma", 64, 16, 32, 4, 1, 3, 3)),
    "columns first": (
        workload(1, (7, 7), (32, 48)),
        GemmKnobs("mma", 32, 16, 32, 2, 1, 2, order="columns"),
    ),
    "groups": (workload(2, (9, 9), (32, 48), groups=2), GemmKnobs("mma", 64, 32, 32, 2, 2, 3)),
    "three channels": (workload(1, (9, 9), (3, 20)), GemmKnobs("mma", 64, 32, 32, 2, 2, 3)),
    "four channels": (
        workload(1, (11, 9), (4, 20), (7, 7), (2, 2), (3,) * 4),
        GemmKnobs("mma", 32, 32, 32, 1, 2, 3),
    ),
    "float32": (workload(1, (9, 9), (32, 48), dtype="float32"), GemmKnobs("fma", 64, 64, 16, 2, 2, 3)),
    "float32 slices": (
        workload(1, (7, 7), (20, 37), dtype="float32"),
        GemmKnobs("fma", 32, 32, 16, 1, 2, 2, 2),
    ),
}

PRODUCTS |= {
    "tf32": (workload(1, (9, 9), (32, 48), dtype="tf32"), GemmKnobs("mma", 64, 32, 32, 2, 2, 3)),
    "tf32 odd": (
        workload(2, (9, 7), (20, 37), (3, 2), (2, 1), (1, 0, 2, 1), (1, 2), dtype="tf32"),
        GemmKnobs("mma", 32, 32, 8, 1, 2, 2),
    ),
    "tf32 slices": (workload(1, (7, 7), (20, 48), dtype="tf32"), GemmKnobs("mma", 64, 16, 16, 4, 1, 3, 3)),
    "uint8": (workload(1, (9, 9), (32, 48), dtype="uint8"), GemmKnobs("mma", 64, 32, 64, 2, 2, 3)),
    "uint8 odd": (
        workload(2, (9, 7), (20, 37), (3, 2), (2, 1), (1, 0, 2, 1), (1, 2), dtype="uint8"),
        GemmKnobs("mma", 32, 32, 32, 1, 2, 2),
    ),
    "bordered bytes": (
        workload(2, (8, 11), (64, 4), (1, 1), (1, 2), (3, 1, 2, 1), dtype="int8"),
        GemmKnobs("mma", 64, 16, 64, 4, 1, 2),
    ),
    "uint8 slices": (workload(1, (7, 7), (64, 48), dtype="uint8"), GemmKnobs("mma", 64, 16, 64, 4, 1, 3, 3)),
    "uint8 groups": (
        workload(2, (9, 9), (32, 48), groups=2, padding=(0,) * 4, dtype="uint8"),
        GemmKnobs("mma", 64, 32, 128, 2, 2, 2),
    ),
    "int8": (
        workload(1, (7, 7), (32, 30), (1, 1), padding=(0, 0, 0, 0), dtype="int8"),
        GemmKnobs("mma", 32, 32, 32, 2, 1, 4),
    ),
}

LONG = ("wide", "four channels", "float32")

OLDER = {
    "wmma": (workload(1, (9, 9), (32, 48)), GemmKnobs("wmma", 64, 32, 32, 2, 2, 2)),
    "wmma one stage": (workload(1, (9, 9), (20, 48)), GemmKnobs("wmma", 64, 32, 32, 2, 2, 1)),
    "float32": (workload(1, (9, 9), (20, 37), dtype="float32"), GemmKnobs("fma", 32, 32, 16, 1, 2, 2)),
    "mma": (workload(1, (9, 9), (32, 48)), GemmKnobs("mma", 64, 32, 32, 2, 2, 2)),
    "mma odd": (
        workload(2, (9, 7), (20, 37), (3, 2), (2, 1), (1, 0, 2, 1), (1, 2)),
        GemmKnobs("mma", 32, 32, 16, 1, 2, 2),
    ),
    "mma one stage": (workload(1, (9, 9), (3, 48)), GemmKnobs("mma", 64, 32, 64, 2, 2, 1)),
    "mma slices": (workload(1, (7, 7), (64, 48)), GemmKnobs("mma", 64, 16, 32, 4, 1, 2, 3)),
    "mma uint8": (workload(1, (9, 9), (32, 48), dtype="uint8"), GemmKnobs("mma", 64, 32, 64, 2, 2, 2)),
    "mma uint8 odd": (
        workload(2, (9, 7), (20, 37), (3, 2), (2, 1), (1, 0, 2, 1), (1, 2), dtype="uint8"),
        GemmKnobs("mma", 32, 32, 32, 1, 2, 2),
    ),
    "mma uint8 slices": (
        workload(1, (7, 7), (64, 48), dtype="uint8"),
        GemmKnobs("mma", 64, 16, 128, 4, 1, 2, 3),
    ),
    "mma bordered bytes": (
        workload(2, (8, 11), (64, 4), (1, 1), (1, 2), (3, 1, 2, 1), dtype="int8"),
        GemmKnobs("mma", 64, 16, 64, 4, 1, 2),
    ),
    "mma int8 groups": (
        workload(2, (9, 9), (36, 20), groups=2, dtype="int8"),
        GemmKnobs("mma", 64, 16, 128, 2, 1, 1),
    ),
    "uint8": (workload(1, (9, 9), (32, 48), dtype="uint8"), GemmKnobs("dp4a", 64, 32, 64, 2, 2, 2)),
    "uint8 odd": (
        workload(2, (9, 7), (20, 37), (3, 2), (2, 1), (1, 0, 2, 1), (1, 2), dtype="uint8"),
        GemmKnobs("dp4a", 32, 32, 64, 1, 2, 2),
    ),
    "uint8 slices": (workload(1, (7, 7), (64, 48), dtype="uint8"), GemmKnobs("dp4a", 64, 32, 64, 2, 1, 2, 3)),
    "int8 groups": (
        workload(1, (9, 9), (36, 20), groups=2, dtype="int8"),
        GemmKnobs("dp4a", 32, 32, 128, 1, 2, 1),
    ),
}


@pytest.mark.parametrize("case", swept(PRODUCTS, LONG))
def test_products_are_right(case: str) -> None:
    work, knobs = PRODUCTS[case]
    waited: dict[str, int] = {}
    assert product_error(work, knobs, SM_80, None, waited) < bound(work.dtype)
    if knobs.instruction == "mma":
        assert (waited["ldmatrix"], waited["cp.async"]) == (0, 0)


@pytest.mark.parametrize("case", swept(OLDER, LONG))
def test_products_are_right_without_asynchronous_copies(case: str) -> None:
    work, knobs = OLDER[case]
    waited: dict[str, int] = {}
    assert product_error(work, knobs, SM_75, None, waited) < bound(work.dtype)
    if knobs.instruction == "mma":
        assert (waited["ldmatrix"], waited["store"]) == (0, 0)


def check_point(case: str, seed: int, sm: Multiprocessor) -> None:
    """A point of the space that a tuner searches computes what it should."""
    work = PRODUCTS[case][0]
    (candidate,) = random.Random(seed).sample(Space(work, sm, winograd=False).candidates, 1)
    again = f"check_point({case!r}, {seed}, MULTIPROCESSORS[{sm.arch!r}]): {candidate.knobs}"
    assert product_error(work, candidate.knobs, sm) < bound(work.dtype), again


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("case", ["odd", "groups", "float32 slices", "tf32 odd", "uint8 odd"])
def test_points_of_a_tuners_space_are_right(case: str, seed: int) -> None:
    check_point(case, seed, SM_80)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("case", ["odd", "groups", "uint8 odd", "bordered bytes"])
def test_points_of_an_older_architectures_space_are_right(case: str, seed: int) -> None:
    check_point(case, seed, SM_75)


@pytest.mark.parametrize("arch", swept(MULTIPROCESSORS, set(MULTIPROCESSORS) - {"sm_75", "sm_80", "sm_90"}))
def test_the_default_of_every_architecture_is_right(arch: str) -> None:
    work, sm = workload(1, (7, 7), (64, 24)), MULTIPROCESSORS[arch]
    assert product_error(work, cheapest_gemm(work, sm)[1], sm) < bound("float16")


DEPTHWISE = {
    "three": (depthwise(2, (9, 7), 24), DepthwiseKnobs(4, 2, 2, 2, 2, 2)),
    "wide": (depthwise(1, (14, 14), 32), DepthwiseKnobs(8, 2, 4, 4, 2, 2, "shared")),
    "five": (depthwise(1, (11, 13), 20, (5, 5), (2, 1), (2, 1, 0, 3)), DepthwiseKnobs(2, 1, 4, 10, 2, 1)),
    "seven": (
        depthwise(1, (12, 12), 16, (7, 7), padding=(3,) * 4, dtype="float32"),
        DepthwiseKnobs(2, 1, 2, 8, 4, 2, "shared"),
    ),
    "odd": (
        depthwise(2, (9, 11), 37, (3, 5), (2, 1), (1, 0, 2, 1), (1, 2)),
        DepthwiseKnobs(1, 2, 1, 37, 1, 2, "shared"),
    ),
    "dilated": (depthwise(1, (9, 9), 12, strides=(3, 3), dilation=(2, 2)), DepthwiseKnobs(4, 1, 1, 3, 2, 2)),
    "pairs": (
        depthwise(1, (9, 7), 20, strides=(1, 2), padding=(0,) * 4, multiplier=2),
        DepthwiseKnobs(4, 2, 1, 5, 2, 2),
    ),
    "triples": (depthwise(1, (8, 9), 6, multiplier=3), DepthwiseKnobs(1, 2, 2, 18, 2, 1)),
    "tf32": (
        depthwise(2, (7, 7), 8, (1, 3), padding=(0, 1, 0, 1), dtype="tf32"),
        DepthwiseKnobs(4, 1, 7, 2, 8, 1),
    ),
    "uint8": (
        depthwise(2, (9, 10), 24, strides=(2, 2), dtype="uint8"),
        DepthwiseKnobs(4, 1, 2, 6, 2, 2, "shared"),
    ),
    "int8": (
        depthwise(1, (9, 10), 24, (5, 5), padding=(2,) * 4, dtype="int8"),
        DepthwiseKnobs(4, 2, 2, 6, 1, 4),
    ),
}


@pytest.mark.parametrize("case", DEPTHWISE)
def test_depthwise_convolutions_are_right(case: str) -> None:
    work, knobs = DEPTHWISE[case]
    assert depthwise_misfit(work, knobs, SM_80) is None
    assert depthwise_error(work, knobs, SM_80) < bound(work.dtype)


def check_depthwise_point(case: str, seed: int) -> None:
    """As :func:`check_point`."""
    work = DEPTHWISE[case][0]
    (candidate,) = random.Random(seed).sample(Space(work, SM_80).candidates, 1)
    again = f"check_depthwise_point({case!r}, {seed}): {candidate.knobs}"
    assert depthwise_error(work, candidate.knobs, SM_80) < bound(work.dtype), again


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))])
@pytest.mark.parametrize("case", DEPTHWISE)
def test_points_of_a_depthwise_space_are_right(case: str, seed: int) -> None:
    check_depthwise_point(case, seed)


@pytest.mark.parametrize("arch", MULTIPROCESSORS)
def test_the_depthwise_default_of_every_architecture_is_right(arch: str) -> None:
    work, sm = depthwise(1, (7, 9), 20, strides=(1, 2)), MULTIPROCESSORS[arch]
    assert depthwise_error(work, cheapest_depthwise(work, sm)[1], sm) < bound("float16")


@pytest.mark.parametrize(
    "case", ["odd", "groups", "four channels", "tf32 odd", "uint8 odd", "bordered bytes"]
)
def test_neighbouring_channels_are_copied_at_once(case: str) -> None:
    """Also where the depth is no multiple of a tile's, so that conditions change within a tile."""
    work, knobs = PRODUCTS[case]
    device = lowered(scheduled_product(work, knobs, SM_80), SM_80)
    assert copied_bytes(device) == {16, work.copy_elements * work.element_bytes}


def test_what_surrounds_an_image_is_stored_beside_asynchronous_copies() -> None:
    """A zero point other than 0, which they cannot write, as many bytes at once as they copy."""
    work, knobs = PRODUCTS["bordered bytes"]
    device = lowered(scheduled_product(work, knobs, SM_80), SM_80)
    stored: set[str] = set()

    def visit(choice: tirx.IfThenElse) -> None:
        if "cp_async_raw" in str(choice.then_case) and choice.else_case is not None:
            stored.add(str(choice.else_case.value.ty.dtype))

    structural_walk(device.body, (tirx.IfThenElse, visit))
    assert stored == {"int8x16"}


def copied_bytes(device: tirx.PrimFunc) -> set[int]:
    found: set[int] = set()

    def visit(call: Call) -> None:
        if str(call.op.name) == "tirx.s_tir.cp_async_raw":
            found.add(int(call.args[4]))

    structural_walk(device.body, (Call, visit))
    return found


def _without_barriers(device: tirx.PrimFunc) -> tirx.PrimFunc:
    nothing = tirx.Evaluate(0)

    def dropped(node: tirx.Evaluate) -> tirx.Evaluate:
        return nothing if "tvm_storage_sync" in str(node.value) else node

    return device.with_body(structural_map(device.body, (tirx.Evaluate, dropped)))


def test_a_kernel_without_barriers_is_found_out() -> None:
    work, knobs = PRODUCTS["stages"]
    broken = _without_barriers(lowered(scheduled_product(work, knobs, SM_80), SM_80))
    with pytest.raises(SimulationError, match=r"without a barrier in between"):
        product_error(work, knobs, SM_80, broken)


def test_a_kernel_that_does_not_wait_for_its_copies_is_found_out() -> None:
    work, knobs = PRODUCTS["stages"]
    broken = impatient(lowered(scheduled_product(work, knobs, SM_80), SM_80))
    assert not product_error(work, knobs, SM_80, broken) < 1.0


def test_a_read_outside_the_data_is_found_out() -> None:
    work, knobs = PRODUCTS["pointwise"]
    device = lowered(scheduled_product(work, knobs, SM_80), SM_80)
    smaller = workload(1, (7, 6), (32, 30), (1, 1), padding=(0, 0, 0, 0))
    with pytest.raises(SimulationError, match=r"global memory of \d+: access at \d+"):
        product_error(smaller, knobs, SM_80, device)
