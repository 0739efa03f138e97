"""Functions of loops whose extents are all numbers and variables."""

import tvm
from tvm import tirx

from relay_layout.ir import copy_of
from topi_ext.schedule.named_extents import with_named_extents


def name_extents(module: tvm.IRModule) -> tvm.IRModule:
    """The module whose functions of loops know no longer of what their tensors' extents are computed.

    To be run when tensors that are the same memory have been found, of which such extents tell. Where a tile
    begins and what two places have in common, TVM says sooner of a variable than of a quotient, or never of
    the latter.
    """
    named = copy_of(module)
    for variable, function in module.functions_items():
        if isinstance(function, tirx.PrimFunc):
            named.update_func(variable, with_named_extents(function))
    return named
