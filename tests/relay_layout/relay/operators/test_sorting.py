"""Orders, running totals and einsum against numpy."""

import numpy as np
import pytest
import tvm
from relay_harness import check, evaluate, imported, program
from run_time_harness import computed

from relay_layout import relay
from relay_layout.errors import ModelError

GENERATOR = np.random.default_rng(13)
X = GENERATOR.permutation(24).reshape(2, 3, 4).astype("float32")


def test_sorts() -> None:
    cases = {
        "sort(%x)": np.sort(X),
        "sort(%x, axis=0, is_ascend=False)": np.sort(X, 0)[::-1],
        'argsort(%x, axis=1, dtype="int32")': np.argsort(X, 1).astype("int32"),
        'argsort(%x, axis=-2, is_ascend=False, dtype="int64")': np.argsort(-X, 1),
        "argsort(%x)": np.argsort(X).astype("int32"),
    }
    check(cases, rtol=1e-5, x=X)


def test_topk() -> None:
    body = (
        '(topk(%x, k=2, axis=1, dtype="int32"), topk(%x, k=3, ret_type="values", is_ascend=True), '
        'topk(%x, k=2, axis=0, ret_type="indices", dtype="int64"), topk(%x, k=0, ret_type="values"))'
    )
    values, indices, smallest, order, everything = evaluate(body, x=X)
    np.testing.assert_array_equal(values, -np.sort(-X, 1)[:, :2])
    np.testing.assert_array_equal(indices, np.argsort(-X, 1)[:, :2])
    np.testing.assert_array_equal(smallest, np.sort(X)[..., :3])
    np.testing.assert_array_equal(order, np.argsort(-X, 0))
    np.testing.assert_array_equal(everything, -np.sort(-X))
    assert (indices.dtype, order.dtype) == (np.int32, np.int64)


def test_searchsorted() -> None:
    edges = np.array([1.0, 2, 2, 5], "float32")
    values = np.array([[0.0, 2], [5, 9]], "float32")
    cases = {
        "searchsorted(%e, %v)": np.searchsorted(edges, values).astype("int32"),
        'searchsorted(%e, %v, right=True, dtype="int64")': np.searchsorted(edges, values, "right"),
    }
    check(cases, rtol=1e-5, e=edges, v=values)


def test_running_totals() -> None:
    i = np.array([[1, 2, 3], [4, 5, 6]], "int32")
    before = np.concatenate([np.zeros((2, 1), "int32"), np.cumsum(i, 1, dtype="int32")[:, :-1]], 1)
    cases = {
        "cumsum(%x, axis=1)": np.cumsum(X, 1),
        "cumsum(%i)": np.cumsum(i, dtype="int32"),
        'cumsum(%i, axis=0, dtype="float32")': np.cumsum(i, 0, dtype="float32"),
        "cumsum(%i, axis=-1, exclusive=True)": before,
        "cumprod(%i, axis=1)": np.cumprod(i, 1, dtype="int32"),
    }
    check(cases, rtol=1e-5, x=X, i=i)


def test_einsum() -> None:
    y = GENERATOR.standard_normal((4, 5)).astype("float32")
    cases = {
        'einsum((%x, %y), equation="bij,jk->bik")': np.einsum("bij,jk->bik", X, y),
        'einsum((%y,), equation="ij->ji")': y.T,
    }
    check(cases, rtol=1e-5, x=X, y=y)


def test_unique() -> None:
    v = np.array([4, 5, 1, 2, 3, 3, 4, 5], "int32")
    body = "(unique(%v, return_counts=True), unique(%v, sorted=False))"
    results = evaluate(body, v=v)
    ascending, first, inverse, counts = np.unique(
        v, return_index=True, return_inverse=True, return_counts=True
    )
    wanted = [
        [*ascending, 0, 0, 0],
        [*first, 0, 0, 0],
        inverse,
        [5],
        [*counts, 0, 0, 0],
        [4, 5, 1, 2, 3, 0, 0, 0],
        [0, 1, 2, 3, 4, 0, 0, 0],
        [0, 1, 2, 3, 4, 4, 0, 1],
        [5],
    ]
    for result, want in zip(results, wanted, strict=True):
        assert result.dtype == np.int32
        np.testing.assert_array_equal(result, want)


def test_unique_of_unknown_length() -> None:
    v = np.array([4, 5, 1, 5], "int32")
    values, first, inverse, count = computed(
        relay.unique(relay.var("v", shape=(relay.Any(),), dtype="int32")).astuple(), v=v
    )
    np.testing.assert_array_equal(values, [1, 4, 5, 0])
    np.testing.assert_array_equal(first, [2, 0, 1, 0])
    np.testing.assert_array_equal(inverse, [1, 2, 0, 2])
    np.testing.assert_array_equal(count, [3])


@pytest.mark.parametrize("rows", [3, relay.Any()], ids=["known", "open"])
def test_argwhere(rows: int | None) -> None:
    """As many rows as there are places, of which later operators take any number."""
    data = np.array([[0, 2, 0, 1], [0, 0, 0, 0], [-1, 0, 0, 3]], "float32")
    places = relay.argwhere(relay.var("x", shape=(rows, 4)))
    found, doubled = computed(relay.Tuple([places, places * relay.const(2)]), x=data)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, np.argwhere(data))
    np.testing.assert_array_equal(doubled, 2 * np.argwhere(data))


def test_argwhere_of_nothing() -> None:
    """There are no rows where there is no place."""
    (found,) = computed(relay.argwhere(relay.var("x", shape=(2, 3))), x=np.zeros((2, 3), "float32"))
    assert found.shape == (0, 2)


def test_argwhere_prints() -> None:
    """As the operator that it is, in a module as well."""
    module = tvm.IRModule.from_expr(relay.argwhere(relay.var("x", shape=(2, 3))))
    text = relay.astext(module)
    assert "argwhere(%x)" in text
    assert relay.astext(relay.fromtext(text)) == text


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("argwhere(1f)", "argwhere: takes a tensor of at least one dimension"),
        ("topk(%x, k=9)", "topk: k is 9, over the extent 4 of axis 2"),
        ('topk(%x, k=1, ret_type="all")', "ret_type is 'both', 'values' or 'indices', not 'all'"),
        ("sort(%x, axis=3)", "sort: axis 3 is not one of 3 dimensions"),
        ('argsort(%x, dtype="int33")', "argsort: there is no data type 'int33'"),
        ("cumsum(%x, axis=0, exclusive=7)", "cumsum: exclusive is True or False"),
        ('einsum((%x,), equation="ijk,jk->i")', "equation 'ijk,jk->i' does not fit 1 tensors"),
        ('einsum((%x,), equation="ij->i")', "einsum of"),
        ("unique(%x)", "unique of .*: takes a list"),
        ("searchsorted(%x, 1f)", "a sequence of 3 dimensions does not fit 0"),
    ],
)
def test_wrong_attributes_are_named(call: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        imported(program(call, x=X))
