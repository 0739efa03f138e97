"""Places of elements that are not zero, as numpy lists them."""

import numpy as np
import pytest
from kernel_harness import compile_function, host_cpus, run_function, target_for
from tvm import te

from topi_ext.compute.nonzero import places_of_nonzero

TARGET = target_for(host_cpus()[-1])


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "int64"])
@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 3, 4), (1, 1)])
def test_places_are_in_order(shape: tuple[int, ...], dtype: str) -> None:
    data = te.placeholder(shape, dtype)
    function = compile_function(te.create_prim_func([data, *places_of_nonzero(data)]), TARGET)
    random = np.random.default_rng(0)
    for share in (0.0, 0.4, 1.0):
        values = (random.random(shape) < share).astype(dtype)
        outputs = [((len(shape), values.size), "int64"), ((1,), "int64")]
        places, count = run_function(function, [values], outputs)
        expected = np.array(np.nonzero(values))
        assert count[0] == expected.shape[1]
        np.testing.assert_array_equal(places[:, : count[0]], expected)
        assert (places[:, count[0] + 1 :] == -1).all(), "nothing is written behind the one after them"


def test_no_branch_depends_on_the_data() -> None:
    """Of random elements half of the branches would be predicted wrong."""
    data = te.placeholder((4096,), "bool")
    script = te.create_prim_func([data, *places_of_nonzero(data)]).script()
    assert "if " not in script
