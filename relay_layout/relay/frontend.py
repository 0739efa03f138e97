"""``relay.frontend``: models of other frameworks as Relax modules and parameters.

Each importer returns ``(module, params)`` as Relay's does.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm
from tvm import relax
from tvm_ffi import structural_map

from relay_layout.errors import ModelError
from relay_layout.frontend import from_onnx as import_onnx
from relay_layout.frontend.onnx.graphs import opset_version
from relay_layout.frontend.tflite.model import converted, parsed
from relay_layout.frontend.torch.program import converted as converted_program
from relay_layout.graph.border import input_names
from relay_layout.ir import Constant, constant_array, dtype_of, shape_of, with_body, with_main
from relay_layout.relay.build_module import main_function
from relay_layout.relay.expression import dtype_text
from relay_layout.relay.importing.operation import reason
from relay_layout.relay.missing import refuser
from relay_layout.relay.params import as_array

if TYPE_CHECKING:
    import onnx

__getattr__ = refuser(__name__)

Params = dict[str, Any]


def from_onnx(
    model: str | os.PathLike[str] | onnx.ModelProto,
    shape: Mapping[str, Sequence[Any]] | None = None,
    dtype: Any = "float32",
    opset: int | None = None,
    freeze_params: bool = True,
    convert_config: object = None,
    export_node_renamed_model_path: object = None,
) -> tuple[tvm.IRModule, Params]:
    """An ONNX model as it is in memory, or from a file.

    ``shape`` gives inputs a shape where the file leaves it open. Weights are constants of the module, and
    ``params`` is empty, unless ``freeze_params`` is False: then they are parameters of main and in
    ``params``, by the names of the initializers that they are, others as ``param_<n>``. Element types are
    those of the file, so ``dtype`` has no effect.

    ModelError for what cannot be imported; ValueError for another ``opset`` than the file's.
    """
    del dtype, convert_config, export_node_renamed_model_path
    shapes = {
        name: tuple(int(extent) for extent in given)
        for name, given in (shape or {}).items()
        # Unknown extents stay as the file has them.
        if all(isinstance(extent, int | np.integer) for extent in given)
    }
    if freeze_params and opset is None:
        return import_onnx(model, input_shapes=shapes), {}
    loaded = _loaded(model)
    version = opset_version(loaded)
    if opset is not None and version is not None and opset != version:
        raise ValueError(f"the model is of opset {version}; it cannot be read as opset {opset}")
    module = import_onnx(loaded, input_shapes=shapes)
    return (module, {}) if freeze_params else _thawed(module, _initializers(loaded))


def from_pytorch(
    script_module: Any,
    input_infos: Sequence[tuple[str, Any]],
    custom_convert_map: Mapping[str, Any] | None = None,
    default_dtype: Any = "float32",
    use_parser_friendly_name: bool = False,
    keep_quantized_weight: bool = False,
    export_renamed_c_graph_path: object = None,
    preserve_pytorch_scopes: bool = False,
) -> tuple[tvm.IRModule, Params]:
    """A PyTorch model: a module, a traced or scripted one, or what ``torch.export.export`` gave.

    ``input_infos`` has ``(name, shape)`` or ``(name, (shape, dtype))`` for each input, in order. Weights are
    parameters of main under the names that they have in the model, and in ``params``.

    ModelError for what cannot be exported or imported, and without the torch package.
    """
    del keep_quantized_weight, export_renamed_c_graph_path, preserve_pytorch_scopes
    try:
        import torch
    except ImportError:
        raise ModelError("PyTorch models need the torch package; install relay-layout[torch]") from None
    inputs = [_input_info(info, default_dtype) for info in input_infos]
    try:
        program = _exported(torch, script_module, inputs)
        module, _ = converted_program(
            torch, program, "the PyTorch model", keeps_parameters=True, further=custom_convert_map
        )
    except ModelError:
        raise
    except Exception as error:
        # Exporters and importers fail in more ways than can be told apart.
        raise ModelError(f"the PyTorch model cannot be imported: {reason(error)}") from None
    signature = program.graph_signature
    held = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    return _with_names(module, [name for name, _, _ in inputs], held, use_parser_friendly_name)


def from_tflite(
    model: Any,
    shape_dict: Mapping[str, Sequence[int]] | None = None,
    dtype_dict: Mapping[str, Any] | None = None,
) -> tuple[tvm.IRModule, Params]:
    """A TFLite model, as bytes or as the tflite package holds it; weights are constants.

    ModelError for what cannot be imported, and without the tflite package.
    """
    if isinstance(model, bytes | bytearray | memoryview):
        model = parsed(bytes(model), "the TFLite model")
    shapes = {name: tuple(shape) for name, shape in (shape_dict or {}).items()}
    dtypes = {name: dtype_text(dtype) for name, dtype in (dtype_dict or {}).items()}
    try:
        return converted(model, shapes, dtypes), {}
    except Exception as error:
        raise ModelError(f"the TFLite model cannot be imported: {reason(error)}") from None


def _loaded(model: Any) -> Any:
    """An ONNX model in memory; a file is read with its external data."""
    from relay_layout.frontend.onnx.files import read_model, require_onnx

    require_onnx()
    return read_model(model) if isinstance(model, str | os.PathLike) else model


def _initializers(model: Any) -> dict[tuple[str, tuple[int, ...], bytes], str]:
    """Names of initializers by their dtype, shape and values."""
    from relay_layout.frontend.onnx.graphs import read_tensors

    return {_key(array): name for name, array in read_tensors(model.graph, "model").items()}


def _key(array: np.ndarray) -> tuple[str, tuple[int, ...], bytes]:
    return str(array.dtype), array.shape, np.ascontiguousarray(array).tobytes()


def _thawed(
    module: tvm.IRModule, names: Mapping[tuple[str, tuple[int, ...], bytes], str]
) -> tuple[tvm.IRModule, Params]:
    """The module with its weights as parameters, and these by name."""
    main = main_function(module)
    inputs = input_names(main)
    parameters: dict[int, relax.Var] = {}
    params: Params = {}

    def thaw(value: Constant) -> relax.Expr:
        array = constant_array(value)
        is_weight = (
            array.ndim >= 1 and array.size >= 2 and (array.dtype.kind == "f" or array.dtype == np.int8)
        )
        if not is_weight:
            return value
        key = value.__chandle__()
        if key not in parameters:
            name = names.get(_key(array), "")
            if not name or name in params or name in inputs:
                name = f"param_{len(params)}"
            parameters[key] = relax.Var(name, relax.TensorType(shape_of(value), dtype_of(value)))
            params[name] = tvm.runtime.tensor(array)
        return parameters[key]

    body = structural_map(main.body, (Constant, thaw))
    function = with_body(main, body, parameters=[*main.params, *parameters.values()])
    return with_main(module, function.with_attr("input_names", [*inputs, *params])), params


def _input_info(info: Any, default_dtype: Any) -> tuple[str, tuple[int, ...], str]:
    """Name, shape and dtype of an input."""
    if not (isinstance(info, list | tuple) and len(info) == 2 and isinstance(info[0], str)):
        raise ModelError(f"input_infos: (name, shape) or (name, (shape, dtype)) is needed, not {info!r}")
    name, shape = info
    dtype = default_dtype
    if isinstance(shape, list | tuple) and len(shape) == 2 and isinstance(shape[0], list | tuple):
        shape, dtype = shape
    return name, tuple(int(extent) for extent in shape), _DTYPES.get(str(dtype), dtype_text(dtype))


_DTYPES = {"double": "float64", "long": "int64", "half": "float16"}
"""PyTorch's names of dtypes that TVM does not have."""


def _exported(torch: Any, model: Any, inputs: Sequence[tuple[str, tuple[int, ...], str]]) -> Any:
    """The model as ``torch.export`` has it, with the shapes given."""
    if isinstance(model, torch.export.ExportedProgram):
        return model
    if not isinstance(model, torch.nn.Module):
        raise ModelError(f"a PyTorch module is needed, not {type(model).__name__}")
    arguments = tuple(torch.zeros(shape, dtype=getattr(torch, dtype)) for _, shape, dtype in inputs)
    if isinstance(model, torch.jit.ScriptModule):
        try:
            from torch._export.converter import TS2EPConverter
        except ImportError:
            raise ModelError("this torch cannot export a scripted module; give the module itself") from None
        model = TS2EPConverter(model, arguments).convert().module()
        return torch.export.export(model, arguments)
    return torch.export.export(model, arguments)


def _with_names(
    module: tvm.IRModule, inputs: Sequence[str], held: Mapping[str, str], friendly: bool
) -> tuple[tvm.IRModule, Params]:
    """The module with the inputs' names as given and weights called as in the model, and the weights."""
    main = main_function(module)
    count = int(main.attrs["num_input"])
    if count != len(inputs):
        raise ModelError(f"the model has {count} inputs, but input_infos has {len(inputs)}")
    old = [str(parameter.name) for parameter in main.params]
    names = [*inputs, *(_shown(held.get(name, name), friendly) for name in old[count:])]
    if len(set(names)) != len(names):
        raise ModelError("input_infos: an input has the name of another, or of a weight")
    fresh = {
        parameter: relax.Var(name, parameter.ty) for name, parameter in zip(names, main.params, strict=True)
    }
    body = structural_map(main.body, (relax.Var, lambda variable: fresh.get(variable, variable)))
    function = relax.Function(list(fresh.values()), body, main.ret_ty, main.is_pure)
    held_values = main.attrs["params"] if "params" in dict(main.attrs) else []
    params = {
        name: tvm.runtime.tensor(as_array(value))
        for name, value in zip(names[count:], held_values, strict=True)
    }
    return with_main(module, function.with_attr("global_symbol", "main")), params


def _shown(name: str, friendly: bool) -> str:
    """A weight's name; with underscores where text could not hold it, if asked for."""
    return name.replace(".", "_") if friendly else name
