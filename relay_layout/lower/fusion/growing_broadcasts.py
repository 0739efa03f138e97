"""Broadcasts that keep out of the kernel of a smaller tensor.

The gate of a squeeze block is a convolution of one pixel, and multiplies a whole image. Fused, the image
would have to be walked by the kernel of that one pixel, whose results are as many as its own tiles hold.
"""

import tvm
from tvm import relax

from relay_layout.ir import is_static, shape_of, size_in_bytes
from relay_layout.lower.fusion.function_calls import called_attributes, function_calls
from relay_layout.lower.fusion.patterns import (
    BROADCAST,
    ELEMENTWISE,
    INJECTIVE,
    OUT_ELEMENTWISE_FUSABLE,
    PATTERN,
    with_pattern,
)


def keep_growing_apart(module: tvm.IRModule) -> tvm.IRModule:
    """Mark calls of "main" that grow the result of a convolution, or of a product, as no broadcasts.

    Expects ``call_tir`` of functions with their patterns.
    """
    growing: dict[relax.Var, relax.Call] = {}
    # The results of products, with what follows them element by element.
    products: set[relax.Var] = set()
    for variable, call in function_calls(module["main"]).items():
        pattern, size = called_attributes(module, call).get(PATTERN), _elements(call)
        if pattern == OUT_ELEMENTWISE_FUSABLE:
            products.add(variable)
        if pattern not in (ELEMENTWISE, BROADCAST):
            continue
        sizes = {_elements(operand) for operand in call.args[1].fields if operand in products}
        if any(smaller < size for smaller in sizes):
            growing[variable] = call
        if size in sizes:
            products.add(variable)
    return with_pattern(module, growing, INJECTIVE)


def _elements(expression: relax.Expr) -> int:
    """Its number of elements; 0 where that is not known."""
    shape = shape_of(expression) if isinstance(expression.ty, relax.TensorType) else None
    return size_in_bytes(shape, "int8") if shape is not None and is_static(shape) else 0


__all__ = ["keep_growing_apart"]
