"""Operators of ai.onnx.ml that exchange numbers for others, and scores for maps of labels to them."""

from typing import Any

import numpy as np
from tvm import relax

from relay_layout.frontend.onnx.node import Converter, Node
from relay_layout.frontend.values import Array, Unsupported, Value, dtype_of

_KINDS = {"int64s": "int64", "floats": "float32"}
"""Attributes of numbers end with one of these."""


def _listed(node: Node, name: str) -> Array:
    """The keys or the values, a tensor or a list of numbers."""
    if f"{name}_strings" in node.attributes:
        raise Unsupported(
            f"has {name} that are texts, which are not supported: exchange them outside of the model"
        )
    found = node.attributes.get(f"{name}_tensor")
    for kind, dtype in _KINDS.items():
        if f"{name}_{kind}" in node.attributes:
            found = np.asarray(node.attributes[f"{name}_{kind}"], dtype)
    if not isinstance(found, np.ndarray) or found.dtype.kind not in "if":
        raise Unsupported(f"has no {name} that are numbers")
    return found.reshape(-1)


def _default(node: Node, dtype: Any) -> Array:
    """What keys that are not listed stand for."""
    number = node.attributes.get("default_int64", -1) if dtype.kind == "i" else None
    number = node.attributes.get("default_float", -0.0) if number is None else number
    return np.asarray(node.attributes.get("default_tensor", number), dtype).reshape(())


def _exchanged(node: Node) -> Value:
    """For each element the value of the key that it is: the first of equal keys, of which one may be NaN."""
    data, keys, values = node.tensor(0), _listed(node, "keys"), _listed(node, "values")
    if len(keys) != len(values) or not len(keys):
        raise Unsupported(f"has {len(keys)} keys for {len(values)} values")
    default = node.expression(_default(node, values.dtype))
    keys, first = np.unique(keys.astype(dtype_of(data)), return_index=True)
    values = values[first]
    is_number = keys == keys
    result = node.emit(relax.op.broadcast_to(default, relax.op.shape_of(data)), "default")
    if is_number.any():
        listed = keys[is_number]
        places = node.emit(relax.op.bucketize(data, node.expression(listed)), "places")
        places = node.emit(relax.op.minimum(places, node.like(len(listed) - 1, places)), "places")
        nearest = node.emit(relax.op.take(node.expression(listed), places, 0, mode="clip"), "nearest")
        is_key = node.emit(relax.op.equal(nearest, data), "is_key")
        found = node.emit(relax.op.take(node.expression(values[is_number]), places, 0, mode="clip"), "found")
        result = relax.op.where(is_key, found, default)
    if not is_number.all():
        is_none = node.emit(relax.op.isnan(data), "is_none")
        result = relax.op.where(is_none, node.expression(values[~is_number]), node.emit(result, "found"))
    return result


def _mapped(node: Node) -> Value:
    """Scores [N, K] as they are: the columns are those of the labels, in their order."""
    return node.input(0)


CONVERTERS: dict[str, Converter] = {"LabelEncoder": _exchanged, "ZipMap": _mapped}
