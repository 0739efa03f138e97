"""Tensors of extents known at run time are copied one after the other."""

import numpy as np
import pytest
from kernel_harness import compile_function, data_of, host_cpus, run_function, target_for
from tvm import te, tirx

from topi_ext.compute.joining import PARALLEL_BYTES, joined

TARGET = target_for(host_cpus()[-1])


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("extents", [(3, 1, 4), (1, 5, 1), (7, 2, 2)])
def test_tensors_follow_each_other(axis: int, extents: tuple[int, ...]) -> None:
    symbols = [tirx.Var(f"n{place}", "int64") for place in range(3)]
    tensors = [te.placeholder((symbol, 6) if axis == 0 else (6, symbol), "float32") for symbol in symbols]
    function = compile_function(te.create_prim_func([*tensors, joined(tensors, axis)]), TARGET)
    arrays = [data_of(*((extent, 6) if axis == 0 else (6, extent))) for extent in extents]
    expected = np.concatenate(arrays, axis)
    (result,) = run_function(function, arrays, [(expected.shape, "float32")])
    np.testing.assert_array_equal(result, expected)


def test_threads_share_large_results() -> None:
    past, new = (te.placeholder((1, 3, tirx.Var(name, "int64"), 50), "float32") for name in ("past", "new"))
    function = compile_function(te.create_prim_func([past, new, joined([past, new], 2)]), TARGET)
    for rows in (10, PARALLEL_BYTES // (3 * 50 * 4) + 1):
        arrays = [data_of(1, 3, rows, 50), data_of(1, 3, 1, 50)]
        expected = np.concatenate(arrays, 2)
        (result,) = run_function(function, arrays, [(expected.shape, "float32")])
        np.testing.assert_array_equal(result, expected)
