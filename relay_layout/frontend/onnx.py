"""Import of ONNX models."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relay_layout.frontend.onnx_file import check_loaded, read_model, require_onnx

if TYPE_CHECKING:
    import onnx
    from tvm import IRModule


def from_onnx(
    model: "str | os.PathLike[str] | onnx.ModelProto",
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
) -> "IRModule":
    """An ONNX model, from a file or as the ONNX package holds it, as a Relax module.

    The module has one function "main" whose parameters are the graph's inputs without its initializers,
    with their names and element types; it returns the graph's output, or a tuple of several. Its body is
    one dataflow block without any operator applied to constants alone: initializers, and what is computed
    from them, are Relax constants. Convolutions are NCHW and OIHW, as ONNX has them. The attributes
    "input_names" and "output_names" hold the names as lists of strings.

    ``input_shapes`` gives inputs a shape. An extent that the file names, such as "N", stays symbolic where
    none is given, and one that the file fixes cannot be given otherwise.

    Numbers agree with ONNX Runtime, with these exceptions: ``Clip`` of a NaN gives a bound instead of NaN;
    an index out of range in ``Gather`` takes the nearest element instead of failing.

    ModelError for a file that is missing or damaged, an operator or a use of one that is not supported, a
    shape that does not fit, and without the onnx package.
    """
    require_onnx()
    from onnx import ModelProto

    if isinstance(model, ModelProto):
        label = f"ONNX model '{model.graph.name}'"
        check_loaded(model, label)
        return _import(model, label, input_shapes or {})
    return _import(read_model(model), f"model '{Path(model)}'", input_shapes or {})


def _import(model: "onnx.ModelProto", label: str, input_shapes: Mapping[str, Sequence[int]]) -> "IRModule":
    # Only now: these lean on the onnx package and on TVM's importer, which needs it as well.
    from onnx.helper import tensor_dtype_to_np_dtype
    from tvm import relax, tirx

    from relay_layout.frontend.input_shapes import settle_shapes
    from relay_layout.frontend.onnx_checks import check_operators, check_structure, read_inputs, supported
    from relay_layout.frontend.onnx_fold import fold_leftovers
    from relay_layout.frontend.onnx_functions import expandable, expanded
    from relay_layout.frontend.onnx_import import Importer, read_tensors

    opsets = {"" if opset.domain == "ai.onnx" else opset.domain: opset.version for opset in model.opset_import}
    functions = {(function.domain, function.name) for function in model.functions}

    def defined_by_others(node: "onnx.NodeProto") -> bool:
        return not supported(node) and expandable(node, opsets.get("", 1))

    def known(node: "onnx.NodeProto") -> bool:
        return (node.domain, node.op_type) in functions or supported(node) or defined_by_others(node)

    bodies = [node for function in model.functions for node in function.node]
    check_operators([*model.graph.node, *bodies], label, known)
    check_structure(model, label)
    nodes = expanded(model, label, defined_by_others)
    check_operators(nodes, label, supported)
    inputs = read_inputs(model.graph, label)
    shapes = settle_shapes(inputs, input_shapes, label)
    symbols: dict[str, Any] = {}
    variables = []
    for name, declared in inputs.items():
        shape = [
            extent if isinstance(extent, int) else symbols.setdefault(extent, tirx.Var(extent, "int64"))
            for extent in shapes[name]
        ]
        dtype = str(tensor_dtype_to_np_dtype(declared.element_type))
        variables.append(relax.Var(name, relax.TensorType(shape, dtype)))
    tensors = read_tensors(model.graph.initializer, label)
    outputs = [output.name for output in model.graph.output]
    return fold_leftovers(Importer(label, opsets).build(nodes, variables, tensors, outputs))
