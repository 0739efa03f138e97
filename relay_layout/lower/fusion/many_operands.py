"""Concatenations and stacks of very many tensors, which are kernels of their own.

Each element is chosen among all operands. Fused with what reads it, the choice is part of one expression with
the arithmetic behind it, for which neither TVM nor LLVM finds an end: a stack of 300 rows, the outputs of a
loop that was written out, took more than two minutes to compile with three functions behind it.
"""

import tvm

from relay_layout.lower.fusion.function_calls import function_calls
from relay_layout.lower.fusion.patterns import OPAQUE, with_pattern

MOST_OPERANDS = 32
"""Most tensors that a function reads which others may be fused with."""


def prevent_fusion_of_many_operands(module: tvm.IRModule) -> tvm.IRModule:
    """Mark calls of "main" of functions of more than ``MOST_OPERANDS`` tensors as opaque.

    Expects ``call_tir`` of functions with their patterns.
    """
    calls = function_calls(module["main"])
    many = {variable: call for variable, call in calls.items() if len(call.args[1].fields) > MOST_OPERANDS}
    return with_pattern(module, many, OPAQUE)
