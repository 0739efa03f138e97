"""Tensors repeated along their last axis."""

from collections.abc import Sequence

import numpy as np
import pytest
from tvm import relax

import relay_layout
from tests.relax_modules import module_giving


@pytest.mark.parametrize(
    ("shape", "repeats"),
    [
        ((2, 3, 28), (1, 1, 2)),
        ((3, 5), (2, 8)),
        ((4, 7), (9,)),
        ((1, 3, 30), (4, 3)),
        ((5,), (2, 3, 3)),
        ((3, 1), (1, 4)),
        ((3, 4), ()),
    ],
)
def test_repeats(shape: Sequence[int], repeats: Sequence[int]) -> None:
    source = relax.Var("x", relax.TensorType(shape, "float32"))
    module = module_giving(relax.op.tile(source, repeats), source)
    data = np.random.default_rng(0).standard_normal(shape).astype("float32")
    (found,) = relay_layout.compile(module).session().run({"x": data}).values()
    np.testing.assert_array_equal(found, np.tile(data, repeats))
