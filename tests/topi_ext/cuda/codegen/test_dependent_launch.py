"""Kernels that are launched while the one before them runs."""

import re
import subprocess
import tarfile
from functools import partial
from pathlib import Path

import pytest
import tvm
from cuda_sources import cuda_source
from gpu_cases import bound, product_error, scheduled_product, workload
from gpu_memory import SimulationError
from machine_listing import find_nvdisasm
from ptx_cases import program, run_ptx
from ptx_module import parse_kernels
from ptx_text import compile_ptx
from ptx_waits import early_problems, memory_accesses
from tvm import te

from topi_ext.cuda.codegen.dependent_launch import CONSTANT, WAIT
from topi_ext.cuda.codegen.nvcc import compile_cubin, find_nvcc
from topi_ext.cuda.compute.implicit_gemm import padded, partial_products, result_of
from topi_ext.cuda.gemm_knobs import GemmKnobs
from topi_ext.cuda.kernel import compile_module
from topi_ext.cuda.multiprocessor import MULTIPROCESSORS
from topi_ext.cuda.schedule.elementwise import schedule_elementwise
from topi_ext.cuda.schedule.implicit_gemm import schedule_product
from topi_ext.tune.measuring.workers import export

DEPENDENT = b"tirx.use_programtic_dependent_launch"

pytestmark = pytest.mark.skipif(find_nvcc() is None, reason="nvcc is not installed")


def doubled() -> tvm.IRModule:
    data = te.placeholder((64, 64), "float32", "data")
    func = te.create_prim_func([data, te.compute(data.shape, lambda i, j: data[i, j] * 2.0)])
    schedule = schedule_elementwise(func)
    assert schedule is not None
    return tvm.IRModule(
        {"main": schedule.mod["main"].with_attr({"global_symbol": "main", "tirx.is_scheduled": True})}
    )


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90"])
def test_kernels_of_sm_90_are_launched_early_and_wait(arch: str, tmp_path: Path) -> None:
    """The launch says so, and the kernel waits before it reads: one without the other would be wrong."""
    built = compile_module(doubled(), MULTIPROCESSORS[arch])
    source = str(built.mod.imports[0].inspect_source("cuda"))
    with tarfile.open(export(str(tmp_path), (), built)) as library:
        files = [held.read() for name in library.getnames() if (held := library.extractfile(name))]
    assert (f"  {WAIT}(" in source) == (arch == "sm_90")
    assert any(DEPENDENT in held for held in files) == (arch == "sm_90")


def test_reading_before_the_wait_is_refused() -> None:
    """The machine that runs PTX holds kernels to it."""
    built = compile_module(doubled(), MULTIPROCESSORS["sm_90"])
    source = str(built.mod.imports[0].inspect_source("cuda"))
    program(compile_ptx(source, "sm_90"))
    (call,) = re.findall(f"  {WAIT}\\(\\w+\\);\n", source)
    head, body = source.split(call)
    end = body.rindex("}")
    late = compile_ptx(head + body[:end] + call + body[end:], "sm_90")
    with pytest.raises(SimulationError, match="before the kernel before has ended: ld"):
        program(late)


SM_90 = MULTIPROCESSORS["sm_90"]
WORK = workload(1, (10, 10), (64, 64))
KNOBS = {
    "mma": GemmKnobs("mma", 32, 32, 32, 1, 1, 3),
    "wgmma": GemmKnobs("wgmma", 64, 32, 64, 4, 1, 4),
    "bulk": GemmKnobs("wgmma", 64, 32, 64, 4, 1, 3, copies="bulk"),
    "slices": GemmKnobs("wgmma", 64, 32, 64, 4, 1, 3, split_k=2),
}


def around_the_wait(source: str) -> tuple[str, str]:
    """The kernel before it and behind it."""
    kernel = source[source.rindex("__global__") :]
    (call,) = re.findall(rf"  {WAIT}\(\w+\);\n", kernel)
    before, behind = kernel.split(call)
    return before, behind


@pytest.mark.parametrize("case", KNOBS)
def test_first_tiles_of_weights_are_copied_before_the_wait(case: str) -> None:
    """All stages but the last, which the first turn of the loop asks for; none of the data."""
    source = cuda_source(scheduled_product(WORK, KNOBS[case], SM_90), SM_90)
    before, behind = around_the_wait(source)
    copies = [line for line in before.splitlines() if "cp_async" in line or "bulk_copy" in line]
    assert len(copies) == KNOBS[case].stages - 1
    assert all(re.search(r"\bweight_(ptr|map)\b", line) for line in copies)
    assert not re.search(r"\bdata_(ptr|map)\b", before.split("{", 1)[1])
    assert CONSTANT not in before + behind
    assert not re.search(r"\bweight_(ptr|map)\b", behind.split("for (")[0].split("if (")[0])


def test_nothing_is_copied_early_where_nothing_is_launched_early() -> None:
    sm_80 = MULTIPROCESSORS["sm_80"]
    source = cuda_source(scheduled_product(WORK, KNOBS["mma"], sm_80), sm_80)
    assert WAIT not in source
    assert CONSTANT not in source


@pytest.mark.parametrize("case", KNOBS)
def test_products_with_early_weights_are_right(case: str) -> None:
    assert product_error(WORK, KNOBS[case], SM_90, run=run_ptx) < bound("float16")


@pytest.mark.parametrize("case", ["mma", "bulk"])
def test_copies_before_the_wait_of_what_may_be_written_are_refused(case: str) -> None:
    with pytest.raises(SimulationError, match="before the kernel before has ended: access of"):
        product_error(WORK, KNOBS[case], SM_90, run=partial(run_ptx, constants=("residual",)))


@pytest.mark.parametrize("case", [*KNOBS, "elementwise", "converting"])
def test_no_path_comes_to_memory_or_to_the_end_without_the_wait(case: str) -> None:
    if case == "elementwise":
        source = str(compile_module(doubled(), SM_90).mod.imports[0].inspect_source("cuda"))
    else:
        source = (
            converting_product()
            if case == "converting"
            else cuda_source(scheduled_product(WORK, KNOBS[case], SM_90), SM_90)
        )
    (kernel,) = parse_kernels(compile_ptx(source, "sm_90")).values()
    assert memory_accesses(kernel.code)
    assert early_problems(kernel) == []


def test_only_what_is_written_counts_as_written() -> None:
    """A pointer that the wait looks at is read by plain loads, which ptxas moves in front of no store."""
    data, addend = (te.placeholder((64, 64), "float32", name) for name in ("a", "b"))
    func = te.create_prim_func(
        [data, addend, te.compute(data.shape, lambda i, j: data[i, j] + addend[i, j], name="sum")]
    )
    schedule = schedule_elementwise(func)
    assert schedule is not None
    source = cuda_source(schedule.mod["main"], SM_90)
    (kernel,) = parse_kernels(compile_ptx(source, "sm_90")).values()
    loads = [found.operation for found in kernel.code if found.words[:2] == ("ld", "global")]
    assert loads == ["ld.global.nc.v4.f32"] * 2


def test_a_branch_around_the_wait_is_found() -> None:
    source = str(compile_module(doubled(), SM_90).mod.imports[0].inspect_source("cuda"))
    (call,) = re.findall(f"  {WAIT}\\(\\w+\\);\n", source)
    broken = source.replace(call, f"  if (blockIdx.x > 2) {{ {call} }}\n")
    (kernel,) = parse_kernels(compile_ptx(broken, "sm_90")).values()
    assert re.match(r"ld\.global.* before the wait", early_problems(kernel)[0])


def converting_product() -> str:
    """A product of float16 whose data are float32, so that each thread reads, rounds and stores them."""
    knobs = KNOBS["wgmma"]
    data = te.placeholder((1, 10, 10, 64), "float32", "data")
    half = te.compute(data.shape, lambda *index: data(*index).astype("float16"), name="half")
    _, columns, depth = padded(WORK, knobs)
    weight = te.placeholder((1, columns, depth), "float16", "weight")
    whole = result_of(partial_products(half, weight, WORK, knobs), WORK, (1, 10, 10), 1)
    out = te.compute(whole.shape, lambda *index: whole(*index).astype("float16"), name="out")
    schedule = schedule_product(te.create_prim_func([data, weight, out]), WORK, knobs, SM_90)
    assert schedule is not None
    return cuda_source(schedule.mod["main"], SM_90)


@pytest.mark.skipif(find_nvdisasm() is None, reason="nvdisasm is not installed")
@pytest.mark.parametrize("kernel", ["elementwise", "converting"])
def test_no_load_passes_the_wait_in_machine_code(kernel: str, tmp_path: Path) -> None:
    """ptxas knows loads of what no function writes for loads that may go anywhere."""
    if kernel == "elementwise":
        source = str(compile_module(doubled(), SM_90).mod.imports[0].inspect_source("cuda"))
    else:
        source = converting_product()
    path = tmp_path / "kernel.cubin"
    path.write_bytes(compile_cubin(source, "sm_90").code)
    listing = subprocess.run([find_nvdisasm(), path], capture_output=True, text=True, check=True).stdout
    before, behind = listing.split("ACQBULK")
    assert re.search(r"\bLDG\b", behind)
    assert not re.search(r"\bLDG\b", before)
    assert ("LDGSTS" in before) == (kernel == "converting")
