"""Libraries that can be asked what the machine that has loaded them can do."""

import tvm

from relay_layout.targets import BuildTarget
from topi_ext.capabilities import CAPABILITIES, capabilities


def with_capabilities(module: tvm.IRModule, target: BuildTarget) -> tvm.IRModule:
    """``module`` with the function that tells it, where ``target`` is Linux on 64-bit ARM."""
    function = capabilities(target.tvm_target)
    if function is None:
        return module
    module = tvm.IRModule(dict(module.functions_items()), attrs=module.attrs)
    module[CAPABILITIES] = function.with_attr("global_symbol", CAPABILITIES)
    return module
