"""Sorts of all numbers, also of those that TVM's sort does not take."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

import relay_layout
from tests.attention_graphs import Build, module_of
from tests.layout_graphs import compiled
from tests.legalizing import legalized

op = relax.op

INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


def numbers(dtype: str) -> np.ndarray:
    """All different, the least and the greatest among them."""
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(0)
    rows = [rng.permutation(20).astype(dtype) for _ in range(3)]
    rows[0][[3, 7]] = limits.min, limits.max
    rows[1][[9, 2]] = limits.max - 1, limits.max
    return np.stack(rows)


def results(build: Build, data: np.ndarray) -> list[np.ndarray]:
    module = module_of(build, dtype=str(data.dtype), data=data.shape)
    found = compiled(module)["main"](tvm.runtime.tensor(data))
    return [found.numpy()] if isinstance(found, tvm.runtime.Tensor) else [one.numpy() for one in found]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_sorted_integers(dtype: str, descending: bool) -> None:
    data = numbers(dtype)

    def build(emit: Any, given: dict[str, relax.Var]) -> Any:
        return op.sort(given["data"], 1, descending)

    (found,) = results(build, data)
    wanted = np.sort(data, 1)
    np.testing.assert_array_equal(found, wanted[:, ::-1] if descending else wanted)
    assert found.dtype == dtype


@pytest.mark.parametrize("dtype", INTEGERS)
def test_the_order_of_integers(dtype: str) -> None:
    data = numbers(dtype)

    def build(emit: Any, given: dict[str, relax.Var]) -> Any:
        return op.argsort(given["data"], 0, dtype="int64")

    (found,) = results(build, data)
    np.testing.assert_array_equal(np.take_along_axis(data, found, 0), np.sort(data, 0))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("length", [30, 400])
def test_rows_in_order(dtype: str, length: int, descending: bool) -> None:
    """With their places, of equal ones the first first."""
    data = np.random.default_rng(0).integers(-50, 50, (2, 3, length)).astype(dtype)

    def build(emit: Any, given: dict[str, relax.Var]) -> Any:
        ordered = emit(op.sort(given["data"], -1, descending))
        return relax.Tuple([ordered, emit(op.argsort(given["data"], -1, descending, "int32"))])

    ordered, places = results(build, data)
    wanted = np.argsort(-data if descending else data, -1, kind="stable")
    np.testing.assert_array_equal(places, wanted)
    np.testing.assert_array_equal(ordered, np.take_along_axis(data, wanted, -1))
    assert (ordered.dtype, places.dtype) == (dtype, "int32")


@pytest.mark.parametrize("axis", [0, 1, -2])
def test_the_order_along_other_axes(axis: int) -> None:
    """As along rows: of equal ones the first first."""
    data = np.random.default_rng(0).integers(-9, 9, (23, 17, 5)).astype("float32")

    def build(emit: Any, given: dict[str, relax.Var]) -> Any:
        top = emit(op.topk(given["data"], 3, axis, "both", True, "int64"))
        ends = [emit(relax.TupleGetItem(top, place)) for place in range(2)]
        places = emit(op.argsort(given["data"], axis, False, "int32"))
        return relax.Tuple([*ends, emit(op.sort(given["data"], axis, True)), places])

    values, tops, ordered, places = results(build, data)
    order, rising = (np.argsort(each, axis, kind="stable") for each in (-data, data))
    np.testing.assert_array_equal(tops, np.take(order, range(3), axis))
    np.testing.assert_array_equal(values, np.take_along_axis(data, tops, axis))
    np.testing.assert_array_equal(ordered, np.take_along_axis(data, order, axis))
    np.testing.assert_array_equal(places, rising)


@pytest.mark.parametrize("wanted", ["both", "values", "indices"])
@pytest.mark.parametrize("dtype", [*INTEGERS, "float32", "float64"])
def test_the_greatest_numbers(dtype: str, wanted: str) -> None:
    data = numbers(dtype) if dtype in INTEGERS else np.random.default_rng(0).random((3, 20)).astype(dtype)

    def build(emit: Any, given: dict[str, relax.Var]) -> Any:
        return op.topk(given["data"], 4, 1, wanted, True, "int64")

    greatest = np.sort(data, 1)[:, ::-1][:, :4]
    found = results(build, data)
    for name, array in zip(["values", "indices"] if wanted == "both" else [wanted], found, strict=True):
        values = array if name == "values" else np.take_along_axis(data, array, 1)
        np.testing.assert_array_equal(values, greatest)
        assert array.dtype == (dtype if name == "values" else "int64")


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("wanted", ["both", "values", "indices"])
@pytest.mark.parametrize("count", [11, 30, 60, -1])
def test_the_first_of_rows(count: int, wanted: str, largest: bool) -> None:
    """Of equal ones the first first: by insertion, of those that may be among them, or of all."""
    data = np.random.default_rng(0).integers(0, 40, (2, 3, 90)).astype("float32")
    order = np.argsort(-data if largest else data, axis=-1, kind="stable")[..., : count % 91]
    expected = {"values": np.take_along_axis(data, order, -1), "indices": order.astype("int32")}

    def build(emit: Any, given: dict[str, relax.Var]) -> Any:
        return op.topk(given["data"], count, -1, wanted, largest, "int32")

    found = results(build, data)
    for name, have in zip(expected if wanted == "both" else [wanted], found, strict=True):
        np.testing.assert_array_equal(have, expected[name])


@pytest.mark.parametrize(
    ("dtype", "axis", "is_ours"),
    [("float32", -1, True), ("int32", 1, True), ("float32", 0, True), ("int64", -1, False)],
)
def test_other_sorts_are_left_to_tvm(dtype: str, axis: int, is_ours: bool) -> None:
    def build(emit: Any, given: dict[str, relax.Var]) -> Any:
        return op.topk(given["data"], 3, axis, "both", True, "int32")

    module = module_of(build, dtype=dtype, data=(6, 30))
    names = {variable.name_hint for variable in legalized(module).get_global_vars()}
    assert ("topk" in names) == is_ours


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "int32", "float32"])
def test_medians(dtype: str, tmp_path: Path) -> None:
    data = np.array([[1, 0, 100, 3, 90], [1, 1, 0, 0, 0]]).astype(dtype)

    def build(emit: Any, given: dict[str, relax.Var]) -> Any:
        return emit(relax.TupleGetItem(emit(op.median(given["data"], [1])), 0))

    path = tmp_path / "median.rla"
    relay_layout.compile(module_of(build, dtype=dtype, data=data.shape), threads=1).save(path)
    (found,) = relay_layout.load(path, threads=1).run({"data": data}).values()
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, np.sort(data, 1)[:, 2])
