"""Slices, gathering and scattering against numpy."""

import numpy as np
import pytest
from relay_harness import check, execute, imported, program

from relay_layout.errors import ModelError
from relay_layout.relay.operators import TABLE
from relay_layout.relay.syntax import module_of_expression, print_text, relay_types, tree

GENERATOR = np.random.default_rng(11)
X = GENERATOR.standard_normal((2, 5, 6)).astype("float32")
GIVEN = GENERATOR.standard_normal((2, 2, 3)).astype("float32")


SLICES = {
    "begin=[0, 1, 2], end=[2, 4, 5], strides=[1, 1, 1], axes=None": X[:2, 1:4, 2:5],
    "begin=[0, 1], end=[2, 1000], strides=[1], axes=None": X[:, 1:],
    "begin=[0, -3, -4], end=[9, -1, 6], strides=[1, 1, 2], axes=None": X[:, -3:-1, -4::2],
    "begin=[1], end=[4], strides=[2], axes=[-2]": X[:, 1:4:2],
    "begin=[5, 0], end=[0, 2], strides=[-2, 1], axes=[2, 0]": X[:, :, 5:0:-2],
    "begin=[5], end=[-7], strides=[-1], axes=[2]": X[:, :, ::-1],
    "begin=[0, 4], end=[2, -20], strides=[1, -1, -1], axes=None": X[:, ::-1, :0:-1],
    'begin=[0, 1, 2], end=[-1, 2, -1], strides=[1], slice_mode="size", axes=None': X[:, 1:3, 2:],
    'begin=[0, 1, 2], end=[1, 2, 3], strides=[2, 2, 2], slice_mode="size", axes=None': X[:1, 1:3, 2:5],
    "begin=[0, 3], end=[2, 3], strides=[1], axes=None": X[:, 3:3],
    "begin=[None, 1], end=[None, None], strides=[1, 2], axes=None": X[:, 1::2],
    "begin=[0], end=[2], strides=[1], axes=None": X,
}


def test_strided_slices() -> None:
    check({f"strided_slice(%x, {text})": want for text, want in SLICES.items()}, x=X)


def test_strided_slice_in_python_reads_constants() -> None:
    prepare = TABLE["strided_slice"].prepare
    assert prepare is not None
    begin = tree.Constant(np.array([0, 1]))
    operands, attributes = prepare(
        data="x", begin=begin, end=(2, 3), strides=None, axes=None, slice_mode="end"
    )
    assert operands == ["x"]
    assert attributes == {"begin": (0, 1), "end": (2, 3), "strides": (1,), "axes": None, "slice_mode": "end"}


def test_slice_like_and_strided_set() -> None:
    small = np.zeros((2, 3), "float32")
    values = np.ones((1, 2, 3), "float32")
    begin, end, strides = (np.array(entries, "int32") for entries in ([1, 0, 0], [2, 4, 3], [1, 2, 1]))
    changed = X.copy()
    changed[1:2, 0:4:2, 0:3] = values
    down = X.copy()
    down[1::-1, 4:0:-2, :3] = GIVEN
    cases = {
        "strided_set(%x, %g, %p, %q, %r)": down,
        "slice_like(%x, %s, axes=None)": X[:, :3],
        "slice_like(%x, %s, axes=[1])": X[:, :3],
        "slice_like(%x, %s, axes=[-3])": X,
        "strided_set(%x, %v, %b, %e, %t)": changed,
    }
    places = {
        "p": np.array([1, 9], "int64"),
        "q": np.array([-3, 0, 3], "int64"),
        "r": np.array([-1, -2], "int64"),
    }
    check(cases, x=X, s=small, v=values, g=GIVEN, b=begin, e=end, t=strides, **places)


def test_take() -> None:
    indices = np.array([[7, -1], [0, 4]], "int32")
    inside = np.array([[0, 1], [4, 4]], "int64")
    clipped = np.clip(indices, 0, 4)
    cases = {
        "take(%x, %i, axis=1)": X[:, clipped],
        'take(%x, %i, axis=-2, mode="wrap")': X[:, indices % 5],
        'take(%x, %j, axis=1, mode="fast")': X[:, inside],
        "take(%x, %j)": X.reshape(-1)[inside],
        'take(%x, %i, mode="wrap")': X.reshape(-1)[indices % 60],
        "take(%x, 1, axis=0)": X[1],
        "take(%x, %i, axis=2, batch_dims=1)": np.stack(
            [X[n][:, np.clip(indices[n], 0, 5)] for n in (0, 1)]
        ).reshape(2, 5, 2),
    }
    check(cases, x=X, i=indices, j=inside)


def test_gathers() -> None:
    along = GENERATOR.integers(0, 5, (2, 3, 6)).astype("int64")
    places = np.array([[0, 1, 1], [4, 0, 2]], "int32")
    batched = np.array([[1, 3]], "int32")
    cases = {
        "gather(%x, %a, axis=1)": np.take_along_axis(X, along, 1),
        "gather_nd(%x, %p)": X[places[0], places[1]],
        "gather_nd(%x, %b, batch_dims=1)": X[[0, 1], batched[0]],
        "adv_index((%x, %q, %r))": X[places[0], places[1]],
    }
    check(cases, x=X, a=along, p=places, b=batched, q=places[0], r=places[1])


def test_scatters() -> None:
    data = np.zeros((3, 4), "float32")
    rows = np.array([[0, 2, 1, 0], [1, 0, 2, 0]], "int64")
    updates = GENERATOR.standard_normal((2, 4)).astype("float32")
    places = np.array([[0, 2, 2], [1, 3, 3]], "int64")
    values = np.array([1.0, 2.0, 4.0], "float32")
    update, add = data.copy(), data.copy()
    for row in range(2):
        update[rows[row], range(4)] = updates[row]
        add[rows[row], range(4)] += updates[row]
    added = data.copy()
    np.add.at(added, (places[0], places[1]), values)
    set_to = data.copy()
    set_to[[0, 2], [1, 3]] = [1, 4]
    cases = {
        "scatter_elements(%d, %i, %u)": update,
        'scatter_elements(%d, %i, %u, axis=-2, reduction="add")': add,
        "scatter(%d, %i, %u)": update,
        "scatter_add(%d, %i, %u)": add,
        'scatter_nd(%d, %p, %v, mode="add")': added,
        "scatter_nd(%d, %p, %v)": set_to,
    }
    check(cases, d=data, i=rows, u=updates, p=places, v=values)


def test_masks_and_diagonals() -> None:
    square = GENERATOR.standard_normal((2, 3, 4)).astype("float32")
    lengths, across = np.array([1, 2, 0], "int32"), np.array([1, 3], "int32")
    kept = np.arange(2)[:, None] < lengths
    kept_across = np.arange(3) < across[:, None]
    main = np.array([[1.0, 2, 3], [4, 5, 6]], "float32")
    replaced = square.copy()
    replaced[:, range(3), range(3)] = main
    cases = {
        "sequence_mask(%s, %l, mask_value=0.5f)": np.where(kept[..., None], square, np.float32(0.5)),
        "sequence_mask(%s, %m, axis=1)": np.where(kept_across[..., None], square, 0),
        "matrix_set_diag(%s, %d)": replaced,
        "trilu(%s, 1)": np.triu(square, 1),
        "trilu(%s, -1, upper=False)": np.tril(square, -1),
        "trilu(%s, %k)": np.triu(square, 1),
    }
    check(cases, s=square, l=lengths, m=across, d=main, k=np.array(1, "int32"))


def test_several_diagonals_are_aligned() -> None:
    square = np.zeros((3, 3), "float32")
    lines = np.array([[9.0, 1, 2], [3, 4, 5], [6, 7, 9]], "float32")
    want = np.array([[3, 1, 0], [6, 4, 2], [0, 7, 5]], "float32")
    check({"matrix_set_diag(%s, %d, k1=-1, k2=1)": want}, s=square, d=lines)


def test_index_arithmetic() -> None:
    flat, shape = np.array([22, 41, 37], "int32"), np.array([7, 6], "int32")
    order = np.array([3, 4, 0, 2, 1], "int32")
    places, values = np.array([[0, 0], [1, 2]], "int32"), np.array([1.0, 2.0], "float32")
    dense = np.full((2, 4), -1, "float32")
    dense[0, 0], dense[1, 2] = 1, 2
    cases = {
        "unravel_index(%f, %s)": np.stack(np.unravel_index(flat, (7, 6))).astype("int32"),
        "invert_permutation(%o)": np.argsort(order).astype("int32"),
        "sparse_to_dense(%p, %v, -1f, output_shape=[2, 4])": dense,
    }
    check(cases, f=flat, s=shape, o=order, p=places, v=values)


def test_strided_set_in_python_takes_lists() -> None:
    data = tree.Var("x", relay_types.TensorType((3, 4), "float32"))
    values = tree.Constant(np.ones((2, 2), "float32"))
    prepare = TABLE["strided_set"].prepare
    assert prepare is not None
    operands, attributes = prepare(data=data, v=values, begin=[0, 1], end=[2, 3], strides=None)
    call = tree.Call("strided_set", (*operands[:4], tree.Constant(np.array([1, 1], "int32"))), attributes)
    (result,) = execute(imported(print_text(module_of_expression(call))), [np.zeros((3, 4), "float32")])
    want = np.zeros((3, 4))
    want[:2, 1:3] = 1
    np.testing.assert_array_equal(result, want)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            "strided_slice(%x, begin=[3], end=[1], strides=[1], axes=[1])",
            "axis 1 of extent 5 has no slice from 3",
        ),
        ("strided_slice(%x, begin=[0], end=[1], strides=[0], axes=[1])", "a stride is 0"),
        ("strided_slice(%x, begin=[0, 0], end=[1], strides=[1], axes=[1])", "differ in length"),
        ("strided_slice(%x, begin=[0, 0, 0, 0], end=[1], strides=[1], axes=None)", "have over 3 entries"),
        ('strided_slice(%x, begin=[0], end=[1], strides=[1], slice_mode="x", axes=None)', "slice_mode is"),
        ("slice_like(%x, %y, axes=[2])", "axes .* are not all dimensions of the other, which has 1"),
        ("slice_like(%x, %y, axes=None)", "axis 0 is 2 long, shorter than 9"),
        ('take(%x, %y, axis=0, mode="nan")', "mode is 'clip', 'wrap' or 'fast'"),
        ("take(%x, %y, axis=3)", "axis 3 is not one of 3 dimensions"),
        ("take(%x, %y, axis=1, batch_dims=1)", "batch_dims 1 does not fit axis 1"),
        ("gather_nd(%x, %y)", "9 coordinates after batch_dims 0 do not fit 3 dimensions"),
        ('scatter_elements(%x, %y, %x, reduction="mod")', "reduction is one of"),
        ('scatter_nd(%x, %y, %x, mode="mod")', "mode is one of"),
        ("sequence_mask(%x, %y, axis=2)", "axis is 0 or 1"),
        ("matrix_set_diag(%x, %x, k1=2, k2=1)", "diagonals 2 to 1 do not fit"),
        ("trilu(%x, %y)", "takes a matrix and a scalar"),
        ("adv_index((%x,))", "takes from 1 to 3 indices, not 0"),
    ],
)
def test_wrong_attributes_are_named(call: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        imported(program(call, x=X, y=np.zeros(9, "int32")))
