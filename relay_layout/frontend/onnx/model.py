"""Import of ONNX models."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from relay_layout.environment.one_at_a_time import one_at_a_time
from relay_layout.errors import ModelError, printable
from relay_layout.frontend.messages import reason
from relay_layout.frontend.onnx.external_data import check_loaded
from relay_layout.frontend.onnx.files import read_model, require_onnx

if TYPE_CHECKING:
    import onnx
    from tvm import IRModule


@one_at_a_time
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

    Numbers agree with ONNX Runtime, with four exceptions. A NaN that is compared with other elements of its
    tensor (``MaxPool``, ``ReduceMax``, ``ArgMax``, ``TopK``) may be a number, of which ONNX Runtime's kernels
    have rules of their own each; ``Max`` and ``Min`` keep it on CPUs, ``Relu``, ``Clip`` and other constant
    bounds on x86-64. An index out of range in ``Gather`` takes the nearest element instead of failing. An
    integer divided by zero is divided by one. The mean of no floats is NaN.

    ModelError for a file that is missing or damaged, an operator or a use of one that is not supported, a
    shape that does not fit, and without the onnx package.
    """
    require_onnx()
    from onnx import ModelProto

    label = f"ONNX model '{model.graph.name}'" if isinstance(model, ModelProto) else f"model '{Path(model)}'"
    try:
        # Only now: it leans on the onnx package and on TVM's importer, which needs it as well.
        from relay_layout.frontend.onnx.conversion import converted

        if isinstance(model, ModelProto):
            check_loaded(model, label)
        else:
            model = read_model(model)
        # Constants in a damaged file can be anything.
        with np.errstate(all="ignore"):
            return converted(model, label, input_shapes or {})
    except ModelError as error:
        message = str(error)
    except Exception as error:
        # A damaged file can be odd in more ways than there are checks.
        message = f"{label} cannot be imported: {reason(error)}"
    # Names in a damaged file may hold anything.
    raise ModelError(printable(message))
