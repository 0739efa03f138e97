"""Operators on shapes against numpy."""

import numpy as np
import pytest
import tvm
import tvm_ffi
from relay_harness import evaluate, execute, imported, program
from tvm import relax, tirx

from relay_layout import relay
from relay_layout.errors import InputError, ModelError
from relay_layout.layout.transform import apply
from relay_layout.relay.exporting.module import to_tree
from relay_layout.relay.importing import from_tree
from relay_layout.relay.syntax import module_of_expression, print_text, read_text, relay_types, tree

GENERATOR = np.random.default_rng(5)
X = GENERATOR.standard_normal((2, 3, 4)).astype("float32")


def body(*calls: str) -> str:
    return f"({', '.join(calls)},)"


def check(cases: dict[str, np.ndarray], **inputs: np.ndarray) -> None:
    """Every call gives its array exactly."""
    for (call, want), result in zip(cases.items(), evaluate(body(*cases), **inputs), strict=True):
        assert result.shape == want.shape, call
        np.testing.assert_array_equal(result, want, err_msg=call)


def test_reshape_and_its_codes() -> None:
    codes = {
        "4, 0, 2": (4, 3, 2),
        "2, 0, 0": (2, 3, 4),
        "6, 1, -1": (6, 1, 4),
        "3, -1, 8": (3, 1, 8),
        "-1": (24,),
        "-2": (2, 3, 4),
        "2, -2": (2, 3, 4),
        "-2, 1, 1": (2, 3, 4, 1, 1),
        "-3, 4": (6, 4),
        "0, -3": (2, 12),
        "-3, -2": (6, 4),
        "-4, 1, 2, -2": (1, 2, 3, 4),
        "2, -4, -1, 3, -2": (2, 1, 3, 4),
        "-4, 2, -1, -1": (2, 1, 12),
        "-2, -1": (2, 3, 4, 1),
    }
    check({f"reshape(%x, newshape=[{text}])": X.reshape(shape) for text, shape in codes.items()}, x=X)


def test_reshape_that_keeps_zeros_and_of_scalars() -> None:
    empty, scalar = np.zeros((2, 0), "float32"), np.array([[3.0]], "float32")
    cases = {
        "reshape(%e, newshape=[0, 5], allowzero=True)": empty.reshape(0, 5),
        "reshape(%s, newshape=[])": scalar.reshape(()),
    }
    check(cases, e=empty, s=scalar)


def test_reverse_reshape_and_reshape_like() -> None:
    data, like = np.arange(200.0, dtype="float32").reshape(10, 5, 4), np.zeros((6, 2, 2), "float32")
    cases = {
        "contrib_reverse_reshape(%d, newshape=[-1, 0])": data.reshape(50, 4),
        "contrib_reverse_reshape(%d, newshape=[-1, 0, 0])": data,
        "reshape_like(%x, %y)": X.reshape(6, 2, 2),
        "reshape_like(%x, %y, lhs_begin=1, rhs_begin=0, rhs_end=2)": X.reshape(2, 6, 2),
        "reshape_like(%x, %y, lhs_end=2, rhs_end=1)": X.reshape(6, 4),
    }
    check(cases, d=data, x=X, y=like)


def symbolic(call: str) -> relax.Function:
    """The function of a call on a batch of unknown size, which must survive printing as Relay."""
    text = f"def @main(%x: Tensor[(?, 3, 4), float32]) {{\n{call}\n}}"
    module = from_tree(read_text(text, "test"), name="test")
    again = from_tree(read_text(print_text(to_tree(module)), "printed"), name="printed")
    assert tvm_ffi.structural_equal(module, again, map_free_vars=True)
    return module["main"]


@pytest.mark.parametrize(
    ("call", "shape"),
    [
        ("reshape(%x, newshape=[0, -1])", ["x_0", "12"]),
        ("reshape(%x, newshape=[-1, 12])", ["x_0", "12"]),
        ("reshape(%x, newshape=[-1, 4])", ["x_0*3", "4"]),
        ("reshape(%x, newshape=[-3, -2])", ["x_0*3", "4"]),
        ("reshape(%x, newshape=[0, -4, 3, -1, -2])", ["x_0", "3", "1", "4"]),
        ("transpose(%x, axes=[1, 0, 2])", ["3", "x_0", "4"]),
        ("squeeze(expand_dims(%x, axis=1), axis=[1])", ["x_0", "3", "4"]),
        ("tile(%x, reps=[2, 1, 1])", ["x_0*2", "3", "4"]),
        (
            "strided_slice(%x, begin=[0, 1], end=[9223372036854775807, 3], strides=[1], axes=None)",
            ["x_0", "2", "4"],
        ),
        ('layout_transform(%x, src_layout="NCW", dst_layout="NCW2w")', ["x_0", "3", "2", "2"]),
        ("broadcast_to_like(1f, %x)", ["x_0", "3", "4"]),
        ("shape_of(%x)", ["3"]),
        ("ndarray_size(%x)", []),
    ],
)
def test_a_batch_of_unknown_size(call: str, shape: list[str]) -> None:
    result = symbolic(call).ret_ty.shape.values
    assert [str(extent).replace(" ", "").replace("T.int64(", "").strip(")") for extent in result] == shape


def test_a_slice_to_an_unknown_batch_is_cut_at_run_time() -> None:
    text = "def @main(%x: Tensor[(?, 3), float32]) { slice_like(concatenate((%x, %x)), %x, axes=[0]) }"
    x = GENERATOR.standard_normal((5, 3)).astype("float32")
    (result,) = execute(imported(text), [x])
    np.testing.assert_array_equal(result, x)


def test_transpose_expand_dims_and_squeeze() -> None:
    ones = np.zeros((1, 3, 1, 2), "float32")
    cases = {
        "transpose(%x, axes=None)": X.transpose(),
        "transpose(%x, axes=[0, -1, 1])": X.transpose(0, 2, 1),
        "expand_dims(%x, axis=1, num_newaxis=2)": X[:, None, None],
        "expand_dims(%x, axis=-1)": X[..., None],
        "expand_dims(%x, axis=-2, num_newaxis=2)": X[:, :, None, None],
        "expand_dims(%x, axis=0, num_newaxis=0)": X,
        "squeeze(%o, axis=None)": ones.squeeze(),
        "squeeze(%o)": ones.squeeze(),
        "squeeze(%o, axis=[-2])": ones.squeeze(2),
        "squeeze(%o, axis=[2, 0])": ones.squeeze((0, 2)),
    }
    check(cases, x=X, o=ones)


def test_concatenate_and_stack() -> None:
    y = GENERATOR.standard_normal((2, 1, 4)).astype("float32")
    cases = {
        "concatenate((%x, %y), axis=1)": np.concatenate([X, y], 1),
        "concatenate((%x, %y, %x), axis=-2)": np.concatenate([X, y, X], 1),
        "concatenate(split(%x, indices_or_sections=2, axis=-1))": np.concatenate(np.split(X, 2, -1), 0),
        "stack((%x, %x), axis=-1)": np.stack([X, X], -1),
        "stack((%x, %x))": np.stack([X, X]),
    }
    check(cases, x=X, y=y)


def test_split() -> None:
    results = evaluate(
        "(split(%x, indices_or_sections=2, axis=2), split(%x, indices_or_sections=[1], axis=-2), "
        "split(%x, indices_or_sections=1))",
        x=X,
    )
    for result, want in zip(results, [*np.split(X, 2, 2), *np.split(X, [1], 1), X], strict=True):
        np.testing.assert_array_equal(result, want)


def test_repetition_and_reversal() -> None:
    lengths = np.array([2, 3], "int32")
    swapped = X.copy()
    swapped[0, :2] = X[0, 1::-1]
    swapped[1, :3] = X[1, ::-1]
    cases = {
        "tile(%x, reps=[2, 1, 3])": np.tile(X, (2, 1, 3)),
        "tile(%x, reps=[2])": np.tile(X, 2),
        "tile(%x, reps=[2, 1, 1, 2])": np.tile(X, (2, 1, 1, 2)),
        "repeat(%x, repeats=3, axis=-2)": np.repeat(X, 3, 1),
        "reverse(%x, axis=-1)": X[..., ::-1],
        "reverse_sequence(%x, %l)": swapped,
    }
    check(cases, x=X, l=lengths)


def test_broadcasts_and_sums_back() -> None:
    row = GENERATOR.standard_normal((3, 1)).astype("float32")
    cases = {
        "broadcast_to(%r, shape=[2, 3, 4])": np.broadcast_to(row, (2, 3, 4)),
        "broadcast_to_like(%r, %x)": np.broadcast_to(row, (2, 3, 4)),
    }
    check(cases, x=X, r=row)
    (like,) = evaluate("(collapse_sum_like(%x, %r),)", x=X, r=row)
    np.testing.assert_allclose(like, X.sum((0, 2))[:, None], rtol=1e-5)


def test_sum_to_a_constant_shape() -> None:
    x = tree.Var("x", relay_types.TensorType(X.shape, "float32"))
    call = tree.Call("collapse_sum_to", (x, tree.Constant(np.array([3, 1], "int32"))))
    (result,) = execute(imported(print_text(module_of_expression(call))), [X])
    np.testing.assert_allclose(result, X.sum((0, 2))[:, None], rtol=1e-5)


LAYOUTS = [
    ("NCHW", "NHWC", (1, 5, 2, 3)),
    ("NCHW", "NCHW4c", (1, 8, 2, 3)),
    ("NCHW", "NCHW16c", (2, 3, 2, 3)),
    ("NCHW", "NCHW4c", (1, 6, 2, 3)),
    ("NCHW4c", "NCHW", (1, 2, 2, 3, 4)),
    ("NCHW8c", "NCHW4c", (1, 2, 2, 3, 8)),
    ("NCHW6c", "NCHW4c", (1, 2, 2, 3, 6)),
    ("NCHW1c", "NHWC", (1, 5, 2, 3, 1)),
    ("NCHW", "NCHW1c", (1, 5, 2, 3)),
    ("OIHW", "OIHW4i16o", (16, 8, 1, 2)),
    ("OIHW4i16o", "OIHW", (2, 1, 1, 2, 4, 16)),
    ("OIHW", "OHWI4o", (5, 3, 2, 1)),
    ("OIHW", "OIHW4i4o2i", (8, 16, 1, 1)),
    ("NCHW", "NCHW", (1, 5, 2, 3)),
]


def test_layout_transform_pads_with_zeros() -> None:
    inputs, calls = {}, {}
    for number, (source, target, shape) in enumerate(LAYOUTS):
        array = GENERATOR.integers(1, 100, shape).astype("float32" if number % 2 else "int8")
        inputs[f"x{number}"] = array
        call = f'layout_transform(%x{number}, src_layout="{source}", dst_layout="{target}")'
        calls[call] = apply(array, source, target)
    check(calls, **inputs)


def test_transforms_of_scripts_are_those_of_passes() -> None:
    x, weight = relay.var("x", shape=(1, 8, 5, 5)), relay.var("w", shape=(8, 8, 3, 3))
    plain = relay.nn.relu(relay.nn.conv2d(x, weight, channels=8, kernel_size=(3, 3)))
    kernel = relay.layout_transform(weight, "OIHW", "OIHW4o4i")
    data = relay.layout_transform(x, "NCHW", "NCHW4c")
    blocks = {"data_layout": "NCHW4c", "kernel_layout": "OIHW4o4i"}
    blocked = relay.nn.relu(relay.nn.conv2d(data, kernel, channels=8, kernel_size=(3, 3), **blocks))
    written = relay.layout_transform(blocked, "NCHW4c", "NCHW")
    module = tvm.IRModule.from_expr(relay.Function([x, weight], plain))
    converted = relay.transform.ConvertLayout({"nn.conv2d": ["NCHW4c", "OIHW4o4i"]})(module)
    tvm.ir.assert_structural_equal(
        converted, tvm.IRModule.from_expr(relay.Function([x, weight], written)), map_free_vars=True
    )


def test_an_index_map_that_is_no_layout_has_no_form_in_relay() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 6), "float32"))
    with builder.function("main", [x]):
        skewed = tirx.IndexMap.from_func(lambda i, j: (i + j, j), index_dtype="int64")
        builder.emit_func_output(builder.emit(relax.op.layout_transform(x, skewed)))
    with pytest.raises(ModelError, match=r"relax\.layout_transform has no form in Relay"):
        to_tree(builder.get())


def test_sliding_window() -> None:
    (result,) = evaluate("(sliding_window(%x, axis=1, window_shape=[2, 3], strides=[1, 1]),)", x=X)
    want = np.lib.stride_tricks.sliding_window_view(X, (2, 3), (1, 2))
    np.testing.assert_array_equal(result, want)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("reshape(%x, newshape=[5, 5])", r"reshape: \[2, 3, 4\] and \[5, 5\] do not have equally many"),
        ("reshape(%x, newshape=[-1, -1])", "leaves more than one extent open"),
        ("reshape(%x, newshape=[7, -1])", "does not divide the elements"),
        ("reshape(%x, newshape=[-5])", "from -4 on entries have a meaning"),
        ("reshape(%x, newshape=[-4, 2])", "-4 needs two parts"),
        ("reshape(%x, newshape=[-4, 3, -1, -2])", "does not split 2 evenly"),
        ("reshape(%x, newshape=[0, 0, 0, 0])", "takes more extents than"),
        ("reshape(%x, newshape=[1.5f])", "newshape is a whole number, not 1.5"),
        (f"reshape(%x, newshape=[{', '.join(['1'] * 70)}])", "over 64 dimensions"),
        ("transpose(%x, axes=[0, 1])", r"axes \[0, 1\] are not as many as the 3 dimensions"),
        ("transpose(%x, axes=[0, 1, 1])", "names one dimension twice"),
        ("expand_dims(%x, axis=5)", "axis 5 is not one of 4 dimensions"),
        ("expand_dims(%x, axis=0, num_newaxis=1000000)", "num_newaxis is 1000000; it is from 0 to 61"),
        ("squeeze(%x, axis=[0])", "axis 0 has extent 2, not 1"),
        ("concatenate((%x, %x), axis=3)", "axis 3 is not one of 3 dimensions"),
        ("split(%x, indices_or_sections=3, axis=2)", "extent 4 is not divided evenly into 3"),
        (
            "split(%x, indices_or_sections=1000000000)",
            "indices_or_sections is 1000000000; it is from 1 to 10000",
        ),
        ("split(%x, indices_or_sections=[3, 1], axis=2)", "do not ascend within extent 4"),
        ("tile(%x, reps=[0])", "every entry of reps is 0"),
        ("repeat(%x, repeats=0, axis=0)", "repeats is 0"),
        ("repeat(%x, repeats=2)", "repeat: needs an axis"),
        ("reverse(%x, axis=-4)", "axis -4 is not one of 3 dimensions"),
        ('layout_transform(%x, src_layout="NCHW", dst_layout="NHWC")', "has 4 dimensions, the data 3"),
        ('layout_transform(%x, src_layout="NC2c", dst_layout="NC")', "a block of 2 where the data has 4"),
        ('layout_transform(%x, src_layout="NCW", dst_layout="NC")', "their axes differ"),
        ('layout_transform(%x, src_layout="N[a=4]CW", dst_layout="NCW")', "has an alignment"),
        ("sliding_window(%x, axis=1, window_shape=[2, 9], strides=[1, 1])", "window of 9 does not fit"),
        ("reverse_sequence(%x, shape_of(%x))", "has 3 lengths for a batch of 2"),
        ("collapse_sum_like(1f, %x)", r"a tensor of \[\] does not come of one of \[2, 3, 4\]"),
        ("reshape_like(%x, %x, lhs_end=7)", "lhs_end 7 is not a place among 3 dimensions"),
    ],
)
def test_wrong_attributes_are_named(call: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        imported(program(call, x=X))


def test_split_of_an_unknown_extent() -> None:
    """Parts are alike, so that they can be added; a size that is not divided evenly is refused in a run."""
    x = relay.var("x", shape=(relay.Any(), 4, relay.Any()))
    first, second = relay.split(x, 2, axis=-1)
    module = tvm.IRModule.from_expr(relay.Function([x], relay.Tuple([first + second, relay.split(x, 3)[2]])))
    assert "split(%x, indices_or_sections=2, axis=2)" in relay.astext(module)
    run = relay.create_executor("vm", module).evaluate()
    data = np.random.default_rng(0).standard_normal((6, 4, 8)).astype("float32")
    total, last = run(data)
    np.testing.assert_array_equal(total.numpy(), data[:, :, :4] + data[:, :, 4:])
    np.testing.assert_array_equal(last.numpy(), data[4:])
    with pytest.raises(InputError, match=r"x.shape\[2\] % 2 == 0, got x.shape\[2\] = 7"):
        run(data[:, :, :7])
