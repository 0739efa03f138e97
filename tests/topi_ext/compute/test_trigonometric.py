"""Sine and cosine against the mathematical library in float64, of small and of large arguments."""

import numpy as np
import pytest
import tvm
from kernel_harness import compile_function, host_cpus, prim_func, target_for
from tvm import te

from topi_ext.compute import trigonometric
from topi_ext.schedule.cpu.loops import LoopNest

TARGET = target_for(host_cpus()[-1])


def computed(name: str, values: np.ndarray) -> np.ndarray:
    data = te.placeholder(values.shape, str(values.dtype))
    func = prim_func([data, getattr(trigonometric, name)(data)])
    schedule = LoopNest().apply(func, TARGET, False)
    assert schedule is not None
    code = schedule.mod["main"]
    assert "vectorized" in code.script()
    result = tvm.runtime.tensor(np.empty_like(values))
    compile_function(code, TARGET)["main"](tvm.runtime.tensor(values), result)
    return result.numpy()


@pytest.mark.parametrize("name", ["sin", "cos"])
@pytest.mark.parametrize("largest", [1e-3, 1.0, 10.0, 1e4, 2.0**26, 1e9])
def test_values(name: str, largest: float) -> None:
    values = np.random.default_rng(0).uniform(-largest, largest, 4096).astype("float32")
    expected = getattr(np, name)(values.astype("float64"))
    np.testing.assert_allclose(computed(name, values), expected, rtol=2e-7, atol=1.2e-7)


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_quarters_of_a_turn(name: str) -> None:
    """Where one polynomial follows the other, and where the result is next to nothing."""
    quarters = np.arange(-2048, 2048) * np.pi / 4
    values = np.nextafter(quarters.astype("float32"), np.float32(np.inf))
    expected = getattr(np, name)(values.astype("float64"))
    np.testing.assert_allclose(computed(name, values), expected, rtol=3e-7, atol=1e-9)


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_no_number_and_beyond_all_digits(name: str) -> None:
    values = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0] * 4, "float32")
    expected = [np.nan, np.nan, np.nan, *[float(name == "cos")] * 2] * 4
    np.testing.assert_array_equal(computed(name, values), expected)
    large = np.array([1e20, -1e30, 3e38, 1e16] * 4, "float32")
    assert (np.abs(computed(name, large)) <= 1).all()


@pytest.mark.parametrize("name", ["atan", "asin", "acos"])
def test_angles(name: str) -> None:
    rng = np.random.default_rng(0)
    near_one = 1 - np.geomspace(1e-7, 0.1, 400)
    values = np.concatenate(
        [rng.uniform(-1, 1, 3000), near_one, -near_one, rng.normal(0, 1e-3, 500), [0, 1, -1]]
    )
    if name == "atan":
        values = np.concatenate(
            [values, rng.uniform(-5, 5, 2000), rng.normal(0, 1e6, 500), [np.inf, -np.inf]]
        )
    values = values.astype("float32")
    expected = getattr(np, f"arc{name[1:]}")(values.astype("float64"))
    np.testing.assert_allclose(computed(name, values), expected, rtol=4e-7, atol=1e-9)


@pytest.mark.parametrize("name", ["atan", "asin", "acos"])
def test_angles_of_no_number(name: str) -> None:
    values = np.array([np.nan, 1.5, -1.5, np.inf] * 8, "float32")
    found = computed(name, values).reshape(8, 4)
    assert np.isnan(found[:, 0]).all() and np.isnan(found[:, 1:]).all() == (name != "atan")
