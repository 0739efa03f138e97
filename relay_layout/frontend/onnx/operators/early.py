"""Operators of files from before ONNX 1.5 that are in no version of ONNX any more; ONNX Runtime runs them.

Converters of Core ML and Caffe2 models wrote them.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from tvm import relax

from relay_layout import activations
from relay_layout.frontend.extents.arithmetic import simplify
from relay_layout.frontend.onnx.node import Converter, Node
from relay_layout.frontend.onnx.operators import slicing
from relay_layout.frontend.values import Unsupported, Value, dtype_of, shape_of, written


def _affine(node: Node) -> Value:
    """alpha times the data, plus beta."""
    scaled = node.emit(_scaled(node, node.tensor(0), node.attributes.get("alpha", 1.0)), "scaled")
    return relax.op.add(scaled, node.like(node.attributes.get("beta", 0.0), scaled))


def _scaled(node: Node, data: Any, factor: float) -> Any:
    return relax.op.multiply(data, node.like(factor, data))


def _scaled_image(node: Node) -> Value:
    """Images [N,C,H,W] times one number, and a bias for each channel added."""
    shape, bias = shape_of(node.input(0)), np.asarray(node.attributes.get("bias", ()), "float32")
    if len(shape) != 4 or shape[1] != len(bias):
        raise Unsupported(f"adds {len(bias)} biases to the channels of {written(shape)}")
    scaled = node.emit(_scaled(node, node.tensor(0), node.attributes.get("scale", 1.0)), "scaled")
    return relax.op.add(scaled, node.expression(bias.astype(dtype_of(scaled)).reshape(-1, 1, 1)))


def _cropped(node: Node) -> Value:
    """Images [N,C,H,W] without a border of left, top, right and bottom, or of a given size behind it."""
    shape, border = shape_of(node.input(0)), list(node.attributes.get("border", ()))
    size = list(node.attributes.get("scale", ()))
    if len(shape) != 4 or len(border) != 4 or min(border) < 0 or (size and (len(size) != 2 or min(size) < 1)):
        raise Unsupported(f"crops {written(shape)} by the border {border} to the size {size}")
    begins, ends = [border[1], border[0]], [border[3], border[2]]
    for axis, extent in enumerate(shape[2:]):
        # A size leaves as much behind it as there is.
        least = begins[axis] + (size[axis] if size else 1 + ends[axis])
        if isinstance(extent, int) and extent < least:
            raise Unsupported(f"crops {written(shape)} by the border {border}, for which it is too small")
        node.requirements.more(extent, least - 1)
        ends[axis] = begins[axis] + size[axis] if size else node.plain(simplify(extent - ends[axis]))
    bounds = ([relax.prim_value(bound) for bound in side] for side in (begins, ends))
    return relax.op.strided_slice(node.tensor(0), [2, 3], *bounds, assume_inbound=True)


def _filled(node: Node) -> Value:
    """One number everywhere, in a shape that is given, or is that of a tensor, or what a tensor holds."""
    from onnx import TensorProto
    from onnx.helper import tensor_dtype_to_np_dtype

    if not node.has(0):
        shape = list(node.attributes.get("shape", ()))
    else:
        shape = node.extents(0) if node.attributes.get("input_as_shape", 0) else shape_of(node.input(0))
    shape += node.attributes.get("extra_shape", ())
    dtype = tensor_dtype_to_np_dtype(node.attributes.get("dtype", TensorProto.FLOAT))
    number = np.array(node.attributes.get("value", 0.0)).astype(dtype)
    return relax.op.full(relax.ShapeExpr(shape), node.expression(number), str(dtype))


def _slice(node: Node) -> Value:
    """A slice by inputs, as it later became the operator Slice."""
    return slicing.CONVERTERS["Slice"](replace(node, operator="Slice", opset=10))


def _times_number(node: Node) -> Value:
    return _scaled(node, node.tensor(0), node.attributes.get("scale", 1.0))


def _parametric_softplus(node: Node) -> Value:
    """alpha times the softplus of beta times the data."""
    inner = node.emit(_scaled(node, node.tensor(0), node.attributes["beta"]), "inner")
    return _scaled(node, node.emit(activations.softplus(inner), "softplus"), node.attributes["alpha"])


def _scaled_tanh(node: Node) -> Value:
    """alpha times the hyperbolic tangent of beta times the data."""
    inner = node.emit(_scaled(node, node.tensor(0), node.attributes["beta"]), "inner")
    return _scaled(node, node.emit(relax.op.tanh(inner), "tanh"), node.attributes["alpha"])


CONVERTERS: dict[str, Converter] = {
    "Affine": _affine,
    "ConstantFill": _filled,
    "Crop": _cropped,
    "DynamicSlice": _slice,
    "ImageScaler": _scaled_image,
    "ParametricSoftplus": _parametric_softplus,
    "Scale": _times_number,
    "ScaledTanh": _scaled_tanh,
}
