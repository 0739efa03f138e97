"""Instance norm of rows, beside numpy in float64."""

from collections.abc import Sequence

import numpy as np
import pytest
from kernel_harness import apply_rules, check_kernel, host_cpus, prim_func, target_for
from tvm import te

from topi_ext.compute.instance_norm import instance_norm


def check(shape: Sequence[int], has_gamma: bool, has_beta: bool, cpu: str | None, mean: float = 0.0) -> None:
    numbers = np.random.default_rng(0)
    data, gamma, beta = (numbers.standard_normal(size, np.float32) for size in (shape, shape[1], shape[1]))
    data = data + np.float32(mean)
    inputs = [te.placeholder(array.shape, "float32") for array in (data, gamma, beta)]
    given = [inputs[1] if has_gamma else None, inputs[2] if has_beta else None]
    result = instance_norm(inputs[0], *given, epsilon=1e-5)
    used = [inputs[0], *(tensor for tensor in given if tensor is not None)]
    func, target = prim_func([*used, result]), target_for(cpu)
    assert apply_rules(func, target)[0] == "Rows"
    axes = tuple(range(2, len(shape)))
    exact = data.astype("float64")
    exact -= exact.mean(axes, keepdims=True)
    exact /= np.sqrt((exact**2).mean(axes, keepdims=True) + 1e-5)
    along = (-1, *(1 for _ in axes))
    if has_gamma:
        exact *= gamma.reshape(along)
    if has_beta:
        exact += beta.reshape(along)
    arrays = [data, *([gamma] if has_gamma else []), *([beta] if has_beta else [])]
    check_kernel(func, target, arrays, exact.astype("float32"), tolerance=1e-4, case=shape)


@pytest.mark.parametrize("cpu", host_cpus())
@pytest.mark.parametrize("shape", [(2, 5, 7, 9), (1, 8, 16), (3, 4, 3, 5, 7), (1, 9, 31, 1), (1, 16, 40, 40)])
def test_rows_of_any_rank(shape: tuple[int, ...], cpu: str | None) -> None:
    check(shape, True, True, cpu)


@pytest.mark.parametrize("has_gamma", [False, True])
@pytest.mark.parametrize("has_beta", [False, True])
def test_without_parameters(has_gamma: bool, has_beta: bool) -> None:
    check((2, 6, 5, 8), has_gamma, has_beta, host_cpus()[-1])


def test_a_large_mean_costs_no_digits() -> None:
    check((2, 6, 5, 8), True, True, host_cpus()[-1], mean=300.0)
