"""TVM's operator pattern kinds, by which functions are fused.

The first two join the function of a convolution before them, an injective one only that of other elementwise
operators, and nothing joins an opaque one.
"""

from collections.abc import Iterable

import tvm

PATTERN = "op_pattern"
"""The attribute of a function."""

PRIMITIVE = "Primitive"
"""The attribute of a function that stands for one kernel."""

ELEMENTWISE, BROADCAST, INJECTIVE, OUT_ELEMENTWISE_FUSABLE, OPAQUE = 0, 1, 2, 4, 8


def with_pattern(module: tvm.IRModule, functions: Iterable[tvm.ir.GlobalVar], pattern: int) -> tvm.IRModule:
    """A module whose ``functions`` are of a pattern; the module itself where there are none."""
    marked = {variable: module[variable].with_attr(PATTERN, pattern) for variable in functions}
    if not marked:
        return module
    updated = tvm.IRModule(module.functions, attrs=module.attrs, global_infos=module.global_infos)
    for variable, function in marked.items():
        updated.update_func(variable, function)
    return updated


__all__ = [
    "BROADCAST",
    "ELEMENTWISE",
    "INJECTIVE",
    "OPAQUE",
    "OUT_ELEMENTWISE_FUSABLE",
    "PATTERN",
    "PRIMITIVE",
    "with_pattern",
]
