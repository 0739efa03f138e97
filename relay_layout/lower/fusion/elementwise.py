"""Functions that are fused as elementwise ones are, though TVM's analysis of patterns does not take them for
such: looks into tables of bytes, and what moves phases of transposed convolutions into place.
"""

import tvm

from relay_layout.lower.fusion.function_calls import called_attributes, function_calls
from relay_layout.lower.fusion.patterns import ELEMENTWISE, with_pattern
from relay_layout.quantization.lookup import LOOKUP
from topi_ext.workloads.stacked_phases import PHASES


def mark_elementwise(module: tvm.IRModule) -> tvm.IRModule:
    """Mark calls in "main" of functions with the attribute LOOKUP or PHASES as elementwise.

    Expects ``call_tir`` of functions with their patterns.
    """
    found = {
        variable: call
        for variable, call in function_calls(module["main"]).items()
        if {LOOKUP, PHASES}.intersection(called_attributes(module, call))
    }
    return with_pattern(module, found, ELEMENTWISE)
