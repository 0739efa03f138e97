"""Operators left to the converters of TVM's own ONNX importer.

Each of those is a class named after the operator, found in TVM's table, with one method per opset. They
take the builder, the inputs as Relax expressions, the attributes as the ONNX package gives them, and a
pair of tables that only matter when weights are to be inputs.
"""

import warnings
from functools import cache
from typing import TYPE_CHECKING, Any

from onnx import helper
from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from relay_layout.frontend.onnx.graphs import OWN_DOMAINS
from relay_layout.frontend.onnx.node import Node
from relay_layout.frontend.values import Unsupported, Value

if TYPE_CHECKING:
    import onnx

_CONTRIBUTED = frozenset({"BiasGelu", "FastGelu", "Gelu", "Trilu"})
"""Operators of the domain com.microsoft among TVM's; its table does not tell the domains apart."""

_FOREIGN = _CONTRIBUTED - {"Gelu", "Trilu"} | {
    *("AllClassNMS", "Attention", "EmbedLayerNormalization", "SkipLayerNormalization")
}
"""Operators in TVM's table that are no operators of ONNX, or not those of that name."""


@cache
def operators(domain: str) -> frozenset[str]:
    """The operators of a domain that TVM's importer has converters for."""
    table = frozenset(onnx_frontend._get_convert_map())
    if domain == "com.microsoft":
        return table & _CONTRIBUTED
    return table - _FOREIGN if domain in OWN_DOMAINS else frozenset()


def convert(proto: "onnx.NodeProto", node: Node) -> Value:
    """The value of the node's output, or a list of one value per output."""
    if node.operator not in operators(proto.domain):
        raise Unsupported("is not a supported operator")
    inputs = onnx_frontend.onnx_input(
        None if value is None else node.expression(value) for value in node.inputs
    )
    attributes: dict[str, Any] = {
        attribute.name: helper.get_attribute_value(attribute) for attribute in proto.attribute
    }
    attributes["tvm_custom"] = {"name": node.name, "num_outputs": len(node.outputs)}
    converter = onnx_frontend._get_convert_map()[node.operator].get_converter(node.opset)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = converter(node.builder, inputs, attributes, [{}, {}])
    if not isinstance(result, relax.Expr):
        return result
    result = node.builder.normalize(result)
    if isinstance(result, relax.Tuple):
        return [result[index] for index in range(len(result))]
    if isinstance(result.ty, relax.TupleType) and len(node.outputs) > 1:
        whole = node.emit(result, "tuple")
        return [relax.TupleGetItem(whole, index) for index in range(len(result.ty.fields))]
    return result
