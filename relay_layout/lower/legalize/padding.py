"""Padding of images of any size, whose result has the extents that were inferred of it.

TVM's loops have them simplified, as ``height // 2 + 3`` in place of ``height // 2 + 1 + 2``. What was lowered
before the padding and reads it, as convolutions are, could not be fused with such loops.
"""

from typing import Any

from tvm import relax, te, tirx

from relay_layout.ir import Expression, ints, is_static, shape_of
from relay_layout.lower.legalize.default import default_call


def pad_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """A call of ``nn.pad``; of known sizes TVM's own."""
    known, widths, mode = shape_of(call), ints(call.attrs.pad_width), str(call.attrs.pad_mode)
    if known is None or is_static(known):
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
        return tirx.max(0, tirx.min(place, extent - 1))
    if mode == "circular":
        return tirx.indexmod(place + extent, extent)
    mirrored = tirx.Select(place < 0, -place, place)
    return tirx.Select(mirrored < extent, mirrored, 2 * extent - 2 - mirrored)
