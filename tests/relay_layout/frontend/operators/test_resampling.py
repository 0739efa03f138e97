"""What is computed for extents that are known is what kernels compute for open ones."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from relay_layout.frontend.operators.resampling import NUMPY, Resampling, ResizedAxis, weight_at

DATA = np.random.default_rng(3).standard_normal((2, 5, 3)).astype("float32")
AFTER = 7


def place(functions: Any, element: Any, before: Any, after: Any) -> Any:
    return functions.divided(element, functions.divided(functions.real(after), functions.real(before)))


def index(functions: Any, *given: Any) -> Any:
    return functions.minimum(functions.place(functions.floor(place(functions, *given))), given[1] - 1)


def share(tap: int, functions: Any, *given: Any) -> Any:
    part = place(functions, *given) - functions.floor(place(functions, *given))
    return weight_at(functions, part if tap < 1 else 1.0 - part, cubic=False, sharpness=0)


def weight(functions: Any, row: Any, column: Any, before: Any, after: Any) -> Any:
    offset = row - place(functions, column, before, after)
    distance = functions.maximum(offset, -offset) / 1.5
    return weight_at(functions, distance, cubic=True, sharpness=-0.5)


WAYS: dict[str, Callable[[Resampling, Any, ResizedAxis], Any]] = {
    "picked": lambda resampling, data, axis: resampling.picked(data, axis, index),
    "from neighbours": lambda resampling, data, axis: resampling.from_neighbours(
        data, axis, (0, 1), place, share
    ),
    "by a matrix": lambda resampling, data, axis: resampling.by_matrix(data, axis, weight),
    "by a matrix and what is around": lambda resampling, data, axis: resampling.by_matrix(
        data, axis, weight, 4
    ),
}


def computed(way: Callable[[Resampling, Any, ResizedAxis], Any], before: Any, after: Any) -> np.ndarray:
    builder = relax.BlockBuilder()
    data = relax.Var("data", relax.TensorType((2, before, 3), "float32"))
    size = relax.Var("size", relax.TensorType((after,), "float32"))
    with builder.function("main", [data, size]):
        builder.emit_func_output(way(Resampling(builder), data, ResizedAxis(1, before, after)))
    machine = relax.VirtualMachine(tvm.compile(builder.finalize(), "llvm"), tvm.cpu())
    found = machine["main"](tvm.runtime.tensor(DATA), tvm.runtime.tensor(np.zeros(AFTER, "float32")))
    return found.numpy()


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_open_extents_are_as_known_ones(way: Callable[[Resampling, Any, ResizedAxis], Any]) -> None:
    known = computed(way, DATA.shape[1], AFTER)
    opened = computed(way, tirx.Var("before", "int64"), tirx.Var("after", "int64"))
    assert known.shape == (2, AFTER, 3)
    np.testing.assert_allclose(opened, known, rtol=1e-5, atol=1e-6)


def test_what_is_around_counts_for_the_outermost_elements() -> None:
    """As it would if it were there."""
    wide = np.pad(DATA, [(0, 0), (4, 4), (0, 0)], mode="edge")
    rows, columns = np.arange(-4, 9, dtype="float32"), np.arange(AFTER, dtype="float32")
    shares = weight(NUMPY, rows[:, None], columns, 5, AFTER)
    wanted = np.einsum("nrc,rk->nkc", wide, shares / shares.sum(0))
    found = computed(WAYS["by a matrix and what is around"], DATA.shape[1], AFTER)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("before", "multiplies"), [(5, True), (120, False)])
@pytest.mark.parametrize("after", [40, 130])
def test_matrices_of_mostly_zeros_are_not_multiplied(before: int, multiplies: bool, after: int) -> None:
    builder = relax.BlockBuilder()
    data = relax.Var("data", relax.TensorType((2, before), "float32"))
    axis = ResizedAxis(1, before, after)
    with builder.function("main", [data]):
        builder.emit_func_output(Resampling(builder).by_matrix(data, axis, weight, 4))
    module = builder.finalize()
    assert ("R.matmul(" in module.script()) == multiplies
    values = np.random.default_rng(1).standard_normal((2, before)).astype("float32")
    wide = np.pad(values, [(0, 0), (4, 4)], mode="edge")
    rows, columns = np.arange(-4, before + 4, dtype="float32"), np.arange(after, dtype="float32")
    shares = weight(NUMPY, rows[:, None], columns, before, after)
    machine = relax.VirtualMachine(tvm.compile(module, "llvm"), tvm.cpu())
    found = machine["main"](tvm.runtime.tensor(values)).numpy()
    np.testing.assert_allclose(found, wide @ (shares / shares.sum(0)), rtol=1e-5, atol=1e-6)
