"""Products of bytes by bytes: numpy's integers whatever divides what, by the instructions they are for."""

import re

import numpy as np
import pytest
from kernel_harness import check_kernel, compile_function, pair_cpus, prim_func, scheduled_by, target_for
from tvm import te, tirx, topi
from tvm.target import Target

from topi_ext.compute.byte_product import byte_product
from topi_ext.schedule.cpu.product import Product

Shape = tuple[int, ...]


def function(left: Shape, right: Shape) -> tirx.PrimFunc:
    tensors = [te.placeholder(left, "uint8", "a"), te.placeholder(right, "int8", "b")]
    return prim_func([*tensors, topi.add(byte_product(*tensors), 1)])


@pytest.mark.parametrize("cpu", pair_cpus())
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3, 49, 32), (3, 32, 49)),
        ((2, 2, 50, 7), (2, 2, 7, 50)),
        ((2, 9, 3), (2, 3, 16)),
        ((2, 17, 1), (2, 1, 5)),
        ((4, 13, 8), (1, 8, 40)),
        ((4, 13, 9), (9, 40)),
        ((13, 10), (3, 10, 33)),
        ((1, 11), (11, 70)),
    ],
)
def test_numbers(left: Shape, right: Shape, cpu: str | None) -> None:
    rng = np.random.default_rng(sum(left + right))
    arrays = [
        rng.integers(0, 256, left).astype("uint8"),
        rng.integers(-128, 128, right).astype("int8"),
    ]
    one, other = (array.astype("int32") for array in arrays)
    check_kernel(
        function(left, right),
        target_for(cpu),
        arrays,
        one @ other + 1,
        schedule=lambda func, target: scheduled_by(Product(), func, target),
    )


@pytest.mark.parametrize("depth", [32, 34])
def test_an_instruction_multiplies_words(depth: int) -> None:
    """Nothing else multiplies, and words of both operands are loaded as they are."""
    target = Target({"kind": "llvm", "num-cores": 2, "mtriple": "x86_64-linux-gnu", "mcpu": "znver4"})
    schedule = scheduled_by(Product(), function((2, 64, depth), (2, depth, 64)), target)
    text = compile_function(schedule.mod["main"], target).mod.inspect_source("asm")
    found = re.findall(r"^\s+((?:vpdpbusd|vpmulld|vpmaddwd|vpgather\w*)\b.*)", text, re.MULTILINE)
    assert found and all(each.startswith("vpdpbusd") for each in found)
