"""Remainders in addresses, where LLVM's own vectorizer read other elements."""

import numpy as np
import pytest
import tvm
from kernel_harness import compile_function, host_cpus, prim_func, target_for
from tvm import te, topi
from tvm.target import Target

SHAPES = [((2, 3, 4, 5), (7, 6, 4, 2)), ((3, 4, 5), (6, 4, 2)), ((4, 8, 5), (4, 2, 2)), ((2, 3), (8, 5))]


@pytest.mark.parametrize("cpu", host_cpus())
@pytest.mark.parametrize(("shape", "repeats"), SHAPES, ids=str)
def test_tiles_are_those_of_numpy(shape: tuple[int, ...], repeats: tuple[int, ...], cpu: str | None) -> None:
    data = te.placeholder(shape, "float32", "data")
    kernel = compile_function(prim_func([data, topi.tile(data, repeats)]), target_for(cpu))
    array = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    wanted = np.tile(array, repeats)
    out = tvm.runtime.tensor(np.zeros(wanted.shape, "float32"))
    kernel["main"](tvm.runtime.tensor(array), out)
    np.testing.assert_array_equal(out.numpy(), wanted)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("divisor", [1, 2, 3, 8, 1 << 20])
def test_remainders_of_negative_numbers_are_rounded_down(divisor: int, dtype: str) -> None:
    numbers = np.array([-(1 << 21) - 3, -17, -8, -1, 0, 1, 7, 8, 1 << 22], dtype)
    data = te.placeholder(numbers.shape, dtype, "data")
    result = te.compute(numbers.shape, lambda i: tvm.tirx.floormod(data(i), divisor))
    out = tvm.runtime.tensor(np.zeros_like(numbers))
    compile_function(prim_func([data, result]), target_for(None))["main"](tvm.runtime.tensor(numbers), out)
    np.testing.assert_array_equal(out.numpy(), numbers % divisor)


@pytest.mark.parametrize(("cpu", "has_instruction"), [("x86-64-v4", True), ("x86-64-v2", False)])
def test_the_instruction_is_used_where_it_is(cpu: str, has_instruction: bool) -> None:
    target = Target({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": cpu})
    data = te.placeholder((3, 4, 5), "float32", "data")
    source = compile_function(prim_func([data, topi.tile(data, (6, 4000, 2))]), target).mod.inspect_source(
        "ll"
    )
    assert ("llvm.x86.bmi.bextr" in source) == has_instruction
