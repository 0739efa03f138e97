"""Import of ONNX models."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from relay_layout.errors import ModelError
from relay_layout.frontend.messages import reason
from relay_layout.frontend.onnx.files import check_loaded, read_model, require_onnx

if TYPE_CHECKING:
    import onnx
    from tvm import IRModule


def from_onnx(
    model: "str | os.PathLike[str] | onnx.ModelProto",
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
) -> "IRModule":
    """An ONNX model, from a file or as the ONNX package holds it, as a Relax module.

    The module has a function "main" whose parameters are the graph's inputs without its initializers,
    with their names and element types; it returns the graph's output, or a tuple of several. Its body is
    one dataflow block without any operator applied to constants alone: initializers, and what is computed
    from them, are Relax constants. What finds elements, as many as the data say, is a TIR function that
    "main" calls, and their number a symbolic extent. Convolutions are NCHW and OIHW, as ONNX has them.
    The attributes "input_names" and "output_names" hold the names as lists of strings.

    Operators between dequantize and quantize are integer operators in the module
    (:func:`relay_layout.quantization.to_integers`).

    ``input_shapes`` gives inputs a shape. An extent that the file names, such as "N", stays symbolic where
    none is given, and one that the file fixes cannot be given otherwise.

    Numbers agree with ONNX Runtime, with three exceptions. A NaN that is compared with other elements
    (``Max``, ``Min``, ``MaxPool``, ``ReduceMax``, ``ArgMax``, ``TopK``), and its ``Sign``, may be a number;
    ``Relu``, ``Clip`` and other constant bounds keep it on x86-64. An index out of range in ``Gather`` takes
    the nearest element instead of failing. An integer divided by zero is divided by one.

    ModelError for a file that is missing or damaged, an operator or a use of one that is not supported, a
    shape that does not fit, and without the onnx package.
    """
    require_onnx()
    from onnx import ModelProto

    label = f"ONNX model '{model.graph.name}'" if isinstance(model, ModelProto) else f"model '{Path(model)}'"
    try:
        if isinstance(model, ModelProto):
            check_loaded(model, label)
        else:
            model = read_model(model)
        # Constants in a damaged file can be anything.
        with np.errstate(all="ignore"):
            return _import(model, label, input_shapes or {})
    except ModelError as error:
        message = str(error)
    except Exception as error:
        # A damaged file can be odd in more ways than there are checks.
        message = f"{label} cannot be imported: {reason(error)}"
    # Names in a damaged file may hold anything.
    raise ModelError("".join(letter if letter.isprintable() else "?" for letter in message))


def _import(model: "onnx.ModelProto", label: str, input_shapes: Mapping[str, Sequence[int]]) -> "IRModule":
    # Only now: these lean on the onnx package and on TVM's importer, which needs it as well.
    from onnx.helper import tensor_dtype_to_np_dtype
    from tvm import relax, tirx

    from relay_layout.frontend.folding import fold_leftovers
    from relay_layout.frontend.input_shapes import settle_shapes
    from relay_layout.frontend.known_sizes import known_sizes
    from relay_layout.frontend.onnx.assumptions import Assumption, Assumptions
    from relay_layout.frontend.onnx.checks import check_operators, check_structure, read_inputs, supported
    from relay_layout.frontend.onnx.functions import expandable, expanded
    from relay_layout.frontend.onnx.graphs import read_tensors
    from relay_layout.frontend.onnx.importer import Importer
    from relay_layout.quantization import to_integers

    opsets = {
        "" if opset.domain == "ai.onnx" else opset.domain: opset.version for opset in model.opset_import
    }
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
    open_sizes: dict[int | str, tirx.Var] = {
        extent: tirx.Var(extent, "int64")
        for shape in shapes.values()
        for extent in shape
        if isinstance(extent, str)
    }
    assumptions = Assumptions(open_sizes.values())
    tensors = read_tensors(model.graph, label)
    outputs = [output.name for output in model.graph.output]

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
