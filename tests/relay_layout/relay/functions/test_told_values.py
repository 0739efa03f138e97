"""Shapes, axes and sizes that are given as expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from relay_layout import relay
from relay_layout.errors import ModelError

X = relay.var("x", shape=(2, 3))
Y = relay.var("y", shape=(3, 2))
IMAGE = relay.var("image", shape=(1, 3, 8, 6))


def numbers(value: Any, dtype: str = "int64") -> Any:
    return relay.const(np.array(value, dtype))


def joined(*parts: Any) -> Any:
    return relay.concatenate(parts, 0)


@pytest.mark.parametrize(
    ("build", "shape"),
    [
        (lambda: relay.reshape(X, numbers([-1, 2])), (3, 2)),
        (lambda: relay.reshape(X, relay.shape_of(Y)), (3, 2)),
        (lambda: relay.tile(X, numbers([1, 2], "int32")), (2, 6)),
        (lambda: relay.broadcast_to(X, joined(numbers([4], "int32"), relay.shape_of(X))), (4, 2, 3)),
        (lambda: relay.full(relay.const(1.0), relay.take(relay.shape_of(X), numbers([1])), "float32"), (3,)),
        (lambda: relay.strided_slice(X, numbers([0, 1]), relay.shape_of(X)), (2, 2)),
        (lambda: relay.image.resize2d(IMAGE, numbers([4, 5])), (1, 3, 4, 5)),
        (lambda: relay.nn.pad(X, numbers([[0, 1], [2, 0]])), (3, 5)),
        (lambda: relay.nn.upsampling(IMAGE, relay.const(2.0), relay.const(3.0)), (1, 3, 16, 18)),
        (lambda: relay.expand_dims(X, numbers(1)), (2, 1, 3)),
        (lambda: relay.squeeze(IMAGE, numbers([0])), (3, 8, 6)),
        (lambda: relay.topk(X, numbers(2), ret_type="values"), (2, 2)),
    ],
    ids=lambda value: "" if callable(value) else str(value),
)
def test_what_is_known_is_computed(build: Callable[[], Any], shape: tuple[int, ...]) -> None:
    assert build().checked_type.shape == shape


def test_what_the_inputs_decide_is_refused() -> None:
    with pytest.raises(ModelError, match="argument 'axis' is computed when the network runs"):
        relay.expand_dims(X, relay.var("axis", shape=(), dtype="int64"))
