"""Quantized tensors of PyTorch programs: the operators of ``torch.ops.quantized_decomposed``.

These are what PT2E quantization leaves in an exported program, torchao's and torch's own. Scales and zero
points are numbers, or vectors along an axis, or computed from the tensor, as dynamic quantization does.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from torch.fx.node import map_arg
from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.frontend.torch.node import Converter, dtype_name
from relay_layout.ir import Expression, constant, dtype_of, shape_of

_DTYPES = ("int8", "uint8", "int16", "uint16")
_DEQUANTIZED = (*_DTYPES, "int32")


def register() -> None:
    """Make the operators known to torch, which reads a file that holds them only then."""
    # A torch that has given them away lacks the module; who has them has imported what brings them.
    with suppress(ImportError):
        import_module("torch.ao.quantization.fx._decomposed")


def converters(program: Any) -> dict[str, Converter]:
    """For TVM's ``from_exported_program`` of this program, as its ``custom_convert_map``."""
    return _CONVERTERS | dict.fromkeys(_QUANTIZE, partial(_quantize, weights=_quantized_weights(program)))


def _quantized_weights(program: Any) -> dict[Any, np.ndarray]:
    """The results of the nodes that quantize weights, as PyTorch computes them."""
    signature = program.graph_signature
    tensors = {**program.constants, **program.state_dict}
    held = {
        name: tensors[target]
        for targets in (
            signature.inputs_to_parameters,
            signature.inputs_to_buffers,
            signature.inputs_to_lifted_tensor_constants,
        )
        for name, target in targets.items()
    }
    return {
        node: node.target(*map_arg(node.args, lambda known: held[known.name])).detach().cpu().numpy()
        for node in program.graph.nodes
        if getattr(node.target, "__name__", "") in _QUANTIZE
        and not node.kwargs
        and all(operand.name in held for operand in node.all_input_nodes)
    }


def _quantize(node: Any, importer: Any, *, weights: Mapping[Any, np.ndarray]) -> Expression:
    if node in weights:
        return constant(weights[node])
    found = _arguments(node)
    dtype = _dtype(node, found["dtype"], _DTYPES)
    data, emit = importer.env[node.args[0]], importer.block_builder.emit
    if dtype_of(data) != "float32":
        data = emit(relax.op.astype(data, "float32"))
    limits, bounds = np.iinfo(dtype), (int(found["quant_min"]), int(found["quant_max"]))
    narrow = bounds != (limits.min, limits.max)
    scale, zero_point = found["scale"], found["zero_point"]
    by_numbers = isinstance(scale, float) and isinstance(zero_point, int)
    if narrow and by_numbers:
        # Bounds of the real number, which join those of an activation before it.
        low, high = ((bound - zero_point) * scale for bound in bounds)
        data = emit(relax.op.clip(data, low, high))
    result = emit(relax.op.quantize(data, *_parameters(found, dtype, importer), int(found["axis"]), dtype))
    return emit(relax.op.clip(result, *bounds)) if narrow and not by_numbers else result


def _dequantize(node: Any, importer: Any) -> Expression:
    found = _arguments(node)
    dtype = _dtype(node, found["dtype"], _DEQUANTIZED)
    data, emit = importer.env[node.args[0]], importer.block_builder.emit
    operands = _parameters(found, dtype, importer)
    result = emit(relax.op.dequantize(data, *operands, int(found["axis"]), "float32"))
    wanted = importer._convert_data_type(node.meta["val"].dtype, importer.env)
    return result if wanted == "float32" else emit(relax.op.astype(result, wanted))


def _choose(node: Any, importer: Any) -> Expression:
    """Scale and zero point for the range of a tensor, which includes zero."""
    data, emit = importer.env[node.args[0]], importer.block_builder.emit
    low, high, smallest = int(node.args[1]), int(node.args[2]), float(node.args[3])
    zero = constant(np.array(0, "float32"))
    if dtype_of(data) != "float32":
        data = emit(relax.op.astype(data, "float32"))
    least = emit(relax.op.minimum(emit(relax.op.min(data)), zero))
    greatest = emit(relax.op.maximum(emit(relax.op.max(data)), zero))
    if "symmetric" in node.target.__name__:
        greatest = emit(relax.op.maximum(emit(relax.op.negative(least)), greatest))
        scale = _over(greatest, (high - low) / 2, smallest, emit)
        middle = 128 if str(node.args[4]) == "torch.uint8" else 0
        zero_point: Expression = constant(np.array([middle], "int64"))
    else:
        scale = _over(emit(relax.op.subtract(greatest, least)), high - low, smallest, emit)
        steps = emit(relax.op.round(emit(relax.op.divide(least, scale))))
        held = emit(
            relax.op.clip(emit(relax.op.subtract(constant(np.array(low, "float32")), steps)), low, high)
        )
        zero_point = emit(relax.op.reshape(emit(relax.op.astype(held, "int64")), [1]))
    scale = emit(relax.op.reshape(emit(relax.op.astype(scale, "float64")), [1]))
    return relax.Tuple([scale, zero_point])


def _over(extent: Expression, steps: float, smallest: float, emit: Callable[..., Expression]) -> Expression:
    scale = emit(relax.op.divide(extent, constant(np.array(steps, "float32"))))
    return emit(relax.op.maximum(scale, constant(np.array(smallest, "float32"))))


_PER_TENSOR = ("input", "scale", "zero_point", "quant_min", "quant_max", "dtype")
_PER_CHANNEL = ("input", "scale", "zero_point", "axis", "quant_min", "quant_max", "dtype")


def _arguments(node: Any) -> Mapping[str, Any]:
    names = _PER_CHANNEL if "per_channel" in node.target.__name__ else _PER_TENSOR
    plural = {"scales": "scale", "zero_points": "zero_point"}
    given = {plural.get(name, name): value for name, value in node.kwargs.items()}
    return {"axis": 0, **dict(zip(names, node.args, strict=False)), **given}


def _parameters(found: Mapping[str, Any], dtype: str, importer: Any) -> list[Expression]:
    """Scale and zero point in the dtypes that Relax has them in."""
    operands = []
    for name, wanted in (("scale", "float32"), ("zero_point", dtype)):
        value = found[name]
        if value is None or isinstance(value, int | float):
            operands.append(constant(np.array(value or 0, wanted)))
            continue
        value = importer.env[value]
        if shape_of(value) == (1,):
            value = importer.block_builder.emit(relax.op.squeeze(value, [0]))
        if dtype_of(value) != wanted:
            value = importer.block_builder.emit(relax.op.astype(value, wanted))
        operands.append(value)
    return operands


def _dtype(node: Any, dtype: Any, allowed: tuple[str, ...]) -> str:
    name = dtype_name(dtype)
    if name not in allowed:
        raise ModelError(f"node '{node.name}': {name} is not supported; {', '.join(allowed)} are")
    return name


_QUANTIZE = ("quantize_per_tensor.default", "quantize_per_tensor.tensor", "quantize_per_channel.default")

_CONVERTERS: dict[str, Converter] = {
    **dict.fromkeys((f"de{name}" for name in _QUANTIZE), _dequantize),
    "choose_qparams.tensor": _choose,
    "choose_qparams_symmetric.tensor": _choose,
}
