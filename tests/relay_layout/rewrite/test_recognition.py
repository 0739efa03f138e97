"""Norms and GELU that are written out become the operators that they are, with equal results."""

from collections.abc import Callable
from math import erf
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.relax import op

from relay_layout.ir import constant
from relay_layout.rewrite.canonicalize import canonicalize
from tests.layout_graphs import execute
from tests.module_operators import canonical_operators
from tests.relax_modules import main_of

Step = Callable[[Any], Any]
RNG = np.random.default_rng(0)


def number(value: float) -> Any:
    return constant(np.asarray(value, "float32"))


def module_of(step: Callable[[relax.BlockBuilder, Any], Any], shape: tuple[Any, ...]) -> tvm.IRModule:
    data = relax.Var("data", relax.TensorType(shape, "float32"))
    with main_of(data) as builder:
        builder.result = relax.Tuple([builder.emit(step(builder, data))])
    return builder.finalize()


def equal(module: tvm.IRModule, expected: Callable[[np.ndarray], np.ndarray], shape: tuple[int, ...]) -> None:
    data = RNG.normal(3, 2, shape).astype("float32")
    (found,) = execute(canonicalize(module), data)
    np.testing.assert_allclose(found, expected(data.astype("float64")), rtol=1e-5, atol=1e-5)


def normalized(data: np.ndarray, axes: tuple[int, ...], epsilon: float = 1e-5) -> np.ndarray:
    mean, variance = (getattr(data, name)(axes, keepdims=True) for name in ("mean", "var"))
    return np.asarray((data - mean) / np.sqrt(variance + epsilon))


def steps(
    axes: list[int],
    square: Step = lambda x: op.multiply(x, x),
    last: Callable[[Any, Any], Any] = lambda x, v: op.divide(x, op.sqrt(v)),
    again: bool = False,
    epsilon: float = 1e-5,
) -> Callable[[relax.BlockBuilder, Any], Any]:
    """The arithmetic of a norm; ``again`` computes the difference twice, as PyTorch's exporter may."""

    def difference(builder: relax.BlockBuilder, data: Any) -> Any:
        mean = builder.emit(op.mean(data, axes, keepdims=True))
        return builder.emit(op.subtract(data, mean))

    def build(builder: relax.BlockBuilder, data: Any) -> Any:
        centred = difference(builder, data)
        other = difference(builder, data) if again else centred
        variance = builder.emit(op.mean(builder.emit(square(other)), axes, keepdims=True))
        return builder.normalize(last(centred, builder.emit(op.add(variance, number(epsilon)))))

    return build


@pytest.mark.parametrize(
    "build",
    [
        steps([-1]),
        steps([-1], square=lambda x: op.power(x, number(2))),
        steps([-1], square=op.square),
        steps([-1], last=lambda x, v: op.multiply(op.rsqrt(v), x)),
        steps([-1], last=lambda x, v: op.multiply(x, op.divide(number(1), op.sqrt(v)))),
        steps([-1], last=lambda x, v: op.divide(x, op.power(v, number(0.5)))),
        steps([-1], last=lambda x, v: op.multiply(x, op.power(v, number(-0.5)))),
        steps([-1], again=True),
    ],
    ids=["product", "power", "square", "rsqrt", "reciprocal", "half", "minus half", "difference twice"],
)
def test_a_layer_norm_is_known_however_it_is_written(build: Any) -> None:
    module = module_of(build, (2, 9, 24))
    assert canonical_operators(module) == ["nn.layer_norm"]
    equal(module, lambda data: normalized(data, (2,)), (2, 9, 24))


def test_a_variance_may_be_an_operator() -> None:
    def build(builder: relax.BlockBuilder, data: Any) -> Any:
        centred = op.subtract(data, builder.emit(op.mean(data, [2], keepdims=True)))
        variance = builder.emit(op.variance(data, [2], keepdims=True))
        return op.divide(builder.emit(centred), op.sqrt(builder.emit(op.add(number(1e-5), variance))))

    module = module_of(build, (2, 9, 24))
    assert canonical_operators(module) == ["nn.layer_norm"]
    equal(module, lambda data: normalized(data, (2,)), (2, 9, 24))


def affine(build: Any, scale: np.ndarray, shift: np.ndarray) -> Callable[[relax.BlockBuilder, Any], Any]:
    def whole(builder: relax.BlockBuilder, data: Any) -> Any:
        scaled = builder.emit(op.multiply(constant(scale), builder.emit(build(builder, data))))
        return op.add(scaled, constant(shift))

    return whole


@pytest.mark.parametrize(
    ("axes", "shape", "parameter", "name"),
    [
        ([2], (2, 9, 24), (24,), "nn.layer_norm"),
        ([1], (2, 24, 5, 7), (24, 1, 1), "nn.layer_norm"),
        ([1, 2], (2, 6, 5), (6, 1), "nn.layer_norm"),
        ([2, 3], (2, 24, 5, 7), (1, 24, 1, 1), "nn.instance_norm"),
        ([1, 2], (3, 5, 7), (), "nn.layer_norm"),
    ],
    ids=["rows", "channels", "planes", "images", "one number"],
)
def test_factors_and_terms_are_scale_and_shift(
    axes: list[int], shape: tuple[int, ...], parameter: tuple[int, ...], name: str
) -> None:
    scale, shift = (RNG.normal(1, 1, parameter).astype("float32") for _ in range(2))
    module = module_of(affine(steps(axes, epsilon=1e-3), scale, shift), shape)
    assert canonical_operators(module) == [name]
    equal(module, lambda data: normalized(data, tuple(axes), 1e-3) * scale + shift, shape)


def test_factors_along_other_axes_stay() -> None:
    scale, shift = (RNG.normal(1, 1, (9, 1)).astype("float32") for _ in range(2))
    module = module_of(affine(steps([2]), scale, shift), (2, 9, 24))
    assert canonical_operators(module) == ["nn.layer_norm", "multiply", "add"]


def test_a_second_term_stays() -> None:
    shift = np.ones(24, "float32")

    def build(builder: relax.BlockBuilder, data: Any) -> Any:
        return op.add(builder.emit(affine(steps([2]), shift, shift)(builder, data)), constant(shift))

    assert canonical_operators(module_of(build, (2, 9, 24))) == ["nn.layer_norm", "add"]


def test_a_norm_that_something_else_reads_keeps_its_parameters() -> None:
    def build(builder: relax.BlockBuilder, data: Any) -> Any:
        norm = builder.emit(steps([2])(builder, data))
        return op.add(builder.emit(op.multiply(norm, constant(np.ones(24, "float32")))), norm)

    assert canonical_operators(module_of(build, (2, 9, 24))) == ["nn.layer_norm", "multiply", "add"]


def test_a_norm_without_shift_gets_none() -> None:
    def build(builder: relax.BlockBuilder, data: Any) -> Any:
        ones = constant(np.ones(24, "float32"))
        norm = op.nn.layer_norm(data, ones, constant(np.zeros(24, "float32")), [2], center=False)
        return op.add(builder.emit(norm), ones)

    assert canonical_operators(module_of(build, (2, 9, 24))) == ["nn.layer_norm", "add"]


def test_an_image_that_is_normalized_as_a_whole_stays() -> None:
    assert "mean" in canonical_operators(module_of(steps([1, 2, 3]), (1, 3, 64, 64)))


def test_a_symbolic_batch() -> None:
    module = module_of(steps([-1]), (tirx.Var("n", "int64"), 9, 24))
    assert canonical_operators(module) == ["nn.layer_norm"]
    equal(module, lambda data: normalized(data, (2,)), (3, 9, 24))


def test_an_instance_norm_of_groups_is_a_group_norm() -> None:
    scale, shift = (RNG.normal(1, 1, (12, 1, 1)).astype("float32") for _ in range(2))

    def build(builder: relax.BlockBuilder, data: Any) -> Any:
        ones = np.full(4, 2, "float32")
        groups = builder.emit(op.reshape(data, (2, 4, 105)))
        norm = op.nn.instance_norm(groups, constant(ones), constant(ones * 0), 1, [2])
        return op.reshape(builder.emit(norm), (2, 12, 5, 7))

    module = module_of(affine(build, scale, shift), (2, 12, 5, 7))
    assert canonical_operators(module) == ["nn.group_norm"]

    def expected(data: np.ndarray) -> np.ndarray:
        return normalized(data.reshape(2, 4, 105), (2,)).reshape(data.shape) * 2 * scale + shift

    equal(module, expected, (2, 12, 5, 7))


def test_an_instance_norm_of_groups_of_any_size_is_a_group_norm() -> None:
    rows, columns = (tirx.Var(name, "int64") for name in ("rows", "columns"))

    def build(builder: relax.BlockBuilder, data: Any) -> Any:
        ones = np.ones(4, "float32")
        groups = builder.emit(op.reshape(data, (2, 4, rows * columns * 3)))
        norm = op.nn.instance_norm(groups, constant(ones), constant(ones * 0), 1, [2])
        return op.reshape(builder.emit(norm), (2, 12, rows, columns))

    module = module_of(build, (2, 12, rows, columns))
    assert canonical_operators(module) == ["nn.group_norm"]
    equal(module, lambda data: normalized(data.reshape(2, 4, -1), (2,)).reshape(data.shape), (2, 12, 5, 7))


def test_the_extents_of_groups_may_be_multiplied_in_another_order() -> None:
    """As TVM writes those of strided images."""
    rows, columns = (tirx.Var(name, "int64") for name in ("rows", "columns"))

    def build(builder: relax.BlockBuilder, data: Any) -> Any:
        ones = np.ones(4, "float32")
        fewer = builder.emit(op.nn.max_pool2d(data, (1, 1), (2, 2)))
        height, width = (rows - 1) // 2, (columns - 1) // 2
        groups = builder.emit(op.reshape(fewer, (2, 4, (height * 3 + 3) * (width + 1))))
        norm = op.nn.instance_norm(groups, constant(ones), constant(ones * 0), 1, [2])
        return op.reshape(builder.emit(norm), (2, 12, height + 1, width + 1))

    module = module_of(build, (2, 12, rows, columns))
    assert canonical_operators(module) == ["nn.max_pool2d", "nn.group_norm"]


def _of_another(builder: relax.BlockBuilder, data: Any) -> Any:
    centred = op.subtract(data, builder.emit(op.mean(op.negative(data), [2], keepdims=True)))
    return steps([2])(builder, builder.emit(centred))


def _unbiased(builder: relax.BlockBuilder, data: Any) -> Any:
    """As PyTorch's ``var`` has it by default."""
    return steps([2], square=lambda x: op.multiply(op.multiply(x, x), number(24 / 23)))(builder, data)


@pytest.mark.parametrize(
    ("build", "norms"),
    [
        (steps([2], epsilon=0.0), 0),
        (steps([2], square=lambda x: op.power(x, number(4))), 0),
        (steps([2], last=lambda x, v: op.multiply(x, op.sqrt(v))), 0),
        (steps([2], last=lambda x, v: op.divide(x, v)), 0),
        (_unbiased, 0),
        (_of_another, 1),
    ],
    ids=["no epsilon", "fourth power", "product", "variance", "unbiased", "of a difference"],
)
def test_what_is_no_norm_stays(build: Any, norms: int) -> None:
    assert sum("norm" in name for name in canonical_operators(module_of(build, (2, 9, 24)))) == norms


def gelu(divide: bool, half_first: bool, root: float = 2**0.5) -> Callable[[relax.BlockBuilder, Any], Any]:
    def build(builder: relax.BlockBuilder, data: Any) -> Any:
        scaled = op.divide(data, number(root)) if divide else op.multiply(number(1 / root), data)
        share = builder.emit(op.add(builder.emit(op.erf(builder.emit(scaled))), number(1)))
        if half_first:
            return op.multiply(builder.emit(op.multiply(number(0.5), data)), share)
        return op.multiply(builder.emit(op.multiply(data, share)), number(0.5))

    return build


@pytest.mark.parametrize("half_first", [False, True])
@pytest.mark.parametrize("divide", [False, True])
def test_a_gelu_is_known_however_it_is_written(divide: bool, half_first: bool) -> None:
    module = module_of(gelu(divide, half_first), (2, 9, 24))
    assert canonical_operators(module) == ["nn.gelu"]
    equal(module, lambda data: data * 0.5 * (1 + np.vectorize(erf)(data / 2**0.5)), (2, 9, 24))


def test_another_root_is_no_gelu() -> None:
    assert "erf" in canonical_operators(module_of(gelu(True, True, 1.5), (2, 9, 24)))
