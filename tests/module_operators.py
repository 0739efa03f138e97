"""What a module under test calls."""

from typing import Any

import tvm
from tvm import relax

from relay_layout.ir import dtype_of, operator_name
from relay_layout.rewrite.canonicalize import canonicalize


def operators(module: tvm.IRModule) -> list[str]:
    """The operators of "main" in order, without ``relax.``."""
    bindings = (binding for block in module["main"].body.blocks for binding in block.bindings)
    return [name for name in (operator_name(binding.value) for binding in bindings) if name]


def canonical_operators(module: tvm.IRModule) -> list[str]:
    """Those of the module after canonicalization."""
    return operators(canonicalize(module))


def products(module: tvm.IRModule) -> list[list[str]]:
    """The dtypes of the operands of convolutions and matrix products after canonicalization."""
    found = []

    def keep(expression: Any) -> None:
        if operator_name(expression) in ("nn.conv2d", "matmul"):
            found.append([dtype_of(argument) for argument in expression.args])

    relax.analysis.post_order_visit(canonicalize(module)["main"], keep)
    return found
