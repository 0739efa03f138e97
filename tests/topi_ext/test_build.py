"""Where code generation puts temporary buffers."""

import pytest
import tvm
from kernel_harness import prim_func, target_for
from tvm import te

from topi_ext.build import STACK_BYTES, compile_kernel
from topi_ext.schedule.blocks import open_schedule
from topi_ext.schedule.start import START


@pytest.mark.parametrize(
    ("floats", "on_the_stack"), [(64, True), (STACK_BYTES // 4, True), (STACK_BYTES // 4 + 1, False)]
)
def test_only_long_buffers_are_allocated(floats: int, on_the_stack: bool) -> None:
    data = te.placeholder((floats,), "float32")
    twice = te.compute((floats,), lambda i: data[i] * 2.0, name="twice")
    reverse = te.compute((floats,), lambda i: twice[floats - 1 - i], name="reverse")
    func = open_schedule(prim_func([data, reverse])).mod["main"]
    source = compile_kernel(func, target_for(None)).mod.inspect_source("asm")
    assert ("TVMBackendAllocWorkspace" not in source) == on_the_stack


def test_buffers_of_symbolic_size_are_allocated() -> None:
    size = tvm.tirx.Var("n", "int64")
    data = te.placeholder((size,), "float32")
    twice = te.compute((size,), lambda i: data[i] * 2.0, name="twice")
    reverse = te.compute((size,), lambda i: twice[size - 1 - i], name="reverse")
    func = open_schedule(prim_func([data, reverse])).mod["main"]
    assert "TVMBackendAllocWorkspace" in compile_kernel(func, target_for(None)).mod.inspect_source("asm")


@pytest.mark.parametrize(("triple", "again"), [("aarch64-linux-gnu", True), ("x86_64-linux-gnu", False)])
def test_only_arm_loads_what_sums_start_from_again(triple: str, again: bool) -> None:
    data = te.placeholder((4,), "float32")
    sums = te.compute((64,), lambda i: data[i % 4] * 2.0, name="sums")
    sch = open_schedule(prim_func([data, sums]))
    sch.cache_read(sch.get_sblock("sums"), 0, START)
    target = tvm.target.Target({"kind": "llvm", "mtriple": triple})
    source = compile_kernel(sch.mod["main"], target).mod.inspect_source("ll")
    assert ("load volatile" in source) == again
