"""Scattering agrees with a loop of NumPy's, element by element and by rows."""

from typing import Any

import numpy as np
import pytest
from kernel_harness import Array, compile_function, data_of, host_cpus, run_function, target_for
from tvm import te, tirx

from topi_ext.compute.scattering import CHUNK, COMBINATIONS, scattered, scattered_within

TARGET = target_for(host_cpus()[-1])

COMBINED: dict[str, Any] = {
    "update": lambda there, new: new,
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "mean": lambda there, new: (there + new) / 2,
}


def by_definition(data: Array, places: Array, updates: Array, reduction: str) -> Array:
    result = data.copy()
    full = np.broadcast_to(places, updates.shape)
    for row, number, column in np.ndindex(*updates.shape):
        at = full[row, number, column]
        result[row, at, column] = COMBINED[reduction](result[row, at, column], updates[row, number, column])
    return result


def check(shape: tuple[int, int, int], places: Array, reduction: str, symbolic: bool = False) -> None:
    data = data_of(*shape)
    updates = data_of(shape[0], places.shape[1], shape[2], seed=1)
    extents = [tirx.Var(name, "int64") if symbolic else size for name, size in zip("oei", shape, strict=True)]
    count = tirx.Var("c", "int64") if symbolic else places.shape[1]
    by_row = places.shape[0] == places.shape[2] == 1
    tensors = [
        te.placeholder(extents, "float32"),
        te.placeholder((1, count, 1) if by_row else (extents[0], count, extents[2]), str(places.dtype)),
        te.placeholder((extents[0], count, extents[2]), "float32"),
    ]
    result = scattered(tensors[0], tensors[1], tensors[2], reduction)
    function = compile_function(te.create_prim_func([*tensors, result]), TARGET)
    (found,) = run_function(function, [data, places, updates], [(shape, "float32")])
    np.testing.assert_array_equal(found, by_definition(data, places, updates, reduction))


def several(extent: int, shape: tuple[int, ...], dtype: str = "int64") -> Array:
    """Places from either end, most of them more than once."""
    return np.random.default_rng(len(shape) + extent).integers(-extent, extent, shape).astype(dtype)


@pytest.mark.parametrize("reduction", sorted(COMBINATIONS))
@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
def test_elements(reduction: str, symbolic: bool) -> None:
    check((2, 5, 3), several(5, (2, 9, 3)), reduction, symbolic)


@pytest.mark.parametrize("reduction", sorted(COMBINATIONS))
@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
def test_rows(reduction: str, symbolic: bool) -> None:
    check((1, 5, 7), several(5, (1, 8, 1)), reduction, symbolic)


@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
@pytest.mark.parametrize("inner", [CHUNK, CHUNK + 1, 2 * CHUNK + 452])
def test_rows_that_several_threads_share(inner: int, symbolic: bool) -> None:
    check((2, 9, inner), several(9, (1, 11, 1)), "add", symbolic)


def test_elements_along_the_last_axis() -> None:
    check((700, 31, 1), several(31, (700, 5, 1), "int32"), "update")


@pytest.mark.parametrize("reduction", ["update", "add"])
@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
@pytest.mark.parametrize(
    ("shape", "given", "axis"),
    [((7,), (9,), 0), ((4, 5, 3, 6), (2, 9, 3, 4), 1), ((4, 5, 6), (2, 3, 2), 0), ((1, 4, 5), (1, 6, 2), 1)],
)
def test_updates_of_a_part_of_the_data(
    shape: tuple[int, ...], given: tuple[int, ...], axis: int, symbolic: bool, reduction: str
) -> None:
    """Shorter on other axes than the one that places are along, each extent a symbol of its own."""
    places = several(shape[axis], given)
    arrays = [data_of(*shape), places, data_of(*given, seed=1)]
    tensors = [
        te.placeholder(
            [tirx.Var(f"{name}{at}", "int64") if symbolic else size for at, size in enumerate(array.shape)],
            str(array.dtype),
        )
        for name, array in zip("dpu", arrays, strict=True)
    ]
    result = scattered_within(tensors[0], tensors[1], tensors[2], axis, reduction)
    function = compile_function(te.create_prim_func([*tensors, result]), TARGET)
    (found,) = run_function(function, arrays, [(shape, "float32")])
    expected = arrays[0].copy()
    for index in np.ndindex(*given):
        at = (*index[:axis], places[index], *index[axis + 1 :])
        expected[at] = COMBINED[reduction](expected[at], arrays[2][index])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
def test_the_result_may_have_another_shape(symbolic: bool) -> None:
    rows = tirx.Var("n", "int64") if symbolic else 6
    data, places, updates = data_of(1, 6, 5), several(6, (1, 4, 1)), data_of(1, 4, 5, seed=1)
    tensors = [
        te.placeholder((1, rows, 5), "float32"),
        te.placeholder(places.shape, "int64"),
        te.placeholder(updates.shape, "float32"),
    ]
    result = scattered(*tensors, "add", shape=(rows, 5))
    function = compile_function(te.create_prim_func([*tensors, result]), TARGET)
    (found,) = run_function(function, [data, places, updates], [((6, 5), "float32")])
    np.testing.assert_array_equal(found, by_definition(data, places, updates, "add")[0])
