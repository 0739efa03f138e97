"""Passes on quantized operators."""

import tvm
from tvm import relax

from relay_layout.ir import operator_name
from relay_layout.relay.operators import decompose


def CanonicalizeOps() -> tvm.transform.Pass:
    """Operators on quantized tensors as operators that Relax has."""
    return tvm.transform.module_pass(
        lambda module, context: decompose(module, _is_quantized),
        opt_level=0,
        name="relay_layout.relay.qnn.CanonicalizeOps",
    )


def Legalize() -> tvm.transform.Pass:
    """The same as :func:`CanonicalizeOps`: what a target needs is decided when a module is built."""
    return CanonicalizeOps()


def _is_quantized(call: relax.Call) -> bool:
    return operator_name(call).startswith("relay.qnn.")
