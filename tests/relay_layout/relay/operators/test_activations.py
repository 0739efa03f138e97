"""Activations and losses against numpy."""

import numpy as np
import pytest
from relay_harness import evaluate, imported, program

from relay_layout.errors import RelayLayoutError
from relay_layout.relay.exporting.module import to_tree
from relay_layout.relay.importing import from_tree
from relay_layout.relay.syntax import print_text, read_text

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 3, 4)).astype("float32")


def test_elementwise() -> None:
    relu, leaky, slope = evaluate(
        "(nn.relu(%x), nn.leaky_relu(%x), nn.leaky_relu(%x, alpha=0.5f))",
        x=X,
    )
    np.testing.assert_allclose(relu, np.maximum(X, 0))
    np.testing.assert_allclose(leaky, np.where(X > 0, X, 0.25 * X), rtol=1e-6)
    np.testing.assert_allclose(slope, np.where(X > 0, X, 0.5 * X), rtol=1e-6)


def test_prelu() -> None:
    three, four = (RNG.standard_normal(size).astype("float32") for size in (3, 4))
    middle, last = evaluate("(nn.prelu(%x, %a), nn.prelu(%x, %b, axis=2))", x=X, a=three, b=four)
    np.testing.assert_allclose(middle, np.where(X > 0, X, three[:, None] * X), rtol=1e-6)
    np.testing.assert_allclose(last, np.where(X > 0, X, four * X), rtol=1e-6)


def softmax(axis: int) -> np.ndarray:
    powers = np.exp(X.astype("float64"))
    return powers / powers.sum(axis, keepdims=True)


def test_softmax() -> None:
    last, first, logarithm, fast = evaluate(
        "(nn.softmax(%x), nn.softmax(%x, axis=0), nn.log_softmax(%x, axis=1), nn.fast_softmax(%x, axis=-2))",
        x=X,
    )
    np.testing.assert_allclose(last, softmax(-1), rtol=1e-5)
    np.testing.assert_allclose(first, softmax(0), rtol=1e-5)
    np.testing.assert_allclose(logarithm, np.log(softmax(1)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(fast, softmax(1), rtol=1e-4)


def test_dropout_is_the_identity() -> None:
    value, mask = evaluate("%0 = nn.dropout(%x, rate=0.3f); (%0.0, %0.1)", x=X)
    np.testing.assert_array_equal(value, X)
    np.testing.assert_array_equal(mask, np.ones_like(X))


def test_cross_entropy() -> None:
    guess = np.abs(X[:, :, 0]) + 0.1
    target = X[:, :, 1].copy()
    result, logits = evaluate(
        "(nn.cross_entropy(%p, %t), nn.cross_entropy_with_logits(%p, %t))", p=guess, t=target
    )
    np.testing.assert_allclose(result, -(np.log(guess) * target).sum() / 2, rtol=1e-5)
    np.testing.assert_allclose(logits, -(guess * target).sum() / 2, rtol=1e-5)


def test_nll_loss() -> None:
    target = np.array([[0, 2, 1, 2], [2, 0, 1, 1]], "int32")
    weights = np.array([0.5, 1.5, 2.0], "float32")
    mean, total, single = evaluate(
        """(nn.nll_loss(%x, %t, %w, ignore_index=-100),
            nn.nll_loss(%x, %t, %w, reduction="sum", ignore_index=1),
            nn.nll_loss(%x, %t, %w, reduction="none", ignore_index=-100))""",
        x=X,
        t=target,
        w=weights,
    )
    each = -np.take_along_axis(X, target[:, None], 1)[:, 0] * weights[target]
    np.testing.assert_allclose(single, each, rtol=1e-5)
    np.testing.assert_allclose(mean, each.sum() / weights[target].sum(), rtol=1e-5)
    np.testing.assert_allclose(total, each[target != 1].sum(), rtol=1e-5)


def test_attributes_at_their_default_are_not_printed() -> None:
    module = imported(program("nn.softmax(nn.leaky_relu(%x, alpha=0.25f), axis=-1)", x=X))
    text = print_text(to_tree(module))
    assert "nn.leaky_relu(%x)" in text
    assert "axis" not in text


def test_type_of_slopes() -> None:
    text = "def @main(%x: Tensor[(2, 3, 4), float32], %a) { nn.prelu(%x, %a, axis=2) }"
    slopes = from_tree(read_text(text, "test"))["main"].params[1]
    assert [int(extent) for extent in slopes.ty.shape] == [4]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("nn.prelu(%x, %a)", "alpha has the shape (2), not (3), the extent of axis 1"),
        ("nn.fast_softmax(%x, axis=3)", "axis 3 is not one of 3 dimensions"),
        ("nn.softmax(%x, axis=7)", "7"),
        ("nn.cross_entropy(%x, %x)", "predictions and targets are matrices with a known number of rows"),
        (
            'nn.nll_loss(%x, %x, %a, reduction="most", ignore_index=0)',
            "reduction is 'most', not one of mean, sum, none",
        ),
    ],
)
def test_wrong_attributes(call: str, message: str) -> None:
    text = program(call, x=X, a=np.zeros(2, "float32"))
    with pytest.raises(RelayLayoutError) as caught:
        from_tree(read_text(text, "test"))
    assert message in str(caught.value)
