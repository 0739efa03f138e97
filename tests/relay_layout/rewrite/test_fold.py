"""Operators on constants alone become other constants."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

import relay_layout
from relay_layout import constant_arithmetic
from relay_layout.errors import ModelError
from relay_layout.ir import Constant, constant, constant_array
from relay_layout.rewrite.canonicalize import canonicalize
from relay_layout.rewrite.fold import fold_constants
from tests.relax_modules import main_of, module_giving

ARRAY = np.arange(6, dtype="float32").reshape(1, 2, 3)
CASES = {
    "permute_dims": (lambda value: relax.op.permute_dims(value, [2, 0, 1]), ARRAY.transpose(2, 0, 1)),
    "permute_dims-reversed": (relax.op.permute_dims, ARRAY.transpose()),
    "reshape": (lambda value: relax.op.reshape(value, (3, 2)), ARRAY.reshape(3, 2)),
    "expand_dims": (lambda value: relax.op.expand_dims(value, [0, -1]), ARRAY.reshape(1, 1, 2, 3, 1)),
    "squeeze": (lambda value: relax.op.squeeze(value, [0]), ARRAY[0]),
    "flatten": (relax.op.flatten, ARRAY.reshape(-1)),
    "astype": (lambda value: relax.op.astype(value, "int8"), ARRAY.astype("int8")),
    "take": (lambda value: relax.op.take(value, relax.const([2, 0]), axis=2), ARRAY[:, :, [2, 0]]),
    "slice": (
        lambda value: relax.op.strided_slice(value, [1, 2], [-1, 2], [9, -4], [1, -2]),
        ARRAY[:, -1:, 2::-2],
    ),
    "concat": (lambda value: relax.op.concat([value, value], -1), np.concatenate([ARRAY, ARRAY], 2)),
    "chain": (lambda value: relax.op.flatten(relax.op.permute_dims(value)), ARRAY.transpose().reshape(-1)),
}


def result_of(build: object, array: np.ndarray = ARRAY) -> relax.Expr:
    """What main of a function without parameters gives for a constant once folded."""
    builder = relax.BlockBuilder()
    with builder.function("main", []):
        with builder.dataflow():
            output = builder.emit_output(build(constant(array)))  # type: ignore[operator]
        builder.emit_func_output(output)
    module = relax.transform.CanonicalizeBindings()(fold_constants(builder.finalize()))
    body = module["main"].body
    bound = {binding.var: binding.value for block in body.blocks for binding in block.bindings}
    return bound.get(body.body, body.body)


@pytest.mark.parametrize("name", CASES)
def test_moved_constants_are_constants(name: str) -> None:
    build, expected = CASES[name]
    result = result_of(build)
    assert isinstance(result, Constant)
    np.testing.assert_array_equal(constant_array(result), expected)
    assert constant_array(result).dtype == expected.dtype


WEIGHT = np.random.default_rng(0).standard_normal((5, 3, 2)).astype("float32")
WIDE = WEIGHT.astype("float64")
ROUNDED = {
    "mean": (lambda value: relax.op.mean(value, [1, 2], keepdims=True), WIDE.mean((1, 2), keepdims=True)),
    "sum": (relax.op.sum, WIDE.sum()),
    "variance": (lambda value: relax.op.variance(value, [-1]), WIDE.var(-1)),
    "std": (relax.op.std, WIDE.std()),
    "largest": (lambda value: relax.op.max(value, [0]), WIDE.max(0)),
    "exp": (relax.op.exp, np.exp(WIDE)),
    "sigmoid": (relax.op.sigmoid, 1 / (1 + np.exp(-WIDE))),
    "power": (lambda value: relax.op.power(relax.op.abs(value), half(value)), np.abs(WIDE) ** 0.5),
    "softmax": (lambda value: relax.op.nn.softmax(value, 1), np.exp(WIDE) / np.exp(WIDE).sum(1)[:, None]),
    "relu": (relax.op.nn.relu, np.maximum(WIDE, 0)),
    "difference": (lambda value: relax.op.subtract(value, half(value)), WIDE - 0.5),
    "quotient": (lambda value: relax.op.divide(half(value), value), 0.5 / WIDE),
    "root": (lambda value: relax.op.sqrt(relax.op.square(value)), np.abs(WIDE)),
    "clip": (lambda value: relax.op.clip(value, -0.25, 0.5), WIDE.clip(-0.25, 0.5)),
    "product": (
        lambda value: relax.op.matmul(value, relax.op.permute_dims(value, [0, 2, 1])),
        WIDE @ WIDE.transpose(0, 2, 1),
    ),
    "broadcast": (lambda value: relax.op.broadcast_to(value, (2, 5, 3, 2)), np.stack([WIDE, WIDE])),
}


def half(value: relax.Expr) -> relax.Expr:
    return relax.const(0.5, str(value.ty.dtype))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", ROUNDED)
def test_arithmetic_of_constants_is_rounded_once(name: str, dtype: str) -> None:
    build, expected = ROUNDED[name]
    result = result_of(build, WEIGHT.astype(dtype))
    assert isinstance(result, Constant)
    assert constant_array(result).dtype == dtype
    allowed = 1e-15 if dtype == "float64" else np.finfo(dtype).eps
    allowed = 4e-3 if dtype == "float16" else allowed  # the operand itself is rounded
    np.testing.assert_allclose(constant_array(result), expected, rtol=allowed, atol=allowed)


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(
            lambda value: relax.op.astype(relax.op.add(cast(value), cast(value)), "float32"), id="integers"
        ),
        pytest.param(lambda value: relax.op.divide(value, value), id="not_finite"),
        pytest.param(lambda value: relax.op.broadcast_to(value, (2**18, 1, 2, 3)), id="large"),
        pytest.param(lambda value: relax.op.take(value, relax.const([3]), axis=2, mode="wrap"), id="outside"),
        pytest.param(relax.op.tan, id="others"),
        pytest.param(lambda value: relax.op.tile(value, [1, 2, 1]), id="tiled"),
    ],
)
def test_others_are_left(build: object) -> None:
    assert isinstance(result_of(build), tvm.relax.Call)


def test_products_of_many_multiplications_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constant_arithmetic, "LARGEST_PRODUCT", 11)
    product = result_of(lambda value: relax.op.matmul(value, relax.op.permute_dims(value, [0, 2, 1])))
    assert isinstance(product, tvm.relax.Call)


@pytest.mark.parametrize("zero", [0.0, -0.0])
@pytest.mark.parametrize("extent", [4, tirx.Var("n", "int64")], ids=["static", "open"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize(
    "operator", [relax.op.divide, relax.op.floor_divide, relax.op.mod, relax.op.floor_mod]
)
def test_floats_divided_by_zero(operator: Any, dtype: str, extent: Any, zero: float, tmp_path: Path) -> None:
    """And then multiplied by zero; a dividend that is constant as well is no number of TVM's either."""
    x = relax.Var("x", relax.TensorType((extent,), dtype))
    with main_of(x) as builder:
        divided = builder.emit(operator(x, relax.const(zero, dtype)))
        times = builder.emit(relax.op.multiply(divided, relax.const(0.0, dtype)))
        constants = builder.emit(operator(relax.const(2.0, dtype), relax.const(zero, dtype)))
        builder.result = relax.Tuple([divided, times, constants])
    relay_layout.compile(builder.finalize()).save(tmp_path / "divided.rla")
    array = np.array([1, -2, 0, np.nan], dtype)
    outputs = list(relay_layout.load(tmp_path / "divided.rla").run({"x": array}).values())
    with np.errstate(all="ignore"):
        compute = np.divide if operator in (relax.op.divide, relax.op.floor_divide) else np.mod
        expected = compute(array, np.array(zero, dtype))
        np.testing.assert_array_equal(outputs[0], expected)
        np.testing.assert_array_equal(outputs[1], expected * 0)
        np.testing.assert_array_equal(outputs[2], compute(np.array(2, dtype), np.array(zero, dtype)))


def _filled(dtype: str) -> dict[str, Any]:
    return {
        "zeros": relax.op.zeros((2, 3), dtype),
        "full": relax.op.full((1, 3), relax.const(0, dtype), dtype),
        "zeros_like": relax.op.zeros_like(relax.const(np.ones((2, 1), dtype))),
    }


@pytest.mark.parametrize("kind", _filled("float32"))
def test_tensors_that_are_filled_with_zero_are_zero(kind: str, tmp_path: Path) -> None:
    x = relax.Var("x", relax.TensorType((1, 3), "float32"))
    operators = (relax.op.divide, relax.op.floor_mod, relax.op.multiply)
    with main_of(x) as builder:
        zero = builder.emit(_filled("float32")[kind])
        outputs = [builder.emit(operator(x, zero)) for operator in operators]
        builder.result = relax.Tuple([*outputs, builder.emit(relax.op.multiply(zero, x))])
    relay_layout.compile(builder.finalize()).save(tmp_path / "divided.rla")
    array = np.array([[-1, np.inf, np.nan]], "float32")
    shape = np.broadcast_shapes((1, 3), {"full": (1, 3)}.get(kind, (2, 1)))
    results = list(relay_layout.load(tmp_path / "divided.rla").run({"x": array}).values())
    with np.errstate(all="ignore"):
        expected = [array / np.float32(0), np.full((1, 3), np.nan, "float32"), array * 0, array * 0]
    for got, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(got, np.broadcast_to(wanted, shape))


@pytest.mark.parametrize("kind", _filled("int32"))
def test_integers_divided_by_what_is_filled_with_zero_are_refused(kind: str) -> None:
    x = relax.Var("x", relax.TensorType((1, 3), "int32"))
    with pytest.raises(ModelError, match=r"^the model divides integers by zero \(divide\)$"):
        fold_constants(module_giving(relax.op.divide(x, _filled("int32")[kind]), x))


def test_integers_divided_by_zero_are_refused() -> None:
    x = relax.Var("x", relax.TensorType((4,), "int32"))
    with pytest.raises(ModelError) as raised:
        fold_constants(module_giving(relax.op.floor_divide(x, relax.const(0, "int32")), x))
    assert str(raised.value) == "the model divides integers by zero (floor_divide)"


def cast(value: relax.Expr) -> relax.Expr:
    return relax.op.astype(value, "int32")


def test_convolutions_have_constant_weights() -> None:
    """Of standardized weights, and of weights that gates multiply which others sum to one with."""
    image = relax.Var("image", relax.TensorType((1, 3, 6, 5), "float32"))
    weight = np.random.default_rng(1).standard_normal((4, 3, 3, 3)).astype("float32")
    with main_of(image) as builder:
        kernel = constant(weight)
        centred = relax.op.subtract(kernel, relax.op.mean(kernel, [1, 2, 3], keepdims=True))
        scaled = relax.op.divide(centred, relax.op.std(kernel, [1, 2, 3], keepdims=True))
        gates = relax.op.nn.relu(relax.const([0.5, -1.0, 2.0], "float32"))
        shares = relax.op.divide(gates, relax.op.add(relax.op.sum(gates), relax.const(1e-4)))
        share = relax.op.take(shares, relax.const(2), axis=0)
        builder.result = relax.op.nn.conv2d(image, relax.op.multiply(scaled, share))
    module = canonicalize(builder.finalize())
    (binding,) = module["main"].body.blocks[0].bindings
    wide = weight.astype("float64")
    expected = (wide - wide.mean((1, 2, 3), keepdims=True)) / wide.std((1, 2, 3), keepdims=True) * 2 / 2.5001
    np.testing.assert_allclose(constant_array(binding.value.args[1]), expected, rtol=1e-5, atol=1e-7)


def _convolved(data: relax.Var) -> relax.Expr:
    return relax.op.nn.conv2d(data, relax.const(np.ones((4, 3, 3, 3), "float32")), padding=1)


def _rows_of_nothing(data: relax.Var) -> relax.Expr:
    rows = relax.op.strided_slice(data, [0], [2], [2])
    product = relax.op.matmul(rows, relax.const(np.ones((4, 4), "float32")))
    return relax.op.concat([data, product], 0)


def _sums_of_nothing(data: relax.Var) -> relax.Expr:
    none = relax.op.strided_slice(data, [1], [4], [4])
    return relax.op.matmul(none, relax.op.permute_dims(none))


def _largest_of_nothing(data: relax.Var) -> relax.Expr:
    return relax.op.max(relax.op.strided_slice(data, [0], [2], [2]), 0)


@pytest.mark.parametrize(
    ("shape", "build", "expected"),
    [
        ((0, 3, 8, 8), _convolved, np.zeros((0, 4, 8, 8), "float32")),
        ((2, 4), _rows_of_nothing, np.ones((2, 4), "float32")),
        ((2, 4), _sums_of_nothing, np.zeros((2, 2), "float32")),
        ((2, 4), _largest_of_nothing, np.full(4, -np.inf, "float32")),
        ((0,), relax.op.max, np.array(-np.inf, "float32")),
        ((0, 3), lambda data: relax.op.min(data, 0), np.full(3, np.inf, "float32")),
        ((0,), relax.op.prod, np.array(1, "float32")),
        ((0,), relax.op.sum, np.array(0, "float32")),
    ],
    ids=["no images", "no rows", "no columns", "no largest", "maximum", "minimum", "product", "sum"],
)
def test_nothing_is_computed_of_nothing(
    shape: tuple[int, ...], build: Any, expected: np.ndarray, tmp_path: Path
) -> None:
    """No kernel has to be made for it."""
    data = relax.Var("data", relax.TensorType(shape, "float32"))
    relay_layout.compile(module_giving(build(data), data)).save(tmp_path / "nothing.rla")
    (found,) = relay_layout.load(tmp_path / "nothing.rla").run({"data": np.ones(shape, "float32")}).values()
    np.testing.assert_array_equal(found, expected)
    assert found.shape == expected.shape
