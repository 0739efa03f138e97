"""Operators that make tensors, against numpy."""

import numpy as np
import pytest
from relay_harness import check, evaluate, execute, imported, program

from relay_layout.errors import ModelError
from relay_layout.relay.operators import TABLE
from relay_layout.relay.syntax import module_of_expression, print_text, tree

X = np.arange(6.0, dtype="float32").reshape(2, 3)


def test_filled_tensors() -> None:
    cases = {
        'zeros(shape=[2, 3], dtype="int8")': np.zeros((2, 3), "int8"),
        'ones(shape=[], dtype="float32")': np.ones((), "float32"),
        "zeros_like(%x)": np.zeros_like(X),
        "ones_like(%i)": np.ones(2, "int64"),
        'full(2.5f, shape=[2], dtype="float32")': np.full(2, 2.5, "float32"),
        'full(2.5f, shape=[2], dtype="int32")': np.full(2, 2, "int32"),
        "full(%s, shape=[2, 1], dtype=None)": np.full((2, 1), 7, "float32"),
        "full_like(%x, 3f)": np.full_like(X, 3),
        "full_like(%i, %s)": np.full(2, 7, "int64"),
    }
    check(cases, x=X, i=np.array([1, 2]), s=np.array(7.0, "float32"))


def arange(start: float, stop: float, step: float, dtype: str) -> np.ndarray:
    prepare = TABLE["arange"].prepare
    assert prepare is not None
    operands, attributes = prepare(start=start, stop=stop, step=step, dtype=dtype)
    call = tree.Call("arange", tuple(operands), attributes)
    (result,) = execute(imported(print_text(module_of_expression(call))), [])
    return result


@pytest.mark.parametrize(
    ("start", "stop", "step", "dtype"),
    [(0, 5, 1, "int32"), (10, 1, -3, "int64"), (1, 2, 0.25, "float32"), (0.1, 1.0, 0.3, "float32")],
)
def test_arange_multiplies_the_step(start: float, stop: float, step: float, dtype: str) -> None:
    count = int(np.ceil((stop - start) / step))
    numbers = np.array(start, dtype) + np.array(step, dtype) * np.arange(count).astype(dtype)
    np.testing.assert_array_equal(arange(start, stop, step, dtype), numbers.astype(dtype))


def test_arange_with_one_argument_starts_at_0() -> None:
    prepare = TABLE["arange"].prepare
    assert prepare is not None
    operands, attributes = prepare(start=4, dtype="int32")
    assert [operand.data.item() for operand in operands] == [0, 4, 1]
    assert attributes["dtype"] == "int32"


def test_meshgrid() -> None:
    a, b = np.array([1.0, 2, 3], "float32"), np.array([4.0, 5], "float32")
    results = evaluate(
        '(meshgrid((%a, %b)), meshgrid((%a, %b), indexing="xy"), meshgrid((%a, 2f)))', a=a, b=b
    )
    wanted = [
        *np.meshgrid(a, b, indexing="ij"),
        *np.meshgrid(a, b, indexing="xy"),
        *np.meshgrid(a, np.float32(2), indexing="ij"),
    ]
    for result, want in zip(results, wanted, strict=True):
        np.testing.assert_array_equal(result, want)


def test_one_hot() -> None:
    i = np.array([[0, 2], [1, 9]], "int32")
    hot = i[..., None] == np.arange(3)
    cases = {
        'one_hot(%i, 1f, 0f, depth=3, axis=-1, dtype="float32")': hot.astype("float32"),
        'one_hot(%i, 5f, -1f, depth=3, axis=1, dtype="int32")': np.where(hot, 5, -1)
        .transpose(0, 2, 1)
        .astype("int32"),
        'one_hot(%i, True, False, depth=3, axis=0, dtype="bool")': hot.transpose(2, 0, 1),
        'one_hot(%i, %s, 0f, depth=3, axis=-1, dtype="float32")': np.where(hot, 7, 0).astype("float32"),
    }
    check(cases, i=i, s=np.array(7.0, "float32"))


def test_shapes_as_tensors() -> None:
    cases = {
        'shape_of(%x, dtype="int32")': np.array([2, 3], "int32"),
        'shape_of(%x, dtype="int64")': np.array([2, 3], "int64"),
        "ndarray_size(%x)": np.array(6, "int32"),
    }
    check(cases, x=X)


def test_shapes_of_an_unknown_batch_are_found_at_run_time() -> None:
    text = 'def @main(%x: Tensor[(?, 3), float32]) { (shape_of(%x), ndarray_size(%x, dtype="int64")) }'
    shape, size = execute(imported(text), [np.zeros((5, 3), "float32")])
    np.testing.assert_array_equal(shape, np.array([5, 3], "int32"))
    np.testing.assert_array_equal(size, np.array(15, "int64"))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("zeros(shape=[2])", "zeros: needs a dtype"),
        ('ones(shape=[-1], dtype="float32")', r"ones: shape \[-1\] is no shape"),
        ('full(%x, shape=[2], dtype="float32")', "full: the value has 2 dimensions"),
        (
            'arange(0, 5, %x, start=0, stop=5, step=1, dtype="int32")',
            "start, stop and step are scalars",
        ),
        ('arange(0, 5, 0, start=0, stop=5, step=0, dtype="int32")', "does not get from 0 to 5 in steps of 0"),
        ('arange(5, 0, 1, start=5, stop=0, step=1, dtype="int32")', "gives -5 numbers"),
        ('arange(0, 2000000000, 1, start=0, stop=0, step=1, dtype="int32")', "gives 2000000000 numbers"),
        ('one_hot(%i, 1f, 0f, depth=0, axis=-1, dtype="float32")', "depth is 0; it is at least 1"),
        ('one_hot(%i, 1f, 0f, depth=2, axis=4, dtype="float32")', "axis 4 is not one of 1 dimensions"),
        (f"meshgrid(({', '.join(['%i'] * 65)}))", "65 tensors give over 64 dimensions"),
        ('meshgrid((%i, %i), indexing="zz")', "indexing is 'ij' or 'xy', not 'zz'"),
    ],
)
def test_wrong_attributes_are_named(call: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        imported(program(call, x=X, i=np.array(1, "int32")))
