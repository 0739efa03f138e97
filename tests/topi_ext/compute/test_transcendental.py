"""Exponentials and what is made of them, against the mathematical library in float64."""

import math

import numpy as np
import pytest
import tvm
from kernel_harness import compile_function, host_cpus, prim_func, target_for
from tvm import te
from tvm.ir import TensorLoad
from tvm_ffi import structural_walk

from topi_ext.compute import transcendental
from topi_ext.schedule.cpu.loops import LoopNest

CPU = host_cpus()[-1]
TARGET = target_for(CPU)


def erf(values: np.ndarray) -> np.ndarray:
    return np.array([math.erf(value) for value in values])


def sigmoid(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-values))


def gelu_tanh(values: np.ndarray) -> np.ndarray:
    return values / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (values + 0.044715 * values**3)))


EXPECTED = {
    "exp": (np.exp, 2e-7, 0.0),
    "tanh": (np.tanh, 5e-7, 1e-9),
    "sinh": (np.sinh, 4e-7, 0.0),
    "cosh": (np.cosh, 4e-7, 0.0),
    "erf": (erf, 6e-7, 1e-9),
    "sigmoid": (sigmoid, 3e-7, 1e-37),
    "silu": (lambda values: values * sigmoid(values), 4e-7, 1e-35),
    "gelu": (lambda values: values / 2 * (1 + erf(values * math.sqrt(0.5))), 4e-7, 1e-6),
    "gelu_tanh": (gelu_tanh, 4e-7, 2e-6),
}
"""The function in float64, and what float32 may be off by, relative and absolute."""


def computed(name: str, values: np.ndarray) -> np.ndarray:
    data = te.placeholder(values.shape, str(values.dtype))
    func = prim_func([data, getattr(transcendental, name)(data)])
    schedule = LoopNest().apply(func, TARGET, False)
    assert schedule is not None
    library = compile_function(schedule.mod["main"], TARGET)
    result = tvm.runtime.tensor(np.empty_like(values))
    library["main"](tvm.runtime.tensor(values), result)
    return result.numpy()


@pytest.mark.parametrize("name", EXPECTED)
def test_values(name: str) -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate(
        [rng.uniform(-10, 10, 4000), rng.normal(0, 1e-3, 500), rng.uniform(-80, 80, 500), [0.0, -0.0]]
    ).astype("float32")
    function, relative, absolute = EXPECTED[name]
    np.testing.assert_allclose(
        computed(name, values), function(values.astype("float64")), rtol=relative, atol=absolute
    )


def test_logarithms() -> None:
    """Of numbers of every exponent, of those that have none, and where the logarithm is small."""
    rng = np.random.default_rng(0)
    patterns = rng.integers(1, 0x7F800000, 4000).astype("uint32").view("float32")
    near_one = 1 + np.linspace(-0.3, 0.5, 999, dtype="float32")
    values = np.concatenate([patterns, near_one, np.array([1, 1e-45, 1.17549435e-38], "float32")])
    expected = np.log(values.astype("float64"))
    np.testing.assert_allclose(computed("log", values), expected, rtol=3e-7, atol=3e-8)
    limits = np.array([0, -0.0, np.inf, -np.inf, np.nan, -1, -1e-45, -1e30] * 2, "float32")
    np.testing.assert_array_equal(computed("log", limits), [-np.inf, -np.inf, np.inf, *[np.nan] * 5] * 2)


@pytest.mark.parametrize(("name", "function"), [("sinh", np.sinh), ("cosh", np.cosh)])
def test_doubles(name: str, function: np.ufunc) -> None:
    values = np.concatenate([np.linspace(-3, 3, 999), [0.0, -1e-9, 700.0, -700.0, np.inf, -np.inf, np.nan]])
    np.testing.assert_allclose(computed(name, values), function(values), rtol=1e-14)


def test_exponentials_up_to_the_bounds() -> None:
    """Half of the last powers of two lie beyond what an exponent alone can hold."""
    most, least = math.log(float(np.finfo("float32").max)), transcendental.SMALLEST_EXPONENT
    values = np.concatenate([np.linspace(least, least + 2, 999), np.linspace(most - 2, most, 999)])
    values = values.astype("float32")
    values = values[values.astype("float64") <= most]
    expected = np.exp(values.astype("float64"))
    np.testing.assert_allclose(computed("exp", values), expected, rtol=2e-7)


def test_exponentials_beyond_the_bounds() -> None:
    values = np.array([-86.99, -87.3, -87.4, -1e3, 88.73, 89.1, 1e3, 3e38], "float32")
    np.testing.assert_array_equal(computed("exp", values), [0] * 4 + [np.inf] * 4)


@pytest.mark.parametrize("value", [-88.0, -89.0, -1e3, -3e38])
def test_silu_far_below_zero_is_zero(value: float) -> None:
    """What the sigmoid leaves must vanish beside the largest numbers."""
    assert np.abs(computed("silu", np.full(16, value, "float32"))).max() < 2e-36


def test_nan_with_a_payload_stays_nan() -> None:
    values = np.array([0x7FC00001, 0x7FC000FF, 0xFFC00155, 0x7FFFFFFF] * 4, "uint32").view("float32")
    for name in ("exp", "sigmoid", "silu", "tanh"):
        assert np.isnan(computed(name, values)).all(), name


@pytest.mark.parametrize(
    ("name", "at_minus_infinity", "at_infinity"),
    [("exp", 0, np.inf), ("tanh", -1, 1), ("erf", -1, 1), ("sigmoid", 0, 1)],
)
def test_infinities_and_nan(name: str, at_minus_infinity: float, at_infinity: float) -> None:
    values = np.array([-np.inf, np.inf, np.nan, 1e30, -1e30] * 4, "float32")
    expected = [at_minus_infinity, at_infinity, np.nan, at_infinity, at_minus_infinity] * 4
    np.testing.assert_allclose(computed(name, values), expected, rtol=1e-6, atol=1e-37)


@pytest.mark.parametrize("logarithm", [False, True])
def test_softmax(logarithm: bool) -> None:
    values = np.random.default_rng(0).normal(0, 20, (7, 33)).astype("float32")
    values[3] += 1000
    data = te.placeholder(values.shape, str(values.dtype))
    compute = transcendental.log_softmax if logarithm else transcendental.softmax
    func = prim_func([data, compute(data, 1)])
    schedule = LoopNest().apply(func, TARGET, False)
    assert schedule is not None
    result = tvm.runtime.tensor(np.empty_like(values))
    compile_function(schedule.mod["main"], TARGET)["main"](tvm.runtime.tensor(values), result)
    # The differences round in float32 whoever computes them.
    shifted = (values - values.max(1, keepdims=True)).astype("float64")
    total = np.exp(shifted).sum(1, keepdims=True)
    expected = shifted - np.log(total) if logarithm else np.exp(shifted) / total
    np.testing.assert_allclose(result.numpy(), expected, rtol=2e-6, atol=1.5e-7 if logarithm else 1e-36)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ([0.0, -80.0, -87.6, -90.0, -1e30, -np.inf], [1, np.exp(-80.0), np.exp(-87.6), 0, 0, 0]),
        ([np.inf, 0.0, 0.0, 0.0, 0.0, 0.0], [np.nan, 0, 0, 0, 0, 0]),
        ([np.nan, 0.0, 0.0, 0.0, 0.0, 0.0], [np.nan] * 6),
        ([-np.inf] * 6, [np.nan] * 6),
    ],
    ids=["small", "infinite", "unknown", "nothing"],
)
def test_softmax_of_numbers_far_apart(row: list[float], expected: list[float]) -> None:
    """Shares that are too small for float32 are zero, as of what a mask hides."""
    values = np.array([row] * 3, "float32")
    data = te.placeholder(values.shape, str(values.dtype))
    schedule = LoopNest().apply(prim_func([data, transcendental.softmax(data, 1)]), TARGET, False)
    assert schedule is not None
    result = tvm.runtime.tensor(np.empty_like(values))
    compile_function(schedule.mod["main"], TARGET)["main"](tvm.runtime.tensor(values), result)
    wanted = np.full(6, np.nan) if np.isnan(expected).any() else np.array(expected)
    np.testing.assert_allclose(result.numpy(), [wanted] * 3, rtol=2e-6, atol=0)


def test_vectors_and_no_calls() -> None:
    """The library's functions would be called for one element at a time."""
    data = te.placeholder((4096,), "float32")
    func = prim_func([data, transcendental.silu(data)])
    schedule = LoopNest().apply(func, TARGET, False)
    assert schedule is not None
    source = compile_function(schedule.mod["main"], TARGET).mod.inspect_source("asm")
    assert "expf" not in source


@pytest.mark.parametrize("name", ["exp", "tanh", "erf", "sigmoid"])
def test_an_argument_stands_once(name: str) -> None:
    """Where it stood several times, the function of a chain grew with the power of its length."""
    function = getattr(transcendental, name)
    data = te.placeholder((8,), "float32")
    schedule = LoopNest().apply(prim_func([data, function(function(data))]), TARGET, False)
    assert schedule is not None
    main = schedule.mod["main"]
    reads: list[TensorLoad] = []
    structural_walk(
        main.body,
        (TensorLoad, lambda load: reads.append(load) if load.source.same_as(main.params[0]) else None),
    )
    assert len(reads) == 1
