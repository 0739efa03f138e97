"""Looks into tables of bytes, fused with what computes the bytes."""

import tvm
from tvm import relax, te

from relay_layout.ir import Expression, operator_name
from relay_layout.lower.calls import CALL_TIR
from relay_layout.lower.patterns import ELEMENTWISE, OPAQUE, PATTERN, with_pattern

LOOKUP = "relay_layout.lookup"
"""Attribute of a function that computes each element from one of a tensor of bytes."""


def lookup_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """The element of a table for each byte."""

    def look_up(data: te.Tensor, table: te.Tensor) -> te.Tensor:
        return te.compute(data.shape, lambda *index: table(data(*index).astype("int32")), name="lookup")

    attributes = {PATTERN: OPAQUE, LOOKUP: True}
    return builder.call_te(look_up, *call.args, primfunc_name_hint="lookup", primfunc_attrs=attributes)


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


__all__ = ["fuse_lookups", "lookup_call"]
