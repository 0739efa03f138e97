"""Built-in networks, made from a fixed seed, and the description language they are written in.

:func:`build` gives a :class:`Network`; :func:`to_relax` and :func:`to_onnx` turn it into a Relax module
or an ONNX model with the same weights.
"""

from relay_layout.models.builder import NetworkBuilder
from relay_layout.models.catalog import build, names
from relay_layout.models.network import Network, Node, Value
from relay_layout.models.onnx_emitter import export_onnx, to_onnx
from relay_layout.models.relax_emitter import to_relax

__all__ = [
    "Network",
    "NetworkBuilder",
    "Node",
    "Value",
    "build",
    "export_onnx",
    "names",
    "to_onnx",
    "to_relax",
]
