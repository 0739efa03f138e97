"""The order of rows, beside a stable sort of numpy's by one column after the other."""

import numpy as np
import pytest
from kernel_harness import compile_function, host_cpus, run_function, target_for
from tvm import te

from topi_ext.compute.row_order import rising_rows

TARGET = target_for(host_cpus()[-1])
RANDOM = np.random.default_rng(12)


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 7, 64, 65])
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_the_first_numbers_that_differ_decide(rows: int, columns: int, dtype: str) -> None:
    data = RANDOM.integers(-2, 3, (rows, columns)).astype(dtype)
    tensor = te.placeholder(data.shape, dtype)
    function = compile_function(te.create_prim_func([tensor, rising_rows(tensor)]), TARGET)
    (places,) = run_function(function, [data], [((rows,), "int64")])
    np.testing.assert_array_equal(places, np.lexsort(data.T[::-1]))
