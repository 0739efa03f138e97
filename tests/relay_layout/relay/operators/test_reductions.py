"""Reductions against numpy."""

from typing import Any

import numpy as np
import pytest
from relay_harness import evaluate, imported, program

from relay_layout import relay
from relay_layout.errors import ModelError
from relay_layout.relay.operators import TABLE
from relay_layout.relay.syntax.tree import Call, Var

GENERATOR = np.random.default_rng(3)
X = GENERATOR.standard_normal((2, 3, 4)).astype("float32")

AXES = {
    "": None,
    "axis=None, keepdims=True": None,
    "axis=[]": None,
    "axis=1": (1,),
    "axis=[-1, 0]": (0, 2),
    "axis=[-1], exclude=True, keepdims=True": (0, 1),
}
"""Attributes of a call, and the axes that they mean."""


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "prod"])
def test_reductions_over_axes(name: str) -> None:
    body = ", ".join(f"{name}(%x{', ' if attributes else ''}{attributes})" for attributes in AXES)
    for (attributes, axes), result in zip(AXES.items(), evaluate(f"({body})", x=X), strict=True):
        want = getattr(np, name)(X, axis=axes, keepdims="keepdims" in attributes)
        np.testing.assert_allclose(result, want, rtol=1e-5, atol=1e-6, err_msg=attributes)


def test_nothing_is_reduced_where_every_axis_is_excluded_or_there_is_none() -> None:
    scalar = np.array(2.5, "float32")
    every, none = evaluate("(sum(%x, axis=[0, 1, 2], exclude=True), max(%s))", x=X, s=scalar)
    np.testing.assert_array_equal(every, X)
    np.testing.assert_array_equal(none, scalar)


def test_mean_of_integers_truncates_and_of_half_precision_does_not_overflow() -> None:
    i = np.array([[-7, 2], [5, 6]], "int32")
    h = np.full((4, 3000), 60, "float16")
    integers, halves = evaluate("(mean(%i, axis=[1]), mean(%h, axis=[1]))", i=i, h=h)
    np.testing.assert_array_equal(integers, [-2, 5])
    np.testing.assert_array_equal(halves, [60] * 4)


def test_all_and_any() -> None:
    b = np.array([[True, True, False], [True, True, True]])
    body = "(all(%b, axis=[1]), any(%b), all(%b, axis=[0], keepdims=True), all(%b), max(%b), min(%b, axis=0))"
    results = evaluate(body, b=b)
    wanted = [b.all(1), b.any(), b.all(0, keepdims=True), b.all(), b.max(), b.min(0)]
    for result, want in zip(results, wanted, strict=True):
        np.testing.assert_array_equal(result, want)


def test_argmax_and_argmin_give_int32_and_the_first_or_last_of_equals() -> None:
    x = GENERATOR.integers(0, 3, (3, 4, 5)).astype("float32")
    body = (
        "(argmax(%x, axis=[1]), argmin(%x, axis=[-1], keepdims=True), argmax(%x), "
        "argmax(%x, axis=[1], select_last_index=True), argmin(%x, axis=[0, 1]), "
        "argmax(%x, axis=[0, 1], exclude=True))"
    )
    results = evaluate(body, x=x)
    pairs = x.transpose(2, 0, 1).reshape(5, 12)
    wanted = [
        x.argmax(1),
        x.argmin(-1, keepdims=True),
        x.argmax(),
        3 - x[:, ::-1].argmax(1),
        pairs.argmin(1),
        x.argmax(2),
    ]
    for result, want in zip(results, wanted, strict=True):
        assert result.dtype == np.int32
        np.testing.assert_array_equal(result, want)


def test_variance_takes_the_mean_it_is_given() -> None:
    mean = X.mean(1, keepdims=True)
    body = (
        "(variance(%x, %m, axis=[1]), variance(%x, %m, axis=[1], unbiased=True, keepdims=True), "
        "variance(%x, %z))"
    )
    zero = np.zeros((1, 1, 1), "float32")
    biased, unbiased, around_zero = evaluate(body, x=X, m=mean, z=zero)
    np.testing.assert_allclose(biased, X.var(1), rtol=1e-5)
    np.testing.assert_allclose(unbiased, X.var(1, ddof=1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(around_zero, np.mean(X * X), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("axis", [None, 0, (0, 2), 1])
def test_unbiased_variance_counts_unknown_extents_when_it_runs(axis: Any, dtype: str) -> None:
    data = relay.var("x", shape=(relay.Any(), 4, relay.Any()), dtype=dtype)
    call = relay.create_executor("vm", relay.variance(data, axis=axis, unbiased=True)).evaluate()
    for shape in ((3, 4, 5), (2, 4, 1)):
        array = np.random.default_rng(4).standard_normal(shape).astype(dtype)
        expected = array.astype("float64").var(axis, ddof=1)
        bound = 1e-5 if dtype == "float32" else 5e-3
        np.testing.assert_allclose(call(array).numpy(), expected, rtol=bound, atol=bound)


def test_variance_in_python_computes_its_mean() -> None:
    data = Var("x")
    prepare = TABLE["variance"].prepare
    assert prepare is not None
    (_, mean), attributes = prepare(
        data=data, axis=1, keepdims=False, exclude=False, unbiased=True, with_mean=None
    )
    assert isinstance(mean, Call)
    assert (mean.op, mean.args, mean.attrs) == (
        "mean",
        (data,),
        {"axis": (1,), "exclude": False, "keepdims": True},
    )
    assert attributes == {"axis": (1,), "keepdims": False, "exclude": False, "unbiased": True}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("sum(%x, axis=[3])", "sum: axis 3 is not one of 3 dimensions"),
        ("sum(%x, axis=[1, -2])", r"sum: axis \[1, 1\] names one dimension twice"),
        ("sum(%x, exclude=True)", "sum: exclude needs an axis to keep"),
        ('sum(%x, axis="1")', "sum: axis is a whole number, not '1'"),
        ("all(%x)", "all: takes bool, not float32"),
        ("argmax(%x, axis=[0, 1, 2], exclude=True)", "argmax of .*: leaves no axis to reduce"),
    ],
)
def test_wrong_attributes_are_named(call: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        imported(program(call, x=X))
