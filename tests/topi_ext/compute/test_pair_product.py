"""Products of pairs of bfloat16: numpy's numbers whatever divides what, by the instructions they are for."""

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from kernel_harness import (
    check_kernel,
    compile_function,
    pair_cpus,
    prim_func,
    scheduled_by,
    target_for,
)
from tvm import te, tirx, topi
from tvm.target import Target

from topi_ext.compute.pair_product import pair_product
from topi_ext.schedule.cpu.product import Product

Shape = tuple[int, ...]

CPUS = pair_cpus()


def function(left: Any, right: Any, index_dtype: str | None = None) -> tirx.PrimFunc:
    tensors = [te.placeholder(shape, "float32", name) for shape, name in ((left, "a"), (right, "b"))]
    return prim_func([*tensors, topi.nn.relu(pair_product(*tensors))], index_dtype)


def operands(left: Shape, right: Shape) -> list[np.ndarray]:
    rng = np.random.default_rng(sum(left + right))
    return [rng.standard_normal(shape, "float32") for shape in (left, right)]


def expected(arrays: list[np.ndarray]) -> np.ndarray:
    one, other = (array.astype(ml_dtypes.bfloat16).astype("float64") for array in arrays)
    return np.maximum(one @ other, 0).astype("float32")


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3, 49, 32), (3, 32, 49)),
        ((2, 2, 50, 7), (2, 2, 7, 50)),
        ((2, 9, 3), (2, 3, 16)),
        ((2, 17, 2), (2, 2, 5)),
        ((4, 13, 8), (1, 8, 40)),
        ((4, 13, 9), (9, 40)),
        ((13, 8), (3, 8, 33)),
    ],
)
def test_numbers(left: Shape, right: Shape, cpu: str | None) -> None:
    arrays = operands(left, right)
    check_kernel(
        function(left, right),
        target_for(cpu),
        arrays,
        expected(arrays),
        tolerance=1e-5,
        schedule=lambda func, target: scheduled_by(Product(), func, target),
    )


def test_a_symbolic_batch() -> None:
    batch = tirx.Var("n", "int64")
    arrays = operands((3, 20, 5), (3, 5, 20))
    check_kernel(
        function((batch, 20, 5), (batch, 5, 20), "int64"),
        target_for(CPUS[-1]),
        arrays,
        expected(arrays),
        tolerance=1e-5,
        schedule=lambda func, target: scheduled_by(Product(), func, target),
    )


def instructions(triple: str, cpu: str, depth: int, names: str) -> list[str]:
    """Those of a product's code that have one of ``names``."""
    target = Target({"kind": "llvm", "num-cores": 2, "mtriple": triple, "mcpu": cpu})
    schedule = scheduled_by(Product(), function((2, 64, depth), (2, depth, 64)), target)
    text = compile_function(schedule.mod["main"], target).mod.inspect_source("asm")
    return re.findall(rf"^\s+((?:{names})\b.*)", text, re.MULTILINE)


@pytest.mark.parametrize("depth", [32, 33])
def test_an_instruction_multiplies_pairs(depth: int) -> None:
    """Nothing else multiplies, and words of both operands are loaded as they are."""
    found = instructions("x86_64-linux-gnu", "znver4", depth, r"vdpbf16ps|vfmadd\w*|vpmulld|vpgather\w*")
    assert found and all(each.startswith("vdpbf16ps") for each in found)


def test_arm_multiplies_pairs() -> None:
    found = instructions("aarch64-linux-gnu", "neoverse-n2", 32, "bfdot|fmla|fmul")
    assert found and all(each.startswith("bfdot") for each in found)
