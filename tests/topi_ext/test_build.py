"""Where code generation puts temporary buffers."""

import pytest
import tvm
from kernel_harness import prim_func, target_for
from tvm import te

from topi_ext.build import STACK_BYTES, compile_kernel
from topi_ext.schedule.blocks import open_schedule


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
