"""The functions that compute extents when a network runs, so that a model is compiled to the same bytes.

TVM's ``VMShapeLower`` goes through extents in the order of their addresses, so that the statements of such a
function, and whether two of them are one, differ between compilations.
"""

import tvm
from tvm import relax, tirx
from tvm_ffi import structural_equal, structural_map

from relay_layout.ir import relax_functions, with_functions
from topi_ext.ir import nodes_of, sequence


def lower_shapes(module: tvm.IRModule) -> tvm.IRModule:
    """What ``VMShapeLower`` makes of a module, with functions for extents in the order of their calls.

    Each computes extents in the order of their places on the heap; those that are alike are one.
    """
    lowered = relax.transform.VMShapeLower()(module)
    before = {str(variable.name_hint) for variable, _ in module.functions_items()}
    functions = {
        variable: _in_order(function)
        for variable, function in lowered.functions_items()
        if isinstance(function, tirx.PrimFunc) and str(variable.name_hint) not in before
    }
    free = iter(sorted(functions, key=lambda variable: (len(variable.name_hint), variable.name_hint)))
    instead: dict[tvm.ir.GlobalVar, tvm.ir.GlobalVar] = {}
    ordered: dict[tvm.ir.GlobalVar, tirx.PrimFunc] = {}
    callers = relax_functions(lowered)
    for variable in (each for caller in callers.values() for each in nodes_of(caller, tvm.ir.GlobalVar)):
        if variable in functions and variable not in instead:
            function = functions[variable]
            alike = (each for each, other in ordered.items() if structural_equal(other, function))
            instead[variable] = next(alike, None) or next(free)
            ordered.setdefault(instead[variable], function)
    others = {each: function for each, function in lowered.functions_items() if each not in functions}
    changed = {
        caller: structural_map(function, (tvm.ir.GlobalVar, lambda each: instead.get(each, each)))
        for caller, function in callers.items()
    }
    return with_functions(lowered, others | changed | ordered)


def _in_order(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function with its stores in the order of their places, none of which it reads."""
    stores = nodes_of(function.body, tirx.BufferStore)
    return function.with_body(sequence(sorted(stores, key=lambda store: int(store.indices[0]))))
