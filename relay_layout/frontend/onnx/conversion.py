"""From a model as the ONNX package holds it to a Relax module."""

from collections.abc import Mapping, Sequence

import onnx
from onnx.helper import tensor_dtype_to_np_dtype
from tvm import IRModule, relax, tirx

from relay_layout.frontend.extents.known_sizes import known_sizes
from relay_layout.frontend.folding import fold_leftovers
from relay_layout.frontend.input_shapes import settle_shapes
from relay_layout.frontend.onnx.assumptions import Assumption, Assumptions
from relay_layout.frontend.onnx.checks import (
    check_border,
    check_operators,
    check_structure,
    read_inputs,
    supported,
)
from relay_layout.frontend.onnx.functions import expandable, expanded
from relay_layout.frontend.onnx.graphs import read_tensors
from relay_layout.frontend.onnx.importer import Importer
from relay_layout.quantization import to_integers


def converted(model: onnx.ModelProto, label: str, input_shapes: Mapping[str, Sequence[int]]) -> IRModule:
    """What :func:`relay_layout.from_onnx` gives; ``label`` names the model in messages."""
    opsets = {
        "" if opset.domain == "ai.onnx" else opset.domain: opset.version for opset in model.opset_import
    }
    nodes = _checked_nodes(model, label, opsets)
    check_border(model.graph, label)
    inputs = read_inputs(model.graph, label)
    shapes = settle_shapes(inputs, input_shapes, label)
    open_sizes: dict[int | str, tirx.Var] = {
        extent: tirx.Var(extent, "int64")
        for shape in shapes.values()
        for extent in shape
        if isinstance(extent, str)
    }
    assumptions = Assumptions(open_sizes.values())
    tensors = read_tensors(model.graph, label)
    # Exporters list a tensor twice that two results of the network name.
    outputs = list(dict.fromkeys(output.name for output in model.graph.output))

    def variable(name: str) -> relax.Var:
        shape = [assumptions.declared(open_sizes.get(extent, extent)) for extent in shapes[name]]
        dtype = str(tensor_dtype_to_np_dtype(inputs[name].element_type))
        # TVM's script cannot hold a name that starts with a digit.
        return relax.Var(f"_{name}" if name[:1].isdigit() else name, relax.TensorType(shape, dtype))

    # Each assumption is of a size that was open, or of fewer sizes than the one before.
    while True:
        importer = Importer(label, opsets, assumptions)
        try:
            with known_sizes(assumptions.intervals):
                module = importer.build(nodes, {name: variable(name) for name in inputs}, tensors, outputs)
            break
        except Assumption as assumption:
            assumptions.add(assumption)
    # Integers of weights are dequantized constants, which must not be folded before.
    return fold_leftovers(to_integers(module))


def _checked_nodes(model: onnx.ModelProto, label: str, opsets: Mapping[str, int]) -> Sequence[onnx.NodeProto]:
    """The graph's nodes, all of operators that are supported; those that ONNX defines by others as these."""
    functions = {(function.domain, function.name) for function in model.functions}

    def defined_by_others(node: onnx.NodeProto) -> bool:
        return not supported(node) and expandable(node, opsets.get("", 1))

    def known(node: onnx.NodeProto) -> bool:
        return (node.domain, node.op_type) in functions or supported(node) or defined_by_others(node)

    bodies = [node for function in model.functions for node in function.node]
    check_operators([*model.graph.node, *bodies], label, known)
    check_structure(model, label)
    nodes = expanded(model, label, defined_by_others)
    check_operators(nodes, label, supported)
    return nodes
