"""Products by wgmma on a simulated GPU: what they compute, and what becomes of kernels that do not wait."""

import random
import re
from dataclasses import replace
from typing import Any

import pytest
import tvm
from gpu_cases import bound, impatient, lowered, product_error, scheduled_product, swept, workload
from gpu_memory import SimulationError
from tvm import tirx
from tvm.ir import Call
from tvm_ffi import structural_map

from topi_ext.cuda.codegen import warpgroups
from topi_ext.cuda.codegen.build import PIPELINE
from topi_ext.cuda.codegen.intrinsics import TF32
from topi_ext.cuda.codegen.warpgroups import order_warpgroups
from topi_ext.cuda.codegen.wgmma import COMMIT, FENCE, PROXY_FENCE, WAIT, called
from topi_ext.cuda.gemm_knobs import GemmKnobs
from topi_ext.cuda.gemm_space import cheapest_gemm
from topi_ext.cuda.multiprocessor import MULTIPROCESSORS
from topi_ext.cuda.workload import GemmConvolution
from topi_ext.tune.space import Space

SM_90 = MULTIPROCESSORS["sm_90"]


def odd(dtype: str = "float16") -> GemmConvolution:
    return workload(2, (9, 7), (20, 37), (3, 2), (2, 1), (1, 0, 2, 1), (1, 2), dtype=dtype)


def pointwise(dtype: str = "float16") -> GemmConvolution:
    return workload(1, (7, 7), (32, 30), (1, 1), padding=(0, 0, 0, 0), dtype=dtype)


PRODUCTS = {
    "stages": (workload(1, (9, 9), (64, 48)), GemmKnobs("wgmma", 64, 64, 64, 4, 1, 3)),
    "one stage": (workload(1, (9, 9), (36, 48)), GemmKnobs("wgmma", 64, 48, 64, 4, 1, 1)),
    "two stages": (odd(), GemmKnobs("wgmma", 64, 32, 64, 4, 1, 2)),
    "rows of 64 bytes": (odd(), GemmKnobs("wgmma", 64, 16, 32, 4, 1, 3)),
    "rows of 32 bytes": (odd(), GemmKnobs("wgmma", 64, 48, 16, 4, 1, 4)),
    "one tile": (pointwise(), GemmKnobs("wgmma", 64, 32, 32, 4, 1, 2)),
    "three groups of warps": (workload(1, (14, 14), (32, 32)), GemmKnobs("wgmma", 192, 32, 64, 12, 1, 3)),
    "widest": (workload(1, (14, 9), (32, 270)), GemmKnobs("wgmma", 128, 256, 64, 8, 1, 2)),
    "groups": (workload(2, (9, 9), (72, 48), groups=2), GemmKnobs("wgmma", 128, 32, 64, 8, 1, 3)),
    "three channels": (workload(1, (9, 9), (3, 20)), GemmKnobs("wgmma", 64, 32, 32, 4, 1, 3)),
    "slices": (workload(1, (7, 7), (64, 48)), GemmKnobs("wgmma", 64, 64, 32, 4, 1, 3, 3)),
    "columns first": (
        workload(1, (9, 9), (32, 48)),
        GemmKnobs("wgmma", 64, 16, 32, 4, 1, 2, order="columns"),
    ),
    "tf32": (odd("tf32"), GemmKnobs("wgmma", 64, 48, 32, 4, 1, 3)),
    "tf32 slices": (workload(1, (7, 7), (64, 48), dtype="tf32"), GemmKnobs("wgmma", 64, 16, 16, 4, 1, 2, 3)),
    "uint8": (odd("uint8"), GemmKnobs("wgmma", 64, 48, 64, 4, 1, 3)),
    "uint8 slices": (
        workload(1, (7, 7), (64, 48), dtype="uint8"),
        GemmKnobs("wgmma", 64, 16, 128, 4, 1, 3, 2),
    ),
    "int8": (pointwise("int8"), GemmKnobs("wgmma", 64, 32, 128, 4, 1, 2)),
}


@pytest.mark.parametrize("case", swept(PRODUCTS, ("three groups of warps", "widest")))
def test_products_are_right(case: str) -> None:
    work, knobs = PRODUCTS[case]
    waited: dict[str, int] = {}
    assert product_error(work, knobs, SM_90, None, waited) < bound(work.dtype)
    assert waited["cp.async"] == 0


def check_point(case: str, seed: int) -> None:
    """A point of the space that a tuner searches, of those by wgmma, computes what it should."""
    work = PRODUCTS[case][0]
    found = [one for one in Space(work, SM_90).candidates if one.knobs.instruction == "wgmma"]
    knobs = random.Random(seed).choice(found).knobs
    again = f"check_point({case!r}, {seed}): {knobs}"
    assert product_error(work, knobs, SM_90) < bound(work.dtype), again


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("case", ["two stages", "groups", "tf32", "uint8", "int8"])
def test_points_of_a_tuners_space_are_right(case: str, seed: int) -> None:
    check_point(case, seed)


def test_products_are_by_wgmma_where_it_may_be_used() -> None:
    """As an H100 measured it, but for those of few rows, which four warps would leave idle."""
    large, few = (
        workload(32, (28, 28), (128, 128)),
        workload(32, (1, 1), (1280, 1000), (1, 1), padding=(0,) * 4),
    )
    assert cheapest_gemm(large, SM_90)[1].instruction == "wgmma"
    assert cheapest_gemm(few, SM_90)[1].instruction == "mma"
    without = replace(SM_90, wgmma_gain=0.0)
    assert {one.knobs.instruction for one in Space(large, SM_90).candidates} == {"mma", "wgmma"}
    assert {one.knobs.instruction for one in Space(large, without).candidates} == {"mma"}


def _without(device: tirx.PrimFunc, name: str) -> tirx.PrimFunc:
    """The function without calls of the device functions whose names begin so, or without barriers."""
    nothing = tirx.Evaluate(0)

    def dropped(node: tirx.Evaluate) -> tirx.Evaluate:
        call = node.value
        if not isinstance(call, Call):
            return node
        return nothing if (called(call) or str(call.op.name)).startswith(name) else node

    return device.with_body(structural_map(device.body, (tirx.Evaluate, dropped)))


BARRIER = "tirx.tvm_storage_sync"


@pytest.mark.parametrize(
    ("case", "missing", "problem"),
    [
        ("stages", WAIT, "a warp overwrites what wgmma is reading before wgmma.wait_group"),
        ("stages", COMMIT, "a warp overwrites what wgmma is reading before wgmma.wait_group"),
        ("one tile", WAIT, "registers of wgmma are used before wgmma.wait_group"),
        ("one tile", COMMIT, "registers of wgmma are used before wgmma.wait_group"),
        ("tf32", WAIT, "registers of wgmma are used before wgmma.wait_group"),
        ("stages", FENCE, "wgmma takes sums that were written without wgmma.fence behind it"),
        ("stages", PROXY_FENCE, "wgmma reads what no fence.proxy.async came behind before the barrier"),
        ("uint8", PROXY_FENCE, "wgmma reads what no fence.proxy.async came behind before the barrier"),
        ("stages", BARRIER, "wgmma reads what was written without a barrier in between"),
    ],
)
def test_what_is_missing_in_a_kernel_is_found_out(case: str, missing: str, problem: str) -> None:
    work, knobs = PRODUCTS[case]
    broken = _without(lowered(scheduled_product(work, knobs, SM_90), SM_90), missing)
    with pytest.raises(SimulationError, match=f"^{problem}$"):
        product_error(work, knobs, SM_90, broken)


def test_operands_that_are_not_rounded_are_found_out() -> None:
    work, knobs = PRODUCTS["tf32"]
    device = lowered(scheduled_product(work, knobs, SM_90), SM_90)
    broken = device.with_body(
        structural_map(device.body, (Call, lambda call: call.args[1] if called(call) == TF32 else call))
    )
    with pytest.raises(SimulationError, match=r"^wgmma takes a float32 that is not rounded to tf32$"):
        product_error(work, knobs, SM_90, broken)


def test_a_kernel_that_does_not_wait_for_its_copies_is_found_out() -> None:
    work, knobs = PRODUCTS["stages"]
    broken = impatient(lowered(scheduled_product(work, knobs, SM_90), SM_90))
    assert not product_error(work, knobs, SM_90, broken) < 1.0


def test_the_permutation_is_of_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles that do not lie at multiples of the pattern are read wrongly."""
    monkeypatch.setattr(warpgroups, "SHARED_ALIGNMENT", 128)
    work, knobs = PRODUCTS["stages"]
    assert not product_error(work, knobs, SM_90) < bound("float16")


def test_tiles_that_are_not_swizzled_are_read_wrongly() -> None:
    work, knobs = PRODUCTS["stages"]
    device = lowered(scheduled_product(work, knobs, SM_90), SM_90, swizzled=False)
    assert not product_error(work, knobs, SM_90, device) < bound("float16")


def test_a_turn_has_one_barrier_and_copies_behind_its_products() -> None:
    work, knobs = PRODUCTS["stages"]
    device = lowered(scheduled_product(work, knobs, SM_90), SM_90)
    (loop,) = [found for found in _loops(device.body) if "wgmma_multiply" in str(found)]
    text = loop.script()
    assert text.count("tvm_storage_sync") == 1
    assert text.index("tvm_storage_sync") < text.index("wgmma_multiply") < text.index("cp_async_raw")
    assert 'async_wait_inflight_count": 1' in text


def _loops(body: Any) -> list[tirx.For]:
    found: list[tirx.For] = []
    structural_map(body, (tirx.For, lambda loop: found.append(loop) or loop))
    return found


def test_sums_are_waited_for_without_a_barrier_too() -> None:
    """Nothing but shared memory that both take makes a barrier between products and results."""
    work, knobs = PRODUCTS["one tile"]
    device = lowered(scheduled_product(work, knobs, SM_90), SM_90)
    bare = device
    for name in (WAIT, FENCE, COMMIT, PROXY_FENCE, BARRIER):
        bare = _without(bare, name)
    module = tvm.IRModule({"main": bare.with_attr("global_symbol", "main")})
    again = order_warpgroups()(module)["main"].script()
    last = again.rindex("wgmma_multiply")
    assert again.count(f'"{WAIT}') == 1
    assert last < again.index(f'"{WAIT}') < again.index("product_shared_dyn_warp[", last)


def test_all_kernels_of_a_module_align_their_shared_memory_alike() -> None:
    """It has one name in all of them, and nvcc takes the alignment of the first."""
    work, sm = workload(1, (10, 10), (64, 64)), MULTIPROCESSORS["sm_90"]
    kernels = {
        "first": GemmKnobs("mma", 32, 32, 32, 1, 1, 3),
        "second": GemmKnobs("wgmma", 64, 32, 64, 4, 1, 4),
    }
    module = tvm.IRModule(
        {
            name: scheduled_product(work, knobs, sm).with_attr(
                {"global_symbol": name, "tirx.is_scheduled": True}
            )
            for name, knobs in kernels.items()
        }
    )
    built = tvm.compile(module, sm.target(), tir_pipeline=PIPELINE)
    source = str(built.mod.imports[0].inspect_source("cuda"))
    alignments = re.findall(r"extern __shared__ __align__\((\d+)\)", source)
    assert alignments == ["1024"] * 2
