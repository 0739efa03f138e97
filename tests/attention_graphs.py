"""Attention as exporters write it, with what numpy makes of it."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx

from tests.relax_modules import main_of

Build = Callable[[Callable[[Any], relax.Var], dict[str, relax.Var]], Any]
"""Gets a function that emits a call, and the parameters by name; gives the last call."""

op = relax.op


def module_of(build: Build, dtype: str = "float32", **shapes: tuple[Any, ...]) -> tvm.IRModule:
    """A module whose main has parameters of these shapes, and computes what ``build`` gives."""
    parameters = {name: relax.Var(name, relax.TensorType(shape, dtype)) for name, shape in shapes.items()}
    with main_of(*parameters.values()) as builder:
        builder.result = build(builder.emit, parameters)
    return builder.finalize()


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    shares: np.ndarray = powers / powers.sum(-1, keepdims=True)
    return shares


def random_attention(
    seed: int, *, any_batch: bool = True
) -> tuple[tvm.IRModule, dict[str, np.ndarray], np.ndarray]:
    """Any of what exporters write, with the operands by name and what numpy makes of them.

    Rows without anything to attend to are zeros where the graph asks for that. With ``any_batch`` some graphs
    are for any.
    """
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    images = [rng.randint(1, 3) for _ in range(rng.randint(0, 2))]
    rows, scores, depth, columns = (rng.randint(*limits) for limits in ((1, 70), (4, 70), (1, 20), (4, 40)))
    steps = [rng.choice(["scale", "divide", "mask", "rows", "cap"]) for _ in range(rng.randint(0, 2))]
    guard = rng.choice(["", "", "unknown", "nothing"])
    regrouped = len(images) == 2 and rng.random() < 0.5
    symbolic = bool(images) and rng.random() < 0.3 and any_batch and not regrouped
    shapes = {
        "q": (*images, rows, depth),
        "k": (*images, depth, scores),
        "v": (*images, scores, columns),
        "mask": (rows, scores),
        "bias": (rows, 1),
    }
    arrays = {name: numbers.uniform(-1, 1, shape).astype("float32") for name, shape in shapes.items()}
    arrays["mask"][:, 1:][arrays["mask"][:, 1:] > 0.5] = -np.inf
    if guard:
        arrays["mask"][::5] = -np.inf
    batch = tirx.Var("n", "int64")

    def build(emit: Any, given: dict[str, relax.Var]) -> Any:
        query, key, value = (given[name] for name in "qkv")
        if regrouped:
            query, key, value = (
                emit(op.reshape(each, (-1, *each.ty.shape.values[2:]))) for each in (query, key, value)
            )
        found = emit(op.matmul(query, key))
        if regrouped:
            found = emit(op.reshape(found, (*images, rows, scores)))
        for step in steps:
            found = emit(
                {
                    "scale": lambda x: op.multiply(x, relax.const(0.25, "float32")),
                    "divide": lambda x: op.divide(x, relax.const(3.0, "float32")),
                    "mask": lambda x: op.add(x, given["mask"]),
                    "rows": lambda x: op.subtract(x, given["bias"]),
                    "cap": lambda x: op.multiply(emit(op.tanh(x)), relax.const(2.0, "float32")),
                }[step](found)
            )
        shares = emit(op.nn.softmax(found, -1))
        zero = relax.const(0.0, "float32")
        if guard == "unknown":
            shares = emit(op.where(emit(op.isnan(shares)), zero, shares))
        if guard == "nothing":
            # As PyTorch's scaled_dot_product_attention is decomposed.
            present = emit(op.logical_not(emit(op.equal(found, relax.const(float("-inf"), "float32")))))
            largest = emit(op.max(emit(op.astype(present, "int8")), [-1], True))
            nothing = emit(op.logical_not(emit(op.astype(largest, "bool"))))
            shares = emit(op.where(nothing, emit(op.full_like(shares, zero)), shares))
        if regrouped:
            shares = emit(op.reshape(shares, (-1, rows, scores)))
        result = emit(op.matmul(shares, value))
        if regrouped:
            result = emit(op.reshape(result, (*images, rows, columns)))
        return op.nn.relu(result)

    known = {
        name: (batch, *shape[1:]) if symbolic and name in "qkv" else shape for name, shape in shapes.items()
    }
    module = module_of(build, **known)
    exact = {name: array.astype("float64") for name, array in arrays.items()}
    found = exact["q"] @ exact["k"]
    for step in steps:
        found = {
            "scale": found * 0.25,
            "divide": found / 3,
            "mask": found + exact["mask"],
            "rows": found - exact["bias"],
            "cap": 2 * np.tanh(found),
        }[step]
    with np.errstate(invalid="ignore"):
        shares = softmax(found)
    if guard:
        shares = np.nan_to_num(shares)
    return module, arrays, np.maximum(shares @ exact["v"], 0)
