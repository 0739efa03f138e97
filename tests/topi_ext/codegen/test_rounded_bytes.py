"""Numbers rounded to bytes: halves to even, held at both ends, in every instruction set of this machine."""

import re
from typing import Any

import numpy as np
import pytest
import tvm
from kernel_harness import compile_function, host_cpus, prim_func, target_for
from tvm import te, tirx

from topi_ext.codegen.rounded_bytes import lower_rounded_bytes
from topi_ext.schedule.cpu.loops import LoopNest

SPECIAL = [np.nan, np.inf, -np.inf, 3e9, -3e9, 255.4, 255.5, 300.0, -0.5, -0.6, 126.5, 127.5, -129.5, -128.5]
NUMBERS = np.array([*SPECIAL, *np.arange(-200, 300) / 2], "float32")
BOUNDS = [(0, 255, 0), (-128, 127, 128), (-129, 126, 129), (0, 128, 127), (-7, 40, 7), (3, 250, 5)]
"""Least and greatest number before it is shifted, and the shift."""


def quantized(low: int, high: int, shift: int) -> np.ndarray:
    held = np.clip(np.nan_to_num(NUMBERS, nan=low, posinf=high, neginf=low), low, high)
    return np.asarray(np.rint(held) + shift, "uint8")


def rounded(value: Any, low: float, high: int, shift: int) -> Any:
    least, most = (tirx.const(bound, "float32") for bound in (low, high))
    whole = tirx.nearbyint(tirx.min(tirx.max(value, least), most))
    return (whole + tirx.const(shift, "float32") if shift else whole).astype("uint8")


def kernel(function: Any, dtype: str, cpu: str | None) -> Any:
    data = te.placeholder(NUMBERS.shape, "float32", "x")
    result = te.compute(NUMBERS.shape, lambda i: function(data(i)).astype(dtype))
    scheduled = LoopNest().apply(prim_func([data, result]), target_for(cpu), False)
    assert scheduled is not None
    return compile_function(scheduled.mod["main"], target_for(cpu))


def computed(module: Any, dtype: str) -> np.ndarray:
    out = tvm.runtime.tensor(np.zeros(NUMBERS.shape, dtype))
    module["main"](tvm.runtime.tensor(NUMBERS), out)
    return np.asarray(out.numpy())


@pytest.mark.parametrize("cpu", host_cpus())
@pytest.mark.parametrize(("low", "high", "shift"), BOUNDS)
def test_numbers_become_bytes(low: int, high: int, shift: int, cpu: str | None) -> None:
    known = ~np.isnan(NUMBERS)
    found = computed(kernel(lambda x: rounded(x, low, high, shift), "uint8", cpu), "uint8")
    np.testing.assert_array_equal(found[known], quantized(low, high, shift)[known])


@pytest.mark.parametrize("cpu", host_cpus())
@pytest.mark.parametrize(("low", "high", "shift"), BOUNDS)
def test_bytes_become_numbers(low: int, high: int, shift: int, cpu: str | None) -> None:
    known = ~np.isnan(NUMBERS)
    module = kernel(lambda x: rounded(x, low, high, shift).astype("float32") * 0.5, "float32", cpu)
    np.testing.assert_array_equal(
        computed(module, "float32")[known], quantized(low, high, shift)[known] * np.float32(0.5)
    )


@pytest.mark.parametrize(("low", "high", "shift"), [(0, 300, 0), (-1, 255, 0), (0, 255, 1), (0.5, 255, 0)])
def test_what_need_not_be_a_byte_is_left_alone(low: float, high: int, shift: int) -> None:
    data = te.placeholder((16,), "float32", "x")
    way = te.compute((16,), lambda i: rounded(data(i), low, high, shift).astype("float32"))
    func = prim_func([data, way]).with_attr("target", target_for("x86-64-v4"))
    module = tvm.IRModule({"main": func})
    tvm.ir.assert_structural_equal(lower_rounded_bytes()(module), module)


def test_the_cut_holds_what_is_large() -> None:
    module = kernel(lambda x: rounded(x, -128, 127, 128), "uint8", "x86-64-v4")
    assembly = module.mod.inspect_source("asm")
    assert "vpmovusdb" in assembly
    assert not re.search(r"(vrndscaleps|vpmovdb)\s.*zmm", assembly)


def test_not_a_number_becomes_the_least_byte() -> None:
    found = computed(kernel(lambda x: rounded(x, -129, 126, 129), "uint8", None), "uint8")
    assert found[0] == 0
