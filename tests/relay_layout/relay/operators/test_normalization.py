"""Normalization against numpy."""

import numpy as np
import pytest
from relay_harness import evaluate, imported, program

from relay_layout.errors import RelayLayoutError
from relay_layout.relay.exporting.module import to_tree
from relay_layout.relay.importing import from_tree
from relay_layout.relay.syntax import print_text, read_text

RNG = np.random.default_rng(5)
X = RNG.standard_normal((2, 6, 5, 4)).astype("float32")


def vector(length: int) -> np.ndarray:
    return RNG.standard_normal(length).astype("float32")


def along(values: np.ndarray, axis: int) -> np.ndarray:
    shape = [1] * 4
    shape[axis] = -1
    return values.reshape(shape)


def normalized(axes: tuple[int, ...], epsilon: float = 1e-5) -> np.ndarray:
    x = X.astype("float64")
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def close(actual: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def test_batch_norm() -> None:
    six, four = [vector(6) for _ in range(3)], [vector(4) for _ in range(3)]
    variance, small = np.abs(vector(6)) + 0.5, np.abs(vector(4)) + 0.5
    results = evaluate(
        """%0 = nn.batch_norm(%x, %g, %b, %m, %v);
           %1 = nn.batch_norm(%x, %h, %c, %n, %w, axis=-1, epsilon=0.01f, center=False);
           %2 = nn.batch_norm(%x, %g, %b, %m, %v, scale=False);
           (%0.0, %0.1, %0.2, %1.0, %2.0)""",
        x=X,
        g=six[0],
        b=six[1],
        m=six[2],
        v=variance,
        h=four[0],
        c=four[1],
        n=four[2],
        w=small,
    )
    plain = (X - along(six[2], 1)) / np.sqrt(along(variance, 1) + 1e-5)
    close(results[0], plain * along(six[0], 1) + along(six[1], 1))
    np.testing.assert_array_equal(results[1], six[2])
    np.testing.assert_array_equal(results[2], variance)
    close(results[3], (X - along(four[2], 3)) / np.sqrt(along(small, 3) + 0.01) * along(four[0], 3))
    close(results[4], plain + along(six[1], 1))


def test_layer_norm() -> None:
    gamma, beta, six = vector(4), vector(4), vector(6)
    results = evaluate(
        """(nn.layer_norm(%x, %g, %b), nn.layer_norm(%x, %s, %s, axis=1, epsilon=0.1f),
            nn.layer_norm(%x, %g, %b, center=False), nn.layer_norm(%x, %g, %b, scale=False))""",
        x=X,
        g=gamma,
        b=beta,
        s=six,
    )
    close(results[0], normalized((3,)) * gamma + beta)
    close(results[1], normalized((1,), 0.1) * along(six, 1) + along(six, 1))
    close(results[2], normalized((3,)) * gamma)
    close(results[3], normalized((3,)) + beta)


def test_instance_norm() -> None:
    gamma, beta, four = vector(6), vector(6), vector(4)
    results = evaluate(
        """(nn.instance_norm(%x, %g, %b), nn.instance_norm(%x, %h, %h, axis=-1, epsilon=0.1f),
            nn.instance_norm(%x, %g, %b, center=False, scale=False))""",
        x=X,
        g=gamma,
        b=beta,
        h=four,
    )
    close(results[0], normalized((2, 3)) * along(gamma, 1) + along(beta, 1))
    close(results[1], normalized((1, 2), 0.1) * four + four)
    close(results[2], normalized((2, 3)))


def grouped(groups: int, axis: int) -> np.ndarray:
    """Statistics over the channels of a group and the axes behind that of channels."""
    extent = X.shape[axis]
    split = X.astype("float64").reshape(*X.shape[:axis], groups, extent // groups, *X.shape[axis + 1 :])
    axes = tuple(range(axis + 1, split.ndim))
    mean, variance = split.mean(axes, keepdims=True), split.var(axes, keepdims=True)
    return ((split - mean) / np.sqrt(variance + 1e-5)).reshape(X.shape)


def test_group_norm() -> None:
    gamma, beta, four = vector(6), vector(6), vector(4)
    results = evaluate(
        """(nn.group_norm(%x, %g, %b, num_groups=3), nn.group_norm(%x, %h, %h, num_groups=2, axis=3),
            nn.group_norm(%x, %g, %b, num_groups=1, scale=False))""",
        x=X,
        g=gamma,
        b=beta,
        h=four,
    )
    close(results[0], grouped(3, 1) * along(gamma, 1) + along(beta, 1))
    # Groups of two elements whose difference may be small beside them: TVM's variance in one pass cancels.
    np.testing.assert_allclose(results[1], grouped(2, 3) * four + four, atol=1e-3)
    close(results[2], grouped(1, 1) + along(beta, 1))


def test_l2_normalize() -> None:
    channels, all_axes, floor = evaluate(
        """(nn.l2_normalize(%x, eps=0.001f, axis=[-3]), nn.l2_normalize(%x, eps=0.001f, axis=[]),
            nn.l2_normalize(%x, eps=100f, axis=[1, 3]))""",
        x=X,
    )
    close(channels, X / np.sqrt((X * X).sum(1, keepdims=True)))
    close(all_axes, X / np.sqrt((X * X).sum()))
    close(floor, X / 10)


def test_lrn() -> None:
    across, last = evaluate(
        "(nn.lrn(%x), nn.lrn(%x, size=3, axis=3, bias=1f, alpha=0.5f, beta=0.25f))",
        x=X,
    )

    def expected(size: int, axis: int, bias: float, alpha: float, beta: float) -> np.ndarray:
        squares = np.moveaxis(X.astype("float64") ** 2, axis, 0)
        half = size // 2
        sums = [squares[max(0, i - half) : i + half + 1].sum(0) for i in range(len(squares))]
        return X / (bias + alpha / size * np.moveaxis(np.array(sums), 0, axis)) ** beta

    close(across, expected(5, 1, 2, 1e-4, 0.75))
    close(last, expected(3, 3, 1, 0.5, 0.25))


def test_types_of_vectors() -> None:
    text = """def @main(%x: Tensor[(2, 6, 5, 4), float32], %g, %b, %m, %v, %h, %c) {
        %0 = nn.batch_norm(%x, %g, %b, %m, %v, axis=3);
        nn.layer_norm(%0.0, %h, %c, axis=-3) }"""
    parameters = from_tree(read_text(text, "test"))["main"].params
    lengths = [int(parameter.ty.shape[0]) for parameter in parameters[1:]]
    assert lengths == [4, 4, 4, 4, 6, 6]


def test_carried_as_itself() -> None:
    module = imported(program("nn.lrn(%x, size=3)", x=X))
    assert "nn.lrn(%x, size=3)" in print_text(to_tree(module))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("nn.batch_norm(%x, %g, %g, %g, %g, axis=4)", "axis 4 is not one of 4 dimensions"),
        ("nn.batch_norm(%x, %h, %h, %h, %h)", "gamma has the shape (4), not (6), the extent of axis 1"),
        ("nn.layer_norm(%x, %g, %g)", "gamma has the shape (6), not (4), the extent of axis 3"),
        ("nn.instance_norm(%x, %g, %x)", "beta has the shape (2, 6, 5, 4), not (6)"),
        ("nn.group_norm(%x, %g, %g, num_groups=4)", "num_groups is 4, which does not divide 6 channels"),
        ("nn.group_norm(%x, %g, %g)", "num_groups is 0, not a number from 1"),
        ("nn.l2_normalize(%x, eps=0f, axis=[4])", "axis 4 is not one of 4 dimensions"),
        ("nn.lrn(%x, size=4)", "size is 4; it must be odd"),
        ("nn.lrn(%x, axis=2)", "axis is 2 of 4 dimensions; lrn takes axis 1 or 3 of 4"),
    ],
)
def test_wrong_attributes(call: str, message: str) -> None:
    text = program(call, x=X, g=vector(6), h=vector(4))
    with pytest.raises(RelayLayoutError) as caught:
        from_tree(read_text(text, "test"))
    assert message in str(caught.value)
