"""Tables of bytes that are looked into by vectors, in every instruction set of this machine."""

import re
from typing import Any

import numpy as np
import pytest
import tvm
from kernel_harness import compile_function, cpu_features, host_cpus, prim_func, target_for
from tvm import te

from topi_ext.codegen.byte_lookups import lower_byte_lookups
from topi_ext.schedule.cpu.loops import LoopNest

TABLE = np.random.default_rng(5).permutation(256).astype("uint8")
CPUS = [*host_cpus(), *(["znver4"] if "avx512_vbmi" in cpu_features() else [])]


def kernel(count: int, cpu: str | None, table_bytes: int = 256) -> Any:
    data, table = te.placeholder((count,), "uint8", "x"), te.placeholder((table_bytes,), "uint8", "table")
    result = te.compute((count,), lambda i: table(data(i).astype("int32")))
    scheduled = LoopNest().apply(prim_func([data, table, result]), target_for(cpu), False)
    assert scheduled is not None
    return scheduled.mod["main"]


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("count", [256, 1000, 77, 3])
def test_each_byte_has_its_element(count: int, cpu: str | None) -> None:
    data = np.random.default_rng(count).integers(0, 256, count, "uint8")
    data[:2] = 0, 255
    out = tvm.runtime.tensor(np.zeros(count, "uint8"))
    compile_function(kernel(count, cpu), target_for(cpu))["main"](
        *map(tvm.runtime.tensor, (data, TABLE)), out
    )
    np.testing.assert_array_equal(out.numpy(), TABLE[data])


@pytest.mark.parametrize(
    ("target", "instruction"),
    [
        ({"kind": "llvm", "mcpu": "znver4"}, "vperm[it]2b"),
        ({"kind": "llvm", "mcpu": "icelake-server"}, "vperm[it]2b"),
        ({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a76"}, r"\btbx\b"),
    ],
    ids=["znver4", "icelake-server", "cortex-a76"],
)
def test_processors_that_permute_bytes_do(target: dict[str, Any], instruction: str) -> None:
    built = tvm.target.Target({**target, "num-cores": 2})
    assembly = compile_function(kernel(4096, None), built).mod.inspect_source("asm")
    assert re.search(instruction, assembly)


def test_other_tables_are_left_alone() -> None:
    func = kernel(64, None, table_bytes=200).with_attr("target", target_for("znver4"))
    module = tvm.IRModule({"main": func})
    tvm.ir.assert_structural_equal(lower_byte_lookups()(module), module)
