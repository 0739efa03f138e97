"""Modules whose operators are lowered as they are, by direct convolutions of float32."""

import tvm
from tvm import relax

from relay_layout.lower.legalize.cpu import legalization_map
from relay_layout.targets import CpuTarget, resolve_target


def legalized(module: tvm.IRModule) -> tvm.IRModule:
    """The module with a call of a kernel in place of every operator."""
    target = resolve_target("x86-64-v3", winograd=False)
    assert isinstance(target, CpuTarget)
    return relax.transform.LegalizeOps(legalization_map(target))(module)
