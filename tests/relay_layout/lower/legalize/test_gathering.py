"""Places that data decide: ONNX Runtime's numbers within a tensor, and nothing beyond it is touched."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import relay_layout
from relay_layout.errors import InputError
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


NOTHING = {
    "rows": ("Gather (x, i)", "int64[k] i", (1,), "min(i.shape[0], 1)", "i.shape[0] = 1"),
    "known rows": ("Gather (x, i)", "int64[2] i", (2,), "1", ""),
    "elements along axes": (
        "GatherND (x, i)",
        "int64[k,2] i",
        (1, 2),
        "min(i.shape[0] * 2, 1)",
        "i.shape[0] = 1",
    ),
    "elements": (
        "GatherElements (x, i)",
        "int64[k,4,5] i",
        (1, 4, 5),
        "min(i.shape[0] * 20, 1)",
        "i.shape[0] = 1",
    ),
}


@pytest.mark.parametrize("case", NOTHING)
def test_there_is_no_element_in_nothing(case: str, tmp_path: Path) -> None:
    body, places, shape, least, got = NOTHING[case]
    header = '<ir_version: 8, opset_import: ["" : 18]> nothing'
    model = onnx.parser.parse_model(f"{header} (float[n,4,5] x, {places}) => (float y) {{ y = {body} }}")
    relay_layout.compile(model).save(tmp_path / "nothing.rla")
    session = relay_layout.load(tmp_path / "nothing.rla")
    with pytest.raises(InputError) as error:
        session.run({"x": DATA[:0], "i": np.zeros(shape, "int64")})
    expected = f"the model was exported for inputs of which {least} <= x.shape[0], got "
    assert str(error.value) == expected + ", ".join(filter(None, [got, "x.shape[0] = 0"]))
    if "k" in places:
        (found,) = session.run({"x": DATA[:0], "i": np.zeros((0, *shape[1:]), "int64")}).values()
        assert found.size == 0


@pytest.mark.parametrize(
    "body",
    ["Gather (q, i)", "GatherND (q, u)", "GatherElements (q, i)"],
)
@pytest.mark.parametrize("kind", ["float", "bool"])
def test_of_what_the_data_leave_empty_nothing_is_read(body: str, kind: str, tmp_path: Path) -> None:
    header = '<ir_version: 8, opset_import: ["" : 18]> left'
    model = onnx.parser.parse_model(
        f"{header} (float[n] x, int64[k] i) => ({kind}[a] y) <int64[1] last = {{-1}}, float zero = {{0}}>"
        "{ m = Greater (x, zero)  r = Compress (x, m)"
        f"  q = {'Identity (r)' if kind == 'float' else 'Greater (r, zero)'}"
        f"  u = Unsqueeze (i, last)  y = {body} }}"
    )
    relay_layout.compile(model).save(tmp_path / "left.rla")
    session = relay_layout.load(tmp_path / "left.rla")
    places = np.array([0, 3, 1000000])
    (found,) = session.run({"x": np.zeros(3, "float32"), "i": places}).values()
    np.testing.assert_array_equal(found, np.zeros(3, found.dtype))
    (found,) = session.run({"x": np.array([0, 2, 5], "float32"), "i": places[:1]}).values()
    np.testing.assert_array_equal(found, [2 if kind == "float" else True])


@pytest.mark.parametrize("place", [3, -7, 10**12, -(10**12)])
def test_nothing_is_written_beyond(place: int, tmp_path: Path) -> None:
    rows, _ = outputs("ScatterND (x, i, u)", [[place]], tmp_path, 3)
    np.testing.assert_array_equal(rows, DATA)
    elements, _ = outputs("ScatterND (x, i, u)", [[0, place % 100 + 4]], tmp_path, 3)
    np.testing.assert_array_equal(elements, DATA)
