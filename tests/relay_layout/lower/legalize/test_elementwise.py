"""Elementwise operators in whole functions."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax

import relay_layout
from relay_layout.lower.stages import lower
from relay_layout.targets import resolve_target
from tests.layout_graphs import execute


@pytest.mark.parametrize(
    ("compare", "wanted"),
    [
        (relax.op.greater_equal, np.greater_equal),
        (relax.op.greater, np.greater),
        (relax.op.less_equal, np.less_equal),
        (relax.op.less, np.less),
        (relax.op.equal, np.equal),
        (relax.op.not_equal, np.not_equal),
    ],
    ids=["greater_equal", "greater", "less_equal", "less", "equal", "not_equal"],
)
def test_the_opposite_of_a_comparison_holds_for_nan(
    compare: Callable[..., relax.Expr], wanted: Callable[..., np.ndarray], tmp_path: Path
) -> None:
    """Where both are in one function, which is what compilation makes of them."""
    left = np.array([np.nan, 1, 2, 3, np.nan] * 7, "float32")
    right = np.array([1, np.nan, 2, 2, np.nan] * 7, "float32")
    builder = relax.BlockBuilder()
    variables = [relax.Var(name, relax.TensorType(left.shape, "float32")) for name in "ab"]
    with builder.function("main", variables):
        with builder.dataflow():
            opposite = builder.emit(relax.op.logical_not(builder.emit(compare(*variables))))
            result = builder.emit_output(builder.emit(relax.op.where(opposite, *variables)))
        builder.emit_func_output(result)
    relay_layout.compile(builder.finalize()).save(tmp_path / "opposite.rla")
    (found,) = relay_layout.load(tmp_path / "opposite.rla").run({"a": left, "b": right}).values()
    np.testing.assert_array_equal(found, np.where(~wanted(left, right), left, right))


DIVIDENDS = np.array([[7, -7, 5, 0], [-5, 9, 1, -1]])
DIVISORS = np.array([2, 0, -3, 0])
BY_ONE = np.where(DIVISORS == 0, 1, DIVISORS)


@pytest.mark.parametrize(("operator", "wanted"), [(relax.op.equal, [1, 0]), (relax.op.not_equal, [0, 1])])
def test_what_is_no_number_differs_from_itself(
    operator: Callable[..., relax.Expr], wanted: list[int]
) -> None:
    builder = relax.BlockBuilder()
    value = relax.Var("value", relax.TensorType([2], "float32"))
    with builder.function("main", [value]):
        with builder.dataflow():
            result = builder.emit_output(relax.Tuple([builder.emit(operator(value, value))]))
        builder.emit_func_output(result)
    (found,) = execute(builder.finalize(), np.array([1, np.nan], "float32"))
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize(
    ("operator", "wanted"),
    [
        (relax.op.divide, np.trunc(DIVIDENDS / BY_ONE)),
        (relax.op.floor_divide, DIVIDENDS // BY_ONE),
        (relax.op.mod, np.fmod(DIVIDENDS, BY_ONE)),
        (relax.op.floor_mod, DIVIDENDS % BY_ONE),
    ],
    ids=["divide", "floor_divide", "mod", "floor_mod"],
)
def test_integers_divided_by_zero_do_not_end_the_process(
    operator: Callable[..., relax.Expr], wanted: np.ndarray, constant: bool, dtype: str
) -> None:
    builder = relax.BlockBuilder()
    variables = [
        relax.Var(name, relax.TensorType(array.shape, dtype))
        for name, array in (("dividend", DIVIDENDS), ("divisor", DIVISORS))
    ]
    divisor = relax.const(DIVISORS, dtype) if constant else variables[1]
    with builder.function("main", variables):
        with builder.dataflow():
            result = builder.emit_output(relax.Tuple([builder.emit(operator(variables[0], divisor))]))
        builder.emit_func_output(result)
    module: tvm.IRModule = builder.finalize()
    (found,) = execute(module, DIVIDENDS.astype(dtype), DIVISORS.astype(dtype))
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize(
    ("operator", "sign"),
    [(relax.op.divide, -1), (relax.op.floor_divide, -1), (relax.op.mod, 0), (relax.op.floor_mod, 0)],
    ids=["divide", "floor_divide", "mod", "floor_mod"],
)
def test_the_least_integer_divided_by_minus_one_does_not_end_the_process(
    operator: Callable[..., relax.Expr], sign: int, constant: bool, dtype: str
) -> None:
    """The quotient wraps around."""
    dividends, divisors = np.array([np.iinfo(dtype).min, 7, -9], dtype), np.full(3, -1, dtype)
    builder = relax.BlockBuilder()
    variables = [relax.Var(name, relax.TensorType([3], dtype)) for name in ("dividend", "divisor")]
    divisor = relax.const(divisors, dtype) if constant else variables[1]
    with builder.function("main", variables):
        with builder.dataflow():
            result = builder.emit_output(relax.Tuple([builder.emit(operator(variables[0], divisor))]))
        builder.emit_func_output(result)
    (found,) = execute(builder.finalize(), dividends, divisors)
    np.testing.assert_array_equal(found, sign * dividends)


@pytest.mark.parametrize("exponent", [2.0, 3.0, 4.0, 0.5, -0.5])
def test_a_known_power_needs_no_function_of_the_library(exponent: float, tmp_path: Path) -> None:
    numbers = [0.3, -1.7, 2.5, 0.0, -0.0, np.inf, -np.inf, np.nan, 1e-30, -3e20, 4e8]
    builder = relax.BlockBuilder()
    value = relax.Var("value", relax.TensorType([len(numbers)], "float32"))
    with builder.function("main", [value]):
        with builder.dataflow():
            result = builder.emit_output(relax.op.power(value, relax.const(exponent, "float32")))
        builder.emit_func_output(result)
    module = builder.finalize()
    assert ".pow(" not in lower(module, resolve_target("native")).module.script()
    relay_layout.compile(module).save(tmp_path / "power.rla")
    given = np.array(numbers, "float32")
    (found,) = relay_layout.load(tmp_path / "power.rla").run({"value": given}).values()
    with np.errstate(over="ignore"):
        wanted = np.array([_power(number, exponent) for number in given.tolist()]).astype("float32")
    np.testing.assert_allclose(found, wanted, rtol=5e-7)
    known = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(wanted[known]))


def _power(base: float, exponent: float) -> float:
    """As C's ``pow``, whose root of -inf is inf and of -0 is 0, unlike numpy's."""
    try:
        return math.pow(base, exponent)
    except ValueError:
        return math.nan if base else math.inf


def _applied(operator: Callable[..., relax.Expr], *arrays: np.ndarray) -> np.ndarray:
    builder = relax.BlockBuilder()
    values = [
        relax.Var(f"v{place}", relax.TensorType(array.shape, str(array.dtype)))
        for place, array in enumerate(arrays)
    ]
    with builder.function("main", values):
        with builder.dataflow():
            result = builder.emit_output(relax.Tuple([builder.emit(operator(*values))]))
        builder.emit_func_output(result)
    (found,) = execute(builder.finalize(), *arrays)
    return found


FLOATS = pytest.mark.parametrize(
    ("operator", "wanted"),
    [(relax.op.mod, np.fmod), (relax.op.floor_mod, np.remainder), (relax.op.power, np.power)],
    ids=["mod", "floor_mod", "power"],
)


@FLOATS
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_two_floats(operator: Callable[..., relax.Expr], wanted: np.ufunc, dtype: str) -> None:
    rng = np.random.default_rng(0)
    left, right = rng.uniform(0.1, 40, (3, 1, 37)).astype(dtype), rng.uniform(0.5, 7, (5, 1)).astype(dtype)
    np.testing.assert_allclose(_applied(operator, left, right), wanted(left, right), rtol=2e-7)


@FLOATS
def test_two_floats_of_any_number(
    operator: Callable[..., relax.Expr], wanted: np.ufunc, tmp_path: Path
) -> None:
    """In one function with what comes before and after them."""
    shape = [tvm.tirx.Var("n", "int64"), 7]
    left, right = (relax.Var(name, relax.TensorType(shape, "float32")) for name in ("left", "right"))
    builder = relax.BlockBuilder()
    with builder.function("main", [left, right]):
        with builder.dataflow():
            found = builder.emit(operator(builder.emit(relax.op.abs(left)), right))
            result = builder.emit_output(builder.emit(relax.op.negative(found)))
        builder.emit_func_output(result)
    relay_layout.compile(builder.finalize()).save(tmp_path / "floats.rla")
    session = relay_layout.load(tmp_path / "floats.rla")
    rng = np.random.default_rng(0)
    for rows in (1, 13):
        given = {name: rng.uniform(-5, 5, (rows, 7)).astype("float32") for name in ("left", "right")}
        (result,) = session.run(given).values()
        wanted_result = -wanted(np.abs(given["left"]), given["right"])
        np.testing.assert_allclose(result, wanted_result, rtol=3e-7)


@pytest.mark.parametrize("dtype", ["uint8", "uint32", "bool"])
def test_the_sign_of_what_is_never_negative(dtype: str) -> None:
    found = _applied(relax.op.sign, np.array([0, 1, 200]).astype(dtype))
    np.testing.assert_array_equal(found, np.array([0, 1, 1]).astype(dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int64"])
def test_the_sign_of_numbers(dtype: str) -> None:
    values = np.array([-3, -1, 0, 1, 5], dtype)
    if dtype.startswith("float"):
        values = np.append(values, np.array([np.nan, np.inf, -np.inf, -0.0], dtype))
    np.testing.assert_array_equal(_applied(relax.op.sign, values), np.sign(values))


UNSURE = np.array([[1, np.nan, -2, np.nan, np.inf, -np.inf], [np.nan, 1, 3, np.nan, 0, np.nan]], "float32")


@pytest.mark.parametrize("name", ["maximum", "minimum"])
@pytest.mark.parametrize("order", [1, -1])
def test_what_is_no_number_has_no_order(name: str, order: int) -> None:
    left, right = UNSURE[::order]
    operator, wanted = getattr(relax.op, name), getattr(np, name)(left, right)
    np.testing.assert_array_equal(_applied(operator, left, right), wanted)
    known = relax.const(right, "float32")
    np.testing.assert_array_equal(_applied(lambda value: operator(value, known), left), wanted)
    bounds = relax.const(np.arange(6, dtype="float32"), "float32")
    wanted = getattr(np, name)(left, np.arange(6, dtype="float32"))
    np.testing.assert_array_equal(_applied(lambda value: operator(value, bounds), left), wanted)
    np.testing.assert_array_equal(_applied(lambda value: operator(bounds, value), left), wanted)


ROUNDING = 1.5 * 2**23
"""What numbers are rounded to integers by when it is added and taken away."""


def test_differences_are_not_cancelled() -> None:
    values = np.array([0.3, 2.7, -1.6, np.inf, np.nan], "float32")
    by = relax.const(ROUNDING, "float32")
    found = _applied(lambda value: relax.op.subtract(relax.op.add(value, by), by), values)
    np.testing.assert_array_equal(found, np.round(values))
    found = _applied(lambda value: relax.op.subtract(value, value), values)
    np.testing.assert_array_equal(found, np.array([0, 0, 0, np.nan, np.nan], "float32"))


@pytest.mark.parametrize("dtype", ["uint8", "uint64"])
def test_unsigned_integers_are_negated_as_their_sum_is_zero(dtype: str) -> None:
    numbers = np.array([0, 1, 200], dtype)
    found = _applied(relax.op.negative, numbers)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found + numbers, np.zeros(3, dtype))


@pytest.mark.parametrize("dtype", ["uint8", "uint32"])
@pytest.mark.parametrize("known", [0, 1])
def test_differences_of_unsigned_integers_wrap(dtype: str, known: int) -> None:
    numbers, minuend = np.array([0, 1, 200], dtype), np.full(3, known, dtype)
    found = _applied(lambda value: relax.op.subtract(relax.const(minuend[0], dtype), value), numbers)
    np.testing.assert_array_equal(found, minuend - numbers)


@pytest.mark.parametrize("name", ["less", "less_equal", "greater", "greater_equal", "maximum", "minimum"])
def test_truth_values_in_order(name: str) -> None:
    left, right = np.array([False, False, True, True]), np.array([False, True, False, True])
    found = _applied(getattr(relax.op, name), left, right)
    assert found.dtype == bool
    np.testing.assert_array_equal(found, getattr(np, name)(left, right))


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_the_extremes_of_truth_values(name: str) -> None:
    values = np.array([[False, True, True], [True, False, True], [False] * 3, [True] * 3])
    found = _applied(lambda value: getattr(relax.op, name)(value, 1), values)
    np.testing.assert_array_equal(found, getattr(np, name)(values, 1))
