"""Functions that only name elements anew become reshapes, which need no function."""

import tvm
from tvm import relax, tirx

from topi_ext.extents import fixed
from topi_ext.schedule.named_extents import with_named_extents


def rewrite_reshapes(module: tvm.IRModule) -> tvm.IRModule:
    """The module with a reshape in the place of each call of a function whose loops are one.

    TVM's analysis of loops ends in an error for some extents that are computed of others. Such functions are
    looked at with variables in the place of these. Of a tensor without elements there is no reshape: an
    extent of 0 would say there to take the source's.
    """
    named, originals = module.clone(), {}
    for name, function in module.functions_items():
        if not isinstance(function, tirx.PrimFunc):
            continue
        if _is_of_nothing(function):
            originals[name] = function
            named.update_func(name, function.with_body(tirx.Evaluate(0)))
        elif not _is_analysed(function):
            originals[name] = function
            named.update_func(name, with_named_extents(function))
    found = relax.transform.RewriteDataflowReshape()(named)
    for name, function in originals.items():
        found.update_func(name, function)
    return found


def _is_of_nothing(function: tirx.PrimFunc) -> bool:
    shapes = [parameter.ty.shape for parameter in function.params if hasattr(parameter.ty, "shape")]
    return any(fixed(extent) == 0 for shape in shapes for extent in shape)


def _is_analysed(function: tirx.PrimFunc) -> bool:
    try:
        relax.analysis.has_reshape_pattern(function)
    except tvm.error.InternalError:
        return False
    return True
