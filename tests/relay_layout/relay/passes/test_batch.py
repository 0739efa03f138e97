"""Networks for another batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

from relay_layout import relay
from relay_layout.errors import ModelError

GENERATOR = np.random.default_rng(0)


def test_a_network_of_many_operators() -> None:
    module, params = relay.testing.mlp.get_workload(batch_size=1)
    data = module["main"].params[0]
    many = relay.transform.ChangeBatch({data: 0}, batch_size=5)(module)
    assert relay.astext(many).split("%data: ")[1].startswith("Tensor[(5, 1, 28, 28)")
    images = GENERATOR.standard_normal((5, 1, 28, 28)).astype("float32")
    weights = {name: value.numpy() for name, value in params.items()}
    (results,) = [relay.create_executor("graph", many).evaluate()(images, **weights).numpy()]
    single = relay.create_executor("graph", module).evaluate()
    expected = np.concatenate([single(image[None], **weights).numpy() for image in images])
    np.testing.assert_allclose(results, expected, rtol=1e-4, atol=1e-6)


def test_inputs_by_variables_of_a_script_and_by_name() -> None:
    x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(3, 2))
    module = tvm.IRModule.from_expr(relay.Function([x, y], relay.nn.dense(x, relay.transpose(y))))
    for axes in ({x: 0}, {"x": 0}):
        changed = relay.transform.ChangeBatch(axes, 16)(module)
        assert relay.astext(changed["main"]).startswith(
            '#[version = "0.0.5"]\nfn (%x: Tensor[(16, 3), float32], %y: Tensor[(3, 2), float32])'
        )


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"z": 0}, "ChangeBatch: main has no input 'z'"),
        ({"x": 2}, "ChangeBatch: input 'x' has no axis 2"),
        ({"x": 0}, r"reshape: \[3, 3\] and \[6\] do not have equally many elements"),
    ],
)
def test_what_cannot_be_changed(axes: dict[str, int], message: str) -> None:
    x: Any = relay.var("x", shape=(2, 3))
    module = tvm.IRModule.from_expr(relay.reshape(x, (6,)))
    with pytest.raises(ModelError, match=message):
        relay.transform.ChangeBatch(axes, 3)(module)
