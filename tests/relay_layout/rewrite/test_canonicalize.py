"""Calls in the form that inference needs."""

import numpy as np
import pytest
from tvm import relax

from relay_layout.rewrite.canonicalize import canonicalize
from tests.module_operators import operators
from tests.relax_modules import main_of
from tests.relay_layout.rewrite.small_modules import module_of, random, run


def dropout(builder: relax.BlockBuilder, data: relax.Expr) -> relax.Expr:
    return builder.emit(
        relax.op.nn.relu(builder.emit(relax.TupleGetItem(builder.emit(relax.op.nn.dropout(data)), 0)))
    )


def test_dropout_disappears() -> None:
    assert operators(canonicalize(module_of(dropout))) == ["nn.relu"]


def test_a_broadcast_to_the_own_shape_disappears() -> None:
    def emit(builder: relax.BlockBuilder, data: relax.Expr) -> relax.Expr:
        same = builder.emit(relax.op.broadcast_to(data, (2, 3, 6, 6)))
        return builder.emit(relax.op.nn.relu(same))

    assert operators(canonicalize(module_of(emit))) == ["nn.relu"]


@pytest.mark.parametrize(("index", "axis"), [(1, 1), (2, -1), (0, 0)])
def test_what_takes_one_index_is_a_slice(index: int, axis: int) -> None:
    module = module_of(lambda builder, data: builder.emit(relax.op.take(data, relax.const(index), axis)))
    image = np.random.default_rng(0).standard_normal((2, 3, 6, 6), dtype="float32")
    assert operators(canonicalize(module)) == ["strided_slice", "squeeze"]
    np.testing.assert_array_equal(run(canonicalize(module), image), image.take(index, axis))


@pytest.mark.parametrize("index", [3, -1, [1]], ids=["beyond", "negative", "one of many"])
def test_other_indices_stay(index: int | list[int]) -> None:
    module = module_of(lambda builder, data: builder.emit(relax.op.take(data, relax.const(index), 1)))
    assert operators(canonicalize(module)) == ["take"]


@pytest.mark.parametrize(
    ("data", "weight", "kept"),
    [
        ((2, 5, 6), (1, 6, 7), (6, 7)),
        ((2, 3, 5, 6), (1, 1, 6, 7), (6, 7)),
        ((2, 5, 6), (2, 6, 7), (2, 6, 7)),
        ((5, 6), (1, 6, 7), (1, 6, 7)),
    ],
    ids=["rows of three", "rows of four", "several matrices", "a result of more dimensions"],
)
def test_a_batch_of_one_constant_matrix_is_the_matrix(
    data: tuple[int, ...], weight: tuple[int, ...], kept: tuple[int, ...]
) -> None:
    matrices = random(*weight, seed=1)
    module = canonicalize(module_of(lambda builder, x: builder.emit(relax.op.matmul(x, matrices)), data))
    (block,) = module["main"].body.blocks
    assert tuple(block.bindings[0].value.args[1].ty.shape.values) == kept
    rows = np.random.default_rng(0).standard_normal(data, dtype="float32")
    np.testing.assert_allclose(run(module, rows), np.matmul(rows, matrices.value.numpy()), 1e-5, 1e-5)


@pytest.mark.parametrize(
    ("data", "weight", "copies", "kept"),
    [
        ((2, 5, 6), (6, 7), (2, 6, 7), (6, 7)),
        ((2, 5, 6), (1, 6, 7), (2, 6, 7), (1, 6, 7)),
        ((4, 2, 5, 6), (1, 6, 7), (2, 6, 7), (1, 6, 7)),
        ((4, 2, 5, 6), (4, 1, 6, 7), (4, 2, 6, 7), (4, 1, 6, 7)),
        ((1, 5, 6), (1, 6, 7), (2, 6, 7), (2, 6, 7)),
        ((5, 6), (1, 6, 7), (2, 6, 7), (2, 6, 7)),
        ((2, 5, 6), (1, 1, 7), (2, 6, 7), (2, 6, 7)),
    ],
    ids=str,
)
def test_copies_of_matrices_are_left_to_the_product(
    data: tuple[int, ...], weight: tuple[int, ...], copies: tuple[int, ...], kept: tuple[int, ...]
) -> None:
    inputs = [
        relax.Var(name, relax.TensorType(shape, "float32")) for name, shape in (("x", data), ("y", weight))
    ]
    with main_of(*inputs) as builder:
        copied = builder.emit(relax.op.broadcast_to(inputs[1], copies))
        builder.result = relax.op.matmul(inputs[0], copied)
    module = canonicalize(builder.finalize())
    calls = [binding.value for block in module["main"].body.blocks for binding in block.bindings]
    (product,) = (call for call in calls if isinstance(call, relax.Call) and call.op.name == "relax.matmul")
    assert tuple(product.args[1].ty.shape.values) == kept
    rng = np.random.default_rng(0)
    rows, matrices = (rng.standard_normal(shape, dtype="float32") for shape in (data, weight))
    np.testing.assert_allclose(
        run(module, rows, matrices), np.matmul(rows, np.broadcast_to(matrices, copies)), 1e-5, 1e-5
    )
