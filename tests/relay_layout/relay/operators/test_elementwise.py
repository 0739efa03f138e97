"""Element by element operators against numpy."""

import math

import numpy as np
import pytest
from relay_harness import evaluate, imported, program

from relay_layout.errors import ModelError

GENERATOR = np.random.default_rng(7)

FUNCTIONS = {
    "exp": np.exp,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": np.vectorize(math.erf),
    "fast_exp": np.exp,
    "fast_tanh": np.tanh,
    "fast_erf": np.vectorize(math.erf),
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "sign": np.sign,
    "abs": np.abs,
    "negative": np.negative,
    "copy": np.copy,
}

POSITIVE_FUNCTIONS = {
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "asin": np.arcsin,
    "acos": np.arccos,
    "atanh": np.arctanh,
}

FLOAT_PAIRS = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "floor_divide": lambda x, y: np.floor(x / y),
    "floor_mod": lambda x, y: x - np.floor(x / y) * y,
    "trunc_divide": lambda x, y: np.trunc(x / y),
    "trunc_mod": lambda x, y: x - np.trunc(x / y) * y,
    "maximum": np.maximum,
    "minimum": np.minimum,
}

COMPARISONS = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
}

INTEGER_PAIRS = {
    "divide": lambda x, y: np.trunc(x / y),
    "trunc_divide": lambda x, y: np.trunc(x / y),
    "floor_divide": np.floor_divide,
    "mod": np.fmod,
    "trunc_mod": np.fmod,
    "floor_mod": np.mod,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
}


def calls(names: object, operands: str) -> str:
    return "(" + ", ".join(f"{name}({operands})" for name in names) + ",)"  # type: ignore[attr-defined]


def test_functions_of_floating_point() -> None:
    x = (GENERATOR.standard_normal((3, 5)) * 2).astype("float32")
    for name, result in zip(FUNCTIONS, evaluate(calls(FUNCTIONS, "%x"), x=x), strict=True):
        np.testing.assert_allclose(result, FUNCTIONS[name](x), rtol=1e-4, atol=1e-5, err_msg=name)


def test_functions_of_numbers_up_to_one() -> None:
    x = GENERATOR.uniform(0.05, 0.95, (3, 5)).astype("float32")
    results = evaluate(calls([*POSITIVE_FUNCTIONS, "acosh"], "%x"), x=x)
    for name, result in zip(POSITIVE_FUNCTIONS, results, strict=False):
        np.testing.assert_allclose(result, POSITIVE_FUNCTIONS[name](x), rtol=1e-5, atol=1e-6, err_msg=name)
    assert np.isnan(results[-1]).all()


def test_round_takes_halves_away_from_zero_and_keeps_what_is_no_number() -> None:
    x = np.array(
        [0.5, 1.5, 2.5, -0.5, -2.5, 0.49999997, -0.2, 8388609.0, 3.7, np.inf, -np.inf, np.nan], "float32"
    )
    i = np.array([-3, 7], "int32")
    rounded, kept = evaluate("(round(%x), round(%i))", x=x, i=i)
    np.testing.assert_array_equal(rounded, [1, 2, 3, -1, -3, 0, 0, 8388609.0, 4, np.inf, -np.inf, np.nan])
    np.testing.assert_array_equal(kept, i)


def test_tests_for_numbers() -> None:
    x = np.array([1.0, np.inf, -np.inf, np.nan], "float32")
    b = np.array([True, False])
    u = np.array([1, 255], "uint8")
    body = "(isnan(%x), isinf(%x), isfinite(%x), logical_not(%b), bitwise_not(%u), bitwise_not(%b))"
    results = evaluate(body, x=x, b=b, u=u)
    wanted = [np.isnan(x), np.isinf(x), np.isfinite(x), ~b, ~u, ~b]
    for result, want in zip(results, wanted, strict=True):
        np.testing.assert_array_equal(result, want)


def test_pairs_broadcast() -> None:
    x = (GENERATOR.standard_normal((2, 1, 4)) * 5).astype("float32")
    y = GENERATOR.uniform(0.5, 3, (3, 1)).astype("float32")
    pairs = {**FLOAT_PAIRS, **COMPARISONS}
    results = evaluate(calls(pairs, "%x, %y"), x=x, y=y)
    for name, result in zip(pairs, results, strict=True):
        np.testing.assert_allclose(result, pairs[name](x, y), rtol=1e-4, atol=1e-5, err_msg=name)


def test_powers_and_scalar_constants() -> None:
    x = GENERATOR.uniform(0.5, 3, (2, 3)).astype("float32")
    results = evaluate("(power(%x, 2.5f), add(%x, 1f), subtract(1f, %x), multiply(%x, %x))", x=x)
    for result, want in zip(results, [x**2.5, x + 1, 1 - x, x * x], strict=True):
        np.testing.assert_allclose(result, want, rtol=1e-5)


def test_division_of_integers_truncates_or_floors_by_name() -> None:
    x = np.array([-7, -3, 3, 7, 8, -8], "int32")
    y = np.array([2, 2, -2, -2, 3, 3], "int32")
    for name, result in zip(INTEGER_PAIRS, evaluate(calls(INTEGER_PAIRS, "%x, %y"), x=x, y=y), strict=True):
        np.testing.assert_array_equal(result, INTEGER_PAIRS[name](x, y), err_msg=name)


def test_shifts_and_logic() -> None:
    x = np.array([-7, 3, 1024], "int32")
    b, c = np.array([True, True, False]), np.array([True, False, False])
    body = (
        "(left_shift(%x, 3), right_shift(%x, 1), logical_and(%b, %c), logical_or(%b, %c), "
        "logical_xor(%b, %c))"
    )
    results = evaluate(body, x=x, b=b, c=c)
    for result, want in zip(results, [x << 3, x >> 1, b & c, b | c, b ^ c], strict=True):
        np.testing.assert_array_equal(result, want)


def test_truths_compare_and_multiply() -> None:
    b, c = np.array([True, True, False, False]), np.array([True, False, True, False])
    pairs = {**COMPARISONS, "maximum": np.maximum, "minimum": np.minimum, "multiply": np.multiply}
    for name, result in zip(pairs, evaluate(calls(pairs, "%b, %c"), b=b, c=c), strict=True):
        assert result.dtype == np.bool_, name
        np.testing.assert_array_equal(result, pairs[name](b, c), err_msg=name)


def test_cast() -> None:
    x = np.array([-1.7, 0.0, 2.9], "float32")
    i = np.array([1, 2], "int64")
    body = (
        '(cast(%x, dtype="int32"), cast(%x, dtype="bool"), cast_like(%x, %i), reinterpret(%x, dtype="int32"))'
    )
    integers, truths, like, bits = evaluate(body, x=x, i=i)
    np.testing.assert_array_equal(integers, [-1, 0, 2])
    np.testing.assert_array_equal(truths, [True, False, True])
    assert like.dtype == np.int64
    np.testing.assert_array_equal(bits, x.view("int32"))


def test_clip_converts_its_limits_to_the_data_type() -> None:
    x = np.array([-300.0, -0.5, 0.05, 0.5, 7.0, 1e38], "float32")
    i = np.array([-7, 3, 100], "int8")
    w = np.array([-(2**31), 5, 2**31 - 1], "int32")
    body = (
        "(clip(%x, a_min=0f, a_max=6f), clip(%x, a_min=0.1f, a_max=1e+300f), "
        "clip(%i, a_min=-2.9f, a_max=50.9f), clip(%w, a_min=-1e+30f, a_max=2147483647f))"
    )
    six, far, small, wide = evaluate(body, x=x, i=i, w=w)
    np.testing.assert_array_equal(six, np.clip(x, 0, 6))
    np.testing.assert_array_equal(far, np.maximum(x, np.float32(0.1)))
    np.testing.assert_array_equal(small, np.clip(i, -2, 50))
    np.testing.assert_array_equal(wide, w)


def test_where_takes_any_condition_and_broadcasts() -> None:
    c = np.array([[True], [False]])
    n = np.array([0, -1, 2], "int32")
    x = GENERATOR.standard_normal((2, 3)).astype("float32")
    chosen, numbered = evaluate("(where(%c, %x, 0f), where(%n, %x, 1f))", c=c, n=n, x=x)
    np.testing.assert_array_equal(chosen, np.where(c, x, 0))
    np.testing.assert_array_equal(numbered, np.where(n != 0, x, 1))


def in_fixed_point(x: np.ndarray, multiplier: object, shift: object) -> np.ndarray:
    exact = x.astype(object) * multiplier
    return np.vectorize(lambda value, s: math.floor(value * 2.0 ** (s - 31) + 0.5))(exact, shift)


@pytest.mark.parametrize(
    ("multiplier", "shift"), [(1073741824, 1), (1073741824, -3), (1395864371, -2), (1395864371, 4)]
)
def test_fixed_point_multiply(multiplier: int, shift: int) -> None:
    x = np.array([-100003, -5, -1, 0, 1, 6, 77777], "int32")
    (result,) = evaluate(f"(fixed_point_multiply(%x, multiplier={multiplier}, shift={shift}),)", x=x)
    np.testing.assert_array_equal(result, in_fixed_point(x, multiplier, shift))


def test_fixed_point_multiply_per_axis() -> None:
    x = GENERATOR.integers(-1000, 1000, (2, 3, 2)).astype("int32")
    m = np.array([1395864371, 1073741824, 2000000000], "int32")
    left, right = np.array([1, 0, 3], "int32"), np.array([0, 2, 0], "int32")
    body = (
        "(fixed_point_multiply_per_axis(%x, %m, %l, %r, is_lshift_required=True, is_rshift_required=True, "
        "axes=[1]),)"
    )
    (result,) = evaluate(body, x=x, m=m, l=left, r=right)
    shifts = (left - right).reshape(3, 1)
    np.testing.assert_array_equal(result, in_fixed_point(x, m.astype(object).reshape(3, 1), shifts))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ('cast(%x, dtype="float31")', "cast: there is no data type 'float31'"),
        ('reinterpret(%x, dtype="int64")', "reinterpret of .*: int64 has not as many bits as float32"),
        ("fixed_point_multiply(%x, multiplier=1, shift=40)", "multiplier 1 and shift 40 are not a number"),
        ("logical_and(%x, %x)", "logical_and: takes bool, not float32"),
        ("bitwise_not(%x)", "bitwise_not: takes bool or int or uint, not float32"),
        ("right_shift(%x, 1f)", "right_shift: takes int or uint, not float32"),
        ("where(%x, %x, 1)", "where: x is float32 and y int32, not the same"),
        ("log2(1)", "log2 of .*: takes floating point, not int32"),
        ("equal(%x, 1)", "equal: takes operands of one data type, not float32 and int32"),
        ("add(%x, 1i64)", "add: takes operands of one data type"),
        ("add(%x)", "add takes lhs, rhs; it is given 1 operand"),
    ],
)
def test_wrong_attributes_are_named(call: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        imported(program(call, x=np.zeros((2, 3), "float32")))
