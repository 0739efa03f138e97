"""Checks of an ONNX model before it is imported, each with a message that says what is wrong and where."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from relay_layout.errors import ModelError
from relay_layout.frontend.input_shapes import Input
from relay_layout.frontend.messages import reason
from relay_layout.frontend.onnx import fallback
from relay_layout.frontend.onnx.functions import weightless
from relay_layout.frontend.onnx.graphs import OWN_DOMAINS, opset_version, with_subgraphs
from relay_layout.frontend.onnx.local_functions import inline_functions
from relay_layout.frontend.onnx.operators import converter_of, early
from relay_layout.frontend.onnx.subgraphs import SUBGRAPHS

if TYPE_CHECKING:
    import onnx

_NOT_NUMERIC = (0, 8, 14, 15)
"""TensorProto UNDEFINED, STRING, COMPLEX64 and COMPLEX128."""

_WITHIN_MODELS = "FLOAT8", "FLOAT6", "FLOAT4", "INT4", "UINT4", "INT2", "UINT2"
"""What element types begin with whose tensors others hold here."""

_STILL_READ = frozenset(
    {"GroupNormalization", "SimplifiedLayerNormalization", "ThresholdedRelu", *early.CONVERTERS}
)
_STILL_READ_DOMAIN = "relay_layout.still_read"
"""Operators that the checker refuses although files have them: one is deprecated in some opsets, one is ONNX
Runtime's in ONNX's own domain, and others are older than what it knows, one of them only in early opsets."""

_WALKED = frozenset({"Constant", *SUBGRAPHS})
"""Operators the importer handles while walking the graph."""


_NO_NAMES = frozenset({"?", "-1", "None", "none"})
"""What converters write for an extent of which they know nothing."""

_OF_ONE_PROCESSOR = frozenset({"com.microsoft.nchwc", "com.ms.internal.nhwc"})
"""Domains in which ONNX Runtime writes weights in the memory order of the processor it ran on."""


def check_operators(
    nodes: Iterable["onnx.NodeProto"], label: str, known: Callable[["onnx.NodeProto"], bool]
) -> None:
    """ModelError that lists every node, those in subgraphs included, whose operator is not ``known``.

    What ONNX Runtime wrote for one kind of processor is refused as a whole.
    """
    unknown: dict[str, list[str]] = {}
    for node in with_subgraphs(nodes):
        if node.domain in _OF_ONE_PROCESSOR:
            raise ModelError(
                f"{label} was saved by ONNX Runtime for one kind of processor (operators of {node.domain}): "
                "save it with ORT_ENABLE_EXTENDED at most, or give the model that it was made of"
            )
        if not known(node):
            operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
            unknown.setdefault(operator, []).append(node.name or next(iter(node.output), ""))
    if unknown:
        listed = "; ".join(f"{operator} (node {_listed(names)})" for operator, names in unknown.items())
        foreign = any("." in operator for operator in unknown)
        remedy = (
            ", or say what they are with relay_layout.frontend.onnx.register_converter" if foreign else ""
        )
        raise ModelError(
            f"{label}: these operators are not supported: {listed}: export the model without them{remedy}"
        )


def supported(node: "onnx.NodeProto") -> bool:
    """Whether there is a converter for the node's operator."""
    if converter_of(node.domain, node.op_type) is not None:
        return True
    if node.domain in OWN_DOMAINS and node.op_type in _WALKED:
        return True
    return node.op_type in fallback.operators(node.domain)


def _listed(names: Sequence[str], most: int = 3) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def check_structure(model: "onnx.ModelProto", label: str) -> None:
    """ModelError where the ONNX package finds the model invalid, or is too old to tell."""
    from onnx import checker, defs

    if not model.graph.output:
        raise ModelError(f"{label} is not a valid ONNX model: it has no outputs")
    newest = defs.onnx_opset_version()
    opset = opset_version(model)
    if opset is not None and opset > newest:
        raise ModelError(
            f"{label} uses opset {opset}, while the installed onnx package knows those up to {newest}: "
            "upgrade onnx, or export the model with an older opset"
        )
    try:
        checker.check_model(_checkable(model, label))
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"{label} is not a valid ONNX model: {reason(error)}") from None


def _checkable(model: "onnx.ModelProto", label: str) -> "onnx.ModelProto":
    """The model without weights, and without what the checker alone is strict about."""
    from onnx import TensorProto

    light = weightless(model)
    inline_functions(light, label)
    light.graph.name = light.graph.name or "graph"
    for place in (*light.opset_import, *with_subgraphs(light.graph.node)):
        if place.domain in OWN_DOMAINS:
            place.domain = ""
    for node in with_subgraphs(light.graph.node):
        if node.op_type in _STILL_READ and not node.domain:
            # A domain the checker does not know: it looks at the node's place only.
            node.domain = _STILL_READ_DOMAIN
    light.opset_import.add(domain=_STILL_READ_DOMAIN, version=1)
    for value in light.graph.output:
        if not value.type.WhichOneof("value"):
            # Other readers take an output that only has a name, as tools add them to look inside of a model.
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    for value in [*light.graph.input, *light.graph.output]:
        if value.type.HasField("tensor_type"):
            # Other readers take a tensor of undeclared rank.
            value.type.tensor_type.shape.SetInParent()
    return light


def check_border(graph: "onnx.GraphProto", label: str) -> None:
    """ModelError where an input or an output has floats of 8 bits or anything of less, which stays inside."""
    from onnx import TensorProto

    weights = {tensor.name for tensor in graph.initializer}
    for kind, values in (("input", graph.input), ("output", graph.output)):
        for value in values:
            name = TensorProto.DataType.Name(value.type.tensor_type.elem_type)
            if name.startswith(_WITHIN_MODELS) and value.name not in weights:
                raise ModelError(
                    f"{label}: {kind} '{value.name}' is {name.lower()}, which is not supported: "
                    "convert it within the model"
                )


def read_inputs(graph: "onnx.GraphProto", label: str) -> dict[str, Input]:
    """The true inputs of a graph by name, in order; initializers are none.

    An extent without number or name gets the name "INPUT_dim_AXIS", as do those that files name "None" and
    the like: they say nothing of which are equal.
    """
    weights = {tensor.name for tensor in graph.initializer}
    result = {}
    for value in graph.input:
        if value.name in weights:
            continue
        tensor = value.type.tensor_type
        if not value.type.HasField("tensor_type") or tensor.elem_type in _NOT_NUMERIC:
            raise ModelError(
                f"{label}: input '{value.name}' is not a numeric tensor, which is not supported: "
                "give the model tensors of numbers"
            )
        shape: tuple[int | str, ...] | None = None
        if tensor.HasField("shape"):
            shape = tuple(
                extent.dim_value if extent.dim_value > 0 else _name(extent) or f"{value.name}_dim_{axis}"
                for axis, extent in enumerate(tensor.shape.dim)
            )
        result[value.name] = Input(value.name, tensor.elem_type, shape)
    return result


def _name(extent: "onnx.TensorShapeProto.Dimension") -> str:
    return "" if extent.dim_param in _NO_NAMES else str(extent.dim_param)
