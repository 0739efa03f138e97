"""The kernel that measures the multiply-add peak."""

from __future__ import annotations

from itertools import chain, count, repeat
from types import SimpleNamespace

import numpy as np
import pytest
import tvm
from tvm.target import Target

from relay_layout.runtime import peak
from relay_layout.runtime.peak import CHAINS, measure_peak, peak_kernel, peak_operations
from relay_layout.targets import require_cpu, resolve_target
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


def test_a_machines_peak_is_that_of_the_quickest_run(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = chain([0.5, 0.125], repeat(0.25))
    turns = count()
    # Every second call of the clock is the end of a run.
    clock = SimpleNamespace(perf_counter=lambda: next(taken) if next(turns) % 2 else 0.0)
    monkeypatch.setattr(peak, "time", clock)
    monkeypatch.setattr(peak, "STEPS", 10)
    lanes = require_cpu(resolve_target(threads=1)).processor.lanes(4)
    assert measure_peak(1) == pytest.approx(2 * CHAINS * lanes * 10 / 0.125 / 1e9)
