"""Traced modules of quantized integers as modules of PT2E's operations, which ``torch.export`` takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from relay_layout.errors import ModelError
from relay_layout.frontend.torch.quantized_cells import RECURRENT, Cell

_DTYPES = {12: torch.int8, 13: torch.uint8, 14: torch.int32}
"""PyTorch's numbers of dtypes, as scripts hold them."""

_KEEPING = frozenset(
    [
        "adaptive_avg_pool2d",
        "avg_pool2d",
        "cat",
        "channel_shuffle",
        "chunk",
        "clamp",
        "constant_pad_nd",
        "contiguous",
        "dropout",
        "flatten",
        "hardtanh",
        "hardtanh_",
        "max_pool1d",
        "max_pool2d",
        "mean",
        "narrow",
        "permute",
        "pixel_shuffle",
        "relu",
        "relu_",
        "relu6",
        "reshape",
        "select",
        "slice",
        "squeeze",
        "transpose",
        "unsqueeze",
        "upsample_bilinear2d",
        "upsample_nearest2d",
        "view",
    ]
)
"""Operations whose results have the scale of what they read."""

_OWN_SCALE = {"hardsigmoid": (1 / 256, 0), "sigmoid": (1 / 256, 0), "tanh": (2 / 256, 128)}
"""Operations whose results have the scale and zero point that their range asks for."""


@dataclass(frozen=True)
class _Quantized:
    """Integers that stand for (value - zero_point) * scale."""

    values: torch.Tensor
    scale: float
    zero_point: int

    def real(self) -> torch.Tensor:
        """The real numbers."""
        low, high = _limits(self.values.dtype)
        operation = torch.ops.quantized_decomposed.dequantize_per_tensor
        found: torch.Tensor = operation(
            self.values, self.scale, self.zero_point, low, high, self.values.dtype
        )
        return found

    def like(self, real: torch.Tensor) -> _Quantized:
        """Real numbers as integers of the same scale."""
        return _quantized(real, self.scale, self.zero_point, self.values.dtype)


class QuantizedScript(torch.nn.Module):
    """The same as a frozen script, an operation at a time.

    ModelError for operations that quantized tensors are not known to have, and for branches and loops.
    """

    def __init__(self, script: Any) -> None:
        super().__init__()
        self.graph = script.graph
        self._layers: dict[str, _Layer | Cell] = {}
        for node in self.graph.nodes():
            if any(node.blocks()):
                raise ModelError(
                    f"'{node.kind()}' of a quantized script is not supported; give a trace: "
                    "torch.jit.trace(model, example)"
                )
            if node.kind() == "prim::Constant" and not node.output().type().isSubtypeOf(_none()):
                held = node.output().toIValue()
                if isinstance(held, torch.ScriptObject):
                    name = node.output().debugName()
                    layer = Cell(held) if held._type().name() == "CellParamsBase" else _Layer(held)
                    self._layers[name] = layer
                    self.add_module(f"layer_{len(self._layers)}", layer)

    def forward(self, *inputs: torch.Tensor) -> Any:
        """What the script returns, quantized results as integers."""
        names = [value.debugName() for value in self.graph.inputs()][1:]
        values: dict[str, Any] = dict(zip(names, inputs, strict=True))
        for node in self.graph.nodes():
            results = [output.debugName() for output in node.outputs()]
            found = self._run(node, [values.get(value.debugName()) for value in node.inputs()])
            values.update(zip(results, found, strict=True) if len(results) != 1 else [(results[0], found)])
        outputs = [values[value.debugName()] for value in self.graph.outputs()]
        given = tuple(_integers(output) for output in outputs)
        return given if len(given) > 1 else given[0]

    def _run(self, node: Any, given: list[Any]) -> Any:
        kind: str = node.kind()
        space, _, name = kind.partition("::")
        if kind == "prim::Constant":
            held = self._layers.get(node.output().debugName())
            return held if held is not None else node.output().toIValue()
        if space == "prim" and name in _STRUCTURES:
            return _STRUCTURES[name](given)
        if space == "quantized" and name in _OPERATIONS:
            return _OPERATIONS[name](*given)
        if kind == "aten::quantize_per_tensor":
            data, scale, zero_point, dtype = given
            return _quantized(data, float(scale), int(zero_point), _DTYPES[int(dtype)])
        if kind == "aten::dequantize":
            return given[0].real() if isinstance(given[0], _Quantized) else given[0]
        if space == "aten" and name in RECURRENT:
            return RECURRENT[name](*given)
        if space == "aten":
            return _plain(name, *_arguments(node, given))
        raise ModelError(f"'{kind}' of a quantized script is not supported")


class _Layer(torch.nn.Module):
    """The weights of a convolution or product, with its geometry."""

    def __init__(self, packed: Any) -> None:
        super().__init__()
        kind = packed._type().name()
        self.rank = next((rank for rank in (2, 3) if f"Conv{rank}d" in kind), 0)
        self.transposed = False
        operations = torch.ops.quantized
        if self.rank:
            ask = {
                what: getattr(operations, f"conv{self.rank}d_{what}")(packed)
                for what in ("stride", "padding", "dilation", "groups", "transpose")
            }
            self.stride, self.padding, self.dilation = (
                [int(number) for number in ask[what]] for what in ("stride", "padding", "dilation")
            )
            self.groups, self.transposed = int(ask["groups"]), bool(ask["transpose"])
            weight, bias = getattr(operations, f"conv{self.rank}d_unpack")(packed)
        else:
            weight, bias = operations.linear_unpack(packed)
        self.is_real = not weight.is_quantized
        self.register_buffer("weight", weight.detach().clone() if self.is_real else weight.int_repr())
        self.register_buffer("bias", None if bias is None else bias.detach().clone())
        self.axis: int | None = None
        if self.is_real:
            return
        if weight.qscheme() in (torch.per_channel_affine, torch.per_channel_symmetric):
            self.axis = int(weight.q_per_channel_axis())
            self.register_buffer("scales", weight.q_per_channel_scales().float())
            self.register_buffer("zero_points", weight.q_per_channel_zero_points())
        else:
            self.scale, self.zero_point = float(weight.q_scale()), int(weight.q_zero_point())

    def real_weight(self) -> torch.Tensor:
        """The weights as real numbers."""
        weight = self.weight
        assert isinstance(weight, torch.Tensor)
        if self.is_real:
            return weight
        if self.axis is None:
            return _Quantized(weight, self.scale, self.zero_point).real()
        low, high = _limits(weight.dtype)
        operation = torch.ops.quantized_decomposed.dequantize_per_channel
        found: torch.Tensor = operation(
            weight, self.scales, self.zero_points, self.axis, low, high, weight.dtype
        )
        return found

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        """The convolution, or product, of real numbers."""
        weight = self.real_weight()
        bias: Any = self.bias
        if not self.rank:
            return functional.linear(data, weight, bias)
        if self.transposed:
            raise ModelError("transposed convolutions of quantized scripts are not supported")
        # Convolutions along one axis are packed as those of images of one row.
        flat = data.dim() == self.rank + 1
        convolve = functional.conv2d if self.rank == 2 else functional.conv3d
        result = convolve(
            data.unsqueeze(-2) if flat else data,
            weight,
            bias,
            self.stride,
            self.padding,
            self.dilation,
            self.groups,
        )
        return result.squeeze(-2) if flat else result


def _layer(activation: Callable[[torch.Tensor], torch.Tensor] | None = None) -> Callable[..., _Quantized]:
    def run(data: _Quantized, layer: _Layer, scale: float, zero_point: int) -> _Quantized:
        result = layer(data.real())
        return _quantized(activation(result) if activation else result, scale, zero_point, torch.uint8)

    return run


def _dynamic(activation: Callable[[torch.Tensor], torch.Tensor] | None = None) -> Callable[..., torch.Tensor]:
    """A product of real numbers that are rounded to bytes over their range, which may have seven bits."""

    def run(data: torch.Tensor, layer: _Layer, reduced: bool = False) -> torch.Tensor:
        bounds, least = (0, 127 if reduced else 255), torch.finfo(torch.float32).eps
        operations = torch.ops.quantized_decomposed
        chosen = operations.choose_qparams.tensor(data, *bounds, least, torch.uint8)
        integers = operations.quantize_per_tensor.tensor(data, *chosen, *bounds, torch.uint8)
        result = layer(operations.dequantize_per_tensor.tensor(integers, *chosen, *bounds, torch.uint8))
        return activation(result) if activation else result

    return run


def _of_halves(
    activation: Callable[[torch.Tensor], torch.Tensor] | None = None,
) -> Callable[..., torch.Tensor]:
    def run(data: torch.Tensor, layer: _Layer) -> torch.Tensor:
        return activation(layer(data)) if activation else layer(data)

    return run


def _both(
    operation: Callable[[Any, Any], torch.Tensor],
    activation: Callable[[torch.Tensor], torch.Tensor] | None = None,
) -> Callable[..., _Quantized]:
    def run(left: _Quantized, right: _Quantized, scale: float, zero_point: int) -> _Quantized:
        result = operation(left.real(), right.real())
        result = activation(result) if activation else result
        return _quantized(result, scale, zero_point, left.values.dtype)

    return run


def _one(operation: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., _Quantized]:
    def run(data: _Quantized, scale: float, zero_point: int) -> _Quantized:
        return _quantized(operation(data.real()), scale, zero_point, data.values.dtype)

    return run


def _batch_norm(
    activation: Callable[[torch.Tensor], torch.Tensor] | None = None,
) -> Callable[..., _Quantized]:
    def run(data: _Quantized, weight: Any, bias: Any, mean: Any, variance: Any, *rest: Any) -> _Quantized:
        epsilon, scale, zero_point = rest
        result = functional.batch_norm(data.real(), mean, variance, weight, bias, eps=epsilon)
        result = activation(result) if activation else result
        return _quantized(result, scale, zero_point, data.values.dtype)

    return run


def _concatenated(parts: Sequence[_Quantized], axis: int, scale: float, zero_point: int) -> _Quantized:
    joined = torch.cat([part.real() for part in parts], axis)
    return _quantized(joined, scale, zero_point, parts[0].values.dtype)


def _leaky_relu(data: _Quantized, slope: float, in_place: bool, scale: float, zero_point: int) -> _Quantized:
    real = functional.leaky_relu(data.real(), slope)
    return _quantized(real, scale, zero_point, data.values.dtype)


_OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "add": _both(torch.add),
    "add_relu": _both(torch.add, torch.relu),
    **{f"batch_norm{places}": _batch_norm() for places in ("", "1d", "2d", "3d")},
    **{f"batch_norm{places}_relu": _batch_norm(torch.relu) for places in ("", "1d", "2d", "3d")},
    "cat": _concatenated,
    "conv1d": _layer(),
    "conv1d_relu": _layer(torch.relu),
    "conv2d": _layer(),
    "conv2d_relu": _layer(torch.relu),
    "conv3d": _layer(),
    "conv3d_relu": _layer(torch.relu),
    "hardswish": _one(functional.hardswish),
    "leaky_relu": _leaky_relu,
    "linear": _layer(),
    "linear_dynamic": _dynamic(),
    "linear_dynamic_fp16": _of_halves(),
    "linear_relu": _layer(torch.relu),
    "linear_relu_dynamic": _dynamic(torch.relu),
    "linear_relu_dynamic_fp16": _of_halves(torch.relu),
    "mul": _both(torch.mul),
    "mul_relu": _both(torch.mul, torch.relu),
    "sigmoid": _one(torch.sigmoid),
}

_STRUCTURES: Mapping[str, Callable[[list[Any]], Any]] = {
    "ListConstruct": list,
    "ListUnpack": lambda given: given[0],
    "NumToTensor": lambda given: given[0],
    "TupleConstruct": tuple,
    "TupleUnpack": lambda given: given[0],
}


def _arguments(node: Any, given: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    """An operation's arguments by place, and those that it only takes by name."""
    declared = torch._C.parse_schema(node.schema()).arguments
    named = {
        argument.name: value
        for argument, value in zip(declared, given, strict=False)
        if argument.kwarg_only and value is not None
    }
    return given[: sum(not argument.kwarg_only for argument in declared)], named


def _plain(name: str, given: list[Any], named: Mapping[str, Any]) -> Any:
    """One of PyTorch's own operations, on quantized tensors where it is known what scale the result has."""
    if name in ("Int", "ScalarImplicit"):
        return given[0]
    if name == "_convolution":
        # What follows says which library computes it.
        name, given = "convolution", given[:9]
    first = given[0][0] if isinstance(given[0], list) and given[0] else given[0]
    if name == "size" or not isinstance(first, _Quantized):
        return getattr(torch.ops.aten, name)(*(_integers(value) for value in given), **named)
    if name not in _KEEPING and name not in _OWN_SCALE:
        raise ModelError(f"'aten::{name}' of quantized tensors is not supported")
    result = getattr(torch.ops.aten, name)(*map(_real, given), **named)
    if name in _OWN_SCALE:
        return _quantized(result, *_OWN_SCALE[name], first.values.dtype)
    return [first.like(part) for part in result] if isinstance(result, list | tuple) else first.like(result)


def _real(value: Any) -> Any:
    if isinstance(value, list):
        return [_real(entry) for entry in value]
    return value.real() if isinstance(value, _Quantized) else value


def _integers(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(_integers(entry) for entry in value)
    return value.values if isinstance(value, _Quantized) else value


def _quantized(real: torch.Tensor, scale: float, zero_point: int, dtype: torch.dtype) -> _Quantized:
    low, high = _limits(dtype)
    operation = torch.ops.quantized_decomposed.quantize_per_tensor
    return _Quantized(operation(real, scale, zero_point, low, high, dtype), scale, zero_point)


def _limits(dtype: torch.dtype) -> tuple[int, int]:
    found = torch.iinfo(dtype)
    return int(found.min), int(found.max)


def _none() -> Any:
    return torch._C.NoneType.get()
