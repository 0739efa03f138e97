"""Passes on quantized operators."""

import tvm
from tvm import relax

from relay_layout.ir import operator_name
from relay_layout.relay.operators import decompose
from relay_layout.relay.passes.legalizing import legalizing
from relay_layout.relay.registries.legalization import QNN_CANONICALIZE, QNN_LEGALIZE


def CanonicalizeOps() -> tvm.transform.Pass:
    """Operators on quantized tensors as operators that Relax has, or as callbacks of
    ``relay.qnn.op.register_qnn_canonicalize`` say.
    """
    name = "relay_layout.relay.qnn.CanonicalizeOps"
    asked = legalizing(QNN_CANONICALIZE, name)
    return tvm.transform.module_pass(
        lambda module, context: decompose(asked(module), _is_quantized), opt_level=0, name=name
    )


def Legalize() -> tvm.transform.Pass:
    """What callbacks of ``relay.qnn.op.register_qnn_legalize`` put in the place of operators, and
    :func:`CanonicalizeOps`: what a target needs besides is decided when a module is built.
    """
    name = "relay_layout.relay.qnn.Legalize"
    return tvm.transform.Sequential([legalizing(QNN_LEGALIZE, name), CanonicalizeOps()], name=name)


def _is_quantized(call: relax.Call) -> bool:
    return operator_name(call).startswith("relay.qnn.")
