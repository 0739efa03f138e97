"""Places that data decide: ONNX Runtime's numbers within a tensor, and nothing beyond it is touched."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import relay_layout
from tests.onnx_reference import reference_session

DATA = np.arange(60, dtype="float32").reshape(3, 4, 5)

WITHIN = {
    "rows": ("GatherND (x, i)", [[2], [-1]]),
    "along two axes": ("GatherND (x, i)", [[2, -1], [-3, 3]]),
    "elements of a batch": ("GatherND <batch_dims=1> (x, i)", [[[3, 4]], [[-4, 0]], [[0, -5]]]),
    "elements": ("GatherElements <axis=1> (x, i)", [[[0, -1, 2, 3, -4]], [[1] * 5], [[-2] * 5]]),
    "written rows": ("ScatterND (x, i, u)", [[2], [-3]]),
    "written along two axes": ("ScatterND (x, i, u)", [[2, -1], [-3, 3]]),
    "added elements": ('ScatterND <reduction="add"> (x, i, u)', [[2, -1, 0], [-3, 3, 4], [2, 3, 0]]),
}


def model_of(body: str, places: np.ndarray, updates: np.ndarray, rows: Any) -> Any:
    shapes = [",".join(map(str, array.shape)) for array in (places, updates)]
    inputs = f"float[{rows},4,5] x, int64[{shapes[0]}] i"
    inputs += f", float[{shapes[1]}] u" if "u" in body.split("(")[1] else ""
    header = '<ir_version: 8, opset_import: ["" : 18]> places'
    return onnx.parser.parse_model(f"{header} ({inputs}) => (float y) {{ y = {body} }}")


def outputs(body: str, places: Any, folder: Path, rows: Any) -> tuple[np.ndarray, Any]:
    """Ours, and the session of ONNX Runtime with the same inputs."""
    index = np.asarray(places, "int64")
    updates = -np.arange(1, 1 + np.prod(index.shape[:-1]) * 20, dtype="float32")
    updates = updates.reshape(*index.shape[:-1], -1)
    if "ScatterND" in body:
        updates = np.ascontiguousarray(updates[..., : np.prod((3, 4, 5)[index.shape[-1] :], dtype=int)])
        updates = updates.reshape(*index.shape[:-1], *(3, 4, 5)[index.shape[-1] :])
    model = model_of(body, index, updates, rows)
    inputs = {"x": DATA, "i": index, "u": updates}
    inputs = {entry.name: inputs[entry.name] for entry in model.graph.input}
    relay_layout.compile(model).save(folder / "places.rla")
    (found,) = relay_layout.load(folder / "places.rla").run(inputs).values()
    return found, lambda: reference_session(model.SerializeToString()).run(None, inputs)[0]


@pytest.mark.parametrize("rows", [3, "n"])
@pytest.mark.parametrize("case", WITHIN)
def test_places_within(case: str, rows: Any, tmp_path: Path) -> None:
    if case == "elements" and rows == "n":
        pytest.skip("there are places for as many rows as the data have")
    found, reference = outputs(*WITHIN[case], tmp_path, rows)
    np.testing.assert_array_equal(found, reference())


@pytest.mark.parametrize("place", [3, -7, 10**12, -(10**12)])
def test_places_beyond_are_those_at_the_edge(place: int, tmp_path: Path) -> None:
    rows, _ = outputs("GatherND (x, i)", [[place]], tmp_path, 3)
    np.testing.assert_array_equal(rows, DATA[[2 if place > 0 else 0]])
    elements, _ = outputs("GatherElements <axis=0> (x, i)", [[[place, 0]]], tmp_path, 3)
    np.testing.assert_array_equal(elements, [[[DATA[2 if place > 0 else 0, 0, 0], DATA[0, 0, 1]]]])


@pytest.mark.parametrize("place", [3, -7, 10**12, -(10**12)])
def test_nothing_is_written_beyond(place: int, tmp_path: Path) -> None:
    rows, _ = outputs("ScatterND (x, i, u)", [[place]], tmp_path, 3)
    np.testing.assert_array_equal(rows, DATA)
    elements, _ = outputs("ScatterND (x, i, u)", [[0, place % 100 + 4]], tmp_path, 3)
    np.testing.assert_array_equal(elements, DATA)
