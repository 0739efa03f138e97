"""Building and checking kernels of GPUs, and what becomes of a process whose kernel fails. Needs no GPU."""

import os
import random
import re
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from topi_ext.cuda.codegen.nvcc import Cubin, Resources, find_nvcc
from topi_ext.cuda.gemm_knobs import GemmKnobs, shared_bytes
from topi_ext.cuda.multiprocessor import MULTIPROCESSORS
from topi_ext.cuda.winograd_knobs import WinogradGemmKnobs
from topi_ext.cuda.workload import DepthwiseConvolution, GemmConvolution, NhwcConvolution
from topi_ext.errors import CudaError
from topi_ext.tune.measuring import gpu_measure, gpu_workers, product_check
from topi_ext.tune.measuring.gpu_measure import GpuMeasurer, product_error
from topi_ext.tune.measuring.library import Library
from topi_ext.tune.measuring.timing import Timing
from topi_ext.tune.measuring.workplace import Workplace
from topi_ext.tune.space import Space

ROOT = Path(__file__).resolve().parents[4]
SM_90 = MULTIPROCESSORS["sm_90"]
HALF = GemmConvolution(1, 14, 14, 64, 48, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1, "float16")
WORKLOADS = [
    HALF,
    replace(HALF, dtype="tf32"),
    replace(HALF, dtype="float32"),
    replace(HALF, dtype="uint8"),
    GemmConvolution(2, 15, 13, 68, 52, (3, 3), (2, 2), (1, 0, 1, 2), (2, 1), 1, "float16"),
    GemmConvolution(2, 9, 9, 64, 64, (3, 3), (1, 1), (1, 1, 1, 1), (2, 2), 4, "float16"),
    GemmConvolution(1, 7, 7, 512, 2048, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1, "float16"),
]
DEPTHWISE = [
    DepthwiseConvolution(1, 14, 14, 64, 64, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 64, "float16"),
    DepthwiseConvolution(2, 9, 11, 20, 40, (5, 3), (2, 1), (2, 1, 1, 0), (1, 2), 20, "float32"),
    DepthwiseConvolution(1, 14, 14, 96, 96, (7, 7), (1, 1), (3, 3, 3, 3), (1, 1), 96, "uint8"),
]
KNOBS = GemmKnobs("mma", 64, 16, 32, 4, 1, 3)

needs_nvcc = pytest.mark.skipif(find_nvcc() is None, reason="nvcc is not installed")


def check_sample(workload: GemmConvolution, seed: int, folder: Path) -> None:
    """A point of a space is machine code within the limits of the architecture, or it is refused as one that
    spills; of kernels on tensor cores none is.
    """
    candidate = random.Random(seed).choice(Space(workload, SM_90).candidates)
    knobs = candidate.knobs
    product = knobs.product if isinstance(knobs, WinogradGemmKnobs) else knobs
    assert shared_bytes(workload, product, SM_90) <= SM_90.block_shared_bytes
    again = f"check_sample({workload}, {seed}, Path('.')): {knobs}"
    try:
        found = gpu_workers.build(str(folder), ("cc",), "sm_90", (workload, knobs))
    except CudaError as error:
        assert re.fullmatch(r"\d+ bytes of registers are spilled", str(error)), again
        assert product.instruction == "fma", again
        return
    names = ["product", "sum"] if product.split_k > 1 else ["product"]
    names = names if product is knobs else ["image", "product", "result"]
    assert [name for name, _ in found.calls] == names, again
    assert len(list(Path(found.path).parent.glob("*.cubin"))) == 1, again


@needs_nvcc
@pytest.mark.parametrize("place", [0, 3])
def test_samples_of_a_space_are_legal(place: int, tmp_path: Path) -> None:
    check_sample(WORKLOADS[place], 7, tmp_path)


@needs_nvcc
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("workload", WORKLOADS, ids=range(len(WORKLOADS)))
def test_more_samples_are_legal(workload: GemmConvolution, seed: int, tmp_path: Path) -> None:
    check_sample(workload, seed, tmp_path)


@needs_nvcc
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))])
@pytest.mark.parametrize("workload", DEPTHWISE, ids=["half", "multiplier", "bytes"])
def test_samples_of_a_depthwise_space_do_not_spill(
    workload: DepthwiseConvolution, seed: int, tmp_path: Path
) -> None:
    candidate = random.Random(seed).choice(Space(workload, SM_90).candidates)
    found = gpu_workers.build(str(tmp_path), ("cc",), "sm_90", (workload, candidate.knobs))
    assert found.calls == [("product", (0, 1, 2))], candidate.knobs
    assert found.arguments[1][0] == (*workload.kernel, workload.out_channels)


@needs_nvcc
def test_arguments_follow_one_another_from_function_to_function(tmp_path: Path) -> None:
    found = gpu_workers.build(str(tmp_path), ("cc",), "sm_90", (HALF, replace(KNOBS, split_k=3)))
    assert found.calls == [("product", (0, 1, 2)), ("sum", (2, 3))]
    assert found.arguments == [
        ((1, 14, 14, 64), "float16"),
        ((1, 48, 576), "float16"),
        ((3, 256, 48), "float32"),
        ((1, 14, 14, 48), "float16"),
    ]
    assert found.device == "cuda"


@needs_nvcc
def test_the_three_kernels_of_winograd_are_timed_together(tmp_path: Path) -> None:
    work, knobs = replace(HALF, dtype="float32"), WinogradGemmKnobs(4, GemmKnobs("fma", 32, 32, 16, 1, 2, 3))
    found = gpu_workers.build(str(tmp_path), ("cc",), "sm_90", (work, knobs))
    assert found.calls == [("image", (0, 2)), ("product", (2, 1, 3)), ("result", (3, 4))]
    assert [shape for shape, _ in found.arguments] == [
        (1, 14, 14, 64),
        (36, 64, 64),
        (16, 1, 1, 36 * 64),
        (36, 32, 64),
        (1, 14, 14, 48),
    ]
    assert {dtype for _, dtype in found.arguments} == {"float32"}


@needs_nvcc
def test_a_kernel_that_spills_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    spilling = Cubin(b"", {"product_kernel": Resources(255, 0, 8, 4, 4)})
    monkeypatch.setattr(gpu_workers, "machine_code_of", lambda built, arch: {"digest": spilling})
    with pytest.raises(CudaError, match=r"^4 bytes of registers are spilled$"):
        gpu_workers.build(str(tmp_path), ("cc",), "sm_90", (HALF, KNOBS))


@needs_nvcc
def test_a_kernel_whose_products_wait_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    waiting = Cubin(b"", {"product_kernel": Resources(90, 0, 0, 0, 0)}, serialized=True)
    monkeypatch.setattr(gpu_workers, "machine_code_of", lambda built, arch: {"digest": waiting})
    with pytest.raises(CudaError, match=r"^products by wgmma are serialized$"):
        gpu_workers.build(str(tmp_path), ("cc",), "sm_90", (HALF, KNOBS))


@pytest.mark.parametrize("workload", [*WORKLOADS, *DEPTHWISE], ids=range(len(WORKLOADS) + len(DEPTHWISE)))
def test_rows_are_those_of_a_convolution(workload: NhwcConvolution) -> None:
    data, weight = product_check.operands(workload)
    rows = np.arange(workload.rows)
    found = product_check.product_rows(data, weight, workload, rows)
    expected = one_by_one(workload, data, weight, rows[:: max(1, workload.rows // 5)])
    np.testing.assert_allclose(found[:: max(1, workload.rows // 5)], expected, rtol=1e-12, atol=1e-12)


def one_by_one(work: NhwcConvolution, data: np.ndarray, weight: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The same from the definition of a convolution, over a padded image."""
    top, left, bottom, right = work.padding
    image = np.pad(data.astype(np.float64), [(0, 0), (top, bottom), (left, right), (0, 0)])
    result = np.zeros((len(rows), work.out_channels))
    for place, row in enumerate(rows):
        number, y, x = np.unravel_index(row, (work.batch, work.out_height, work.out_width))
        for channel in range(work.out_channels):
            first = channel // work.columns * work.group_channels
            window = image[
                number,
                y * work.strides[0] :: work.dilation[0],
                x * work.strides[1] :: work.dilation[1],
                first : first + work.group_channels,
            ][: work.kernel[0], : work.kernel[1]]
            result[place, channel] = (window * weight[channel].astype(np.float64)).sum()
    return result


def test_a_wrong_result_is_judged() -> None:
    work = replace(HALF, batch=16)
    assert work.rows > product_check.ROWS
    data, weight = product_check.operands(work)
    shape = (work.batch, work.out_height, work.out_width, work.out_channels)
    right = product_check.product_rows(data, weight, work, np.arange(work.rows)).reshape(shape)
    rounded = right.astype(np.float16)
    assert product_error(work, KNOBS, product_check.largest_error(rounded, data, weight, work)) == ""
    # The last row of the last tile was forgotten.
    rounded[-1, -1, -1] = 77
    error = product_check.largest_error(rounded, data, weight, work)
    assert re.fullmatch(
        r"result: differs by \d\.\de[+-]\d\d of the largest, 2e-03 are allowed",
        product_error(work, KNOBS, error),
    )
    rounded[-1, -1, -1] = np.nan
    assert product_error(work, KNOBS, product_check.largest_error(rounded, data, weight, work)).startswith(
        "result: differs by inf"
    )


def test_winograd_is_judged_by_the_rounding_of_its_tile() -> None:
    work = replace(HALF, dtype="float32")
    two, four = (WinogradGemmKnobs(tile, GemmKnobs("fma", 32, 32, 16, 1, 2, 3)) for tile in (2, 4))
    assert [product_error(work, knobs, 5e-6) for knobs in (KNOBS, two, four)] == ["", "", ""]
    assert product_error(work, four, 5e-5) == ""
    for knobs in (KNOBS, two):
        assert (
            product_error(work, knobs, 5e-5) == "result: differs by 5.0e-05 of the largest, 1e-05 are allowed"
        )
    assert product_error(work, four, 2e-4).endswith("1e-04 are allowed")


def _fail(*_: object) -> list[float]:
    raise RuntimeError("CUDAError: an illegal memory access was encountered")


def _crash(*_: object) -> list[float]:
    os.kill(os.getpid(), signal.SIGKILL)
    return []


def _hang(*_: object) -> list[float]:
    time.sleep(60)
    return []


def _pid(*_: object) -> list[float]:
    return [float(os.getpid())]


@pytest.fixture
def measurer(monkeypatch: pytest.MonkeyPatch) -> Iterator[GpuMeasurer]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(gpu_measure, "find_compiler", lambda: Path("nvcc"))
    with closing(GpuMeasurer(SM_90, Workplace("here"), timing=Timing(run_timeout=3.0))) as found:
        yield found


def test_a_kernel_that_fails_costs_its_process_alone(
    measurer: GpuMeasurer, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Library("none", [], [("product", ())], "cuda")

    def run(worker: object) -> tuple[tuple[float, ...], str]:
        monkeypatch.setattr(measurer._runner, "_run_here", worker)
        (found,) = measurer._runner.run([kernel])
        return found.seconds, found.error

    first, _ = run(_pid)
    assert run(_pid) == (first, "")
    assert run(_fail) == ((), "run: RuntimeError: CUDAError: an illegal memory access was encountered")
    second, _ = run(_pid)
    assert second != first
    assert run(_crash) == ((), "run: Subprocess terminated")
    assert run(_hang) == ((), "run: longer than 3 s")


def test_a_kernel_is_built_once(measurer: GpuMeasurer, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def build(jobs: list[object]) -> list[tuple[Library | None, str]]:
        asked.extend(jobs)
        return [(Library(str(job), []), "") if job != (HALF, bad) else (None, "build: no") for job in jobs]

    bad, good = replace(KNOBS, stages=4), replace(KNOBS, stages=2)
    monkeypatch.setattr(measurer, "_build", build)
    first = measurer._products([(HALF, good), (HALF, bad), (HALF, good)])
    assert [error for _, error in first] == ["", "build: no", ""]
    assert asked == [(HALF, good), (HALF, bad)]
    assert measurer._products([(HALF, good)]) == first[:1]
    assert len(asked) == 2


def test_without_a_compiler_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_measure, "find_compiler", lambda: None)
    with pytest.raises(CudaError) as raised:
        GpuMeasurer(SM_90, Workplace("here"))
    assert str(raised.value) == (
        "tuning needs nvcc or NVRTC; install the CUDA toolkit or relay-layout[nvrtc]"
    )
