"""ONNX ``DFT`` and ``STFT``: a product with the matrix of the transform, a convolution with its rows.

The last dimension of a tensor is the real part of its numbers, or the real and the imaginary part.
"""

from math import prod
from typing import Any

import numpy as np
from tvm import relax

from relay_layout.frontend.extents.arithmetic import simplify
from relay_layout.frontend.onnx.node import Converter, Node
from relay_layout.frontend.operators.fourier import LARGEST_MATRIX, matrix_shape, transform_matrix
from relay_layout.frontend.values import Array, Unsupported, Value, dtype_of, extents, shape_of, written
from relay_layout.ir import Extent


def _transform(node: Node) -> Value:
    data = node.tensor(0)
    shape = shape_of(data)
    late = node.opset >= 20
    given = int(node.constant(2)) if late and node.has(2) else node.attributes.get("axis", -2 if late else 1)
    axis = node.axis(int(given), len(shape))
    _check(data, shape, [len(shape) - 1])
    if axis == len(shape) - 1:
        raise Unsupported(f"transforms axis {axis} of {written(shape)}, which has the parts of its numbers")
    inverse, onesided = (bool(node.attributes.get(name, 0)) for name in ("inverse", "onesided"))
    extent, parts = shape[axis], int(shape[-1])
    if onesided and parts != (2 if inverse else 1):
        raise Unsupported(f"is one-sided and {'' if inverse else 'not '}inverse, of numbers of {parts} parts")
    usual = 2 * (extent - 1) if inverse and onesided else extent
    (length,) = node.extents(1) if node.has(1) else [simplify(usual)]
    if isinstance(extent, int) and isinstance(length, int):
        matrix = _matrix(extent, parts, length, inverse=inverse, onesided=onesided)
        results: list[Extent] = list(matrix.shape[2:])
        flat = relax.const(matrix.reshape(extent * parts, prod(matrix.shape[2:])).astype("float32"))
    else:
        flat, results = _open_matrix(node, extent, parts, length, inverse=inverse, onesided=onesided)
    outer = [place for place in range(len(shape) - 1) if place != axis]
    order = [*outer, axis, len(shape) - 1]
    turned = node.emit(relax.op.permute_dims(data, order), "turned") if order != sorted(order) else data
    rows = node.expression(
        node.reshaped(turned, [*(shape[place] for place in outer), simplify(extent * parts)])
    )
    product = node.emit(relax.op.matmul(node.emit(rows, "rows"), flat), "product")
    result = node.expression(node.reshaped(product, [*(shape[place] for place in outer), *results]))
    if order == sorted(order):
        return result
    return relax.op.permute_dims(
        node.emit(result, "result"), [order.index(place) for place in range(len(order))]
    )


def _open_matrix(
    node: Node, extent: Extent, parts: int, length: Extent, *, inverse: bool, onesided: bool
) -> tuple[Any, list[Extent]]:
    """What :func:`_matrix` gives, as [extent * parts, results * 2], where either number is open, and the last
    two extents of what it makes. It is computed in each call: as many cosines as the matrix has places.
    """
    if inverse and onesided:
        raise Unsupported(
            f"makes real numbers of {written([extent])}, whose number has to be known: "
            "give the model's inputs fixed shapes (--input-shape)"
        )
    node.requirements.no_more(extent, length)
    count = simplify(length // 2 + 1) if onesided else length
    numbers = node.expression(extents(length))
    places = [node.places(number) for number in (extent, count)]
    given = node.emit(relax.op.expand_dims(places[0], 1), "given")
    # Turns beyond a whole one are left out as integers, of which none is rounded.
    turns = node.emit(relax.op.multiply(given, places[1]), "turns")
    rest = relax.op.astype(node.emit(relax.op.floor_mod(turns, numbers), "rest"), "float32")
    whole = node.emit(relax.op.astype(numbers, "float32"), "whole")
    angle = node.emit(relax.op.divide(node.emit(rest, "rest"), whole), "part")
    angle = node.emit(relax.op.multiply(angle, relax.const(2 * np.pi, "float32")), "angle")
    cosine, sine = node.emit(relax.op.cos(angle), "cosine"), node.emit(relax.op.sin(angle), "sine")
    if inverse:
        cosine, sine = (node.emit(relax.op.divide(each, whole), "share") for each in (cosine, sine))
    else:
        sine = node.emit(relax.op.negative(sine), "sine")
    # Of a real part, and of an imaginary one.
    columns = [(cosine, sine), (node.emit(relax.op.negative(sine), "turned"), cosine)][:parts]
    stacked = [node.emit(relax.op.stack(list(column), axis=-1), "column") for column in columns]
    matrix = stacked[0] if parts == 1 else node.emit(relax.op.stack(stacked, axis=1), "matrix")
    flat = node.reshaped(matrix, [simplify(extent * parts), simplify(count * 2)])
    return node.emit(node.expression(flat), "matrix"), [count, 2]


def _windowed_transform(node: Node) -> Value:
    data = node.tensor(0)
    shape = shape_of(data)
    if len(shape) != 3:
        raise Unsupported(f"transforms {written(shape)}, which is no batch of signals")
    window = node.constant(2) if node.has(2) else None
    # How long a frame is must be known; how long a signal is need not be.
    _check(data, shape, [2] if node.has(3) or window is not None else [1, 2])
    extent, parts, step = shape[1], int(shape[2]), int(node.constant(1))
    usual = extent if window is None else len(window)
    length = int(node.constant(3) if node.has(3) else usual)
    onesided = bool(node.attributes.get("onesided", 1))
    is_too_long = isinstance(extent, int) and length > extent
    if step < 1 or length < 1 or is_too_long or (window is not None and window.shape != (length,)):
        raise Unsupported(
            f"takes frames of {length} elements, {step} apart, of signals of {extent}"
            + ("" if window is None else f" by a window of {written(list(window.shape))}")
        )
    if onesided and parts != 1:
        raise Unsupported(f"is one-sided, of numbers of {parts} parts")
    if not isinstance(extent, int):
        node.requirements.more(extent, length - 1)
    matrix = _matrix(length, parts, length, inverse=False, onesided=onesided)
    if window is not None:
        matrix = matrix * window.reshape(-1, 1, 1, 1)
    *_, count, ends = matrix.shape
    # (length, parts, count, ends) to the weight of a convolution (count * ends, parts, length).
    weight = np.ascontiguousarray(matrix.transpose(2, 3, 1, 0).reshape(count * ends, parts, length))
    signals = node.emit(relax.op.permute_dims(data, [0, 2, 1]), "signals")
    frames = node.emit(
        relax.op.nn.conv1d(signals, relax.const(weight.astype("float32")), strides=[step]), "frames"
    )
    turned = node.emit(relax.op.permute_dims(frames, [0, 2, 1]), "turned")
    return relax.op.reshape(turned, relax.ShapeExpr([*shape_of(turned)[:2], count, ends]))


def _check(data: Value, shape: list[Extent], known: list[int]) -> None:
    if dtype_of(data) != "float32":
        raise Unsupported(f"transforms {dtype_of(data)}; supported is float32")
    if not all(isinstance(shape[place], int) for place in known) or shape[-1] not in (1, 2):
        raise Unsupported(
            f"transforms {written(shape)}; supported are known lengths of numbers of one or two parts"
        )


def _matrix(extent: int, parts: int, length: int, *, inverse: bool, onesided: bool) -> Array:
    """(extent, parts, results, parts of results) of ``length`` places, the first ``extent`` given."""
    if length < 1:
        raise Unsupported(f"transforms {length} elements")
    *_, results, ends = matrix_shape(extent, parts, length, inverse=inverse, onesided=onesided)
    if extent * parts * results * ends > LARGEST_MATRIX:
        raise Unsupported(f"transforms {extent} elements to {results}, whose matrix is too large")
    return transform_matrix(extent, parts, length, inverse=inverse, onesided=onesided)


def _mel_weights(node: Node) -> Value:
    """Refuses computed operands: mel weights of constants are folded before."""
    for place in range(5):
        node.constant(place)
    raise Unsupported("has bands, bins, a rate and edges of which no weights can be made")


CONVERTERS: dict[str, Converter] = {
    "DFT": _transform,
    "MelWeightMatrix": _mel_weights,
    "STFT": _windowed_transform,
}
