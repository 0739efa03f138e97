"""ONNX operators that draw random numbers: the same in each call, as the node's name and its seed decide.

ONNX Runtime goes on drawing from one call to the next. A compiled network is a function of its inputs, and
noise that is to differ has to be one of them.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any
from zlib import crc32

from tvm import relax, te

from relay_layout.frontend.identifiers import identifier
from relay_layout.frontend.onnx.node import Converter, Node
from relay_layout.frontend.values import Unsupported, Value, dtype_of, shape_of, written
from relay_layout.ir import Extent
from topi_ext.compute.random_numbers import uniform


def _drawn(node: Node, shape: Sequence[Extent]) -> Any:
    """Numbers of float32 from 0 up to 1, others each time that the node is converted."""
    name = node.builder.get_unique_name(identifier(f"{node.outputs[0]}_drawn"))
    seed = crc32(f"{node.attributes.get('seed', '')} {name}".encode())

    def compute(*extents: Any) -> te.Tensor:
        return uniform(extents, seed)

    extents = [node.plain(extent) for extent in shape]
    return node.emit(node.builder.call_te(compute, *extents, primfunc_name_hint="uniform"), "drawn")


def _evenly(node: Node, shape: Sequence[Extent], dtype: str) -> Any:
    """From ``low`` up to ``high``, each as likely as others."""
    low, high = (float(node.attributes.get(name, default)) for name, default in (("low", 0.0), ("high", 1.0)))
    drawn = _drawn(node, shape)
    scaled = node.emit(relax.op.multiply(drawn, node.like(high - low, drawn)), "scaled")
    return node.cast(node.emit(relax.op.add(scaled, node.like(low, drawn)), "moved"), dtype)


def _normally(node: Node, shape: Sequence[Extent], dtype: str) -> Any:
    """Around ``mean``, with the deviation ``scale``: by length and angle of random vectors in a plane."""
    mean, scale = (
        float(node.attributes.get(name, default)) for name, default in (("mean", 0.0), ("scale", 1.0))
    )
    first, second = _drawn(node, shape), _drawn(node, shape)
    # The logarithm is of more than 0.
    left = node.emit(relax.op.subtract(node.like(1.0, first), first), "left")
    logarithm = node.emit(relax.op.log(left), "logarithm")
    squared = node.emit(relax.op.multiply(logarithm, node.like(-2 * scale * scale, first)), "squared")
    length = node.emit(relax.op.sqrt(squared), "length")
    angle = node.emit(relax.op.multiply(second, node.like(2 * math.pi, second)), "angle")
    across = node.emit(relax.op.cos(angle), "across")
    moved = node.emit(relax.op.multiply(length, across), "away")
    return node.cast(node.emit(relax.op.add(moved, node.like(mean, moved)), "moved"), dtype)


_Draw = Callable[[Node, Sequence[Extent], str], Any]


def _of_a_shape(draw: _Draw) -> Converter:
    return lambda node: draw(node, list(node.attributes["shape"]), node.dtype_given("dtype", "float32"))


def _like_another(draw: _Draw) -> Converter:
    """In the shape of the input, and of its type unless another one is given."""
    return lambda node: draw(
        node, shape_of(node.input(0)), node.dtype_given("dtype", dtype_of(node.input(0)))
    )


def _picked(node: Node) -> Value:
    """Places in rows of logarithms of what is likely [N, C], ``sample_size`` of each: [N, S]."""
    shape, count = shape_of(node.input(0)), int(node.attributes.get("sample_size", 1))
    if len(shape) != 2 or not isinstance(shape[1], int) or count < 1:
        raise Unsupported(
            f"draws {count} of each row of {written(shape)}, which should be [N,C] with a known C"
        )
    likely = node.emit(relax.op.nn.softmax(node.cast(node.input(0), "float32"), axis=1), "likely")
    ends = node.emit(relax.op.expand_dims(node.emit(relax.op.cumsum(likely, 1), "ends"), 1), "ends")
    drawn = node.emit(relax.op.expand_dims(_drawn(node, [shape[0], count]), 2), "drawn")
    is_before = node.emit(relax.op.less_equal(ends, drawn), "is_before")
    places = node.emit(relax.op.sum(node.emit(relax.op.astype(is_before, "int32"), "before"), 2), "places")
    # All parts together may be less than 1, by what was rounded.
    kept = node.emit(relax.op.minimum(places, node.like(shape[1] - 1, places)), "places")
    return node.cast(kept, node.dtype_given("dtype", "int32"))


def _happened(node: Node) -> Value:
    """What holds as often as the input says; the function that ONNX defines has the contrary."""
    drawn = _drawn(node, shape_of(node.input(0)))
    likely = node.emit(node.cast(node.input(0), "float32"), "likely")
    happened = node.emit(relax.op.less(drawn, likely), "happened")
    return relax.op.astype(happened, node.dtype_given("dtype", dtype_of(node.input(0))))


CONVERTERS: dict[str, Converter] = {
    "Bernoulli": _happened,
    "Multinomial": _picked,
    "RandomNormal": _of_a_shape(_normally),
    "RandomNormalLike": _like_another(_normally),
    "RandomUniform": _of_a_shape(_evenly),
    "RandomUniformLike": _like_another(_evenly),
}
