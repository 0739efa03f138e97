"""Padding: of images of any size, and of images by their own elements.

The result has the extents that were inferred of it. TVM's loops have them simplified, as ``height // 2 + 3``
in place of ``height // 2 + 1 + 2``. What was lowered before the padding and reads it, as convolutions are,
could not be fused with such loops.

TVM finds out for each element where it comes from. Written as a condition on the index, that is the same for
all elements of the middle, which is copied in vectors; loops of known sizes are cut around it.
"""

from typing import Any

from tvm import relax, te, tirx

from relay_layout.ir import Expression, ints, is_static, shape_of
from relay_layout.lower.legalize.default import default_call


def pad_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """A call of ``nn.pad``; of known sizes by a constant TVM's own."""
    known, widths, mode = shape_of(call), ints(call.attrs.pad_width), str(call.attrs.pad_mode)
    if mode == "constant" and (known is None or is_static(known)):
        return default_call(builder, call)
    shape = list(call.ty.shape.values)

    def padded(data: te.Tensor) -> te.Tensor:
        value = tirx.const(float(call.attrs.pad_value), data.dtype)

        def element(*index: Any) -> Any:
            places, inside = [], []
            for axis, (place, extent) in enumerate(zip(index, data.shape, strict=True)):
                before, after = widths[2 * axis : 2 * axis + 2]
                source = place - before
                if mode == "constant":
                    inside += [place >= before] * bool(before) + [source < extent] * bool(after)
                elif before or after:
                    source = _within(mode, source, extent)
                places.append(source)
            found = data(*places)
            return tirx.if_then_else(tirx.all(*inside), found, value) if inside else found

        return te.compute(shape, element, name="pad", tag="injective,pad")

    return builder.call_te(padded, call.args[0], primfunc_name_hint="pad")


def _within(mode: str, place: Any, extent: Any) -> Any:
    """Where an axis of ``extent`` elements has what ``mode`` puts at ``place``, perhaps beyond its ends."""
    if mode == "replicate":
        ahead, behind = 0, extent - 1
    elif mode == "circular":
        # What is added may be longer than the axis.
        ahead = behind = tirx.indexmod(place, extent)
    else:
        ahead, behind = -place, 2 * extent - 2 - place
    return tirx.if_then_else(place < 0, ahead, tirx.if_then_else(place < extent, place, behind))
