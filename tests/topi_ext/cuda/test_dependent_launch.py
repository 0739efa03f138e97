"""Kernels that are launched while the one before them runs."""

import tarfile
from pathlib import Path

import pytest
import tvm
from gpu_memory import SimulationError
from ptx_cases import program
from tvm import te

from topi_ext.cuda.dependent_launch import WAIT
from topi_ext.cuda.kernel import compile_module
from topi_ext.cuda.multiprocessor import MULTIPROCESSORS
from topi_ext.cuda.nvcc import compile_ptx, find_nvcc
from topi_ext.schedule.cuda.elementwise import schedule_elementwise
from topi_ext.tune.workers import export

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
    assert (f"  {WAIT}();" in source) == (arch == "sm_90")
    assert any(DEPENDENT in held for held in files) == (arch == "sm_90")


def test_reading_before_the_wait_is_refused() -> None:
    """The machine that runs PTX holds kernels to it."""
    built = compile_module(doubled(), MULTIPROCESSORS["sm_90"])
    source = str(built.mod.imports[0].inspect_source("cuda"))
    program(compile_ptx(source, "sm_90"))
    call = f"  {WAIT}();\n"
    head, body = source.split(call)
    end = body.rindex("}")
    late = compile_ptx(head + body[:end] + call + body[end:], "sm_90")
    with pytest.raises(SimulationError, match="before the kernel before has ended: ld"):
        program(late)
