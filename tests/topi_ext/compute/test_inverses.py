"""Inverses, as numpy has them."""

import numpy as np
import pytest
from kernel_harness import compile_function, host_cpus, run_function, target_for
from tvm import te

from topi_ext.compute.inverses import inverses

TARGET = target_for(host_cpus()[-1])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_inverses(size: int, dtype: str) -> None:
    shape = (4, size, size)
    data = te.placeholder(shape, dtype)
    function = compile_function(te.create_prim_func([data, *inverses(data)]), TARGET)
    matrices = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    if size > 1:
        matrices[1, 0, 0] = 0
    found, _ = run_function(function, [matrices], [(shape, dtype)] * 2)
    np.testing.assert_allclose(found, np.linalg.inv(matrices), rtol=1e-3, atol=1e-4)
