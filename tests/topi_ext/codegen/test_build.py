"""Where code generation puts temporary buffers."""

from contextlib import nullcontext

import pytest
import tvm
from kernel_harness import check_kernel, data_of, prim_func, target_for
from tvm import te, tirx
from tvm_ffi import structural_walk

from topi_ext.codegen.build import STACK_BYTES, compile_kernel, unchecked
from topi_ext.codegen.scopes import START
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


@pytest.mark.parametrize(("triple", "aligned"), [("aarch64-linux-gnu", False), ("x86_64-linux-gnu", True)])
def test_what_loops_walk_begins_with_a_cache_line_where_vectors_are_long(triple: str, aligned: bool) -> None:
    data = te.placeholder((256,), "float32")
    twice = te.compute((256,), lambda i: data[i] * 2.0, name="twice")
    reverse = te.compute((256,), lambda i: twice[255 - i], name="reverse")
    func = open_schedule(prim_func([data, reverse])).mod["main"]
    target = tvm.target.Target({"kind": "llvm", "mtriple": triple})
    assert ("@llvm.ptrmask" in compile_kernel(func, target).mod.inspect_source("ll")) == aligned


def test_vectors_that_no_power_of_two_fills_stay_on_the_stack() -> None:
    data = te.placeholder((20, 12), "float32")
    twice = te.compute((20, 12), lambda i, j: data[i, j] * 2.0, name="twice")
    reverse = te.compute((20, 12), lambda i, j: twice[19 - i, j], name="reverse")
    sch = open_schedule(prim_func([data, reverse]))
    for name in ("twice", "reverse"):
        sch.vectorize(sch.get_loops(sch.get_sblock(name))[-1])
    check_kernel(
        prim_func([data, reverse]),
        target_for(None),
        [array := data_of(20, 12)],
        2 * array[::-1],
        schedule=lambda func, unused: sch,
    )


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


@pytest.mark.parametrize(("skipped", "left"), [(False, True), (True, False)])
def test_checks_that_are_skipped_are_gone_before_the_other_passes(skipped: bool, left: bool) -> None:
    found: list[tirx.AssertStmt] = []

    class Look:
        def run_before_pass(self, module: tvm.IRModule, info: tvm.transform.PassInfo) -> None:
            if info.name == "topi_ext.hide_floats":
                structural_walk(module, (tirx.AssertStmt, found.append))

    data = te.placeholder((8,), "float32")
    func = prim_func([data, te.compute((8,), lambda i: data[i] * 2.0, name="twice")])
    looking = tvm.transform.PassContext(instruments=[tvm.ir.instrument.pass_instrument(Look)()])
    with looking, unchecked() if skipped else nullcontext():
        compile_kernel(func, target_for(None))
    assert bool(found) == left
