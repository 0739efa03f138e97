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
from relay_layout.frontend import from_torch as import_torch
from relay_layout.frontend.onnx.graphs import opset_version
from relay_layout.frontend.tflite.model import module_of, parsed
from relay_layout.graph.border import DECLARED, input_names
from relay_layout.ir import Constant, constant_array, dtype_of, shape_of, with_body, with_main
from relay_layout.relay.build_module import main_function
from relay_layout.relay.missing import refuser
from relay_layout.relay.ty import dtype_text

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

    ``shape`` gives inputs a shape, also where the file fixes another, such as one image at a time;
    ``relay.Any()`` leaves an extent open. Weights are constants of the module, and
    ``params`` is empty, unless ``freeze_params`` is False: then they are parameters of main and in
    ``params``, by the names of the initializers that they are, others as ``param_<n>``. Element types are
    those of the file, so ``dtype`` has no effect.

    ModelError for what cannot be imported; ValueError for another ``opset`` than the file's.
    """
    given = {name: tuple(map(_known, extents)) for name, extents in (shape or {}).items()}
    shapes = {
        name: [extent for extent in extents if extent is not None]
        for name, extents in given.items()
        if None not in extents
    }
    if not given and freeze_params and opset is None:
        return import_onnx(model), {}
    loaded = _declared_anew(_loaded(model), given)
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

    Modules that were quantized by ``torch.ao.quantization.convert``, and traces of them, have their weights
    as constants.

    ModelError for what cannot be exported or imported, and without the torch package.
    """
    if custom_convert_map:
        raise ModelError("custom_convert_map: converters are not TVM's; use operators that PyTorch exports")
    try:
        import torch
    except ImportError:
        raise ModelError("PyTorch models need the torch package; install relay-layout[torch]") from None
    from relay_layout.frontend.torch.program import exported

    inputs = [_input_info(info, default_dtype) for info in input_infos]
    if not isinstance(script_module, torch.nn.Module | torch.export.ExportedProgram):
        raise ModelError(f"a PyTorch module is needed, not {type(script_module).__name__}")
    is_program = isinstance(script_module, torch.export.ExportedProgram)
    examples = tuple(torch.zeros(shape, dtype=getattr(torch, dtype)) for _, shape, dtype in inputs)
    program = exported(torch, script_module, None if is_program else examples, None, "the PyTorch model")
    module = import_torch(program)
    weights = {tensor.data_ptr(): name for name, tensor in program.state_dict.items() if tensor.dim()}
    return _with_names(module, [name for name, _, _ in inputs], weights, use_parser_friendly_name)


def from_tflite(
    model: Any,
    shape_dict: Mapping[str, Sequence[int]] | None = None,
    dtype_dict: Mapping[str, Any] | None = None,
) -> tuple[tvm.IRModule, Params]:
    """A TFLite model, as bytes or as the tflite package holds it; weights are constants.

    ModelError for what cannot be imported, other shapes and dtypes than the file's, and without the tflite
    package.
    """
    if isinstance(model, bytes | bytearray | memoryview):
        model = parsed(bytes(model), _TFLITE)
    module = module_of(model, _TFLITE, {name: tuple(shape) for name, shape in (shape_dict or {}).items()})
    main = main_function(module)
    types = dict(zip(input_names(main), map(dtype_of, main.params), strict=True))
    for name, dtype in (dtype_dict or {}).items():
        if name in types and types[name] != dtype_text(dtype):
            raise ModelError(f"{_TFLITE}: input '{name}' is {types[name]}, not {dtype_text(dtype)}")
    return module, {}


def _known(extent: Any) -> int | None:
    """An extent; None for one that is left open."""
    return int(extent) if isinstance(extent, int | np.integer) else None


def _declared_anew(model: Any, shapes: Mapping[str, Sequence[int | None]]) -> Any:
    """An ONNX model whose inputs have these shapes, the same where it fixes no other ones.

    What it declares of results and of tensors within is left out then, which followed from its own shapes.
    """
    anew = {
        (name, axis): extent
        for name, dimensions in _dimensions(model)
        for axis, (dimension, extent) in enumerate(zip(dimensions, shapes.get(name, ()), strict=False))
        if len(dimensions) == len(shapes[name])
        and dimension.HasField("dim_value")
        and dimension.dim_value != extent
    }
    if not anew:
        return model
    changed = type(model)()
    changed.CopyFrom(model)
    inputs = dict(_dimensions(changed))
    for (name, axis), extent in anew.items():
        if extent is None:
            inputs[name][axis].dim_param = f"{name}_{axis}"
        else:
            inputs[name][axis].dim_value = extent
    del changed.graph.value_info[:]
    for output in changed.graph.output:
        output.type.tensor_type.ClearField("shape")
    return changed


def _dimensions(model: Any) -> list[tuple[str, Any]]:
    """The dimensions that an ONNX model declares of its inputs."""
    return [(value.name, value.type.tensor_type.shape.dim) for value in model.graph.input]


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


def _with_names(
    module: tvm.IRModule, inputs: Sequence[str], weights: Mapping[int, str], friendly: bool
) -> tuple[tvm.IRModule, Params]:
    """The module with the inputs' names as given, and the weights as parameters under their names.

    ``weights`` has names by where the tensors lie in memory, which the module's constants share.
    """
    main = main_function(module)
    if len(main.params) != len(inputs):
        raise ModelError(f"the model has {len(main.params)} inputs, but input_infos has {len(inputs)}")
    fresh: dict[Any, relax.Var] = {
        parameter: relax.Var(name, parameter.ty) for name, parameter in zip(inputs, main.params, strict=True)
    }
    held: dict[str, relax.Var] = {}
    params: Params = {}

    def weight(value: Constant) -> relax.Expr:
        array = constant_array(value)
        name = _shown(weights.get(array.ctypes.data, ""), friendly)
        if not name:
            return value
        if name not in held:
            held[name] = relax.Var(name, relax.TensorType(shape_of(value), dtype_of(value)))
            params[name] = tvm.runtime.tensor(array)
        return held[name]

    body = structural_map(main.body, (relax.Var, lambda variable: fresh.get(variable, variable)))
    body = structural_map(body, (Constant, weight))
    names = [*inputs, *held]
    if len(set(names)) != len(names):
        raise ModelError("input_infos: an input has the name of another, or of a weight")
    # Scripts give plain arrays, and read plain ones.
    for attribute in DECLARED:
        main = main.without_attr(attribute)
    function = with_body(main, body, parameters=[*fresh.values(), *held.values()])
    return with_main(module, function.with_attr("input_names", names)), params


def _shown(name: str, friendly: bool) -> str:
    """A weight's name; with underscores where text could not hold it, if asked for."""
    return name.replace(".", "_") if friendly else name


_TFLITE = "the TFLite model"
