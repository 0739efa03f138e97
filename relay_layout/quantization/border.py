"""What the integers stand for that go into a module and come out of it."""

from collections.abc import Sequence

import numpy as np
import tvm
from tvm import relax

from relay_layout.artifact import Quantization
from relay_layout.graph.uses import variables_read
from relay_layout.ir import (
    Expression,
    bindings_of,
    constant_array,
    fields_of,
    function_attributes,
    operator_name,
    shape_of,
    with_main,
)
from relay_layout.quantization.reals import quantization_of

Quantizations = list[Quantization | None]

_ATTRIBUTES = ("input_quantization", "output_quantization")
"""Attributes of a function: for each tensor scales, zero points and axis, all empty where it is real."""


def quantized_border(function: relax.Function) -> tuple[Quantizations, Quantizations]:
    """For each input and each output of a function, in order, its quantization; None where it has none.

    It is what the function's attributes say, or else the parameters with which every reader of the input
    dequantizes it, and with which the output was quantized. Once operators are integers' own, only the
    attributes tell.
    """
    values = {
        binding.var: binding.value
        for binding in bindings_of(function)
        if isinstance(binding, relax.VarBinding)
    }
    readers: dict[relax.Var, list[Expression]] = {}
    for value in (*values.values(), function.body.body):
        for variable in variables_read(value):
            readers.setdefault(variable, []).append(value)
    result = function.body.body
    while isinstance(result, relax.Var) and isinstance(values.get(result), relax.Var | relax.Tuple):
        result = values[result]
    if isinstance(result, relax.Tuple):
        outputs = list(result.fields)
    else:
        # One call that gives several tensors quantizes none of them.
        outputs = [result] * len(fields_of(function.ret_ty))
    found = (
        [
            agreed([_parameters(reader, "dequantize") for reader in readers.get(parameter, [])])
            for parameter in function.params
        ],
        [_parameters(values.get(output, output), "quantize") for output in outputs],
    )
    attributes = function_attributes(function)
    inputs, results = (
        list(map(_stated, attributes[name])) if len(attributes.get(name, ())) == len(side) > 0 else side
        for name, side in zip(_ATTRIBUTES, found, strict=True)
    )
    return inputs, results


def with_quantized_border(module: tvm.IRModule) -> tvm.IRModule:
    """The module whose "main" says in its attributes what its operators say of its inputs and outputs."""
    if not any(variable.name_hint == "main" for variable in module.get_global_vars()):
        return module
    function = module["main"]
    inputs, outputs = quantized_border(function)
    stating = with_border(function, inputs, outputs)
    if stating is function:
        return module
    return with_main(module, stating)


def with_border(function: relax.Function, inputs: Quantizations, outputs: Quantizations) -> relax.Function:
    """The function with attributes that say this of its inputs and outputs; as it is where all are real."""
    if not any((*inputs, *outputs)):
        return function
    for name, side in zip(_ATTRIBUTES, (inputs, outputs), strict=True):
        function = function.with_attr(name, [_entry(quantization) for quantization in side])
    return function


def _entry(quantization: Quantization | None) -> list[list[float]]:
    if quantization is None:
        return []
    axis = [] if quantization.axis is None else [float(quantization.axis)]
    return [list(quantization.scales), list(map(float, quantization.zero_points)), axis]


def _stated(entry: Sequence[Sequence[float]]) -> Quantization | None:
    if not len(entry):
        return None
    scales, points, axis = entry
    return Quantization(
        tuple(map(float, scales)), tuple(map(int, points)), int(axis[0]) if len(axis) else None
    )


def agreed(found: Sequence[Quantization | None]) -> Quantization | None:
    """What all readers of a tensor take its integers for; None where they differ, or there is none."""
    return found[0] if found and all(other == found[0] for other in found) else None


def _parameters(value: Expression, verb: str) -> Quantization | None:
    """Those of a call of ``verb``; None for anything else, and where they are no positive constants."""
    if operator_name(value) != verb or quantization_of(value) is None:
        return None
    data, *operands = value.args
    scales, points = (constant_array(operand).reshape(-1) for operand in operands)
    points = np.broadcast_to(points, scales.shape)
    axis = int(value.attrs.axis) % len(shape_of(data) or ()) if scales.size > 1 else None
    return Quantization(tuple(map(float, scales)), tuple(map(int, points)), axis)
