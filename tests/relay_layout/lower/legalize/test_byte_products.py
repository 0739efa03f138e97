"""Products of two activations of bytes are exact, whatever a processor multiplies."""

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import IRModule, relax

from relay_layout.lower.legalize.byte_products import byte_product_call
from relay_layout.targets import require_cpu, resolve_target

EXACT, BEYOND = 514, 515
"""The longest sum of products of bytes that float32 holds, and the next one."""


def product(rows: int, depth: int) -> relax.Call:
    left, right = (
        relax.Var(name, relax.TensorType(shape, dtype))
        for name, shape, dtype in (("a", (rows, depth), "uint8"), ("b", (depth, 5), "int8"))
    )
    return relax.BlockBuilder().normalize(relax.op.matmul(left, right, out_dtype="int32"))


def legalized(call: relax.Call, cpu: str | None) -> IRModule:
    builder = relax.BlockBuilder()
    processor = None
    if cpu is not None:
        processor = require_cpu(resolve_target(cpu, threads=1, shipped_records=False)).processor
    with builder.function("main", list(call.args)):
        builder.emit_func_output(builder.emit(byte_product_call(builder, call, processor)))
    return builder.finalize()


@pytest.mark.parametrize("depth", [1, 7, EXACT, BEYOND])
@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v4", "aarch64-cortex-a76", None])
def test_the_largest_sums(depth: int, cpu: str | None) -> None:
    """Without instructions for words any processor computes them."""
    module = legalized(product(3, depth), cpu)
    machine = relax.VirtualMachine(tvm.compile(module, "llvm"), tvm.cpu())
    left, right = np.full((3, depth), 255, "uint8"), np.full((depth, 5), -128, "int8")
    left[1, 0], right[0, 1] = 254, 127
    found = machine["main"](*map(tvm.runtime.tensor, (left, right))).numpy()
    np.testing.assert_array_equal(found, left.astype("int32") @ right.astype("int32"))


@pytest.mark.parametrize(
    ("cpu", "depth", "expected"),
    [
        ("znver4", BEYOND, "topi_ext.dot"),
        ("x86-64-v3", EXACT, "float32"),
        ("x86-64-v3", BEYOND, "int32"),
        (None, EXACT, "float32"),
    ],
)
def test_what_is_multiplied(cpu: str | None, depth: int, expected: str) -> None:
    text: Any = legalized(product(3, depth), cpu).script()
    found = [kind for kind in ("topi_ext.dot", "float32") if kind in text]
    assert (found or ["int32"]) == [expected]
