"""ONNX's own cases of its operators: each is right, or refused in one line. Left to the sweep."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.backend.test.loader import load_model_tests

import relay_layout
from relay_layout.errors import RelayLayoutError

pytestmark = pytest.mark.slow

DOMAINS = ("ai.onnx.ml", "ai.onnx.preview.training")
"""Of other operators than those of networks."""

UNLIKE_ONNX = {
    "test_mod_float_edge_cases_fmod_0_float16": "the remainder of a division by infinity is NaN",
    "test_mod_float_edge_cases_fmod_0_float32": "the remainder of a division by infinity is NaN",
    "test_mod_float_edge_cases_fmod_0_float64": "the remainder of a division by infinity is NaN",
    "test_resize_downsample_scales_cubic_align_corners": "corners of whole pixels, as ONNX Runtime has them",
    "test_resize_downsample_scales_linear_align_corners": "corners of whole pixels, as ONNX Runtime has them",
}


HELD_BY = {
    code: TensorProto.FLOAT if name.startswith(("BFLOAT", "FLOAT")) else TensorProto.INT8
    for name, code in TensorProto.DataType.items()
    if name == "BFLOAT16" or name.startswith(("FLOAT8", "FLOAT4", "INT4", "UINT4", "INT2", "UINT2"))
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


def session_of(model: ModelProto, folder: Path) -> Any:
    """A session, or why there is none."""
    try:
        relay_layout.compile(model).save(folder / "node.rla")
        return relay_layout.load(folder / "node.rla")
    except RelayLayoutError as error:
        assert "\n" not in str(error)
        return str(error)


@cache
def cases() -> list[Any]:
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


def check(case: Any, folder: Path) -> None:
    model = with_wide_border(case.model)
    graph = model.graph
    session = session_of(model, folder)
    for given, wanted in case.data_sets:
        inputs = [
            array_of(value).astype(helper.tensor_dtype_to_np_dtype(declared.type.tensor_type.elem_type))
            for value, declared in zip(given, graph.input, strict=True)
        ]
        if isinstance(session, str) and "constant" in session and not graph.initializer:
            session = session_of(with_constants(model, inputs), folder)
        if isinstance(session, str):
            return
        known = {spec.name for spec in session.inputs}
        feed = {
            declared.name: value
            for declared, value in zip(graph.input, inputs, strict=True)
            if declared.name in known
        }
        results = zip(session.run(feed).values(), map(array_of, wanted), graph.output, strict=True)
        for have, value, declared in results:
            code = declared.type.tensor_type.elem_type
            assert (have.shape, have.dtype) == (value.shape, helper.tensor_dtype_to_np_dtype(code))
            if "float" not in str(have.dtype):
                np.testing.assert_array_equal(have, value.astype(have.dtype))
                continue
            rtol, atol = (2e-2, 1e-2) if value.dtype.itemsize <= 2 else (1e-3, 1e-5)
            np.testing.assert_allclose(have.astype("float64"), value.astype("float64"), rtol, atol)


@pytest.mark.parametrize("part", range(PARTS))
def test_cases_are_right_or_refused(part: int, tmp_path: Path) -> None:
    failures = []
    for case in cases()[part::PARTS]:
        try:
            check(case, tmp_path)
        except Exception as error:
            failures.append(f"{case.name}: {' '.join(str(error).split())[:200]}")
    assert not failures, "\n".join(failures)
