"""What is read at quotients and remainders of places that fall as a loop rises."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernel_harness import (
    compile_function,
    host_cpus,
    integers,
    prim_func,
    run_guarded,
    scheduled_by,
    target_for,
)
from tvm import te, tirx

from topi_ext.rules.cpu import LoopNest

COUNT = 12

PLACES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "remainder": lambda place, quotient, remainder: remainder(11 - place, 4),
    "quotient": lambda place, quotient, remainder: quotient(11 - place, 4),
    "part of a multiple": lambda place, quotient, remainder: remainder(quotient(22 - place * 2, 3), 5),
    "of a remainder": lambda place, quotient, remainder: quotient(remainder(10 - place, 6), 2),
    "rising": lambda place, quotient, remainder: quotient(place + 1, 4) + remainder(place + 2, 4),
}


@pytest.mark.parametrize("name", PLACES)
def test_each_element_is_that_of_its_place(name: str) -> None:
    place = PLACES[name]
    data = integers(np.random.default_rng(0), (COUNT,))
    tensor = te.placeholder(data.shape, "float32")
    picked = te.compute((COUNT,), lambda i: tensor[place(i, tirx.floordiv, tirx.floormod)])
    target = target_for(host_cpus()[-1])
    scheduled = scheduled_by(LoopNest(), prim_func([tensor, picked]), target).mod["main"]
    got = run_guarded(compile_function(scheduled, target), [data], (COUNT,), "float32")
    expected = [data[place(i, int.__floordiv__, int.__mod__)] for i in range(COUNT)]
    np.testing.assert_array_equal(got, expected)
