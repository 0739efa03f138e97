"""Padding goes into the next operator where that pads alike."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from pass_harness import assert_same, attributes, function
from tvm import relax

from relay_layout import relay
from relay_layout.relay.passes.explicit_padding import fold_explicit_padding
from tests.module_operators import operators

op = relax.op
X, W = (1, 4, 6, 6), (8, 4, 3, 3)
AROUND = (0, 0, 0, 0, 1, 2, 3, 4)
LEAST = -3.4028234663852886e38


def pad(x: Any, widths: Any = AROUND, value: float = 0.0, mode: str = "constant") -> Any:
    return op.nn.pad(x, widths, mode, value)


FOLDED: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]], str]] = {
    "conv2d": (lambda x, w: op.nn.conv2d(pad(x), w, padding=(1, 0, 2, 0)), [X, W], "nn.conv2d"),
    "conv2d NHWC": (
        lambda x, w: op.nn.conv2d(
            pad(x, (0, 0, 1, 2, 3, 4, 0, 0)), w, data_layout="NHWC", kernel_layout="HWIO"
        ),
        [(1, 6, 6, 4), (3, 3, 4, 8)],
        "nn.conv2d",
    ),
    "max_pool2d": (lambda x: op.nn.max_pool2d(pad(x, value=LEAST), (3, 3)), [X], "nn.max_pool2d"),
    "max_pool1d": (
        lambda x: op.nn.max_pool1d(pad(x, (0, 0, 0, 0, 4, 6), LEAST), 3),
        [X[:3]],
        "nn.max_pool1d",
    ),
    "max_pool3d": (
        lambda x: op.nn.max_pool3d(pad(x, (0, 0, 0, 0, 1, 2, 3, 4, 1, 1), LEAST), (3, 4, 3)),
        [(*X, 5)],
        "nn.max_pool3d",
    ),
    "avg_pool1d": (
        lambda x: op.nn.avg_pool1d(pad(x, (0, 0, 4, 6, 0, 0)), 3, strides=2, layout="NWC"),
        [X[:3]],
        "nn.avg_pool1d",
    ),
    "avg_pool3d": (
        lambda x: op.nn.avg_pool3d(pad(x, (0, 0, 0, 0, 1, 2, 3, 4, 1, 1)), (3, 4, 3)),
        [(*X, 5)],
        "nn.avg_pool3d",
    ),
    "avg_pool2d": (lambda x: op.nn.avg_pool2d(pad(x), (3, 3)), [X], "nn.avg_pool2d"),
}
KEPT: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "a value": (lambda x, w: op.nn.conv2d(pad(x, value=1.0), w), [X, W]),
    "a mode": (lambda x, w: op.nn.conv2d(pad(x, (0, 0, 0, 0, 1, 1, 1, 1), mode="reflect"), w), [X, W]),
    "channels": (lambda x, w: op.nn.conv2d(pad(x, (0, 0, 2, 2, 0, 0, 0, 0)), w), [X, (8, 8, 3, 3)]),
    "cut off": (lambda x, w: op.nn.conv2d(pad(x, (0, 0, 0, 0, -1, 0, 0, 0)), w), [X, W]),
    "max of zeros in one dimension": (lambda x: op.nn.max_pool1d(pad(x, (0, 0, 0, 0, 1, 1)), 3), [X[:3]]),
    "max of zeros": (lambda x: op.nn.max_pool2d(pad(x), (3, 3)), [X]),
    "average without its own": (lambda x: op.nn.avg_pool2d(pad(x), (3, 3), padding=(1, 1, 1, 1)), [X]),
}


@pytest.mark.parametrize("name", FOLDED)
def test_padding_is_taken_in(name: str) -> None:
    build, shapes, operator = FOLDED[name]
    before = function(build, *shapes)
    after = fold_explicit_padding(before)
    assert operators(after) == [operator]
    assert sum(attributes(after, operator).padding) >= 10
    assert_same(before, after)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_maxima_of_integers_take_in_the_least(dtype: str, rank: int) -> None:
    data = relay.var("x", shape=(1, 2, *(5, 4, 3)[:rank]), dtype=dtype)
    pool = getattr(relay.nn, f"max_pool{rank}d")
    limits = np.iinfo(dtype)
    networks = {
        value: pool(
            relay.nn.pad(data, ((0, 0), (0, 0), *[(1, 2)] * rank), relay.const(value, dtype)),
            pool_size=(3,) * rank,
        )
        for value in (limits.min, limits.min + 1)
    }
    array = np.random.default_rng(rank).integers(limits.min, limits.min + 2, data.type.shape).astype(dtype)
    for value, net in networks.items():
        before = tvm.IRModule.from_expr(net)
        after = fold_explicit_padding(before)
        # A float cannot tell the two least numbers of 64 bits apart, so there padding stays.
        folds = value == limits.min
        assert ("nn.pad" not in relay.astext(after)) == folds
        found, expected = (
            relay.create_executor("graph", module).evaluate()(array).numpy() for module in (after, before)
        )
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", KEPT)
def test_padding_stays(name: str) -> None:
    build, shapes = KEPT[name]
    before = function(build, *shapes)
    assert operators(fold_explicit_padding(before)) == operators(before)
