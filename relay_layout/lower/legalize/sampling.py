"""Images that are sampled at places of a tensor (``grid_sample``), of many channels: channels innermost.

TVM's compute reads the pixels around a place for each channel, one by one, and works out the place for each
again. Deformable attention (Zhu et al., 2020) samples 32 channels and more at every place. With channels
innermost vectors read them; the image and the result are transposed, which costs less.
"""

from tvm import relax, te, topi

from relay_layout.ir import Expression, is_static, shape_of
from relay_layout.lower.fusion.patterns import OPAQUE, PATTERN
from relay_layout.lower.legalize.default import default_call
from relay_layout.lower.narrow_storage import KEEPS_OPERANDS
from topi_ext.compute.sampling import CORNERS, PADDINGS, grid_sample

FEWEST_CHANNELS = 8
"""Channels that are worth two transposes."""


def grid_sample_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """A call of ``image.grid_sample``: channels innermost where that is faster, otherwise TVM's compute."""
    data, grid = call.args
    shape, attributes = shape_of(data), call.attrs
    if (
        shape is None
        or len(shape) != 4
        or not is_static(shape[1:])
        or int(shape[1]) < FEWEST_CHANNELS
        or not all(str(tensor.ty.dtype) == "float32" for tensor in (data, grid))
        or str(attributes.method) not in CORNERS
        or str(attributes.padding_mode) not in PADDINGS
    ):
        return default_call(builder, call)
    channels, height, width = map(int, shape[1:])

    def lines(image: te.Tensor) -> te.Tensor:
        last = topi.transpose(image, (0, 2, 3, 1))
        return topi.reshape(last, (image.shape[0], height * width, channels))

    pixels = builder.emit_te(lines, data, primfunc_name_hint="grid_sample_pixels")
    sampled = builder.emit_te(
        grid_sample,
        pixels,
        grid,
        (height, width),
        method=str(attributes.method),
        padding=str(attributes.padding_mode),
        align_corners=bool(attributes.align_corners),
        primfunc_name_hint="grid_sample",
        primfunc_attrs={PATTERN: OPAQUE, KEEPS_OPERANDS: [1]},
    )
    return builder.call_te(topi.transpose, sampled, (0, 3, 1, 2), primfunc_name_hint="grid_sample_channels")
