"""ONNX's own cases of its operators."""

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, ValueInfoProto, helper, numpy_helper
from onnx.backend.test.loader import load_model_tests

DOMAINS = ("ai.onnx.ml", "ai.onnx.preview.training")
"""Of other operators than those of networks."""

UNLIKE_ONNX = {
    **{
        f"test_bernoulli{draw}{form}": "numbers are drawn, and the case has those of one draw"
        for draw in ("", "_double", "_seed")
        for form in ("", "_expanded")
    },
    "test_mod_float_edge_cases_fmod_0_float16": "the remainder of a division by infinity is NaN",
    "test_mod_float_edge_cases_fmod_0_float32": "the remainder of a division by infinity is NaN",
    "test_mod_float_edge_cases_fmod_0_float64": "the remainder of a division by infinity is NaN",
    "test_resize_downsample_scales_cubic_align_corners": "corners of whole pixels, as ONNX Runtime has them",
    "test_resize_downsample_scales_linear_align_corners": "corners of whole pixels, as ONNX Runtime has them",
}


HELD_BY = {
    code: TensorProto.FLOAT if name.startswith(("BFLOAT", "FLOAT")) else TensorProto.INT8
    for name, code in TensorProto.DataType.items()
    if name == "BFLOAT16" or name.startswith(("FLOAT8", "FLOAT6", "FLOAT4", "INT4", "UINT4", "INT2", "UINT2"))
}
"""Element types that stay within models, and wider ones that hold their elements."""

PARTS = 40
"""Tests that the cases are spread over; they are made when the first one runs."""


def array_of(value: Any) -> np.ndarray:
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def with_constants(model: ModelProto, inputs: list[np.ndarray]) -> ModelProto:
    """The model with inputs but the first as initializers, where they may be shapes, axes and the like."""
    fixed = ModelProto()
    fixed.CopyFrom(model)
    for declared, value in list(zip(fixed.graph.input, inputs, strict=True))[1:]:
        if value.ndim < 2:
            fixed.graph.initializer.append(numpy_helper.from_array(value, declared.name))
            fixed.graph.input.remove(declared)
    return fixed


def arrays_of(values: Sequence[Any], declared: Sequence[ValueInfoProto]) -> list[np.ndarray]:
    """A case's values in the element types that a model declares."""
    types = [helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type) for value in declared]
    return [array_of(value).astype(dtype) for value, dtype in zip(values, types, strict=True)]


def with_wide_border(model: ModelProto) -> ModelProto:
    """The model with wider elements at its border, where the file has some that numpy has not."""
    wide = ModelProto()
    wide.CopyFrom(model)
    for values, is_input in ((wide.graph.input, True), (wide.graph.output, False)):
        for value in values:
            code = value.type.tensor_type.elem_type
            if code not in HELD_BY:
                continue
            inner = value.name
            value.name, value.type.tensor_type.elem_type = f"{inner}_wide", HELD_BY[code]
            if is_input:
                cast = helper.make_node("Cast", [value.name], [inner], to=code)
                wide.graph.node.insert(0, cast)
            else:
                wide.graph.node.append(helper.make_node("Cast", [inner], [value.name], to=HELD_BY[code]))
    return wide


def cases(each: int | None = None) -> list[Any]:
    """Those of tensors, by name; ``each`` is how many of one set of operators."""
    if each is None:
        return _cases()
    counts: Counter[frozenset[str]] = Counter()
    found = []
    for case in _cases():
        operators = frozenset(node.op_type for node in case.model.graph.node)
        counts[operators] += 1
        if counts[operators] <= each:
            found.append(case)
    return found


@cache
def _cases() -> list[Any]:
    found = sorted(load_model_tests(kind="node"), key=lambda case: case.name)
    return [
        case
        for case in found
        if case.name not in UNLIKE_ONNX
        and not any(entry.domain in DOMAINS for entry in case.model.opset_import)
        and all(
            value.type.WhichOneof("value") == "tensor_type"
            for value in (*case.model.graph.input, *case.model.graph.output)
        )
    ]


def mismatch(have: Sequence[np.ndarray], wanted: Sequence[Any], declared: Sequence[ValueInfoProto]) -> str:
    """How results differ from a case's, in the types that a model declares; empty where they do not."""
    if len(have) != len(wanted):
        return f"{len(have)} results, not {len(wanted)}"
    for one, other, given in zip(have, arrays_of(wanted, declared), map(array_of, wanted), strict=True):
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            return f"{one.dtype} of {one.shape}, not {other.dtype} of {other.shape}"
        if "float" not in str(other.dtype):
            if not np.array_equal(one, other):
                return "other numbers"
            continue
        rtol, atol = (2e-2, 1e-2) if given.dtype.itemsize <= 2 else (1e-3, 1e-5)
        exact, found = other.astype("float64"), one.astype("float64")
        if not np.allclose(found, exact, rtol, atol, equal_nan=True):
            return f"off by {np.nanmax(np.abs(found - exact))}"
    return ""
