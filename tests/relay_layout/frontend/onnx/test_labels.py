"""Numbers in place of others, and maps of scores, of ai.onnx.ml, beside ONNX Runtime."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import relay_layout
from relay_layout.errors import ModelError
from relay_layout.frontend import from_onnx
from tests.onnx_reference import reference_session
from tests.relay_layout.frontend.onnx.test_counted import check
from tests.relay_layout.frontend.onnx.test_features import model_of

INTEGERS = np.array([[3, -7, 4], [0, 3, 2**40]])
FLOATS = np.array([[0.5, np.nan, -0.0], [3.0, 0.0, 7.0]], "float32")
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "integers of integers": (INTEGERS, {"keys_int64s": [4, 3, -7, 3], "values_int64s": [1, 2, 3, 4]}),
    "floats of integers": (INTEGERS, {"keys_int64s": [4], "values_floats": [0.5], "default_float": 2.0}),
    "integers of floats": (FLOATS, {"keys_floats": [0.0, 3.0], "values_int64s": [1, 2], "default_int64": 9}),
    "one that is no number": (
        FLOATS,
        {"keys_floats": [np.nan, 3.0, 0.5], "values_floats": [1.0, 2.0, 3.0]},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_exchanged_numbers(case: str, tmp_path: Path) -> None:
    data, attributes = CASES[case]
    model = model_of("LabelEncoder", [["N", 3]], [7 if data.dtype == "int64" else 1], **attributes)
    model.opset_import[1].version = 4
    check(model, [{"x0": data}, {"x0": data[:1]}], tmp_path)


def test_tensors_of_keys_and_values(tmp_path: Path) -> None:
    keys, values = np.array([0.5, np.nan]), np.array([2.5, 1.5])
    tensors = {
        name: onnx.numpy_helper.from_array(array, name)
        for name, array in (
            ("keys_tensor", keys),
            ("values_tensor", values),
            ("default_tensor", np.array([7.0])),
        )
    }
    model = model_of("LabelEncoder", [["N", 3]], [11], **tensors)
    model.opset_import[1].version = 4
    check(model, [{"x0": FLOATS.astype("float64")}], tmp_path)


@pytest.mark.parametrize("texts", ["keys", "values"])
def test_texts_are_refused(texts: str) -> None:
    given: dict[str, Any] = {"keys_int64s": [1], "values_int64s": [2]}
    del given[f"{texts}_int64s"]
    model = model_of("LabelEncoder", [["N", 3]], [7], **given, **{f"{texts}_strings": ["a"]})
    with pytest.raises(ModelError, match=f"has {texts} that are texts, which are not supported: exchange"):
        from_onnx(model)


@pytest.mark.parametrize("labels", [{"classlabels_int64s": [7, 9]}, {"classlabels_strings": ["a", "b"]}])
def test_maps_of_scores_are_their_columns(labels: dict[str, Any]) -> None:
    model = model_of("ZipMap", [["N", 2]], [1], **labels)
    data = np.array([[0.25, 0.75], [0.5, 0.5], [1.0, 0.0]], "float32")
    (scores,) = relay_layout.compile(model, shipped_records=False).session().run({"x0": data}).values()
    (maps,) = reference_session(model.SerializeToString()).run(None, {"x0": data})
    np.testing.assert_array_equal(scores, [list(each.values()) for each in maps])
