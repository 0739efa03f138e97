"""Tensors whose shape a ``match_cast`` checks, which must not be fused across the check.

``FuseOps`` does not count a check among the readers of a tensor: it would make one function of what computes
the tensor and of what reads both the tensor and the checked one, which then needs itself.
"""

from collections.abc import Mapping, Sequence

import tvm
from tvm import relax

from relay_layout.graph.uses import variables_read
from relay_layout.ir import bindings_of
from relay_layout.lower.fusion.function_calls import called_attributes, function_calls
from relay_layout.lower.fusion.patterns import INJECTIVE, OPAQUE, PATTERN, with_pattern


def prevent_fusion_across_checks(module: tvm.IRModule) -> tvm.IRModule:
    """Mark calls of "main" as opaque whose result is checked, and is fused with readers of what is checked.

    Expects ``call_tir`` of functions with their patterns.
    """
    bindings = bindings_of(module["main"])
    checks = [
        binding
        for binding in bindings
        if isinstance(binding, relax.MatchCast) and isinstance(binding.value, relax.Var)
    ]
    if not checks:
        return module
    calls = function_calls(module["main"])
    readers: dict[relax.Var, list[relax.Var]] = {}
    for binding in bindings:
        if not isinstance(binding, relax.MatchCast):
            for variable in variables_read(binding.value):
                readers.setdefault(variable, []).append(binding.var)
    fused = {
        variable
        for variable, call in calls.items()
        if int(called_attributes(module, call).get(PATTERN, OPAQUE)) <= INJECTIVE
    }
    marked = {
        check.value: calls[check.value]
        for check in checks
        if check.value in calls
        and _fused_behind(check.value, readers, fused) & _fused_behind(check.var, readers, fused)
    }
    return with_pattern(module, marked, OPAQUE)


def _fused_behind(
    variable: relax.Var,
    readers: Mapping[relax.Var, Sequence[relax.Var]],
    fused: set[relax.Var],
) -> set[relax.Var]:
    """Results of ``fused`` calls that need ``variable``, by fused calls alone."""
    found: set[relax.Var] = set()
    left = [variable]
    while left:
        new = [reader for reader in readers.get(left.pop(), ()) if reader in fused and reader not in found]
        found.update(new)
        left += new
    return found
