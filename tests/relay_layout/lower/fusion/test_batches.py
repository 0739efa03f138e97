"""Products are batched as what is around them is, where reshapes change nothing else."""

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_layout.ir import operator_name, shape_of
from relay_layout.lower.fusion.batches import regroup_batches
from tests.attention_graphs import Build, module_of
from tests.layout_graphs import compiled

op = relax.op

ZERO = relax.const(0.0, "float32")

SHAPES: dict[str, tuple[Any, ...]] = {"a": (6, 5, 8), "b": (6, 8, 7), "c": (2, 3, 5, 7)}


def products(module: tvm.IRModule) -> list[tuple[Any, ...]]:
    """The shapes of all matrix products."""
    tidy = (relax.transform.CanonicalizeBindings(), relax.transform.DeadCodeElimination())
    main = tvm.transform.Sequential(tidy)(module)["main"]
    values = [binding.value for block in main.body.blocks for binding in block.bindings]
    return [shape_of(value) or () for value in values if operator_name(value) == "matmul"]


def check(build: Build, expected: list[tuple[int, ...]], **shapes: tuple[Any, ...]) -> None:
    module = module_of(build, **(SHAPES | shapes))
    regrouped = regroup_batches(module)
    assert products(regrouped) == expected
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-3, 4, shape).astype("float32") for shape in (SHAPES | shapes).values()]
    given = [tvm.runtime.tensor(array) for array in arrays]
    results = [compiled(each)["main"](*given).numpy() for each in (module, regrouped)]
    np.testing.assert_array_equal(*results)


def test_a_reshape_of_the_result_becomes_those_of_operands() -> None:
    def build(emit: Any, given: dict[str, relax.Var]) -> Any:
        scores = emit(op.reshape(emit(op.matmul(given["a"], given["b"])), (2, 3, 5, 7)))
        return op.add(scores, given["c"])

    check(build, [(2, 3, 5, 7)])


@pytest.mark.parametrize(("images", "batch"), [(1, (2, 3)), (2, (2, 2, 3))])
def test_scores_of_windows_are_not_reshaped_for_a_mask(images: int, batch: tuple[int, ...]) -> None:
    """As of shifted windows: a bias for each head, and between reshapes a mask for each window."""
    rng = np.random.default_rng(1)
    bias = relax.const(rng.integers(-3, 4, (1, 3, 5, 7)).astype("float32"))
    mask = relax.const(rng.integers(-3, 4, (1, 2, 1, 5, 7)).astype("float32"))

    def build(emit: Any, given: dict[str, relax.Var]) -> Any:
        scores = emit(op.add(emit(op.matmul(given["a"], given["b"])), bias))
        masked = emit(op.add(emit(op.reshape(scores, (images, 2, 3, 5, 7))), mask))
        shares = emit(op.nn.softmax(emit(op.reshape(masked, (2 * images, 3, 5, 7))), -1))
        return op.matmul(shares, emit(op.permute_dims(given["b"], [0, 1, 3, 2])))

    windows = 2 * images
    check(build, [(*batch, 5, 7), (*batch, 5, 8)], a=(windows, 3, 5, 8), b=(windows, 3, 8, 7))


def test_a_reshape_of_shares_becomes_one_of_the_result() -> None:
    def build(emit: Any, given: dict[str, relax.Var]) -> Any:
        shares = emit(op.nn.relu(emit(op.nn.softmax(emit(op.multiply(given["c"], ZERO)), -1))))
        rows = emit(op.reshape(shares, (6, 5, 7)))
        sums = emit(op.matmul(rows, emit(op.permute_dims(given["b"], [0, 2, 1]))))
        return op.round(op.reshape(op.multiply(sums, relax.const(7.0, "float32")), (2, 3, 5, 8)))

    check(build, [(2, 3, 5, 8)])


def test_a_reshape_of_other_rows_stays_before_scores() -> None:
    """Behind them it would be between the scores and their softmax, which are one function otherwise."""

    def build(emit: Any, given: dict[str, relax.Var]) -> Any:
        query = emit(op.reshape(emit(op.strided_slice(given["c"], [0], [0], [1])), (3, 5, 7)))
        key = emit(op.reshape(emit(op.strided_slice(given["c"], [0], [1], [2])), (3, 5, 7)))
        scores = emit(op.matmul(query, emit(op.permute_dims(key, [0, 2, 1]))))
        return op.matmul(scores, query)

    check(build, [(3, 5, 5), (3, 5, 7)])


def test_views_of_views_are_left_out() -> None:
    def build(emit: Any, given: dict[str, relax.Var]) -> Any:
        query = emit(op.reshape(emit(op.nn.relu(given["c"])), (6, 5, 7)))
        scores = emit(op.matmul(query, emit(op.permute_dims(given["b"], [0, 2, 1]))))
        shares = emit(op.nn.softmax(emit(op.reshape(scores, (2, 3, 5, 8))), -1))
        return op.reshape(emit(op.matmul(emit(op.reshape(shares, (6, 5, 8))), given["b"])), (2, 3, 5, 7))

    check(build, [(2, 3, 5, 8), (2, 3, 5, 7)])


def _is_read_twice(emit: Any, given: dict[str, relax.Var]) -> Any:
    scores = emit(op.matmul(given["a"], given["b"]))
    whole = emit(op.sum(scores))
    return op.add(emit(op.reshape(scores, (2, 3, 5, 7))), whole)


def _other_rows(emit: Any, given: dict[str, relax.Var]) -> Any:
    return op.reshape(emit(op.matmul(given["a"], given["b"])), (2, 15, 7))


def _other_columns(emit: Any, given: dict[str, relax.Var]) -> Any:
    return op.reshape(emit(op.matmul(given["a"], given["b"])), (2, 3, 7, 5))


def _no_batch(emit: Any, given: dict[str, relax.Var]) -> Any:
    matrix = emit(op.reshape(emit(op.strided_slice(given["b"], [0], [0], [1])), (8, 7)))
    return op.reshape(emit(op.matmul(given["a"], matrix)), (2, 3, 5, 7))


@pytest.mark.parametrize("build", [_is_read_twice, _other_rows, _other_columns, _no_batch])
def test_others_stay(build: Build) -> None:
    check(build, [(6, 5, 7)])
