"""Passes on quantized operators."""

import tvm

from relay_layout.relay.operators import decompose


def CanonicalizeOps() -> tvm.transform.Pass:
    """Operators that Relax lacks, those on quantized tensors among them, as operators that it has."""
    return tvm.transform.module_pass(
        lambda module, context: decompose(module), opt_level=0, name="relay_layout.relay.qnn.CanonicalizeOps"
    )


def Legalize() -> tvm.transform.Pass:
    """The same as :func:`CanonicalizeOps`: what a target needs is decided when a module is built."""
    return CanonicalizeOps()
