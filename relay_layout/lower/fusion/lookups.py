"""Looks into tables of bytes, fused with what computes the bytes."""

import tvm

from relay_layout.lower.fusion.function_calls import called_attributes, function_calls
from relay_layout.lower.fusion.patterns import ELEMENTWISE, with_pattern
from relay_layout.quantization.lookup import LOOKUP


def fuse_lookups(module: tvm.IRModule) -> tvm.IRModule:
    """Mark lookups of "main" as elementwise, which TVM's analysis of patterns does not take them for.

    Expects ``call_tir`` of functions with their patterns.
    """
    calls = function_calls(module["main"])
    found = {variable: call for variable, call in calls.items() if LOOKUP in called_attributes(module, call)}
    return with_pattern(module, found, ELEMENTWISE)
