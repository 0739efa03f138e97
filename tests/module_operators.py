"""What a module under test calls."""

import tvm

from relay_layout.ir import operator_name
from relay_layout.rewrite.canonicalize import canonicalize


def operators(module: tvm.IRModule) -> list[str]:
    """The operators of "main" in order, without ``relax.``."""
    bindings = (binding for block in module["main"].body.blocks for binding in block.bindings)
    return [name for name in (operator_name(binding.value) for binding in bindings) if name]


def canonical_operators(module: tvm.IRModule) -> list[str]:
    """Those of the module after canonicalization."""
    return operators(canonicalize(module))
