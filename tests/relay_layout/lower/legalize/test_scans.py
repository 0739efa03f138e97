"""Running sums and products along an axis, or of all elements in a row."""

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.layout_graphs import execute

RNG = np.random.default_rng(0)


def module_of(operator: str, shape: Any, **how: Any) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    data = relax.Var("data", relax.TensorType(shape, "float32"))
    with builder.function("main", [data]):
        with builder.dataflow():
            call = builder.emit(getattr(relax.op, operator)(data, **how))
            result = builder.emit_output(relax.Tuple([call]))
        builder.emit_func_output(result)
    return builder.finalize()


@pytest.mark.parametrize("axis", [0, -1, None])
@pytest.mark.parametrize("operator", ["cumsum", "cumprod"])
def test_numbers_are_those_of_numpy(operator: str, axis: int | None) -> None:
    data = RNG.uniform(0.5, 1.5, (4, 21)).astype("float32")
    module = module_of(operator, (tvm.tirx.Var("n", "int64"), 21), axis=axis)
    (found,) = execute(module, data)
    np.testing.assert_allclose(found, getattr(np, operator)(data, axis), 1e-5)
