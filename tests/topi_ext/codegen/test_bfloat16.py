"""bfloat16 as bits: rounding to it and back, in every instruction set that this machine has."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tvm
from kernel_harness import compile_function, cpu_features, host_cpus, prim_func, target_for
from tvm import te
from tvm.target import Target

from topi_ext.codegen.bfloat16 import BITS, rounded, widened, without_detour
from topi_ext.ir import nodes_of
from topi_ext.schedule.cpu.loops import LoopNest

SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, 3.4e38, -3.4e38, 1e-45, 1.00390625, 1.01171875, 65504.0]
"""Among them two that lie halfway between neighbours, one above and one below an even number."""


def kernel(function: Any, shape: tuple[int, ...], source: str, target: Target) -> Any:
    data = te.placeholder(shape, source)
    result = te.compute(shape, lambda *index: function(data(*index)))
    scheduled = LoopNest().apply(prim_func([data, result]), target, False)
    assert scheduled is not None
    return compile_function(scheduled.mod["main"], target)


def run(function: Any, given: np.ndarray, dtype: str, cpu: str | None) -> np.ndarray:
    out = tvm.runtime.tensor(np.zeros(given.shape, dtype))
    kernel(function, given.shape, str(given.dtype), target_for(cpu))["main"](tvm.runtime.tensor(given), out)
    return np.asarray(out.numpy())


INSTRUCTION_SETS = [*host_cpus(), *(["znver4"] if {"avx512_bf16", "avx512vl"} <= cpu_features() else [])]


@pytest.mark.parametrize("cpu", INSTRUCTION_SETS)
@pytest.mark.parametrize("columns", [1, 4, 7, 16, 40])
def test_rounding_is_to_the_nearest_and_then_to_the_even(cpu: str | None, columns: int) -> None:
    random = np.random.default_rng(columns).standard_normal((30, columns)).astype("float32")
    values = np.concatenate([random.ravel(), np.repeat(np.float32(SPECIAL), columns)]).reshape(-1, columns)
    expected = values.astype(ml_dtypes.bfloat16).view(BITS)
    np.testing.assert_array_equal(run(rounded, values, BITS, cpu), expected)


@pytest.mark.parametrize("cpu", host_cpus())
def test_widening_keeps_every_number(cpu: str | None) -> None:
    bits = np.arange(1 << 16, dtype=BITS).reshape(256, 256)
    found = run(widened, bits, "float32", cpu).view("uint32")
    np.testing.assert_array_equal(found, bits.astype("uint32") << 16)


@pytest.mark.parametrize(("cpu", "has_instruction"), [("znver4", True), ("x86-64-v4", False)])
def test_rounding_takes_one_instruction_where_there_is_one(cpu: str, has_instruction: bool) -> None:
    target = Target({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": cpu})
    source = kernel(rounded, (4, 32), "float32", target).mod.inspect_source("asm")
    assert ("vcvtneps2bf16" in source) == has_instruction


def test_a_copy_is_not_rounded() -> None:
    data = te.placeholder((8, 16), BITS)
    func = prim_func([data, te.compute((8, 16), lambda i, j: rounded(widened(data[i, j])))])
    calls = nodes_of(func.body, tvm.ir.Call)
    assert not calls


def test_a_detour_is_of_both_conversions() -> None:
    data = te.placeholder((4,), BITS)
    back = widened(data[0])
    assert without_detour(back) is back
