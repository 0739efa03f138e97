"""Modules of a few operators, and what they compute."""

from collections.abc import Callable

import numpy as np
import tvm
from tvm import relax

from tests.relax_modules import main_of


def run(module: tvm.IRModule, *inputs: np.ndarray) -> np.ndarray:
    executable = tvm.compile(module, tvm.target.Target({"kind": "llvm", "opt-level": 0}))
    return relax.VirtualMachine(executable, tvm.cpu())["main"](*map(tvm.runtime.tensor, inputs)).numpy()


def random(*shape: int, seed: int, positive: bool = False) -> relax.Expr:
    values = np.random.default_rng(seed).standard_normal(shape, dtype="float32")
    return relax.const(np.abs(values) + 0.5 if positive else values)


def module_of(
    emit: Callable[[relax.BlockBuilder, relax.Expr], relax.Expr], shape: tuple[int, ...] = (2, 3, 6, 6)
) -> tvm.IRModule:
    data = relax.Var("data", relax.TensorType(shape, "float32"))
    with main_of(data) as builder:
        builder.result = emit(builder, data)
    return builder.finalize()
