"""Small Relax functions, and what they compute before and after a pass."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax


def function(build: Callable[..., Any], *shapes: Sequence[int]) -> tvm.IRModule:
    """A module whose main has an input of float32 for each shape."""
    inputs = [
        relax.Var(f"x{place}", relax.TensorType(shape, "float32")) for place, shape in enumerate(shapes)
    ]
    builder = relax.BlockBuilder()
    with builder.function("main", inputs):
        with builder.dataflow():
            output = builder.emit_output(build(*inputs))
        builder.emit_func_output(output)
    return builder.finalize()


def attributes(module: tvm.IRModule, operator: str) -> Any:
    """The attributes of the first call of an operator."""
    for block in module["main"].body.blocks:
        for binding in block.bindings:
            if isinstance(binding.value, relax.Call) and binding.value.op.name == f"relax.{operator}":
                return binding.value.attrs
    raise AssertionError(operator)


def assert_same(before: tvm.IRModule, after: tvm.IRModule) -> None:
    """Both compute the same on random inputs."""
    generator = np.random.default_rng(3)
    arrays = [
        generator.uniform(0.5, 1.5, [int(extent) for extent in parameter.ty.shape.values]).astype("float32")
        for parameter in before["main"].params
    ]
    results = []
    for module in (before, after):
        machine = relax.VirtualMachine(
            tvm.compile(module, target=tvm.target.Target({"kind": "llvm", "opt-level": 0})), tvm.cpu()
        )
        results.append(machine["main"](*(tvm.runtime.tensor(array) for array in arrays)).numpy())
    np.testing.assert_allclose(results[1], results[0], rtol=1e-4, atol=1e-4)
