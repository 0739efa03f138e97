"""Factors along channels go into the weights, and only where that is the same."""

from collections.abc import Callable
from typing import Any

import pytest
from pass_harness import assert_same, function
from tvm import relax

from relay_layout.relay import transform
from relay_layout.relay.passes.scale_axis import fold_scale_axis
from tests.module_operators import operators

op = relax.op
X, W = (1, 4, 6, 6), (8, 4, 3, 3)


def conv(x: Any, w: Any, **attributes: Any) -> Any:
    return op.nn.conv2d(x, w, padding=(1, 1, 1, 1), **attributes)


FOLDED: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]], bool]] = {
    "after": (lambda x, w, s: op.multiply(conv(x, w), s), [X, W, (8, 1, 1)], True),
    "after, factor first": (lambda x, w, s: op.multiply(s, conv(x, w)), [X, W, (1, 8, 1, 1)], True),
    "after, one factor": (lambda x, w, s: op.multiply(conv(x, w), s), [X, W, (1,)], True),
    "after a bias": (
        lambda x, w, s, b: op.multiply(op.add(conv(x, w), b), s),
        [X, W, (8, 1, 1), (8, 1, 1)],
        True,
    ),
    "after, NHWC": (
        lambda x, w, s: op.multiply(conv(x, w, data_layout="NHWC", kernel_layout="HWIO"), s),
        [(1, 6, 6, 4), (3, 3, 4, 8), (8,)],
        True,
    ),
    "after, groups": (
        lambda x, w, s: op.multiply(conv(x, w, groups=2), s),
        [X, (8, 2, 3, 3), (8, 1, 1)],
        True,
    ),
    "before": (lambda x, w, s: conv(op.multiply(x, s), w), [X, W, (4, 1, 1)], True),
    "before, factor first": (lambda x, w, s: conv(op.multiply(s, x), w), [X, W, (4, 1, 1)], True),
    "before, groups": (
        lambda x, w, s: conv(op.multiply(x, s), w, groups=2),
        [X, (8, 2, 3, 3), (4, 1, 1)],
        False,
    ),
    "along width": (lambda x, w, s: op.multiply(conv(x, w), s), [X, W, (6,)], False),
    "before, along width": (lambda x, w, s: conv(op.multiply(x, s), w), [X, W, (6,)], False),
    "a bias that broadcasts": (
        lambda x, w, s, b: op.multiply(op.add(conv(x, w), b), s),
        [X, W, (8, 1, 1), (3, 8, 6, 6)],
        False,
    ),
}


@pytest.mark.parametrize("name", FOLDED)
def test_factors(name: str) -> None:
    build, shapes, folds = FOLDED[name]
    before = function(build, *shapes)
    after = fold_scale_axis(before)
    assert (operators(before).index("nn.conv2d") != operators(after).index("nn.conv2d")) or not folds
    if not folds:
        assert operators(after) == operators(before)
    assert_same(before, after)


def test_a_product_with_two_readers_stays() -> None:
    def build(x: Any, w: Any, s: Any) -> Any:
        builder = relax.BlockBuilder.current()
        convolved = builder.emit(conv(x, w))
        return op.add(op.multiply(convolved, s), convolved)

    before = function(build, X, W, (8, 1, 1))
    assert operators(fold_scale_axis(before)) == operators(before)


@pytest.mark.parametrize(
    ("name", "kept"), [("ForwardFoldScaleAxis", "after"), ("BackwardFoldScaleAxis", "before")]
)
def test_one_side_alone(name: str, kept: str) -> None:
    before = function(
        lambda x, w, s, t: op.multiply(conv(op.multiply(x, s), w), t), X, W, (4, 1, 1), (8, 1, 1)
    )
    after = getattr(transform, name)()(before)
    assert_same(before, after)
    main = after["main"]
    values = {binding.var: binding.value for block in main.body.blocks for binding in block.bindings}
    (convolution,) = [value for value in values.values() if value.op.name == "relax.nn.conv2d"]
    scaled_before = convolution.args[0] in values
    scaled_after = values[main.body.body].op.name == "relax.multiply"
    assert (scaled_before, scaled_after) == (kept == "before", kept == "after")
