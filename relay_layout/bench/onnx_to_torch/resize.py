"""ONNX Resize and Upsample as torch functions."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as functional
from torch import Tensor

from relay_layout.bench.onnx_to_torch.node import Node, Operation


def _source_positions(mode: str, size: int, new_size: int, scale: float) -> np.ndarray[Any, Any]:
    """Where each of ``new_size`` elements lies along an axis of ``size`` elements (ONNX's formulas)."""
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
    """Read ``data`` at fractional ``positions`` of one axis: rounded, or linear if ``rounding`` is None."""
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


def _check_supported(node: Node, kind: str, coordinates: str) -> None:
    """Raises what :meth:`Node.unsupported` gives for a mode or an attribute that is not computed here."""
    attributes = node.attributes
    if kind not in ("nearest", "linear"):
        raise node.unsupported(f"{node.op_type} with mode {kind}")
    if coordinates not in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"):
        raise node.unsupported(f"{node.op_type} with coordinate_transformation_mode {coordinates}")
    for name in ("antialias", "exclude_outside", "axes"):
        if attributes.get(name):
            raise node.unsupported(f"{node.op_type} with {name}")
    if attributes.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise node.unsupported(f"{node.op_type} with keep_aspect_ratio_policy")


def _whole_at_once(
    data: Tensor, new_sizes: list[int], scales: list[float], linear: bool, coordinates: str, rounding: str
) -> Tensor | None:
    """All axes of an image by torch's own function; None where it has none that computes the same."""
    sizes = list(data.shape)
    changes = [
        (size, scale, new) for size, scale, new in zip(sizes, scales, new_sizes, strict=True) if scale != 1.0
    ]
    exact = all(math.isclose(size * scale, new, rel_tol=1e-6) for size, scale, new in changes)
    whole = all(new % size == 0 for size, _, new in changes)
    if not exact or new_sizes[:2] != sizes[:2] or not 3 <= data.dim() <= 5:
        return None
    # The two kinds of half pixel differ in outputs of one element only.
    is_half = coordinates == "pytorch_half_pixel" and 1 not in new_sizes[2:]
    known = _interpolate_mode(linear, "half_pixel" if is_half else coordinates, rounding, data.dim(), whole)
    if known is None:
        return None
    mode, align_corners = known
    return functional.interpolate(data, new_sizes[2:], mode=mode, align_corners=align_corners)


def resize(node: Node) -> Operation:
    """Resize and Upsample: nearest and linear."""
    attributes = node.attributes
    is_old = node.op_type == "Upsample" or node.opset < 11
    coordinates = "asymmetric" if is_old else attributes.get("coordinate_transformation_mode", "half_pixel")
    rounding = "floor" if is_old else attributes.get("nearest_mode", "round_prefer_floor")
    kind = attributes.get("mode", "nearest")
    _check_supported(node, kind, coordinates)
    linear = kind == "linear"
    scales_index = 1 if is_old else 2

    def wanted_scales(tensors: Sequence[Tensor | None]) -> list[float]:
        if "scales" in attributes:
            return [float(value) for value in attributes["scales"]]
        if not node.has_input(scales_index):
            return []
        if scales_index in node.numbers:
            return [float(value) for value in node.numbers[scales_index]]
        tensor = tensors[scales_index]
        return [] if tensor is None else [float(value) for value in tensor.tolist()]

    def run(*tensors: Tensor) -> Tensor:
        data = tensors[0]
        sizes = list(data.shape)
        scales = wanted_scales(tensors)
        if scales:
            # What keeps its size is not computed with: it may be a symbol, as an open batch is.
            new_sizes = [
                size if scale == 1.0 else math.floor(size * scale)
                for size, scale in zip(sizes, scales, strict=True)
            ]
        else:
            new_sizes = node.integers(3, tensors)
            scales = [new / old for new, old in zip(new_sizes, sizes, strict=True)]
        resized = _whole_at_once(data, new_sizes, scales, linear, coordinates, rounding)
        if resized is not None:
            return resized
        for axis, (size, new, scale) in enumerate(zip(sizes, new_sizes, scales, strict=True)):
            if new != size or scale != 1.0:
                positions = _source_positions(coordinates, size, new, scale)
                data = _resize_axis(data, axis, positions, None if linear else rounding)
        return data

    return run
