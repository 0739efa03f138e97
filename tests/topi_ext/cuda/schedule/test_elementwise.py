"""Functions without a sum, on the simulated GPU, and the vectors in their source."""

import numpy as np
import pytest
from cuda_sources import cuda_source
from gpu_cases import simulated
from tvm import te, tirx, topi

from topi_ext.cuda.multiprocessor import MULTIPROCESSORS
from topi_ext.cuda.schedule.elementwise import schedule_elementwise

SM_80 = MULTIPROCESSORS["sm_80"]


def concatenation(channels: tuple[int, ...]) -> tirx.PrimFunc:
    """With a maximum with 0, as a batch norm behind it has it."""
    parts = [
        te.placeholder((2, 3, 5, count), "float16", f"part{place}") for place, count in enumerate(channels)
    ]
    return te.create_prim_func([*parts, topi.nn.relu(topi.concatenate(parts, 3))])


def scheduled(func: tirx.PrimFunc) -> tirx.PrimFunc:
    schedule = schedule_elementwise(func)
    assert schedule is not None
    return schedule.mod["main"]


@pytest.mark.parametrize("channels", [(64, 32, 32), (8, 6, 10), (3, 4)])
def test_concatenations(channels: tuple[int, ...]) -> None:
    func = concatenation(channels)
    random = np.random.default_rng(0)
    parts = [random.standard_normal((2, 3, 5, count)).astype("float16") for count in channels]
    out = simulated(scheduled(func), SM_80, *parts)
    np.testing.assert_array_equal(out, np.maximum(np.concatenate(parts, 3), 0))


def test_a_concatenation_reads_and_writes_vectors() -> None:
    """Where every operand ends with a vector, one condition is that of the whole vector."""
    source = cuda_source(scheduled(concatenation((64, 32, 32))), SM_80)
    kernel = source[source.rindex("main_kernel(") :]
    assert "for (" not in kernel
    assert kernel.count("*(half4*)") == 4


def test_an_upsampled_image_is_read_in_vectors() -> None:
    data = te.placeholder((1, 5, 5, 16), "float16", "data")
    double = te.compute((1, 10, 10, 16), lambda n, y, x, c: data(n, y // 2, x // 2, c), name="double")
    source = cuda_source(scheduled(te.create_prim_func([data, double])), SM_80)
    kernel = source[source.rindex("main_kernel(") :]
    assert kernel.count("*(half4*)") == 2
