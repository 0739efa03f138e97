"""Padding: of images of any size, and of images by their own elements.

The result has the extents that were inferred of it. TVM's loops have them simplified, as ``height // 2 + 3``
in place of ``height // 2 + 1 + 2``. What was lowered before the padding and reads it, as convolutions are,
could not be fused with such loops.

TVM finds out for each element where it comes from. Written as a condition on the index, that can be cut into
the middle, which is copied in vectors, and what surrounds it.
"""

from typing import Any

from tvm import relax, te, tirx

from relay_layout.ir import Expression, ints, is_static, shape_of
from relay_layout.lower.legalize.default import default_call


def pad_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """A call of ``nn.pad``; of known sizes by a constant TVM's own."""
    known, widths, mode = shape_of(call), ints(call.attrs.pad_width), str(call.attrs.pad_mode)
    has_known_sizes = known is None or is_static(known)
    if has_known_sizes and mode == "constant":
        return default_call(builder, call)
    within = _cut if has_known_sizes else _within
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
                    source = within(mode, source, extent)
                places.append(source)
            found = data(*places)
            return tirx.if_then_else(tirx.all(*inside), found, value) if inside else found

        return te.compute(shape, element, name="pad", tag="injective,pad")

    return builder.call_te(padded, call.args[0], primfunc_name_hint="pad")


def _within(mode: str, place: Any, extent: Any) -> Any:
    """Where an axis of ``extent`` elements has what ``mode`` puts at ``place``, perhaps beyond its ends."""
    if mode == "replicate":
        return tirx.max(0, tirx.min(place, extent - 1))
    if mode == "circular":
        return tirx.indexmod(place + extent, extent)
    mirrored = tirx.Select(place < 0, -place, place)
    return tirx.Select(mirrored < extent, mirrored, 2 * extent - 2 - mirrored)


def _cut(mode: str, place: Any, extent: Any) -> Any:
    """The same of a known extent, by conditions on the place."""
    if mode == "replicate":
        ahead, behind = 0, extent - 1
    elif mode == "circular":
        ahead, behind = place + extent, place - extent
    else:
        ahead, behind = -place, 2 * extent - 2 - place
    return tirx.if_then_else(place < 0, ahead, tirx.if_then_else(place < extent, place, behind))
