"""ONNX operators as torch functions: one table row per operator.

A row maps an operator's name to a builder. The builder reads a node's attributes once and returns the
function that runs every time; that function takes the node's input tensors (``None`` for an omitted
one) and returns one tensor, or a tuple for an operator with several outputs.

Inputs that only steer an operator (a shape, axes, pads) are read as integers through
:meth:`Node.integers`, at build time where the model stores them as constants.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as functional
from torch import Tensor

from relay_layout.errors import ModelError

Operation = Callable[..., Any]
"""Takes a node's input tensors in order; returns a tensor or a tuple of tensors."""

Builder = Callable[["Node"], Operation]


@dataclass(frozen=True)
class Node:
    """What a builder may know of one ONNX node."""

    op_type: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    constants: Mapping[str, np.ndarray[Any, Any]]
    opset: int

    def constant(self, index: int) -> np.ndarray[Any, Any] | None:
        """The value of input `index` where it is stored in the model, else None."""
        return self.constants.get(self.inputs[index]) if self.has_input(index) else None

    def has_input(self, index: int) -> bool:
        """Whether input `index` is given; ONNX writes an omitted one as an empty name."""
        return index < len(self.inputs) and bool(self.inputs[index])

    def integers(self, index: int, tensors: Sequence[Tensor | None]) -> list[int]:
        """Input `index` as integers: from the model if stored there, else from this run's tensors."""
        stored = self.constant(index)
        if stored is not None:
            return [int(value) for value in stored.reshape(-1)]
        tensor = tensors[index]
        assert tensor is not None
        return [int(value) for value in tensor.reshape(-1).tolist()]

    def attribute_or_integers(
        self, attribute: str, index: int, tensors: Sequence[Tensor | None]
    ) -> list[int] | None:
        """A list that older opsets keep in an attribute and newer ones in an input; None if in neither."""
        if attribute in self.attributes:
            return list(self.attributes[attribute])
        return self.integers(index, tensors) if self.has_input(index) else None

    def unsupported(self, what: str) -> ModelError:
        """The error for a node that this table cannot run."""
        return ModelError(
            f"node '{self.name or self.outputs[0]}': {what} is not covered by the torch converter of bench"
        )


# Windows: convolution and pooling -------------------------------------------------------------------


def _same_padding(size: int, window: int, stride: int, more_at_end: bool) -> tuple[int, int]:
    """Padding before and after one dimension for ONNX's auto_pad SAME_UPPER or SAME_LOWER."""
    total = max((math.ceil(size / stride) - 1) * stride + window - size, 0)
    small, large = total // 2, total - total // 2
    return (small, large) if more_at_end else (large, small)


@dataclass(frozen=True)
class Window:
    """A sliding window over the spatial dimensions, as Conv and the pooling operators describe it."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    auto_pad: str
    pads: tuple[int, ...]
    ceil_mode: bool

    @classmethod
    def of(cls, node: Node, kernel: Sequence[int]) -> Window:
        rank = len(kernel)
        attributes = node.attributes
        return cls(
            kernel=tuple(kernel),
            strides=tuple(attributes.get("strides", (1,) * rank)),
            dilations=tuple(attributes.get("dilations", (1,) * rank)),
            auto_pad=attributes.get("auto_pad", "NOTSET"),
            pads=tuple(attributes.get("pads", (0,) * (2 * rank))),
            ceil_mode=bool(attributes.get("ceil_mode", 0)),
        )

    @property
    def rank(self) -> int:
        return len(self.kernel)

    def extent(self, axis: int) -> int:
        """Elements that the dilated window spans along a spatial axis."""
        return (self.kernel[axis] - 1) * self.dilations[axis] + 1

    def padding(self, sizes: Sequence[int]) -> list[tuple[int, int]]:
        """Padding (before, after) of each spatial axis for an input of these spatial sizes."""
        if self.auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            return [
                _same_padding(size, self.extent(axis), self.strides[axis], self.auto_pad == "SAME_UPPER")
                for axis, size in enumerate(sizes)
            ]
        if self.auto_pad == "VALID":
            return [(0, 0)] * self.rank
        return list(zip(self.pads[: self.rank], self.pads[self.rank :], strict=True))

    def padding_up_to_last_window(self, sizes: Sequence[int]) -> list[tuple[int, int]]:
        """Like `padding`, with the end stretched or cropped to where the last window of ceil_mode ends."""
        result = []
        for axis, (size, (before, after)) in enumerate(zip(sizes, self.padding(sizes), strict=True)):
            stride, extent = self.strides[axis], self.extent(axis)
            steps = (size + before + after - extent) / stride
            count = (math.ceil(steps) if self.ceil_mode else math.floor(steps)) + 1
            if self.ceil_mode and (count - 1) * stride >= size + before:
                count -= 1  # a window that would start in the padding at the end is left out
            result.append((before, (count - 1) * stride + extent - size - before))
        return result


def _pad_argument(padding: Sequence[tuple[int, int]]) -> list[int]:
    """Padding in torch's order: last axis first."""
    return [amount for pair in reversed(padding) for amount in pair]


def _symmetric(padding: Sequence[tuple[int, int]]) -> bool:
    return all(before == after for before, after in padding)


_CONVOLUTIONS: dict[int, Callable[..., Tensor]] = {
    1: functional.conv1d,
    2: functional.conv2d,
    3: functional.conv3d,
}
_TRANSPOSED_CONVOLUTIONS: dict[int, Callable[..., Tensor]] = {
    1: functional.conv_transpose1d,
    2: functional.conv_transpose2d,
    3: functional.conv_transpose3d,
}
_MAX_POOLS: dict[int, Callable[..., Tensor]] = {
    1: functional.max_pool1d,
    2: functional.max_pool2d,
    3: functional.max_pool3d,
}
_AVERAGE_POOLS: dict[int, Callable[..., Tensor]] = {
    1: functional.avg_pool1d,
    2: functional.avg_pool2d,
    3: functional.avg_pool3d,
}


def _convolution(node: Node) -> Operation:
    group = int(node.attributes.get("group", 1))

    def run(data: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        window = Window.of(node, weight.shape[2:])
        padding = window.padding(data.shape[2:])
        if not _symmetric(padding):
            data = functional.pad(data, _pad_argument(padding))
            padding = [(0, 0)] * window.rank
        return _CONVOLUTIONS[window.rank](
            data, weight, bias, window.strides, [before for before, _ in padding], window.dilations, group
        )

    return run


def _transposed_convolution(node: Node) -> Operation:
    group = int(node.attributes.get("group", 1))
    if node.attributes.get("auto_pad", "NOTSET") != "NOTSET" or "output_shape" in node.attributes:
        raise node.unsupported("ConvTranspose with auto_pad or output_shape")

    def run(data: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        window = Window.of(node, weight.shape[2:])
        padding = window.padding(data.shape[2:])
        if not _symmetric(padding):
            raise node.unsupported("ConvTranspose with different padding at the two ends")
        extra = list(node.attributes.get("output_padding", (0,) * window.rank))
        before = [amount for amount, _ in padding]
        return _TRANSPOSED_CONVOLUTIONS[window.rank](
            data, weight, bias, window.strides, before, extra, group, window.dilations
        )

    return run


def _max_pool(node: Node) -> Operation:
    if len(node.outputs) > 1:
        raise node.unsupported("MaxPool with its Indices output")
    window = Window.of(node, node.attributes["kernel_shape"])

    def run(data: Tensor) -> Tensor:
        padding = window.padding(data.shape[2:])
        fits = all(2 * before <= kernel for (before, _), kernel in zip(padding, window.kernel, strict=True))
        if not (_symmetric(padding) and fits) or window.ceil_mode:
            lowest = -math.inf if data.is_floating_point() else torch.iinfo(data.dtype).min
            stretched = window.padding_up_to_last_window(data.shape[2:])
            data = functional.pad(data, _pad_argument(stretched), value=lowest)
            padding = [(0, 0)] * window.rank
        before = [amount for amount, _ in padding]
        return _MAX_POOLS[window.rank](data, window.kernel, window.strides, before, window.dilations)

    return run


def _average_pool(node: Node) -> Operation:
    window = Window.of(node, node.attributes["kernel_shape"])
    count_padding = bool(node.attributes.get("count_include_pad", 0))
    pool = _AVERAGE_POOLS[window.rank]
    if any(dilation != 1 for dilation in window.dilations):
        raise node.unsupported("AveragePool with dilation")

    def run(data: Tensor) -> Tensor:
        sizes = data.shape[2:]
        padding = window.padding(sizes)
        fits = all(2 * before <= kernel for (before, _), kernel in zip(padding, window.kernel, strict=True))
        if _symmetric(padding) and fits:
            before = [amount for amount, _ in padding]
            return pool(data, window.kernel, window.strides, before, window.ceil_mode, count_padding)
        # torch cannot pad the two ends differently: average zeros too, then divide by the share that counts.
        stretched = window.padding_up_to_last_window(sizes)
        counted = torch.ones((1, 1, *sizes), dtype=data.dtype)
        if count_padding:
            counted = functional.pad(counted, _pad_argument(padding), value=1.0)
            beyond = [(0, new[1] - old[1]) for new, old in zip(stretched, padding, strict=True)]
            counted = functional.pad(counted, _pad_argument(beyond))
        else:
            counted = functional.pad(counted, _pad_argument(stretched))
        padded = functional.pad(data, _pad_argument(stretched))
        return pool(padded, window.kernel, window.strides) / pool(counted, window.kernel, window.strides)

    return run


def _global_pool(reduce: Callable[[Tensor, list[int]], Tensor]) -> Builder:
    return lambda node: lambda data: reduce(data, list(range(2, data.dim())))


# Normalisation ---------------------------------------------------------------------------------------


def _batch_normalization(node: Node) -> Operation:
    if node.attributes.get("training_mode", 0):
        raise node.unsupported("BatchNormalization in training mode")
    epsilon = float(node.attributes.get("epsilon", 1e-5))

    def run(data: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return functional.batch_norm(data, mean, variance, scale, bias, False, 0.0, epsilon)

    return run


def _instance_normalization(node: Node) -> Operation:
    epsilon = float(node.attributes.get("epsilon", 1e-5))
    return lambda data, scale, bias: functional.instance_norm(data, None, None, scale, bias, eps=epsilon)


def _layer_normalization(node: Node) -> Operation:
    if len(node.outputs) > 1:
        raise node.unsupported("LayerNormalization with its Mean or InvStdDev output")
    axis = int(node.attributes.get("axis", -1))
    epsilon = float(node.attributes.get("epsilon", 1e-5))

    def run(data: Tensor, scale: Tensor, bias: Tensor | None = None) -> Tensor:
        normalized = list(data.shape[axis:] if axis < 0 else data.shape[axis - data.dim() :])
        return functional.layer_norm(data, normalized, scale, bias, epsilon)

    return run


def _local_response_normalization(node: Node) -> Operation:
    attributes = node.attributes
    size = int(attributes["size"])
    alpha, beta = float(attributes.get("alpha", 1e-4)), float(attributes.get("beta", 0.75))
    bias = float(attributes.get("bias", 1.0))
    return lambda data: functional.local_response_norm(data, size, alpha, beta, bias)


# Element by element ----------------------------------------------------------------------------------


def _plain(function: Callable[..., Any]) -> Builder:
    """An operator without attributes that torch has under another name."""
    return lambda node: function


def _folded(function: Callable[[Tensor, Tensor], Tensor]) -> Builder:
    """An operator over any number of inputs, applied from left to right."""

    def build(node: Node) -> Operation:
        def run(first: Tensor, *others: Tensor) -> Tensor:
            for other in others:
                first = function(first, other)
            return first

        return run

    return build


def _divide(node: Node) -> Operation:
    def run(left: Tensor, right: Tensor) -> Tensor:
        # ONNX truncates integer quotients towards zero.
        rounding = None if left.is_floating_point() else "trunc"
        return torch.div(left, right, rounding_mode=rounding)

    return run


def _clip(node: Node) -> Operation:
    if "min" in node.attributes or "max" in node.attributes:
        low, high = node.attributes.get("min"), node.attributes.get("max")
        return lambda data: torch.clamp(data, low, high)
    limits: list[float | None] = []
    for index in (1, 2):
        stored = node.constant(index)
        if node.has_input(index) and stored is None:
            return lambda data, low=None, high=None: torch.clamp(data, low, high)
        limits.append(None if stored is None else stored.item())
    if limits == [None, None]:
        return lambda data, *_: data
    if limits == [0, 6]:
        return lambda data, *_: functional.relu6(data)
    return lambda data, *_: torch.clamp(data, *limits)


def _leaky_relu(node: Node) -> Operation:
    alpha = float(node.attributes.get("alpha", 0.01))
    return lambda data: functional.leaky_relu(data, alpha)


def _elu(node: Node) -> Operation:
    alpha = float(node.attributes.get("alpha", 1.0))
    return lambda data: functional.elu(data, alpha)


def _hard_sigmoid(node: Node) -> Operation:
    alpha, beta = float(node.attributes.get("alpha", 0.2)), float(node.attributes.get("beta", 0.5))
    if math.isclose(alpha, 1 / 6, rel_tol=1e-6) and beta == 0.5:
        return functional.hardsigmoid
    return lambda data: torch.clamp(alpha * data + beta, 0.0, 1.0)


def _gelu(node: Node) -> Operation:
    approximate = node.attributes.get("approximate", "none")
    return lambda data: functional.gelu(data, approximate=approximate)


def _softmax(node: Node) -> Operation:
    if node.opset >= 13:
        axis = int(node.attributes.get("axis", -1))
        return lambda data: torch.softmax(data, axis)
    axis = int(node.attributes.get("axis", 1))

    def over_all_trailing_axes(data: Tensor) -> Tensor:
        return torch.softmax(data.flatten(axis), -1).reshape(data.shape)

    return over_all_trailing_axes


_DTYPES = {
    1: torch.float32,
    2: torch.uint8,
    3: torch.int8,
    5: torch.int16,
    6: torch.int32,
    7: torch.int64,
    9: torch.bool,
    10: torch.float16,
    11: torch.float64,
    16: torch.bfloat16,
}


def _cast(node: Node) -> Operation:
    if node.attributes["to"] not in _DTYPES:
        raise node.unsupported(f"Cast to ONNX data type {node.attributes['to']}")
    dtype = _DTYPES[node.attributes["to"]]
    return lambda data: data.to(dtype)


# Matrix products -------------------------------------------------------------------------------------


def _gemm(node: Node) -> Operation:
    alpha, beta = float(node.attributes.get("alpha", 1.0)), float(node.attributes.get("beta", 1.0))
    transpose_left = bool(node.attributes.get("transA", 0))
    transpose_right = bool(node.attributes.get("transB", 0))

    def run(left: Tensor, right: Tensor, addend: Tensor | None = None) -> Tensor:
        left = left.t() if transpose_left else left
        weight = right if transpose_right else right.t()
        if alpha == 1.0 and (addend is None or (beta == 1.0 and addend.dim() == 1)):
            bias = addend if addend is None or addend.shape[0] == weight.shape[0] else None
            if addend is None or bias is not None:
                return functional.linear(left, weight, bias)
        product = alpha * functional.linear(left, weight)
        return product if addend is None else product + beta * addend

    return run


# Shape and data movement -----------------------------------------------------------------------------


def _concat(node: Node) -> Operation:
    axis = int(node.attributes["axis"])
    return lambda *tensors: torch.cat(tensors, axis)


def _flatten(node: Node) -> Operation:
    axis = int(node.attributes.get("axis", 1))

    def run(data: Tensor) -> Tensor:
        rows = math.prod(data.shape[:axis])
        return data.reshape(rows, -1)

    return run


def _reshape(node: Node) -> Operation:
    keep_zero = bool(node.attributes.get("allowzero", 0))

    def run(*tensors: Tensor) -> Tensor:
        data = tensors[0]
        shape = node.attribute_or_integers("shape", 1, tensors) or []
        if not keep_zero:
            shape = [data.shape[axis] if size == 0 else size for axis, size in enumerate(shape)]
        return data.reshape(shape)

    return run


def _squeeze(node: Node) -> Operation:
    def run(*tensors: Tensor) -> Tensor:
        axes = node.attribute_or_integers("axes", 1, tensors)
        return tensors[0].squeeze() if axes is None else tensors[0].squeeze(axes)

    return run


def _unsqueeze(node: Node) -> Operation:
    def run(*tensors: Tensor) -> Tensor:
        data = tensors[0]
        axes = node.attribute_or_integers("axes", 1, tensors) or []
        rank = data.dim() + len(axes)
        for axis in sorted(axis % rank for axis in axes):
            data = data.unsqueeze(axis)
        return data

    return run


def _transpose(node: Node) -> Operation:
    permutation = node.attributes.get("perm")
    return lambda data: data.permute(permutation or tuple(reversed(range(data.dim()))))


_PAD_MODES = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}


def _pad(node: Node) -> Operation:
    onnx_mode = node.attributes.get("mode", "constant")
    if onnx_mode not in _PAD_MODES:
        raise node.unsupported(f"Pad with mode {onnx_mode}")
    mode = _PAD_MODES[onnx_mode]
    stored = node.constant(2)
    value = float(node.attributes.get("value", 0.0) if stored is None else stored.item())
    if node.has_input(2) and stored is None:
        raise node.unsupported("Pad with a constant_value that is computed")

    def run(*tensors: Tensor) -> Tensor:
        data = tensors[0]
        amounts = node.attribute_or_integers("pads", 1, tensors) or []
        axes = node.integers(3, tensors) if node.has_input(3) else list(range(data.dim()))
        padding = [(0, 0)] * data.dim()
        for position, axis in enumerate(axes):
            padding[axis] = (amounts[position], amounts[position + len(axes)])
        if mode == "constant":
            return functional.pad(data, _pad_argument(padding), value=value)
        # torch's other modes take the spatial axes only.
        if any(pair != (0, 0) for pair in padding[:2]):
            raise node.unsupported(f"Pad of the first two axes with mode {onnx_mode}")
        return functional.pad(data, _pad_argument(padding[2:]), mode=mode)

    return run


def _reduce(function: Callable[[Tensor, list[int], bool], Tensor]) -> Builder:
    def build(node: Node) -> Operation:
        keep = bool(node.attributes.get("keepdims", 1))
        without_axes_do_nothing = bool(node.attributes.get("noop_with_empty_axes", 0))

        def run(*tensors: Tensor) -> Tensor:
            data = tensors[0]
            axes = node.attribute_or_integers("axes", 1, tensors)
            if not axes:
                if without_axes_do_nothing:
                    return data
                axes = list(range(data.dim()))
            return function(data, axes, keep)

        return run

    return build


def _gather(node: Node) -> Operation:
    axis = int(node.attributes.get("axis", 0))

    def run(data: Tensor, indices: Tensor) -> Tensor:
        flat = indices.reshape(-1).long() % data.shape[axis]
        positive = axis % data.dim()
        shape = (*data.shape[:positive], *indices.shape, *data.shape[positive + 1 :])
        return data.index_select(axis, flat).reshape(shape)

    return run


def _slice(node: Node) -> Operation:
    def run(*tensors: Tensor) -> Tensor:
        data = tensors[0]
        starts = node.attribute_or_integers("starts", 1, tensors) or []
        ends = node.attribute_or_integers("ends", 2, tensors) or []
        axes = node.attribute_or_integers("axes", 3, tensors) or list(range(len(starts)))
        steps = node.integers(4, tensors) if node.has_input(4) else [1] * len(starts)
        for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
            positions = range(data.shape[axis])[start:end:step]
            if step > 0:
                data = data.narrow(axis, positions.start, max(positions.stop - positions.start, 0))
                data = data[(slice(None),) * (axis % data.dim()) + (slice(None, None, step),)]
            else:
                data = data.index_select(axis, torch.tensor(list(positions), dtype=torch.int64))
        return data

    return run


def _split(node: Node) -> Operation:
    axis = int(node.attributes.get("axis", 0))

    def run(*tensors: Tensor) -> tuple[Tensor, ...]:
        data = tensors[0]
        sizes = node.attribute_or_integers("split", 1, tensors)
        if sizes is None:
            each = math.ceil(data.shape[axis] / len(node.outputs))
            return torch.split(data, each, axis)
        return torch.split(data, sizes, axis)

    return run


# Resize ----------------------------------------------------------------------------------------------


def _source_positions(mode: str, size: int, new_size: int, scale: float) -> np.ndarray[Any, Any]:
    """Where each of `new_size` elements lies along an axis of `size` elements (ONNX's formulas)."""
    target = np.arange(new_size, dtype=np.float64)
    if mode == "asymmetric":
        return target / scale
    if mode == "align_corners":
        return target * (size - 1) / max(new_size - 1, 1)
    if mode == "pytorch_half_pixel" and new_size == 1:
        return np.zeros(1)
    return (target + 0.5) / scale - 0.5


_ROUNDINGS: dict[str, Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]] = {
    "round_prefer_floor": lambda positions: np.ceil(positions - 0.5),
    "round_prefer_ceil": lambda positions: np.floor(positions + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _resize_axis(data: Tensor, axis: int, positions: np.ndarray[Any, Any], rounding: str | None) -> Tensor:
    """Read `data` at fractional `positions` of one axis: rounded, or linear if `rounding` is None."""
    last = data.shape[axis] - 1

    def at(indices: np.ndarray[Any, Any]) -> Tensor:
        return data.index_select(axis, torch.from_numpy(np.clip(indices, 0, last).astype(np.int64)))

    if rounding is not None:
        return at(_ROUNDINGS[rounding](positions))
    positions = np.clip(positions, 0, last)
    below = np.floor(positions)
    shape = [1] * data.dim()
    shape[axis] = -1
    weight = torch.from_numpy(positions - below).to(data.dtype).reshape(shape)
    return torch.lerp(at(below), at(below + 1), weight)


_LINEAR_MODES = {3: "linear", 4: "bilinear", 5: "trilinear"}


def _interpolate_mode(
    linear: bool, coordinates: str, rounding: str, rank: int, whole_scales: bool
) -> tuple[str, bool | None] | None:
    """torch's (mode, align_corners) that computes the same, or None if it has none."""
    if linear and coordinates == "half_pixel":
        return _LINEAR_MODES[rank], False
    if linear and coordinates == "align_corners":
        return _LINEAR_MODES[rank], True
    if not linear and coordinates == "asymmetric" and rounding == "floor":
        return "nearest", None
    # Enlarged by a whole number, every element's centre lies in the pixel it came from.
    if not linear and whole_scales and coordinates == "half_pixel" and rounding.startswith("round"):
        return "nearest", None
    return None


def _resize(node: Node) -> Operation:
    attributes = node.attributes
    is_old = node.op_type == "Upsample" or node.opset < 11
    coordinates = "asymmetric" if is_old else attributes.get("coordinate_transformation_mode", "half_pixel")
    rounding = "floor" if is_old else attributes.get("nearest_mode", "round_prefer_floor")
    kind = attributes.get("mode", "nearest")
    if kind not in ("nearest", "linear"):
        raise node.unsupported(f"{node.op_type} with mode {kind}")
    if coordinates not in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"):
        raise node.unsupported(f"{node.op_type} with coordinate_transformation_mode {coordinates}")
    for name in ("antialias", "exclude_outside", "axes"):
        if attributes.get(name):
            raise node.unsupported(f"{node.op_type} with {name}")
    if attributes.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise node.unsupported(f"{node.op_type} with keep_aspect_ratio_policy")
    linear = kind == "linear"
    scales_index = 1 if is_old else 2

    def wanted_scales(tensors: Sequence[Tensor | None]) -> list[float]:
        if "scales" in attributes:
            return [float(value) for value in attributes["scales"]]
        if not node.has_input(scales_index):
            return []
        stored = node.constant(scales_index)
        if stored is not None:
            return [float(value) for value in stored.reshape(-1)]
        tensor = tensors[scales_index]
        return [] if tensor is None else [float(value) for value in tensor.tolist()]

    def run(*tensors: Tensor) -> Tensor:
        data = tensors[0]
        sizes = list(data.shape)
        scales = wanted_scales(tensors)
        if scales:
            new_sizes = [math.floor(size * scale) for size, scale in zip(sizes, scales, strict=True)]
        else:
            new_sizes = node.integers(3, tensors)
            scales = [new / old for new, old in zip(new_sizes, sizes, strict=True)]
        exact = all(
            math.isclose(size * scale, new, rel_tol=1e-6)
            for size, scale, new in zip(sizes, scales, new_sizes, strict=True)
        )
        whole = all(new % size == 0 for size, new in zip(sizes, new_sizes, strict=True))
        if exact and new_sizes[:2] == sizes[:2] and 3 <= data.dim() <= 5:
            # The two kinds of half pixel differ in outputs of one element only.
            is_half = coordinates == "pytorch_half_pixel" and 1 not in new_sizes[2:]
            same = "half_pixel" if is_half else coordinates
            known = _interpolate_mode(linear, same, rounding, data.dim(), whole)
            if known is not None:
                mode, align_corners = known
                return functional.interpolate(data, new_sizes[2:], mode=mode, align_corners=align_corners)
        for axis, (size, new, scale) in enumerate(zip(sizes, new_sizes, scales, strict=True)):
            if new != size or scale != 1.0:
                positions = _source_positions(coordinates, size, new, scale)
                data = _resize_axis(data, axis, positions, None if linear else rounding)
        return data

    return run


BUILDERS: dict[str, Builder] = {
    "Abs": _plain(torch.abs),
    "Add": _plain(torch.add),
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_normalization,
    "Cast": _cast,
    "Clip": _clip,
    "Concat": _concat,
    "Conv": _convolution,
    "ConvTranspose": _transposed_convolution,
    "Div": _divide,
    "Dropout": _plain(lambda data, *_: data),
    "Elu": _elu,
    "Erf": _plain(torch.erf),
    "Exp": _plain(torch.exp),
    "Flatten": _flatten,
    "Gather": _gather,
    "Gelu": _gelu,
    "Gemm": _gemm,
    "GlobalAveragePool": _global_pool(lambda data, axes: torch.mean(data, axes, keepdim=True)),
    "GlobalMaxPool": _global_pool(lambda data, axes: torch.amax(data, axes, keepdim=True)),
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _plain(functional.hardswish),
    "Identity": _plain(lambda data: data),
    "InstanceNormalization": _instance_normalization,
    "LRN": _local_response_normalization,
    "LayerNormalization": _layer_normalization,
    "LeakyRelu": _leaky_relu,
    "MatMul": _plain(torch.matmul),
    "Max": _folded(torch.maximum),
    "MaxPool": _max_pool,
    "Min": _folded(torch.minimum),
    "Mish": _plain(functional.mish),
    "Mul": _plain(torch.mul),
    "Neg": _plain(torch.neg),
    "PRelu": _plain(lambda data, slope: torch.where(data >= 0, data, data * slope)),
    "Pad": _pad,
    "Pow": _plain(torch.pow),
    "ReduceMax": _reduce(lambda data, axes, keep: torch.amax(data, axes, keepdim=keep)),
    "ReduceMean": _reduce(lambda data, axes, keep: torch.mean(data, axes, keepdim=keep)),
    "ReduceSum": _reduce(lambda data, axes, keep: torch.sum(data, axes, keepdim=keep)),
    "Relu": _plain(torch.relu),
    "Reshape": _reshape,
    "Resize": _resize,
    "Shape": _plain(lambda data: torch.tensor(data.shape, dtype=torch.int64)),
    "Sigmoid": _plain(torch.sigmoid),
    "Slice": _slice,
    "Softmax": _softmax,
    "Softplus": _plain(functional.softplus),
    "Split": _split,
    "Sqrt": _plain(torch.sqrt),
    "Squeeze": _squeeze,
    "Sub": _plain(torch.sub),
    "Sum": _folded(torch.add),
    "Tanh": _plain(torch.tanh),
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Upsample": _resize,
}
"""Every operator but Constant, which the converter turns into stored values."""
