"""Norms of types for which TVM has no loops."""

from collections.abc import Sequence

import numpy as np
import pytest
from tvm import relax

from tests.layout_graphs import execute

SHAPE = (2, 6, 5, 7)
DATA = np.random.default_rng(0).standard_normal(SHAPE)


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape)


def computed(call: relax.Call, data: relax.Var, given: np.ndarray = DATA) -> np.ndarray:
    builder = relax.BlockBuilder()
    with builder.function("main", [data]):
        with builder.dataflow():
            result = builder.emit_output(relax.Tuple([builder.emit(call)]))
        builder.emit_func_output(result)
    (found,) = execute(builder.finalize(), given)
    return found


def normalized(axes: Sequence[int]) -> np.ndarray:
    deviation = DATA - DATA.mean(tuple(axes), keepdims=True)
    return deviation / np.sqrt((deviation**2).mean(tuple(axes), keepdims=True) + 1e-3)


@pytest.mark.parametrize("axes", [[-1], [2, 3], [3, 2], [1, 3]], ids=str)
def test_layer_norm_of_doubles(axes: list[int]) -> None:
    extents = [SHAPE[axis] for axis in axes]
    gamma, beta = random(*extents), random(*extents)
    data = relax.Var("data", relax.TensorType(SHAPE, "float64"))
    parameters = (relax.const(array, "float64") for array in (gamma, beta))
    found = computed(relax.op.nn.layer_norm(data, *parameters, axes=axes, epsilon=1e-3), data)
    places = [axis % 4 for axis in axes]
    lined_up = [
        array.transpose(np.argsort(places)).reshape(
            [SHAPE[axis] if axis in places else 1 for axis in range(4)]
        )
        for array in (gamma, beta)
    ]
    np.testing.assert_allclose(found, normalized(axes) * lined_up[0] + lined_up[1], rtol=1e-12)


def test_group_norm_of_doubles() -> None:
    gamma, beta = random(6), random(6)
    data = relax.Var("data", relax.TensorType(SHAPE, "float64"))
    parameters = (relax.const(array, "float64") for array in (gamma, beta))
    call = relax.op.nn.group_norm(data, *parameters, num_groups=3, channel_axis=1, axes=[2, 3], epsilon=1e-3)
    grouped = DATA.reshape(2, 3, -1)
    deviation = grouped - grouped.mean(2, keepdims=True)
    wanted = deviation / np.sqrt((deviation**2).mean(2, keepdims=True) + 1e-3)
    wanted = wanted.reshape(SHAPE) * gamma[:, None, None] + beta[:, None, None]
    np.testing.assert_allclose(computed(call, data), wanted, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int64", "float16", "float32"])
def test_the_first_of_elements_that_are_all_the_least_or_the_greatest(dtype: str) -> None:
    kind = np.dtype(dtype)
    limits = (-np.inf, np.inf) if kind.kind == "f" else (np.iinfo(kind).min, np.iinfo(kind).max)
    for operator, limit in zip((relax.op.argmax, relax.op.argmin), limits, strict=True):
        rows = np.full((2, 4), limit, dtype)
        rows[1, 2] = 3
        data = relax.Var("data", relax.TensorType(rows.shape, dtype))
        np.testing.assert_array_equal(computed(operator(data, 1), data, rows), [0, 2])
