"""The facts of the boards: they add up to what NVIDIA's papers say."""

from itertools import pairwise

import pytest

from topi_ext.cuda.multiprocessor import LANES, MULTIPROCESSORS

PEAKS = {
    # NVIDIA's white papers (V100, Turing, A100, H100) and data sheets (T4, A10, L4): 10^12 operations a
    # second of float16 with float32 sums, TF32 and bytes, without sparsity, and of float32 on CUDA cores;
    # then the clock of the latter where it is another. dp4a of V100 has four bytes for each float32.
    "sm_70": (125, 0, 4 * 15.7, 15.7),
    "sm_75": (65, 0, 130, 8.1),
    "sm_80": (312, 156, 624, 19.5),
    "sm_86": (125, 62.5, 250, 31.2),
    "sm_89": (121, 60.5, 242.5, 30.3),
    "sm_90": (989.4, 494.7, 1978.9, 66.9, 1.98),
}


@pytest.mark.parametrize("arch", MULTIPROCESSORS)
def test_peaks_are_those_of_the_papers(arch: str) -> None:
    sm = MULTIPROCESSORS[arch]
    half, tf32, bytes_, single, *clock = PEAKS[arch]
    for dtype, peak in (("float16", half), ("tf32", tf32), ("uint8", bytes_), ("int8", bytes_)):
        best = max(sm.products(dtype, instruction) for instruction in ("mma", "wgmma"))
        assert 2e-3 * best * sm.count * sm.gigahertz == pytest.approx(peak, rel=0.01), dtype
    gigahertz = clock[0] if clock else sm.gigahertz
    assert 2e-3 * sm.products("float32", "fma") * sm.count * gigahertz == pytest.approx(single, rel=0.01)


@pytest.mark.parametrize("arch", MULTIPROCESSORS)
def test_sizes_are_those_of_the_programming_guide(arch: str) -> None:
    """Kilobytes of shared memory of a multiprocessor and of a block, resident warps and blocks."""
    sm = MULTIPROCESSORS[arch]
    guide = {
        "sm_70": (96, 96, 64, 32),
        "sm_75": (64, 64, 32, 16),
        "sm_80": (164, 163, 64, 32),
        "sm_86": (100, 99, 48, 16),
        "sm_89": (100, 99, 48, 24),
        "sm_90": (228, 227, 64, 32),
    }
    assert (sm.shared_bytes / 1024, sm.block_shared_bytes / 1024, sm.warps, sm.blocks) == guide[arch]
    assert sm.registers == 65536


def test_blocks_are_limited_by_what_is_scarce() -> None:
    older, newer = MULTIPROCESSORS["sm_75"], MULTIPROCESSORS["sm_80"]
    assert [sm.resident(0, 32, 1) for sm in (older, newer)] == [16, 32]
    assert [sm.resident(0, 32, 8) for sm in (older, newer)] == [4, 8]
    # On sm_80 the system keeps a kilobyte of each block's shared memory.
    assert [sm.resident(sm.shared_bytes // 4, 32, 4) for sm in (older, newer)] == [4, 3]
    # 96 registers take as much as 90, and five warps fit each of the four files.
    assert [newer.resident(0, registers, 4) for registers in (90, 96, 97)] == [5, 5, 4]
    assert newer.resident(1 << 20, 255, 32) == 1


def test_more_registers_never_hold_more_blocks() -> None:
    sm = MULTIPROCESSORS["sm_80"]
    for warps in (1, 2, 3, 4, 8):
        found = [sm.resident(0, registers, warps) for registers in range(16, 256)]
        assert all(fewer >= more for fewer, more in pairwise(found))
        assert all(count * warps * LANES * registers <= 65536 for registers, count in enumerate(found, 16))
