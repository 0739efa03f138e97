"""Functions that only name elements anew become reshapes, which need no function."""

import tvm
from tvm import relax, tirx

from topi_ext.schedule.named_extents import with_named_extents


def rewrite_reshapes(module: tvm.IRModule) -> tvm.IRModule:
    """The module with a reshape in the place of each call of a function whose loops are one.

    TVM's analysis of loops ends in an error for some extents that are computed of others. Such functions are
    looked at with variables in the place of these.
    """
    named, originals = module.clone(), {}
    for name, function in module.functions_items():
        if isinstance(function, tirx.PrimFunc) and not _is_analysed(function):
            originals[name] = function
            named.update_func(name, with_named_extents(function))
    found = relax.transform.RewriteDataflowReshape()(named)
    for name, function in originals.items():
        found.update_func(name, function)
    return found


def _is_analysed(function: tirx.PrimFunc) -> bool:
    try:
        relax.analysis.has_reshape_pattern(function)
    except tvm.error.InternalError:
        return False
    return True
