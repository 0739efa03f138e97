"""Shared memory without waiting: what the simulated GPU counts, and what it counts in the tiles of
kernels."""

import numpy as np
import pytest
from gpu_banks import waits
from gpu_cases import lowered, product_error, scheduled_product, workload

from topi_ext.cuda.gemm_knobs import GemmKnobs
from topi_ext.cuda.gemm_space import cheapest_gemm
from topi_ext.cuda.multiprocessor import MULTIPROCESSORS
from topi_ext.workloads.convolution import BYTES

SM_80 = MULTIPROCESSORS["sm_80"]
LANES = np.arange(32)


@pytest.mark.parametrize(
    ("addresses", "size", "expected"),
    [
        (LANES * 4, 4, 0),
        (LANES * 0, 4, 0),
        (LANES * 128, 4, 31),
        (LANES * 8, 4, 1),
        (LANES * 8, 8, 0),
        (LANES * 16, 16, 0),
        (LANES * 32, 16, 4),
        (LANES * 80, 16, 0),
        (LANES // 2 * 2, 2, 0),
    ],
)
def test_turns_of_one_access(addresses: np.ndarray, size: int, expected: int) -> None:
    assert waits(addresses, size, np.ones(32, bool)) == expected
    assert waits(addresses, size, np.zeros(32, bool)) == 0


TILES = {
    "float16": [GemmKnobs("mma", 64, 64, depth, 2, 2, 3) for depth in (16, 32, 64)],
    "tf32": [GemmKnobs("mma", 64, 32, depth, 2, 2, 3) for depth in (8, 16, 32)],
    "uint8": [GemmKnobs("mma", 64, 32, depth, 2, 2, 3) for depth in (32, 64, 128)],
}


@pytest.mark.parametrize("dtype", TILES)
def test_tiles_meet_no_bank_twice(dtype: str) -> None:
    """Rows of every length that there is, and what is chosen."""
    work = workload(1, (8, 8), (64, 64), (1, 1), padding=(0,) * 4, dtype=dtype)
    for knobs in (*TILES[dtype], cheapest_gemm(work, SM_80)[1]):
        waited: dict[str, int] = {}
        assert product_error(work, knobs, SM_80, None, waited) < 0.5 / 255
        # The rounding of integers is done one by one, and so are the loads of their sums.
        loads = waited.pop("load")
        assert waited == {"ldmatrix": 0, "cp.async": 0, "store": 0}, knobs
        assert loads == 0 or dtype in BYTES


def test_tiles_that_are_not_swizzled_wait() -> None:
    work = workload(1, (8, 8), (64, 64), (1, 1), padding=(0,) * 4)
    knobs = TILES["float16"][1]
    waited: dict[str, int] = {}
    device = lowered(scheduled_product(work, knobs, SM_80), SM_80, swizzled=False)
    assert product_error(work, knobs, SM_80, device, waited) < 1e-3
    # Eight rows of 64 bytes share four groups of banks; copies of whole lines share none.
    assert waited["ldmatrix"] > 0
    assert waited["cp.async"] == 0
