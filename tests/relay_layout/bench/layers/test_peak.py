"""The kernel that measures the multiply-add peak."""

from __future__ import annotations

import numpy as np
import tvm
from tvm.target import Target

from relay_layout.bench.layers.peak import CHAINS, peak_kernel, peak_operations
from topi_ext.codegen.build import compile_kernel

LANES = 8
TARGET = Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2})


def test_every_sum_takes_every_step() -> None:
    steps = 9
    kernel = compile_kernel(peak_kernel(2, LANES, steps), TARGET)["main"]
    random = np.random.default_rng(0)
    start = random.random((2, CHAINS, LANES), np.float32)
    factor = random.uniform(0.5, 1.5, LANES).astype(np.float32)
    result = tvm.runtime.empty(start.shape, "float32")
    kernel(tvm.runtime.tensor(start), tvm.runtime.tensor(factor), result)
    expected = start.astype(np.float64)
    for _ in range(steps):
        expected = expected * factor + factor
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-6)


def test_multiply_adds_work_on_registers_alone() -> None:
    code = compile_kernel(peak_kernel(2, LANES, 1000), TARGET).mod.inspect_source("asm")
    found = [line for line in code.splitlines() if "vfmadd" in line]
    assert len(found) >= CHAINS
    assert not [line for line in found if "(" in line or "ymm" not in line]


def test_a_multiply_add_is_two_operations() -> None:
    assert peak_operations(threads=2, lanes=16, steps=10) == 2 * 2 * CHAINS * 16 * 10
