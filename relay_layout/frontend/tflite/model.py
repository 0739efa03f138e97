"""Import of TensorFlow Lite models: the file, and the names and quantization of its inputs and outputs.

Operators are read by :mod:`relay_layout.frontend.tflite.converter`.
"""

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tvm
from tvm import relax

from relay_layout.environment.one_at_a_time import one_at_a_time
from relay_layout.errors import ModelError
from relay_layout.frontend.files import read_bytes
from relay_layout.frontend.folding import fold_leftovers
from relay_layout.frontend.input_shapes import Input, settle_shapes
from relay_layout.frontend.messages import reason
from relay_layout.ir import operator_name, shape_of

if TYPE_CHECKING:
    from tvm import IRModule

_IDENTIFIER = b"TFL3"
_AT = slice(4, 8)


@one_at_a_time
def from_tflite(
    source: str | os.PathLike[str], *, input_shapes: Mapping[str, Sequence[int]] | None = None
) -> "IRModule":
    """A TensorFlow Lite model (``.tflite``) as a Relax module.

    "main" takes the model's inputs and gives its outputs, NHWC as the file has them; their names are in the
    attributes "input_names" and "output_names", what their integers stand for in "input_quantization" and
    "output_quantization": scales, zero points and axis of each, empty where it is not quantized. Quantized
    operators are imported with dequantize and quantize around the operator on real numbers, so that results
    may differ from an integer kernel's by one step.

    ModelError for a file that is missing or damaged, an operator that is not supported, ``input_shapes``
    other than those in the file, and without the tflite package.
    """
    label = f"model '{Path(source)}'"
    return module_of(parsed(read_bytes(Path(source)), label), label, input_shapes)


def module_of(model: Any, label: str, input_shapes: Mapping[str, Sequence[int]] | None) -> "IRModule":
    """As :func:`from_tflite`, of a model as the tflite package holds it; ``label`` begins messages."""
    # Only now: it needs the tflite package.
    from tvm.relax.frontend import tflite as importer

    from relay_layout.frontend.tflite.converter import Converter
    from relay_layout.frontend.tflite.stored import StoredModel

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = importer.from_tflite(StoredModel(model), op_converter=Converter)
        return _described(module, model, input_shapes or {}, label)
    except ModelError:
        raise
    except Exception as error:
        # The readers of flat buffers trust every offset in a file.
        raise ModelError(f"{label} cannot be imported: {reason(error)}") from None


def parsed(data: bytes, label: str) -> Any:
    """A file's bytes as the tflite package holds them. ModelError for those of another kind of file."""
    try:
        import tflite
    except ImportError:
        raise ModelError(
            "reading TensorFlow Lite needs the tflite package: pip install 'relay-layout[tflite]'"
        ) from None
    if not data:
        raise ModelError(f"{label} is empty")
    if data[_AT] != _IDENTIFIER:
        raise ModelError(f"{label} is not a TensorFlow Lite file: it lacks the identifier TFL3")
    return tflite.Model.GetRootAsModel(bytearray(data), 0)


def _described(
    module: tvm.IRModule, model: Any, given: Mapping[str, Sequence[int]], label: str
) -> tvm.IRModule:
    """The module with names and quantization of its inputs and outputs; given shapes must be its own."""
    graph = model.Subgraphs(0)
    main = module["main"]
    sides = {
        "input": [graph.Tensors(graph.Inputs(place)) for place in range(graph.InputsLength())],
        "output": [graph.Tensors(graph.Outputs(place)) for place in range(graph.OutputsLength())],
    }
    names = [_name(tensor) for tensor in sides["input"]]
    if given:
        shapes = [tuple(shape_of(parameter) or ()) for parameter in main.params]
        settle_shapes(
            {name: Input(name, 0, shape) for name, shape in zip(names, shapes, strict=True)}, given, label
        )
    for side, tensors in sides.items():
        main = main.with_attr(f"{side}_names", _unique([_name(tensor) for tensor in tensors]))
        main = main.with_attr(f"{side}_quantization", [_quantization(tensor) for tensor in tensors])
    result = tvm.IRModule(module.functions)
    # Constants are bound; the importer's list of them would only keep them alive.
    result.update_func(result.get_global_var("main"), main.without_attr("params").without_attr("num_input"))
    result = relax.transform.Normalize()(result)
    # Integers of weights are dequantized constants, which must not be folded.
    return result if _dequantizes(result["main"]) else fold_leftovers(result)


def _dequantizes(function: Any) -> bool:
    found: list[bool] = []

    def visit(expression: Any) -> None:
        if isinstance(expression, relax.Call) and operator_name(expression) == "dequantize":
            found.append(True)

    relax.analysis.post_order_visit(function, visit)
    return bool(found)


def _name(tensor: Any) -> str:
    found = tensor.Name()
    return found.decode("utf-8", "replace") if found else ""


def _unique(names: Sequence[str]) -> list[str]:
    """The names, with numbers where one is missing or comes twice, as where a tensor is given twice."""
    result: list[str] = []
    for place, name in enumerate(names):
        result.append(name if name and name not in result else f"{name or 'tensor'}_{place}")
    return result


def _quantization(tensor: Any) -> list[list[float]]:
    """Scales, zero points, and the axis where there are several; nothing of a tensor of real numbers."""
    found = tensor.Quantization()
    if found is None or not found.ScaleLength():
        return []
    scales = [float(found.Scale(place)) for place in range(found.ScaleLength())]
    points = [float(found.ZeroPoint(place)) for place in range(found.ZeroPointLength())]
    axis = [float(found.QuantizedDimension())] if len(scales) > 1 else []
    return [scales, points or [0.0] * len(scales), axis]
