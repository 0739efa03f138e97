"""Broadcasts that keep out of the kernel of a smaller tensor.

The gate of a squeeze block is a convolution of one pixel, and multiplies a whole image. Fused, the image
would have to be walked by the kernel of that one pixel, whose results are as many as its own tiles hold.
"""

from collections.abc import Mapping

import tvm
from tvm import relax

from relay_layout.ir import is_static, operator_name, shape_of, size_in_bytes
from relay_layout.lower.patterns import BROADCAST, ELEMENTWISE, INJECTIVE, OUT_ELEMENTWISE_FUSABLE, PATTERN

Bindings = Mapping[relax.Var, relax.Call]


def keep_growing_apart(module: tvm.IRModule) -> tvm.IRModule:
    """Mark functions of "main" that grow the result of a convolution, or of a product, as no broadcasts.

    Expects ``call_tir`` of functions with their patterns.
    """
    calls: dict[relax.Var, relax.Call] = {
        binding.var: binding.value
        for block in module["main"].body.blocks
        for binding in block.bindings
        if operator_name(binding.value) == "call_tir"
    }
    growing = {call.args[0] for call in calls.values() if _grows(module, call, calls)}
    if not growing:
        return module
    updated = tvm.IRModule(module.functions, attrs=module.attrs, global_infos=module.global_infos)
    for variable in growing:
        updated.update_func(variable, module[variable].with_attr(PATTERN, INJECTIVE))
    return updated


def _grows(module: tvm.IRModule, call: relax.Call, calls: Bindings) -> bool:
    size = _elements(call)
    return _pattern(module, call) in (ELEMENTWISE, BROADCAST) and any(
        _elements(operand) < size and _is_product(module, operand, calls)
        for operand in call.args[1].fields
        if isinstance(operand, relax.Var)
    )


def _is_product(module: tvm.IRModule, variable: relax.Var, calls: Bindings) -> bool:
    """Is it the result of a convolution or product, with what follows that element by element?"""
    call = calls.get(variable)
    if call is None:
        return False
    match _pattern(module, call):
        case pattern if pattern == OUT_ELEMENTWISE_FUSABLE:
            return True
        case pattern if pattern in (ELEMENTWISE, BROADCAST):
            same = [operand for operand in call.args[1].fields if isinstance(operand, relax.Var)]
            return any(
                _elements(operand) == _elements(call) and _is_product(module, operand, calls)
                for operand in same
            )
        case _:
            return False


def _pattern(module: tvm.IRModule, call: relax.Call) -> int | None:
    attributes = module[call.args[0]].attrs
    return int(attributes[PATTERN]) if attributes is not None and PATTERN in attributes else None


def _elements(expression: relax.Expr) -> int:
    """Its number of elements; 0 where that is not known."""
    shape = shape_of(expression) if isinstance(expression.ty, relax.TensorType) else None
    return size_in_bytes(shape, "int8") if shape is not None and is_static(shape) else 0


__all__ = ["keep_growing_apart"]
