"""ONNX ``DeformConv``: a convolution that looks for its inputs where a second tensor tells.

What each tap of the kernel finds is sampled, channels innermost, and the convolution is the 1x1 one of all
taps (Dai et al., 2017; with a mask Zhu et al., 2018).
"""

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from tvm import relax

from relay_layout.frontend.onnx.node import Converter, Node
from relay_layout.frontend.onnx.operators.linear import biased, kernel_extents
from relay_layout.frontend.onnx.operators.windows import window
from relay_layout.frontend.operators.sliding_windows import Window
from relay_layout.frontend.values import Array, Unsupported, Value, dtype_of, shape_of, written
from relay_layout.ir import Extent, is_static

_BIAS, _MASK = 3, 4
_ROW, _COLUMN = 0, 1


def _deformable_convolution(node: Node) -> Value:
    shape, weight, offset = (shape_of(node.input(place)) for place in range(3))
    groups, parts = (int(node.attributes.get(name, 1)) for name in ("group", "offset_group"))
    if len(shape) != 4 or len(weight) != 4 or not is_static(shape[1:]):
        raise Unsupported(
            f"convolves {written(shape)} with a weight of {written(weight)}; "
            "supported are images whose channels, rows and columns are known: "
            "give the model's inputs fixed shapes (--input-shape)"
        )
    if groups < 1 or shape[1] != weight[1] * groups or weight[0] % groups or parts < 1 or shape[1] % parts:
        raise Unsupported(
            f"convolves {written(shape)} with a weight of {written(weight)}, group={groups} and "
            f"offset_group={parts}, whose channels do not fit"
        )
    sliding = window(node, kernel_extents(node, weight), shape[2:])
    found = _Taps(shape, sliding, groups, parts)
    _check("offset", offset, [shape[0], 2 * parts * found.taps, *found.size])
    places = found.places(node, node.tensor(2))
    columns = found.columns(node, node.tensor(0), places)
    if node.has(_MASK):
        _check("mask", shape_of(node.input(_MASK)), [shape[0], parts * found.taps, *found.size])
        columns = found.masked(node, columns, node.tensor(_MASK))
    product = relax.op.nn.conv2d(
        found.joined(node, columns), found.kernel(node, node.input(1)), groups=groups, data_layout="NCHW"
    )
    return biased(node, product, weight[0], 4, _BIAS)


def _check(name: str, has: list[Extent], wanted: list[Extent]) -> None:
    if [str(extent) for extent in has] != [str(extent) for extent in wanted]:
        raise Unsupported(f"has {name} {written(has)} where {written(wanted)} is due")


@dataclass(frozen=True)
class _Taps:
    """The places that are looked at: ``taps`` for each pixel of the result, of ``size`` rows and columns.

    ``parts`` of the channels have offsets of their own. The shape of the data is (N, C, H, W).
    """

    shape: list[Extent]
    window: Window
    groups: int
    parts: int

    @property
    def taps(self) -> int:
        return prod(self.window.kernel)

    @property
    def size(self) -> tuple[int, ...]:
        return self.window.counts(self.shape[2:])

    @property
    def images(self) -> Extent:
        """Parts of channels that are sampled as images of their own."""
        return self.shape[0] * self.parts

    def places(self, node: Node, offset: Any) -> Any:
        """Where taps look, (N * parts, 2, taps * rows, columns) from -1 to 1, columns before rows."""
        rows, columns = self.size
        moves = node.emit(relax.op.reshape(offset, (self.images, self.taps, 2, rows, columns)), "moves")
        found = []
        for side in (_COLUMN, _ROW):
            move = node.emit(relax.op.strided_slice(moves, [2], [side], [side + 1]), f"move{side}")
            flat = node.emit(
                relax.op.reshape(move, (self.images, 1, self.taps * rows, columns)), f"flat{side}"
            )
            extent = int(self.shape[2 + side])
            # A pixel's centre is half a pixel behind its edge.
            start = (2 * self._undeformed(side) + 1) / extent - 1
            scaled = node.emit(relax.op.multiply(flat, node.like(2 / extent, flat)), f"scaled{side}")
            found.append(node.emit(relax.op.add(scaled, relax.const(start, dtype_of(flat))), f"at{side}"))
        return node.emit(relax.op.concat(found, axis=1), "places")

    def _undeformed(self, side: int) -> Array:
        """The rows or columns that taps look at without an offset, (1, 1, taps * rows, columns)."""
        rows, columns = self.size
        kernel = self.window.kernel
        tap = np.arange(kernel[side]) * self.window.dilation[side] - self.window.before[side]
        pixel = np.arange(self.size[side]) * self.window.strides[side]
        taps = np.broadcast_to(tap[:, None] if side == _ROW else tap, kernel).reshape(-1, 1, 1)
        pixels = pixel[:, None] if side == _ROW else pixel
        whole = np.broadcast_to(taps + pixels, (self.taps, rows, columns))
        return whole.reshape(1, 1, self.taps * rows, columns)

    def columns(self, node: Node, data: Any, places: Any) -> Any:
        """What taps find, (N * parts, C / parts, taps, rows, columns)."""
        _, channels, height, width = self.shape
        depth = channels // self.parts
        image = node.emit(relax.op.reshape(data, (self.images, depth, height, width)), "image")
        sampled = node.emit(
            relax.op.image.grid_sample(image, places, "bilinear", "NCHW", "zeros", False), "sampled"
        )
        return node.emit(relax.op.reshape(sampled, (self.images, depth, self.taps, *self.size)), "columns")

    def masked(self, node: Node, columns: Any, mask: Any) -> Any:
        spread = node.emit(relax.op.reshape(mask, (self.images, 1, self.taps, *self.size)), "mask")
        return node.emit(relax.op.multiply(columns, spread), "masked")

    def joined(self, node: Node, columns: Any) -> Any:
        """(N, groups * taps * channels of a group, rows, columns): the channels of a tap lie side by side."""
        batch, channels, *_ = self.shape
        depth = channels // self.groups
        apart = relax.op.reshape(columns, (batch, self.groups, depth, self.taps, *self.size))
        turned = relax.op.permute_dims(node.emit(apart, "apart"), [0, 1, 3, 2, 4, 5])
        joined = relax.op.reshape(node.emit(turned, "turned"), (batch, channels * self.taps, *self.size))
        return node.emit(joined, "joined")

    def kernel(self, node: Node, weight: Value) -> Any:
        """(O, taps * channels of a group, 1, 1)."""
        outputs, depth, *_ = shape_of(weight)
        if isinstance(weight, np.ndarray):
            turned = weight.reshape(outputs, depth, self.taps).transpose(0, 2, 1)
            return relax.const(np.ascontiguousarray(turned.reshape(outputs, self.taps * depth, 1, 1)))
        flat = node.emit(relax.op.reshape(weight, (outputs, depth, self.taps)), "taps")
        turned = node.emit(relax.op.permute_dims(flat, [0, 2, 1]), "turned_taps")
        return node.emit(relax.op.reshape(turned, (outputs, self.taps * depth, 1, 1)), "kernel")


CONVERTERS: dict[str, Converter] = {"DeformConv": _deformable_convolution}
