"""Where asynchronous copies stand among products, and what they are in machine code."""

from typing import Any

import pytest
from cuda_sources import cuda_source
from gpu_cases import lowered, scheduled_product, workload
from ptx_text import compile_ptx
from tvm import tirx
from tvm_ffi import structural_walk

from topi_ext.cuda.codegen.copy_order import COMMIT_COPIES, WAIT_FOR_COPIES
from topi_ext.cuda.codegen.nvcc import find_nvcc
from topi_ext.cuda.codegen.statements import flat, is_barrier
from topi_ext.cuda.gemm_knobs import GemmKnobs
from topi_ext.cuda.multiprocessor import MULTIPROCESSORS

SM_80 = MULTIPROCESSORS["sm_80"]
WORK = workload(1, (14, 14), (64, 64))
KNOBS = GemmKnobs("mma", 64, 64, 32, 2, 2, 3)


def turns(device: tirx.PrimFunc) -> list[Any]:
    """The loops over tiles, whose turns wait for copies."""
    found: list[Any] = []

    def visit(loop: tirx.For) -> None:
        if isinstance(loop.body, tirx.AttrStmt) and loop.body.attr_key == WAIT_FOR_COPIES:
            found.append(loop)

    structural_walk(device.body, (tirx.For, visit))
    return found


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_a_turn_has_one_barrier_and_copies_among_its_products(stages: int) -> None:
    knobs = GemmKnobs("mma", 64, 64, 32, 2, 2, stages)
    (loop,) = turns(lowered(scheduled_product(WORK, knobs, SM_80), SM_80))
    waited = loop.body.body
    assert int(waited.value) == stages - 2
    parts = flat(waited.body)
    assert [place for place, part in enumerate(parts) if is_barrier(part)] == [0]
    texts = [str(part) for part in parts]
    copies = [place for place, text in enumerate(texts) if "cp_async_raw" in text]
    products = [place for place, text in enumerate(texts) if "ptx_legacy.mma" in text]
    assert products[0] < copies[0] < copies[-1] < products[-1]
    commits = [
        place
        for place, part in enumerate(parts)
        if isinstance(part, tirx.AttrStmt) and part.attr_key == COMMIT_COPIES
    ]
    assert len(commits) == 1
    assert commits[0] > copies[-1]


@pytest.mark.skipif(find_nvcc() is None, reason="needs nvcc")
def test_zeros_around_an_image_are_written_by_the_copies_themselves() -> None:
    text = compile_ptx(cuda_source(scheduled_product(WORK, KNOBS, SM_80), SM_80), "sm_80")
    assert "cp.async.cg.shared.global" in text
    assert "@!p st.shared" not in text
