"""A function of a library that tells what its machine can do, for clients that cannot ask the machine.

TVM's RPC tells nothing of a board's processor. The Linux kernel hands its features to every process, as bits
of two words (``getauxval(3)``; ``asm/hwcap.h`` names the bits).
"""

import tvm
from tvm import te, tirx

from relay_layout.host import ARM_CAPABILITY_WORDS
from relay_layout.targets import BuildTarget

CAPABILITIES = "relay_layout_capabilities"
"""The function's name. It fills a uint64 array of two elements with the words of ``host.arm_features``."""


def with_capabilities(module: tvm.IRModule, target: BuildTarget) -> tvm.IRModule:
    """``module`` with the function, where ``target`` is 64-bit ARM Linux."""
    if target.architecture != "aarch64" or "linux" not in target.manifest()["mtriple"]:
        return module
    words = [tirx.const(word, "uint64") for word in ARM_CAPABILITY_WORDS]
    told = te.compute(
        (len(words),),
        lambda place: tirx.call_extern("uint64", "getauxval", tirx.Select(place == 0, *words)),
    )
    attributes = {"global_symbol": CAPABILITIES, "tirx.is_scheduled": True}
    function = te.create_prim_func([told]).with_attr(attributes)
    module = tvm.IRModule(dict(module.functions_items()), attrs=module.attrs)
    module[CAPABILITIES] = function
    return module


__all__ = ["CAPABILITIES", "with_capabilities"]
