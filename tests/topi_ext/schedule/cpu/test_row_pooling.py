"""Poolings in vectors of pixels: their code, rows of any length, and what is left to the next rule."""

import re
from dataclasses import replace

import numpy as np
import pytest
from kernel_cases import PoolingCase, pooling_function, run_pooling
from kernel_harness import apply_rules, check_kernel, host_cpus, integers, prim_func, scheduled_by, target_for
from tvm import te, tirx

from topi_ext.compute import Pooling, max_pool2d
from topi_ext.schedule.cpu.pooling import WindowPooling

CPU = host_cpus()[-1]

ROWS = PoolingCase("max_pool2d", 2, 3, 9, 21, (5, 5), padding=(2, 2, 2, 2), cpu=CPU)


@pytest.mark.parametrize("operator", ["max_pool2d", "avg_pool2d"])
@pytest.mark.parametrize("epilogue", [False, True])
def test_pixels_of_a_row_are_vectors(operator: str, epilogue: bool) -> None:
    case = replace(ROWS, operator=operator, epilogue=epilogue)
    run_pooling(case)
    func, _, _ = pooling_function(case)
    code = scheduled_by(WindowPooling(), func, target_for(CPU)).mod["main"].script()
    assert "T.vectorized(16)" in code
    # Conditions are on whole rows: none on a pixel of a vector.
    assert not re.search(r"if_then_else\([^,]*v_i3", code)


def test_rows_of_pixels_of_any_length_are_one_function() -> None:
    for width in (3, 4, 15, 16, 37):
        run_pooling(replace(ROWS, width=width, strides=(2, 2), symbolic_image=True, index_dtype="int64"))


def test_what_it_declines_is_right_in_the_next_rule() -> None:
    """Windows of one column have no row."""
    width = tirx.Var("w", "int64")
    data = te.placeholder((1, 8, 6, width))
    func = prim_func([data, max_pool2d(data, Pooling((2, 1), layout="NCHW"), (1, 8, 5, width))], "int64")
    assert apply_rules(func, target_for(CPU))[0] == "LoopNest"
    values = integers(np.random.default_rng(0), (1, 8, 6, 7))
    check_kernel(func, target_for(CPU), [values], np.maximum(values[:, :, :-1], values[:, :, 1:]))


@pytest.mark.parametrize("operator", ["max_pool2d", "avg_pool2d"])
def test_small_images_are_several_in_a_chunk(operator: str) -> None:
    """Of one the columns would be stored in vectors of which the next step reads parts at once."""
    case = PoolingCase(operator, 2, 96, 4, 5, (3, 3), padding=(1, 1, 1, 1), cpu=CPU)
    run_pooling(case)
    func, _, _ = pooling_function(case)
    code = scheduled_by(WindowPooling(), func, target_for(CPU)).mod["main"].script()
    assert "T.grid(1, 48, 4, 2)" in code
