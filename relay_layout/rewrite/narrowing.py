"""Windows without the rows and columns that never meet their image.

A convolution's kernel that is dilated further than its image is long, as of atrous pooling on small images,
multiplies zeros: on 14x14 pixels a 3x3 kernel of dilation 24 is a 1x1 kernel. A pooling that rounds up may
have a window far larger than its image (EfficientNet's last one is as long as there are channels).
"""

from typing import Any

from tvm import relax

from relay_layout.ir import Constant, constant, constant_array, operator_name, shape_of, with_attributes

ROUNDED_POOLINGS = frozenset(f"nn.{kind}_pool{rank}d" for kind in ("avg", "max") for rank in (1, 2, 3))
"""Those that ``ceil_mode`` may round up."""

_SPATIAL = {"nn.conv1d": "W", "nn.conv2d": "HW", "nn.conv3d": "DHW"}


def narrowed(call: relax.Call) -> relax.Call:
    """A convolution by constant weights with a kernel as small as its image lets it be; else ``call``.

    Layouts have no blocks. An axis of unknown extent is left as it is, and one where the smaller kernel would
    need an image that is cut instead of padded.
    """
    letters = _SPATIAL.get(operator_name(call))
    if letters is None or not isinstance(call.args[1], Constant):
        return call
    attributes, weight = call.attrs, constant_array(call.args[1])
    data_layout, kernel_layout = str(attributes.data_layout), str(attributes.kernel_layout)
    shape = shape_of(call.args[0])
    if shape is None or not (data_layout + kernel_layout).isupper():
        return call
    padding, dilation = [int(pad) for pad in attributes.padding], [int(step) for step in attributes.dilation]
    rank = len(letters)
    parts = [slice(None)] * weight.ndim
    for axis, letter in enumerate(letters):
        extent, at = shape[data_layout.index(letter)], kernel_layout.index(letter)
        sides = padding[axis], padding[rank + axis]
        stride = int(attributes.strides[axis])
        met = _met(extent, weight.shape[at], sides, stride, dilation[axis])
        if len(met) in (0, weight.shape[at]):
            continue
        before = sides[0] - met.start * dilation[axis]
        after = sides[1] - (weight.shape[at] - met.stop) * dilation[axis]
        if min(before, after) < 0:
            continue
        parts[at] = slice(met.start, met.stop)
        padding[axis], padding[rank + axis] = before, after
        dilation[axis] = dilation[axis] if len(met) > 1 else 1
    if all(part == slice(None) for part in parts):
        return call
    return with_attributes(
        call, [call.args[0], constant(weight[tuple(parts)])], padding=padding, dilation=dilation
    )


def narrowed_pooling(call: relax.Call) -> relax.Call:
    """A pooling whose window ends where its padded image does; else ``call``.

    Where a window is longer than an axis of known extent, the axis has that one window, which rounding up
    adds.
    """
    attributes = call.attrs
    layout, shape = str(attributes.layout), shape_of(call.args[0])
    if shape is None or not bool(attributes.ceil_mode) or not layout.isupper():
        return call
    sizes, strides = [int(size) for size in attributes.pool_size], [int(step) for step in attributes.strides]
    padding, dilation = [int(pad) for pad in attributes.padding], [int(step) for step in attributes.dilation]
    rank = len(sizes)
    kept = list(sizes)
    for axis, letter in enumerate("DHW"[-rank:]):
        extent = shape[layout.index(letter)]
        if not isinstance(extent, int):
            continue
        padded = extent + padding[axis] + padding[rank + axis]
        if dilation[axis] * (sizes[axis] - 1) >= padded:
            # Where a dilated window of fewer elements leaves some over, no second one starts in the image.
            kept[axis], strides[axis] = -(-padded // dilation[axis]), padded
    if kept == sizes:
        return call
    return with_attributes(call, call.args, pool_size=kept, strides=strides)


def _met(extent: Any, taps: int, sides: tuple[int, int], stride: int, dilation: int) -> range:
    """The taps along an axis that meet any of the image between their first place and their last."""
    if not isinstance(extent, int):
        return range(taps)
    results = (extent + sum(sides) - dilation * (taps - 1) - 1) // stride + 1
    last = stride * (results - 1) - sides[0]
    first_met = next((tap for tap in range(taps) if tap * dilation + last >= 0), taps)
    beyond = next((tap for tap in range(taps) if tap * dilation - sides[0] >= extent), taps)
    return range(first_met, max(first_met, beyond))
