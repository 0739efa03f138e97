"""Repeated tensors."""

from collections.abc import Sequence

import numpy as np
import pytest
from tvm import relax

import relay_layout
from tests.relax_modules import module_giving

SHAPES = {"x": (2, 5, 3), "y": (2, 2, 3)}


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
        ((2, 3, 5), (3, 1, 1)),
        ((2, 3, 5), (2, 4, 1)),
        ((2, 3, 7), (3, 2, 2)),
        ((2, 1, 7), (3, 2, 2)),
        ((3, 5), (1, 11)),
    ],
)
def test_repeats(shape: Sequence[int], repeats: Sequence[int]) -> None:
    source = relax.Var("x", relax.TensorType(shape, "float32"))
    module = module_giving(relax.op.tile(source, repeats), source)
    data = np.random.default_rng(0).standard_normal(shape).astype("float32")
    (found,) = relay_layout.compile(module).session().run({"x": data}).values()
    np.testing.assert_array_equal(found, np.tile(data, repeats))


def test_what_is_computed_of_repeats_goes_into_a_part() -> None:
    x, y = (relax.Var(name, relax.TensorType(shape, "float32")) for name, shape in SHAPES.items())
    copies = relax.op.tile(relax.op.nn.relu(x), (1, 3, 1))
    module = module_giving(relax.op.concat([relax.op.negative(copies), y], 1), x, y)
    random = np.random.default_rng(0)
    data = {name: random.standard_normal(shape).astype("float32") for name, shape in SHAPES.items()}
    (found,) = relay_layout.compile(module).session().run(data).values()
    wanted = np.concatenate([-np.tile(np.maximum(data["x"], 0), (1, 3, 1)), data["y"]], 1)
    np.testing.assert_array_equal(found, wanted)
