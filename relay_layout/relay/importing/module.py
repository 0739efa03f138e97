"""A Relay module to a Relax module: one function "main", with everything it calls taken into it."""

from collections.abc import Mapping

import numpy as np
import tvm
from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.ir import constant
from relay_layout.quantization.border import with_border
from relay_layout.relay.importing.border import quantized_border
from relay_layout.relay.importing.function import FunctionImporter
from relay_layout.relay.importing.order import canonical_order
from relay_layout.relay.syntax.tree import Function, Module


def from_tree(
    module: Module | Function, params: Mapping[str, np.ndarray] | None = None, *, name: str = "Relay module"
) -> tvm.IRModule:
    """The Relax module of a Relay module.

    Functions and closures that "main" calls become part of it; ``params`` are values for its parameters by
    name, which then are inputs no longer. What operators of relay.qnn are told of inputs and outputs becomes
    attributes of "main". ``name`` is what errors call the module.

    ModelError for what cannot be imported: one line with the place in the source.
    """
    functions = {"main": module} if isinstance(module, Function) else module.functions
    main = functions.get("main")
    if main is None:
        held = ", ".join(f"@{function}" for function in functions) or "none"
        raise ModelError(f"{name} has no function @main; its functions are {held}")
    params = params or {}
    importer = FunctionImporter(name, functions, _bound(main, params, name))
    function = importer.run(main)
    result = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    if importer.is_one_expression:
        result = canonical_order(result)
    inputs, outputs = quantized_border(main, params)
    left = [
        found for found, parameter in zip(inputs, main.params, strict=True) if parameter.name not in params
    ]
    result.update_func(result.get_global_var("main"), with_border(result["main"], left, outputs))
    return relax.transform.CanonicalizeBindings()(result)


def _bound(main: Function, params: Mapping[str, np.ndarray], name: str) -> dict[str, object]:
    """Constants for parameters of main, checked against their types."""
    declared = {parameter.name: parameter.type for parameter in main.params}
    bound = {}
    for key, array in params.items():
        if key not in declared:
            raise ModelError(f"{name}: there is no parameter '%{key}' for the value of that name")
        expected = declared[key]
        shape, dtype = getattr(expected, "shape", None), getattr(expected, "dtype", str(array.dtype))
        fits = shape is None or (
            len(shape) == array.ndim
            and all(want in (None, have) for want, have in zip(shape, array.shape, strict=True))
        )
        if not fits or dtype != str(array.dtype):
            raise ModelError(
                f"{name}: the value of %{key} is {array.dtype}{list(array.shape)}, "
                f"but the parameter is {dtype}{list(shape or ())}"
            )
        bound[key] = constant(array)
    return bound
