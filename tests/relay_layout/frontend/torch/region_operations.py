"""torchvision's operations on boxes and regions: its own where it is installed, else written out here."""

import math
from itertools import product
from typing import Any

import torch

_SCHEMAS = {
    "nms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align": "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor",
    "roi_pool": "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width) -> (Tensor, Tensor)",
    "ps_roi_align": "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width, int sampling_ratio) -> (Tensor, Tensor)",
    "deform_conv2d": "(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, "
    "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, "
    "SymInt groups, SymInt offset_groups, bool use_mask) -> Tensor",
}


def _overlap(one: Any, other: Any) -> float:
    """In singles, as boxes are: the threshold is a double."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    common = width.clamp(min=0) * height.clamp(min=0)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return float(common / (areas[0] + areas[1] - common)) if common else 0.0


def _nms(boxes: Any, scores: Any, threshold: float) -> Any:
    kept: list[int] = []
    for place in torch.sort(scores, stable=True, descending=True).indices.tolist():
        if all(_overlap(boxes[place], boxes[other]) <= threshold for other in kept):
            kept.append(place)
    return torch.tensor(kept, dtype=torch.int64)


def _sample(image: Any, row: float, column: float, *, held: bool) -> Any:
    """All channels (C,) between the pixels of an image (C, H, W); ``held`` as regions read its edges."""
    height, width = image.shape[-2:]
    if row < -1 or column < -1 or row > height or column > width:
        return torch.zeros(image.shape[0])
    if held:
        row, column = min(max(row, 0.0), height - 1), min(max(column, 0.0), width - 1)
    total = torch.zeros(image.shape[0])
    for down, right in product((0, 1), repeat=2):
        y, x = math.floor(row) + down, math.floor(column) + right
        if 0 <= y < height and 0 <= x < width:
            total += image[:, y, x] * (1 - abs(row - y)) * (1 - abs(column - x))
    return total


def _roi_align(
    image: Any, regions: Any, scale: float, rows: int, columns: int, samples: int, aligned: bool
) -> Any:
    found = torch.zeros(len(regions), image.shape[1], rows, columns)
    for place, (number, *corners) in enumerate(regions.tolist()):
        left, top, right, bottom = (corner * scale - 0.5 * aligned for corner in corners)
        least = 0.0 if aligned else 1.0
        height, width = max(bottom - top, least) / rows, max(right - left, least) / columns
        down = samples if samples > 0 else math.ceil(height)
        along = samples if samples > 0 else math.ceil(width)
        for row, column in product(range(rows), range(columns)):
            for y, x in product(range(down), range(along)):
                at = top + (row + (y + 0.5) / down) * height, left + (column + (x + 0.5) / along) * width
                found[place, :, row, column] += _sample(image[int(number)], *at, held=True) / (down * along)
    return found


def _ps_roi_align(image: Any, regions: Any, scale: float, rows: int, columns: int, samples: int) -> Any:
    whole = _roi_align(image, regions, scale, rows, columns, samples, True)
    found = torch.zeros(len(regions), image.shape[1] // (rows * columns), rows, columns)
    channels = torch.zeros(found.shape, dtype=torch.int32)
    for depth, row, column in product(*map(range, found.shape[1:])):
        channel = (depth * rows + row) * columns + column
        found[:, depth, row, column] = whole[:, channel, row, column]
        channels[:, depth, row, column] = channel
    return found, channels


def _roi_pool(image: Any, regions: Any, scale: float, rows: int, columns: int) -> Any:
    found = torch.zeros(len(regions), image.shape[1], rows, columns)
    for place, (number, *corners) in enumerate(regions.tolist()):
        left, top, right, bottom = (math.floor(corner * scale + 0.5) for corner in corners)
        height, width = max(bottom - top + 1, 1) / rows, max(right - left + 1, 1) / columns
        for row, column in product(range(rows), range(columns)):
            ends = [top + math.ceil((row + 1) * height), left + math.ceil((column + 1) * width)]
            starts = [max(top + math.floor(row * height), 0), max(left + math.floor(column * width), 0)]
            part = image[int(number), :, starts[0] : max(ends[0], 0), starts[1] : max(ends[1], 0)]
            if part.numel():
                found[place, :, row, column] = part.amax((1, 2))
    return found, torch.zeros(found.shape, dtype=torch.int32)


def _deform_conv2d(image: Any, weight: Any, offset: Any, mask: Any, bias: Any, *numbers: Any) -> Any:
    *sides, groups, parts, masked = numbers
    strides, pads, dilations = sides[:2], sides[2:4], sides[4:]
    (batch, channels), (_, depth, *kernel) = image.shape[:2], weight.shape
    found = bias.reshape(1, -1, 1, 1).repeat(batch, 1, *offset.shape[2:])
    taps, width = kernel[0] * kernel[1], channels // parts
    for number, row, column in product(range(batch), *map(range, offset.shape[2:])):
        seen = torch.zeros(channels, taps)
        for part, tap in product(range(parts), range(taps)):
            start = part * taps + tap
            moves = offset[number, 2 * start : 2 * start + 2, row, column].tolist()
            pixels = zip((row, column), divmod(tap, kernel[1]), strides, pads, dilations, moves, strict=True)
            at = [pixel * stride - pad + step * far + move for pixel, step, stride, pad, far, move in pixels]
            channel = slice(part * width, (part + 1) * width)
            value = _sample(image[number, channel], *at, held=False)
            seen[channel, tap] = value * mask[number, start, row, column] if masked else value
        shares = seen.reshape(groups, 1, depth, taps) * weight.reshape(groups, -1, depth, taps)
        found[number, :, row, column] += shares.sum((2, 3)).flatten()
    return found


def _pooled(image: Any, regions: Any, scale: float, rows: int, columns: int, *_: Any) -> Any:
    return image.new_empty(regions.shape[0], image.shape[1], rows, columns)


def _pooled_twice(divided: bool) -> Any:
    def shapes(image: Any, regions: Any, scale: float, rows: int, columns: int, *_: Any) -> Any:
        channels = image.shape[1] // (rows * columns) if divided else image.shape[1]
        found = image.new_empty(regions.shape[0], channels, rows, columns)
        return found, found.to(torch.int32)

    return shapes


def _define() -> None:
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name, schema in _SCHEMAS.items():
        library.define(f"{name}{schema}")
        library.impl(name, globals()[f"_{name}"], "CPU")
        torch.library.register_fake(f"torchvision::{name}", _FAKES[name], lib=library)
    _KEPT.append(library)


def _fake_nms(boxes: Any, scores: Any, threshold: float) -> Any:
    return boxes.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.int64)


def _fake_deform(image: Any, weight: Any, offset: Any, *_: Any) -> Any:
    return image.new_empty(image.shape[0], weight.shape[0], *offset.shape[2:])


_FAKES = {
    "nms": _fake_nms,
    "roi_align": _pooled,
    "roi_pool": _pooled_twice(False),
    "ps_roi_align": _pooled_twice(True),
    "deform_conv2d": _fake_deform,
}
_KEPT: list[Any] = []
"""A library's definitions last as long as it does."""

try:
    import torchvision  # noqa: F401
except ImportError:
    _define()

operations: Any = torch.ops.torchvision
