"""Looks into tables of bytes, fused with what computes the bytes."""

import tvm

from relay_layout.ir import operator_name
from relay_layout.lower.calls import CALL_TIR
from relay_layout.lower.patterns import ELEMENTWISE, with_pattern
from relay_layout.quantization.lookup import LOOKUP


def fuse_lookups(module: tvm.IRModule) -> tvm.IRModule:
    """Mark lookups of "main" as elementwise, which TVM's analysis of patterns does not take them for.

    Expects ``call_tir`` of functions with their patterns.
    """
    bindings = [binding for block in module["main"].body.blocks for binding in block.bindings]
    calls = {each.var: each.value for each in bindings if operator_name(each.value) == CALL_TIR}
    found = {
        variable: call
        for variable, call in calls.items()
        if module[call.args[0]].attrs is not None and LOOKUP in module[call.args[0]].attrs
    }
    return with_pattern(module, found, ELEMENTWISE)


__all__ = ["fuse_lookups"]
