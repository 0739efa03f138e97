"""Determinants, as numpy has them."""

import numpy as np
import pytest
from kernel_harness import compile_function, host_cpus, run_function, target_for
from tvm import te

from topi_ext.compute.determinants import determinants

TARGET = target_for(host_cpus()[-1])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_determinants(size: int, dtype: str) -> None:
    shape = (4, size, size)
    data = te.placeholder(shape, dtype)
    function = compile_function(te.create_prim_func([data, *determinants(data)]), TARGET)
    matrices = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    matrices[1, 0, 0] = 0
    matrices[2, -1] = matrices[2, 0] if size > 1 else 0
    matrices[3] = 0
    found, _ = run_function(function, [matrices], [((4,), dtype), (shape, dtype)])
    np.testing.assert_allclose(found, np.linalg.det(matrices), rtol=1e-4, atol=1e-6)
