"""What a machine at the other end of TVM's RPC is, which has no word for its CPU features.

The Linux kernel hands a processor's features to every process (``getauxval(3)``), so a library for 64-bit ARM
can hold a function that passes them on.
"""

from typing import Any

import numpy as np
import tvm
from tvm import te, tirx

from topi_ext.machine.architecture import architecture_in, triple_of
from topi_ext.machine.arm_features import CAPABILITY_WORDS, told_features

CAPABILITIES = "relay_layout_capabilities"
"""The function's name in libraries of networks."""

CAPABILITY_ARGUMENT = (len(CAPABILITY_WORDS),), "uint64"
"""Shape and dtype of the array that the function fills with both words."""


def capabilities(target: tvm.target.Target) -> tirx.PrimFunc | None:
    """The function, scheduled and without a name; None where ``target`` is not Linux on 64-bit ARM."""
    triple = triple_of(target)
    if architecture_in(triple) != "aarch64" or "linux" not in triple:
        return None
    shape, dtype = CAPABILITY_ARGUMENT
    words = [tirx.const(word, dtype) for word in CAPABILITY_WORDS]
    told = te.compute(
        shape, lambda place: tirx.call_extern(dtype, "getauxval", tirx.Select(place == 0, *words))
    )
    return te.create_prim_func([told]).with_attr("tirx.is_scheduled", True)


def with_capabilities(module: tvm.IRModule, target: tvm.target.Target) -> tvm.IRModule:
    """``module`` with the function, by its name, where there is one for ``target``."""
    function = capabilities(target)
    if function is None:
        return module
    module = tvm.IRModule(dict(module.functions_items()), attrs=module.attrs)
    module[CAPABILITIES] = function.with_attr("global_symbol", CAPABILITIES)
    return module


def features_told(function: Any, device: Any) -> frozenset[str] | None:
    """What the function says of the machine whose memory is ``device``'s; None where it cannot tell."""
    words = tvm.runtime.tensor(np.zeros(*CAPABILITY_ARGUMENT), device)
    function(words)
    return told_features([int(word) for word in words.numpy()])


def architecture_told(session: Any) -> str:
    """The architecture of the machine of a ``tvm.rpc.RPCSession``; "" where its TVM has no LLVM to tell."""
    try:
        return architecture_in(str(session.get_function("target.llvm_get_system_triple")()))
    except Exception:
        return ""
