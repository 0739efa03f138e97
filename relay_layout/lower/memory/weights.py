"""Weights as arguments: constants leave the module, so that an artifact can map them from a file."""

import numpy as np
import tvm
from tvm import relax
from tvm_ffi import structural_map

from relay_layout.ir import (
    Constant,
    constant_array,
    dtype_of,
    shape_of,
    with_body,
    with_main,
)

INLINE_BYTES = 64
"""Constants up to this size stay in the code."""


def lift_weights(module: tvm.IRModule) -> tuple[tvm.IRModule, dict[str, np.ndarray]]:
    """Turn the constants of "main" into further parameters, in order of use.

    Returns the module and the arrays by parameter name; equal constants share one parameter.
    """
    function = module["main"]
    lifted: dict[int, relax.Var] = {}
    arrays: dict[str, np.ndarray] = {}

    def lift(value: Constant) -> relax.Expr:
        array = constant_array(value)
        # TVM writes constants of no elements, and does not read them.
        if 0 < array.nbytes <= INLINE_BYTES:
            return value
        key = value.__chandle__()
        if key not in lifted:
            name = f"weight_{len(lifted)}"
            lifted[key] = relax.Var(name, relax.TensorType(shape_of(value), dtype_of(value)))
            arrays[name] = array
        return lifted[key]

    body = structural_map(function.body, (Constant, lift))
    parameters = [*function.params, *lifted.values()]
    new = with_body(function, body, parameters=parameters).with_attr("num_input", len(function.params))
    return with_main(module, new), arrays
