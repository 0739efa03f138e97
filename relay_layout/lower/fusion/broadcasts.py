"""Broadcasts of a convolution's or a product's result to a larger tensor, which must not be fused with it.

The gate of a squeeze-and-excitation block is a convolution of one pixel whose result multiplies a whole
image. Fused, the kernel of that one pixel, with its tiles and threads, would have to loop over the image.
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


def prevent_fusion_of_broadcasts(module: tvm.IRModule) -> tvm.IRModule:
    """Mark calls of "main" that broadcast the result of a convolution or product to more elements as
    injective.

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
        elif sizes:
            products.add(variable)
    return with_pattern(module, growing, INJECTIVE)


def _elements(expression: relax.Expr) -> int:
    """The number of elements of a tensor; 0 where it is symbolic."""
    shape = shape_of(expression) if isinstance(expression.ty, relax.TensorType) else None
    return size_in_bytes(shape, "int8") if shape is not None and is_static(shape) else 0
