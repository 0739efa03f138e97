"""torchvision's operations in terms of PyTorch's."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from relay_layout.frontend.torch.rules.rule import Rule


def _deformed(
    image: Tensor,
    weight: Tensor,
    offset: Tensor,
    mask: Tensor,
    bias: Tensor,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> Tensor:
    """``deform_conv2d``: what each tap of the kernel looks at is sampled, then the convolution is 1x1.

    (Dai et al., 2017; with a mask Zhu et al., 2018.)
    """
    outputs, depth, *kernel = weight.shape
    (batch, channels, *before), (rows, columns) = image.shape, offset.shape[-2:]
    results = (rows, columns)
    taps, images = kernel[0] * kernel[1], batch * offset_groups
    moves = offset.reshape(images, taps, 2, rows, columns)
    places = []
    for side, (stride, pad, dilation) in enumerate(
        ((stride_h, pad_h, dilation_h), (stride_w, pad_w, dilation_w))
    ):
        tap, pixel = torch.arange(kernel[side]) * dilation - pad, torch.arange(results[side]) * stride
        if side == 0:
            tap, pixel = tap.unsqueeze(1), pixel.unsqueeze(1)
        start = (tap.expand(kernel).reshape(1, taps, 1, 1) + pixel).to(offset.dtype)
        # A pixel's centre is half a pixel behind its edge, and edges of the image are -1 and 1.
        places.append((moves[:, :, side] + start) * 2 / before[side] + (1 / before[side] - 1))
    grid = torch.stack(places[::-1], -1).reshape(images, taps * rows, columns, 2)
    parts = image.reshape(images, channels // offset_groups, *before)
    found = functional.grid_sample(parts, grid, "bilinear", "zeros", align_corners=False)
    found = found.reshape(images, channels // offset_groups, taps, rows, columns)
    if use_mask:
        found = found * mask.reshape(images, 1, taps, rows, columns)
    found = found.reshape(batch, groups, depth, taps, rows, columns).transpose(2, 3)
    joined = found.reshape(batch, channels * taps, rows, columns)
    flat = weight.reshape(outputs, depth, taps).transpose(1, 2).reshape(outputs, taps * depth, 1, 1)
    return functional.conv2d(joined, flat, bias, groups=groups)


def _aligned_by_place(
    image: Tensor, regions: Tensor, scale: float, rows: int, columns: int, samples: int
) -> tuple[Tensor, Tensor]:
    """``ps_roi_align``: each bin of a region has channels of its own."""
    bins = rows * columns
    whole = torch.ops.torchvision.roi_align(image, regions, scale, rows, columns, samples, True)
    number, fewer = regions.shape[0], image.shape[1] // bins
    pairs = whole.reshape(number, fewer, bins, bins)
    found = (pairs * torch.eye(bins, dtype=image.dtype)).sum(-1).reshape(number, fewer, rows, columns)
    channels = torch.arange(fewer * bins, dtype=torch.int32).reshape(1, fewer, rows, columns)
    return found, channels.expand(number, fewer, rows, columns)


_RULES: dict[str, Rule] = {"deform_conv2d": _deformed, "ps_roi_align": _aligned_by_place}


def rules() -> dict[Any, Rule]:
    """By operation, of those that are there: torchvision defines them when it is imported."""
    found = {name: getattr(torch.ops.torchvision, name, None) for name in _RULES}
    return {operation.default: _RULES[name] for name, operation in found.items() if operation is not None}
