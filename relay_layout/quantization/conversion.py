"""Quantize and dequantize around the operators of a module, as operators on integers."""

import tvm
from tvm import relax

from relay_layout.bodies import bodies_of
from relay_layout.ir import bindings_of, operator_name, rebuild_functions, relax_functions, simplify_bindings
from relay_layout.quantization.border import with_quantized_border
from relay_layout.quantization.integers import Integers
from relay_layout.quantization.narrowing import Narrowing, is_wide_product


def to_integers(module: tvm.IRModule) -> tvm.IRModule:
    """The module without quantize and dequantize operators, and with integer operators between these.

    Values agree with the float32 operators' but for rounding: by one step of the quantization that follows,
    and seldom. Tensors of int8 between operators become uint8, shifted; those at the border keep their dtype,
    and the attributes of "main" say what they stand for.
    Products of wider integers that were cast from bytes become products of these, with the same values.
    """
    calls = _calls(module)
    if any(operator_name(call) in ("quantize", "dequantize") for call in calls):
        module = with_quantized_border(module)
        module = rebuild_functions(module, lambda function: Integers().visit_expr(function))
        module = simplify_bindings(module, bodies_of(module))
    if any(is_wide_product(call) for call in calls):
        module = rebuild_functions(module, lambda function: Narrowing().visit_expr(function))
        module = simplify_bindings(module, bodies_of(module))
    return module


def _calls(module: tvm.IRModule) -> list[relax.Call]:
    # TVM's visitor calls back for every number of every shape.
    return [
        binding.value
        for function in relax_functions(module).values()
        for binding in bindings_of(function)
        if isinstance(binding.value, relax.Call)
    ]
