"""Operators on quantized tensors: ``relay.qnn.op``, and callbacks that put others in their place."""

from relay_layout.relay.functions.namespaces import namespace
from relay_layout.relay.registries.legalization import register_qnn_canonicalize, register_qnn_legalize

__getattr__, __dir__ = namespace(__name__, "qnn.")

__all__ = ["register_qnn_canonicalize", "register_qnn_legalize"]
