"""Bulk copies on a simulated GPU: what kernels compute with them, and what becomes of broken ones."""

import random
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gpu_bulk
import gpu_cases
import numpy as np
import pytest
from gpu_cases import bound, lowered, product_error, scheduled_product, shared_size, swept, workload
from gpu_memory import SimulationError
from tvm import tirx
from tvm.ir import Call
from tvm_ffi import structural_map

from topi_ext.cuda.codegen import warpgroups
from topi_ext.cuda.codegen.bulk_copies import ARRIVED, BARRIER_BYTES, BEGIN, COPY_TILE, COPY_WINDOWS
from topi_ext.cuda.codegen.wgmma import WAIT, WAIT_FOR_EARLIER, called
from topi_ext.cuda.gemm_knobs import GemmKnobs, misfit, shared_bytes
from topi_ext.cuda.gemm_space import cheapest_gemm, gemm_knobs
from topi_ext.cuda.multiprocessor import MULTIPROCESSORS
from topi_ext.cuda.workload import GemmConvolution
from topi_ext.tune.space import Space

SM_90 = MULTIPROCESSORS["sm_90"]
NO_PADDING = (0,) * 4


def bulk(*numbers: int, **others: Any) -> GemmKnobs:
    return GemmKnobs("wgmma", *numbers, **others, copies="bulk")


def odd(dtype: str = "float16") -> GemmConvolution:
    return workload(2, (9, 7), (32, 37), (3, 2), (2, 1), (1, 0, 2, 1), (1, 2), dtype=dtype)


def pointwise(
    channels: int, images: int = 3, strides: tuple[int, int] = (1, 1), groups: int = 1, dtype: str = "float16"
) -> GemmConvolution:
    return workload(images, (7, 9), (channels, 30), (1, 1), strides, NO_PADDING, groups=groups, dtype=dtype)


PRODUCTS = {
    "stages": (workload(1, (9, 9), (64, 48)), bulk(64, 64, 64, 4, 1, 3)),
    "two stages": (odd(), bulk(64, 48, 32, 4, 1, 2)),
    "rows of 32 bytes": (workload(1, (5, 6), (48, 24), (2, 3), (1, 2)), bulk(64, 32, 16, 4, 1, 4)),
    "channels that divide by no tile": (pointwise(72), bulk(64, 32, 32, 4, 1, 2)),
    "pixels that are left out": (pointwise(64, strides=(2, 3)), bulk(64, 32, 32, 4, 1, 2)),
    "as many stages as tiles": (pointwise(128, 1), bulk(64, 64, 32, 4, 1, 4)),
    "groups": (workload(2, (9, 9), (64, 48), groups=2), bulk(128, 32, 32, 8, 1, 3)),
    "pointwise groups": (pointwise(128, groups=2), bulk(64, 32, 32, 4, 1, 2)),
    "slices": (workload(1, (7, 7), (64, 48)), bulk(64, 64, 32, 4, 1, 3, 4)),
    "pointwise slices": (pointwise(200), bulk(64, 64, 32, 4, 1, 2, 3)),
    "columns first": (workload(2, (9, 7), (64, 40)), bulk(64, 16, 64, 4, 1, 3, order="columns")),
    "widest": (workload(1, (17, 16), (64, 270)), bulk(256, 256, 64, 16, 1, 2)),
    "tf32": (odd("tf32"), bulk(64, 16, 32, 4, 1, 3)),
    "tf32 slices": (workload(1, (7, 7), (64, 48), dtype="tf32"), bulk(64, 16, 16, 4, 1, 2, 5)),
    "uint8": (workload(2, (9, 7), (64, 40), padding=NO_PADDING, dtype="uint8"), bulk(64, 16, 64, 4, 1, 3)),
    "int8": (pointwise(128, dtype="int8"), bulk(64, 48, 64, 4, 1, 2)),
}


@pytest.mark.parametrize("case", swept(PRODUCTS, ("widest",)))
def test_products_are_right(case: str) -> None:
    work, knobs = PRODUCTS[case]
    device = lowered(scheduled_product(work, knobs, SM_90), SM_90)
    assert "bulk_copy_tile" in device.script() and "cp_async" not in device.script()
    assert product_error(work, knobs, SM_90, device) < bound(work.dtype)


def check_point(case: str, seed: int) -> None:
    """A point of the space that a tuner searches, of those with bulk copies, computes what it should."""
    work = PRODUCTS[case][0]
    found = [one for one in Space(work, SM_90).candidates if one.knobs.copies == "bulk"]
    knobs = random.Random(seed).choice(found).knobs
    again = f"check_point({case!r}, {seed}): {knobs}"
    assert product_error(work, knobs, SM_90) < bound(work.dtype), again


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("case", ["two stages", "pointwise slices", "groups", "tf32", "uint8", "int8"])
def test_points_of_a_tuners_space_are_right(case: str, seed: int) -> None:
    check_point(case, seed)


def test_they_are_tuned_and_never_the_default() -> None:
    work = workload(32, (28, 28), (128, 128))
    assert {knobs.copies for _, knobs in gemm_knobs(work, SM_90)} == {"async", "bulk"}
    assert cheapest_gemm(work, SM_90)[1].copies == "async"
    without = replace(SM_90, has_bulk_copies=False)
    assert {knobs.copies for _, knobs in gemm_knobs(work, without)} == {"async"}


@pytest.mark.parametrize("case", ["stages", "slices", "tf32", "int8"])
def test_barriers_are_in_the_shared_memory_that_is_counted(case: str) -> None:
    work, knobs = PRODUCTS[case]
    sizes, counted = [], []
    for one in (knobs, replace(knobs, copies="async")):
        sizes.append(shared_size(lowered(scheduled_product(work, one, SM_90), SM_90)))
        counted.append(shared_bytes(work, one, SM_90))
    assert sizes[0] - sizes[1] == counted[0] - counted[1] == BARRIER_BYTES


STAGES = PRODUCTS["stages"][1]


@pytest.mark.parametrize(
    ("work", "change", "problem"),
    [
        (odd(), {"copies": "all"}, "unknown copies 'all'"),
        (workload(1, (9, 9), (96, 48)), {}, "bulk copies of 64 of 96 channels"),
        (pointwise(196), {"stages": 2}, "bulk copies of rows of 392 bytes, no multiple of 16"),
        (pointwise(192, groups=2), {"block_k": 64, "stages": 2}, "bulk copies of 64 of 96 channels"),
        (odd("uint8"), {"block_k": 32}, "bulk copies of what surrounds an image with a zero point"),
        (pointwise(128), {}, "bulk copies of 2 tiles in 3 stages"),
        (workload(1, (9, 9), (64, 48)), {"stages": 1}, "bulk copies of 9 tiles in 1 stages"),
        (workload(1, (40, 9), (64, 48), strides=(9, 1)), {}, "bulk copies of windows 9 pixels apart"),
        (
            workload(1, (300, 9), (64, 48), padding=(1, 1, 1, 1), dilation=(129, 1)),
            {},
            "bulk copies of so large a window",
        ),
        (
            workload(1, (40, 9), (64, 48)),
            {"block_m": 320, "block_n": 16, "warps_m": 20},
            "bulk copies of 320 rows",
        ),
    ],
)
def test_what_does_not_fit(work: GemmConvolution, change: dict[str, Any], problem: str) -> None:
    assert misfit(work, replace(STAGES, **change), SM_90) == problem


def test_only_wgmma_on_one_architecture_has_them() -> None:
    work = PRODUCTS["stages"][0]
    mma = GemmKnobs("mma", 64, 64, 64, 4, 1, 3, copies="bulk")
    assert misfit(work, mma, SM_90) == "bulk copies for mma"
    assert misfit(work, mma, MULTIPROCESSORS["sm_80"]) == "sm_80 has no bulk copies of tiles"


def _replaced(device: tirx.PrimFunc, change: Callable[[Call], Any]) -> tirx.PrimFunc:
    """The function with what ``change`` makes of its calls."""

    def changed(node: tirx.Evaluate) -> tirx.Evaluate:
        return tirx.Evaluate(change(node.value)) if isinstance(node.value, Call) else node

    return device.with_body(structural_map(device.body, (tirx.Evaluate, changed)))


def _without(name: str) -> Callable[[tirx.PrimFunc], tirx.PrimFunc]:
    """Takes calls of the device functions whose names begin so, or of an operator, out of a function."""

    def without(device: tirx.PrimFunc) -> tirx.PrimFunc:
        return _replaced(
            device, lambda call: 0 if (called(call) or str(call.op.name)).startswith(name) else call
        )

    return without


def _with_argument(name: str, place: int, change: Callable[[Any], Any]) -> Callable[[Any], tirx.PrimFunc]:
    """Changes an argument of calls of a device function."""

    def changed(call: Call) -> Call:
        if called(call) != name:
            return call
        arguments = list(call.args)
        arguments[place] = change(arguments[place])
        return Call(call.op, arguments, call.attrs, call.ty_args, ret_ty=call.ty)

    return lambda device: _replaced(device, changed)


def _by_all_threads(device: tirx.PrimFunc) -> tirx.PrimFunc:
    def on_condition(node: tirx.IfThenElse) -> Any:
        copies = "bulk_copy" in str(node.then_case)
        return node.then_case if copies else node

    return device.with_body(structural_map(device.body, (tirx.IfThenElse, on_condition)))


BROKEN = {
    "no wait for a tile": ("stages", _without(ARRIVED), "wgmma touches what a bulk copy is writing"),
    "no wait for a tile in registers": (
        "tf32",
        _without(ARRIVED),
        "a warp touches what a bulk copy is writing",
    ),
    "another parity": (
        "stages",
        _with_argument(ARRIVED, 3, lambda parity: 1 - parity),
        "wgmma touches what a bulk copy is writing",
    ),
    "another stage": (
        "stages",
        _with_argument(ARRIVED, 2, lambda stage: (stage + 1) % 3),
        "wgmma touches what a bulk copy is writing",
    ),
    "no barriers": ("stages", _without(BEGIN), "a barrier is used before it is made"),
    "no data": ("stages", _without(COPY_WINDOWS), "threads wait for 1 copies and 0 bytes that never arrive"),
    "no weights": ("stages", _without(COPY_TILE), "threads wait for 1 copies and 0 bytes that never arrive"),
    "too many bytes": (
        "stages",
        _with_argument(COPY_TILE, 5, lambda count: count + 16),
        "threads wait for 0 copies and 16 bytes that never arrive",
    ),
    "no wait for products": (
        "stages",
        _without(WAIT_FOR_EARLIER),
        "a bulk copy overwrites what wgmma is reading before wgmma.wait_group",
    ),
    "no wait for results": (
        "stages",
        _without(WAIT),
        "registers of wgmma are used before wgmma.wait_group",
    ),
    "no wait for products of registers": (
        "tf32",
        _without(WAIT),
        "registers of wgmma are used before wgmma.wait_group",
    ),
    "no barrier in a turn": (
        "stages",
        _without("tirx.tvm_storage_sync"),
        "a bulk copy overwrites what was read without a barrier in between",
    ),
    "all threads": ("stages", _by_all_threads, "a bulk copy is not issued by one thread of each block"),
    "an address between": (
        "stages",
        _with_argument(COPY_TILE, 1, lambda to: _shifted(to, 8)),
        "a bulk copy to no multiple of 1024",
    ),
    "a tap too far": (
        "stages",
        _with_argument(COPY_WINDOWS, -2, lambda below: below - 1),
        "a tap 0 to the right and -1 below the first",
    ),
    "a window outside": (
        "stages",
        _with_argument(COPY_WINDOWS, 7, lambda x: x - 1),
        r"a first window at \(-2, -1\), outside its box",
    ),
}


def _shifted(pointer: Call, count: int) -> Call:
    arguments = list(pointer.args)
    arguments[2] = arguments[2] + count
    return Call(pointer.op, arguments, pointer.attrs, pointer.ty_args, ret_ty=pointer.ty)


@pytest.mark.parametrize("kind", BROKEN)
def test_what_is_wrong_in_a_kernel_is_found_out(kind: str) -> None:
    case, change, problem = BROKEN[kind]
    work, knobs = PRODUCTS[case]
    broken = change(lowered(scheduled_product(work, knobs, SM_90), SM_90))
    with pytest.raises(SimulationError, match=f"^{problem}$"):
        product_error(work, knobs, SM_90, broken)


def test_the_permutation_is_of_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tile lies where a pattern begins."""
    monkeypatch.setattr(warpgroups, "SHARED_ALIGNMENT", 128)
    work, knobs = PRODUCTS["stages"]
    with pytest.raises(SimulationError, match=r"^a bulk copy to no multiple of 1024$"):
        product_error(work, knobs, SM_90)


def test_another_permutation_is_read_wrongly(monkeypatch: pytest.MonkeyPatch) -> None:
    work, knobs = PRODUCTS["two stages"]
    read = gpu_cases.maps_of

    def unlike(*arguments: Any) -> dict[str, gpu_bulk.TensorMap]:
        return {name: replace(found, swizzle=3) for name, found in read(*arguments).items()}

    assert product_error(work, knobs, SM_90) < bound("float16")
    monkeypatch.setattr(gpu_cases, "maps_of", unlike)
    assert not product_error(work, knobs, SM_90) < bound("float16")


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda array: gpu_bulk.tiled(array, 2, 8, 8, 8, 8, 4, 1, 1, 0, 1, 2, 0), r"strides of \(8,\) bytes"),
        (
            lambda array: gpu_bulk.tiled(array, 2, 16, 4, 32, 16, 257, 1, 1, 0, 1, 2, 0),
            r"boxes of \(16, 257\)",
        ),
        (lambda array: gpu_bulk.tiled(array, 2, 32, 2, 64, 32, 2, 1, 1, 0, 1, 2, 0), "rows of 64 bytes"),
        (
            lambda array: gpu_bulk.windows(array, 16, 2, 2, 1, -129, 0, 0, 0, 1, 1, 16, 64, 1, 2),
            r"windows from \(-129, 0\)",
        ),
    ],
)
def test_a_tensor_map_that_the_driver_refuses_is_refused(
    make: Callable[[np.ndarray], Any], problem: str
) -> None:
    with pytest.raises(SimulationError, match=f"^a tensor map .*{problem}"):
        make(np.zeros(64, np.float16))


def test_a_turn_has_one_barrier_and_the_products_of_two_turns_are_under_way() -> None:
    work, knobs = PRODUCTS["stages"]
    device = lowered(scheduled_product(work, knobs, SM_90), SM_90)
    loops: list[tirx.For] = []
    structural_map(device.body, (tirx.For, lambda loop: loops.append(loop) or loop))
    (loop,) = [found for found in loops if "wgmma_multiply" in str(found)]
    names = re.findall(r"T\.cuda\.func_call\(\"(\w+)\"|(tvm_storage_sync)", loop.script())
    order = [name or barrier for name, barrier in names if name != "topi_ext_shared_address"]
    multiply = "topi_ext_wgmma_multiply_float16_64"
    assert order == [
        ARRIVED,
        "topi_ext_wgmma_fence_float_32",
        *[multiply] * 4,
        "topi_ext_wgmma_commit",
        WAIT_FOR_EARLIER,
        "tvm_storage_sync",
        COPY_WINDOWS,
        COPY_TILE,
    ]
