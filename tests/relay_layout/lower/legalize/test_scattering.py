"""Rows that are scattered go as a whole; elements go along any axis, from updates of a part of the data."""

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_layout.lower.legalize.scattering import scatter_rows
from tests.attention_graphs import Build, module_of
from tests.layout_graphs import compiled
from tests.module_operators import operators

op = relax.op

SHAPES: dict[str, tuple[Any, ...]] = {"data": (5, 3, 4), "updates": (2, 3, 4), "places": (2, 1, 1)}


def build_of(axis: int = 0, reduction: str = "update", shape: tuple[Any, ...] = (2, 3, 4)) -> Build:
    def build(emit: Any, given: dict[str, relax.Var]) -> Any:
        places = emit(op.broadcast_to(emit(op.astype(given["places"], "int64")), shape))
        return op.scatter_elements(given["data"], places, given["updates"], axis, reduction)

    return build


def scatters(module: tvm.IRModule) -> list[str]:
    return [name for name in operators(module) if name.startswith("scatter")]


def run(module: tvm.IRModule, shapes: dict[str, tuple[int, ...]], extent: int) -> tuple[np.ndarray, ...]:
    """The result, data, updates and places."""
    rng = np.random.default_rng(0)
    arrays = {name: rng.integers(-9, 10, shape).astype("float32") for name, shape in shapes.items()}
    arrays["places"] = rng.permutation(extent)[: arrays["places"].size].reshape(shapes["places"])
    arrays["places"] = (arrays["places"] - arrays["places"] % 2 * extent).astype("float32")
    found = compiled(module)["main"](*map(tvm.runtime.tensor, arrays.values())).numpy()
    return found, arrays["data"], arrays["updates"], arrays["places"].astype(int)


@pytest.mark.parametrize("rows", [2, "rows"])
def test_places_of_whole_rows(rows: Any) -> None:
    """From either end, by any number of rows."""
    count = tvm.tirx.Var(rows, "int64") if isinstance(rows, str) else rows
    module = module_of(
        build_of(shape=(count, 3, 4)), data=(5, 3, 4), updates=(count, 3, 4), places=(count, 1, 1)
    )
    module = scatter_rows(module)
    assert scatters(module) == ["scatter_nd"]
    found, expected, updates, places = run(module, SHAPES, 5)
    expected[places.ravel()] = updates
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("axis", [0, 1])
def test_nothing_to_scatter(axis: int) -> None:
    none = tuple(0 if at == axis else extent for at, extent in enumerate((5, 3, 4)))
    shapes = {"data": (5, 3, 4), "updates": none, "places": tuple(min(extent, 1) for extent in none)}
    found, expected, *_ = run(scatter_rows(module_of(build_of(axis, shape=none), **shapes)), shapes, 0)
    np.testing.assert_array_equal(found, expected)


def test_rows_are_added_up() -> None:
    module = scatter_rows(module_of(build_of(reduction="add"), **SHAPES))
    assert scatters(module) == ["scatter_nd"]
    found, expected, updates, places = run(module, SHAPES, 5)
    expected[places.ravel()] += updates
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("axis", "places"), [(0, (2, 3, 1)), (1, (1, 3, 1)), (2, (1, 1, 4))])
def test_other_places_are_those_of_elements(axis: int, places: tuple[int, ...]) -> None:
    shapes = SHAPES | {
        "places": places,
        "data": tuple(7 if at == axis else n for at, n in enumerate((2, 3, 4))),
    }
    module = scatter_rows(module_of(build_of(axis), **shapes))
    assert scatters(module) == ["scatter_elements"]
    found, expected, updates, at = run(module, shapes, 7)
    np.put_along_axis(expected, np.broadcast_to(at, updates.shape), updates, axis)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("open_extents", [False, True])
def test_updates_of_a_part_of_the_data(open_extents: bool) -> None:
    """On every axis but the one that places are along; with all extents open, code is made in a moment."""
    shapes: dict[str, tuple[Any, ...]] = {
        "data": (3, 5, 4, 6),
        "updates": (2, 3, 2, 4),
        "places": (2, 3, 2, 4),
    }
    declared = shapes
    if open_extents:
        declared = {name: tuple(tvm.tirx.Var(f"{name}{at}", "int64") for at in range(4)) for name in shapes}

    def build(emit: Any, given: dict[str, relax.Var]) -> Any:
        places = emit(op.astype(given["places"], "int64"))
        return op.scatter_elements(given["data"], places, given["updates"], 1)

    rng = np.random.default_rng(0)
    arrays = {name: rng.integers(-9, 10, shape).astype("float32") for name, shape in shapes.items()}
    arrays["places"] = rng.integers(-5, 5, shapes["places"]).astype("float32")
    expected = arrays["data"].copy()
    for a, b, c, d in np.ndindex(*shapes["updates"]):
        expected[a, int(arrays["places"][a, b, c, d]), c, d] = arrays["updates"][a, b, c, d]
    module = module_of(build, **declared)
    found = compiled(module)["main"](*map(tvm.runtime.tensor, arrays.values())).numpy()
    np.testing.assert_array_equal(found, expected)
