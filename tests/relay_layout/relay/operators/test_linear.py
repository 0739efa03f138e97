"""Products of matrices against numpy."""

import numpy as np
import pytest
from relay_harness import evaluate, imported, program

from relay_layout.errors import RelayLayoutError
from relay_layout.relay.importing import from_tree
from relay_layout.relay.syntax import read_text

RNG = np.random.default_rng(6)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def close(actual: np.ndarray, expected: np.ndarray) -> None:
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def test_dense() -> None:
    x, y, w = normal(3, 5), normal(2, 3, 4, 5), normal(7, 5)
    results = evaluate(
        """(nn.dense(%x, %w, units=7), nn.dense(%y, %w, units=None),
            nn.dense(%x, %w, units=7, out_dtype="float64"))""",
        x=x,
        y=y,
        w=w,
    )
    close(results[0], x @ w.T)
    close(results[1], y @ w.T)
    assert results[2].dtype == np.float64
    close(results[2], x.astype("float64") @ w.T)


def test_integers() -> None:
    x = RNG.integers(0, 256, (2, 9)).astype("uint8")
    w = RNG.integers(-128, 128, (4, 9)).astype("int8")
    (result,) = evaluate('(nn.dense(%x, %w, units=None, out_dtype="int32"),)', x=x, w=w)
    np.testing.assert_array_equal(result, x.astype("int32") @ w.T.astype("int32"))


def test_matmul() -> None:
    a, b, many = normal(3, 5), normal(5, 4), normal(2, 6, 5)
    results = evaluate(
        """(nn.matmul(%a, %b, units=4),
            nn.matmul(%t, %b, units=None, transpose_a=True),
            nn.matmul(%a, %u, units=4, transpose_b=True),
            nn.matmul(%t, %u, units=4, transpose_a=True, transpose_b=True),
            nn.matmul(%m, %b, units=4),
            nn.matmul(%n, %b, units=4, transpose_a=True))""",
        a=a,
        b=b,
        t=a.T.copy(),
        u=b.T.copy(),
        m=many,
        n=many.transpose(0, 2, 1).copy(),
    )
    for result in results[:4]:
        close(result, a @ b)
    for result in results[4:]:
        close(result, many @ b)


def test_batch_matmul() -> None:
    a, b, one = normal(3, 4, 5), normal(3, 5, 2), normal(1, 5, 2)
    results = evaluate(
        """(nn.batch_matmul(%a, %b),
            nn.batch_matmul(%a, %u, transpose_b=True),
            nn.batch_matmul(%t, %u, transpose_a=True, transpose_b=True),
            nn.batch_matmul(%a, %o),
            nn.batch_matmul(%a, %b, out_dtype="float64"))""",
        a=a,
        b=b,
        u=b.transpose(0, 2, 1).copy(),
        t=a.transpose(0, 2, 1).copy(),
        o=one,
    )
    for result in results[:3]:
        close(result, a @ b)
    close(results[3], a @ one)
    assert results[4].dtype == np.float64


def test_packed_weights() -> None:
    x, w = normal(3, 8), normal(6, 8)
    results = evaluate(
        """(nn.contrib_dense_pack(%x, %p, units=None, weight_layout="NC2n"),
            nn.contrib_dense_pack(%x, %q, units=None, weight_layout="NC2n4c"))""",
        x=x,
        p=w.reshape(3, 2, 8).transpose(0, 2, 1).copy(),
        q=w.reshape(3, 2, 2, 4).transpose(0, 2, 1, 3).copy(),
    )
    for result in results:
        close(result, x @ w.T)


def test_bias_add() -> None:
    x, three, four = normal(2, 3, 4), normal(3), normal(4)
    results = evaluate(
        "(nn.bias_add(%x, %a), nn.bias_add(%x, %b, axis=-1), nn.bias_add(%x, %b, axis=2))",
        x=x,
        a=three,
        b=four,
    )
    close(results[0], x + three[:, None])
    close(results[1], x + four)
    close(results[2], x + four)


def test_batch_flatten() -> None:
    x, y, z = normal(2, 3, 4), normal(5), normal(3, 2)
    results = evaluate("(nn.batch_flatten(%x), nn.batch_flatten(%y), nn.batch_flatten(%z))", x=x, y=y, z=z)
    for result, expected in zip(results, (x.reshape(2, 12), y.reshape(5, 1), z), strict=True):
        np.testing.assert_array_equal(result, expected)


def test_unknown_rows() -> None:
    text = """def @main(%x: Tensor[(?, 5), float32], %w: Tensor[(4, 5), float32], %b: Tensor[(4), float32]) {
        nn.batch_flatten(nn.bias_add(nn.dense(%x, %w, units=4), %b)) }"""
    function = imported(text)["main"]
    assert str(function.ret_ty.shape[0]) == str(function.params[0].ty.shape[0])


def test_types_of_operands() -> None:
    text = """def @main(%x: Tensor[(2, 5), float32], %w, %b, %m) {
        %0 = nn.bias_add(nn.dense(%x, %w, units=4), %b);
        nn.matmul(%0, %m, units=3) }"""
    parameters = from_tree(read_text(text, "test"))["main"].params
    shapes = [tuple(int(extent) for extent in parameter.ty.shape) for parameter in parameters[1:]]
    assert shapes == [(4, 5), (4,), (4, 3)]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("nn.dense(%x, %w, units=6)", "units is 6; the weight has 4"),
        ("nn.dense(%x, %w, units=0)", "units is 0, not a number from 1"),
        ("nn.dense(%x, %b, units=4)", "the second matrix has 1 dimensions, not 2"),
        ("nn.matmul(%b, %w, units=None, transpose_a=True)", "the first matrix has 1 dimensions"),
        ("nn.matmul(%x, %w, units=5)", "rows of 5 elements do not fit columns of 4"),
        ("nn.batch_matmul(%x, %w)", "the first operand has 2 dimensions, not 3"),
        ("nn.bias_add(%x, %b, axis=2)", "axis 2 is not one of 2 dimensions"),
        ("nn.bias_add(%x, %b)", "bias has the shape (1), not (5), the extent of axis 1"),
        (
            "nn.contrib_dense_pack(%x, %w, units=4)",
            "data of 2 and a weight of 2 dimensions; 2, and 3 or 4 fit",
        ),
    ],
)
def test_wrong_attributes(call: str, message: str) -> None:
    text = program(call, x=normal(2, 5), w=normal(4, 5), b=normal(1))
    with pytest.raises(RelayLayoutError) as caught:
        from_tree(read_text(text, "test"))
    assert message in str(caught.value)
