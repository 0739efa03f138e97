"""Rows that whole vectors do not fill: no condition on a lane, and every element taken once."""

import numpy as np
import pytest
from kernel_harness import (
    apply_rules,
    check_loops,
    compile_function,
    data_of,
    host_cpus,
    prim_func,
    target_for,
)
from tvm import te, tirx, topi

from topi_ext.schedule.vector_remainders import REMAINDER, apply_remainders

LENGTHS = (33, 47, 49, 95, 197, 253, 257)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("reduce", ["sum", "max", "min", "prod"])
def test_every_element_is_taken_once(reduce: str, length: int) -> None:
    # Powers of two and their negatives, whose products are exact; rows that fill no vector of any processor.
    data = np.sign(data_of(7, length)) if reduce == "prod" else data_of(7, length)
    expected = getattr(data, reduce)(-1)
    script = check_loops([data], lambda x: getattr(topi, reduce)(x, -1), expected, False)
    assert "T.where" not in script
    assert REMAINDER not in script


def test_of_infinities_the_least_is_found() -> None:
    data = np.full((3, 37), -np.inf, "float32")
    least = np.finfo("float32").min
    check_loops([data], lambda x: topi.max(x, -1), np.full(3, least, "float32"), False)
    check_loops([-data], lambda x: topi.min(x, -1), np.full(3, -least, "float32"), False)


def test_a_lane_taken_before_may_be_anything() -> None:
    """What is neutral replaces it: a product with zero would keep an infinity."""
    data = data_of(9, 49)
    data[:, 33:48] = np.inf
    check_loops([data], lambda x: topi.sum(x, -1), np.full(9, np.inf, "float32"), False)


def test_no_lane_is_a_scalar() -> None:
    target = target_for(host_cpus()[0])
    x = te.placeholder((64, 257), "float32")
    _, schedule = apply_rules(prim_func([x, topi.nn.softmax(x)]), target)
    assembly = compile_function(schedule.mod["main"], target).mod.inspect_source("asm")
    # 257 scalars, or 17 of each lane, would be ten times as many.
    assert assembly.count("vmaxss") + assembly.count("fmax\ts") + assembly.count("maxss") < 20


def test_other_loops_stay_as_they_are() -> None:
    func = prim_func([x := te.placeholder((4, 8), "float32"), topi.sum(x, -1)])
    assert apply_remainders(func).same_as(func)
    assert isinstance(func, tirx.PrimFunc)
