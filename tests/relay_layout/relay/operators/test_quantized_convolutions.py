"""Quantized convolutions and products of matrices against numpy in whole numbers."""

import numpy as np
import pytest
import tvm
from quantized_reference import evaluate_bound
from relay_harness import execute, imported, program
from tvm import relax

from relay_layout import relay
from relay_layout.errors import ModelError
from relay_layout.ir import shape_of
from relay_layout.relay.importing import from_tree
from relay_layout.relay.operators.quantized_convolutions import along_output_channels
from relay_layout.relay.syntax import read_text

RANDOM = np.random.default_rng(1)


def _int(dtype: str, *shape: int) -> np.ndarray:
    limits = np.iinfo(dtype)
    return RANDOM.integers(limits.min, limits.max + 1, shape).astype(dtype)


def _convolved(
    data: np.ndarray,
    kernel: np.ndarray,
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    strides: tuple[int, int] = (1, 1),
    dilation: tuple[int, int] = (1, 1),
    groups: int = 1,
) -> np.ndarray:
    """NCHW with OIHW, both already less their zero points, in int64."""
    top, left, bottom, right = padding
    data = np.pad(data.astype("int64"), ((0, 0), (0, 0), (top, bottom), (left, right)))
    kernel = kernel.astype("int64")
    outputs, per_group, height, width = kernel.shape
    rows = (data.shape[2] - (height - 1) * dilation[0] - 1) // strides[0] + 1
    columns = (data.shape[3] - (width - 1) * dilation[1] - 1) // strides[1] + 1
    result = np.zeros((data.shape[0], outputs, rows, columns), "int64")
    for output in range(outputs):
        first = output // (outputs // groups) * per_group
        for y in range(height):
            for x in range(width):
                window = data[
                    :,
                    first : first + per_group,
                    y * dilation[0] : y * dilation[0] + (rows - 1) * strides[0] + 1 : strides[0],
                    x * dilation[1] : x * dilation[1] + (columns - 1) * strides[1] + 1 : strides[1],
                ]
                result[:, output] += np.einsum("nchw,c->nhw", window, kernel[output, :, y, x])
    return result


def _conv(operands: str, attributes: str) -> str:
    return f'qnn.conv2d({operands}, 0.5f, 0.25f, {attributes}, out_dtype="int32")'


def test_conv2d() -> None:
    x = _int("uint8", 2, 4, 7, 6)
    w = _int("int8", 6, 4, 3, 2)
    u = _int("uint8", 6, 4, 3, 2)
    zeros = np.array([0, 3, -5, 100, 7, -128], "int32")
    size = "channels=6, kernel_size=[3, 2]"
    calls = [
        _conv("%x, %w, 0, 0", size),
        _conv("%x, %w, 128, 3", f"{size}, padding=[1, 0, 2, 1], strides=[2, 1]"),
        _conv("%x, %w, 7, %zeros", f"{size}, dilation=[2, 1], padding=[2, 1, 2, 1]"),
        _conv("%x, %u, %zero, 130", size),
        _conv("%x, %w, 1000, 0", f"{size}, padding=[1, 1, 1, 1]"),
    ]
    results = evaluate_bound(
        f"({', '.join(calls)})", {"zeros": zeros}, x=x, w=w, u=u, zero=np.array(255, "int32")
    )
    data, kernel = x.astype("int64"), w.astype("int64")
    per_channel = kernel - zeros[:, None, None, None]
    expected = [
        _convolved(data, kernel),
        _convolved(data - 128, kernel - 3, (1, 0, 2, 1), (2, 1)),
        _convolved(data - 7, per_channel, (2, 1, 2, 1), dilation=(2, 1)),
        _convolved(data - 255, u.astype("int64") - 130),
        _convolved(data - 1000, kernel, (1, 1, 1, 1)),
    ]
    for result, wanted in zip(results, expected, strict=True):
        assert result.dtype == "int32"
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("known", [True, False])
def test_a_vector_of_one_number_is_the_number(known: bool) -> None:
    x, w = _int("uint8", 1, 2, 4, 4), _int("int8", 3, 2, 3, 3)
    inputs = {"x": x, "w": w, "zero": np.array([7], "int32"), "scale": np.array([0.5], "float32")}
    bound = ("zero", "scale") if known else ()
    call = 'qnn.conv2d(%x, %w, %zero, 0, %scale, 0.25f, channels=3, kernel_size=[3, 3], out_dtype="int32")'
    module = from_tree(read_text(program(call, **inputs)), {name: inputs[name] for name in bound})
    (result,) = execute(module, [array for name, array in inputs.items() if name not in bound])
    np.testing.assert_array_equal(result, _convolved(x.astype("int32") - 7, w))


def test_conv2d_layouts_and_groups() -> None:
    x, w = _int("int8", 1, 4, 6, 5), _int("int8", 8, 2, 3, 3)
    depthwise = _int("int8", 4, 1, 3, 3)
    dense = _int("int8", 8, 4, 3, 3)
    zeros = np.arange(8, dtype="int32")
    nhwc = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    size = "kernel_size=[3, 3], padding=[1, 1, 1, 1]"
    calls = [
        _conv("%x, %w, 3, %zeros", f"channels=8, groups=2, {size}"),
        _conv("%x, %d, 3, 5", f"channels=4, groups=4, {size}"),
        _conv("%nhwc, %hwio, 3, %zeros", f'channels=8, {size}, data_layout="NHWC", kernel_layout="HWIO"'),
        _conv("%nhwc, %ohwi, 3, %zeros", f'channels=8, {size}, data_layout="NHWC", kernel_layout="OHWI"'),
        _conv(
            "%nhwc, %hwoi, 3, %zeros",
            f'channels=8, groups=4, {size}, data_layout="NHWC", kernel_layout="HWOI"',
        ),
        _conv(
            "%hwnc, %dense_hwoi, 3, %zeros", f'channels=8, {size}, data_layout="HWNC", kernel_layout="HWOI"'
        ),
    ]
    several = _int("int8", 8, 1, 3, 3)
    results = evaluate_bound(
        f"({', '.join(calls)})",
        {"zeros": zeros},
        hwoi=np.ascontiguousarray(several.reshape(4, 2, 3, 3).transpose(2, 3, 0, 1)),
        hwnc=np.ascontiguousarray(x.transpose(2, 3, 0, 1)),
        dense_hwoi=np.ascontiguousarray(dense.transpose(2, 3, 0, 1)),
        x=x,
        w=w,
        d=depthwise,
        nhwc=nhwc,
        hwio=np.ascontiguousarray(dense.transpose(2, 3, 1, 0)),
        ohwi=np.ascontiguousarray(dense.transpose(0, 2, 3, 1)),
    )
    data = x.astype("int64") - 3
    per_channel = zeros[:, None, None, None]
    same = (1, 1, 1, 1)
    np.testing.assert_array_equal(results[0], _convolved(data, w - per_channel, same, groups=2))
    np.testing.assert_array_equal(results[1], _convolved(data, depthwise.astype("int64") - 5, same, groups=4))
    expected = _convolved(data, dense - per_channel, same).transpose(0, 2, 3, 1)
    np.testing.assert_array_equal(results[2], expected)
    np.testing.assert_array_equal(results[3], expected)
    multiplied = _convolved(data, several - per_channel, same, groups=4)
    np.testing.assert_array_equal(results[4].transpose(0, 3, 1, 2), multiplied)
    np.testing.assert_array_equal(results[5].transpose(2, 0, 1, 3), expected)


@pytest.mark.parametrize("desired", [None, ["NCHW", "default"], ["NHWC", "default"], ["NHWC", "HWIO"]])
def test_several_results_of_each_channel_are_built_and_converted(desired: list[str] | None) -> None:
    data, kernel = _int("uint8", 1, 4, 6, 5), _int("uint8", 8, 1, 3, 3)
    x, w = relay.var("x", shape=data.shape, dtype="uint8"), relay.var("w", shape=(4, 2, 3, 3), dtype="uint8")
    zero_points, one = (relay.const(4), relay.const(3)), relay.const(1.0)
    net = relay.qnn.op.conv2d(x, w, *zero_points, one, one, kernel_size=(3, 3), channels=8, groups=4)
    module = tvm.IRModule.from_expr(relay.Function([x, w], net))
    if desired is not None:
        module = relay.transform.ConvertLayout({"qnn.conv2d": desired})(module)
    result = relay.create_executor("graph", module).evaluate()(data, kernel.reshape(4, 2, 3, 3))
    expected = _convolved(data.astype("int64") - 4, kernel.astype("int64") - 3, groups=4)
    np.testing.assert_array_equal(result.numpy(), expected)


def test_conv2d_in_blocks() -> None:
    """TVM itself computes no convolution in blocks, so only its type and the zero points are checked."""
    call = _conv(
        "%x, %w, 0, 3",
        'channels=8, kernel_size=[3, 3], data_layout="NCHW2c", kernel_layout="OIHW2i4o", out_layout="NCHW4c"',
    )
    inputs = {"x": np.zeros((1, 2, 6, 5, 2), "int8"), "w": np.zeros((2, 2, 3, 3, 2, 4), "int8")}
    assert shape_of(imported(program(call, **inputs))["main"].body.body) == (1, 2, 4, 3, 4)
    zeros = relax.Var("zeros", relax.TensorType((8,), "int32"))
    kernel = relax.Var("kernel", relax.TensorType((2, 2, 3, 3, 2, 4), "int8"))
    builder = relax.BlockBuilder()
    with builder.function("main", [zeros]):
        spread = along_output_channels(zeros, kernel, "OIHW2i4o")
        builder.emit_func_output(builder.emit(spread))
    (result,) = execute(builder.finalize(), [np.arange(8, dtype="int32")])
    np.testing.assert_array_equal(result, np.arange(8).reshape(2, 1, 1, 1, 1, 4))


def test_conv2d_transpose() -> None:
    x, w = _int("uint8", 1, 3, 4, 5), _int("int8", 3, 2, 3, 3)
    zeros = np.array([4, -9], "int32")
    attributes = 'channels=2, kernel_size=[3, 3], strides=[2, 2], padding=[1, 1, 1, 1], out_dtype="int32"'
    (result,) = evaluate_bound(
        f"(qnn.conv2d_transpose(%x, %w, 100, %zeros, 0.5f, 0.25f, {attributes}),)", {"zeros": zeros}, x=x, w=w
    )
    data = np.zeros((1, 3, 7, 9), "int64")
    data[:, :, ::2, ::2] = x.astype("int64") - 100
    kernel = (w - zeros[:, None, None]).transpose(1, 0, 2, 3)[:, :, ::-1, ::-1]
    np.testing.assert_array_equal(result, _convolved(data, kernel, (1, 1, 1, 1)))


def test_dense_and_batch_matmul() -> None:
    x, w = _int("int8", 3, 7), _int("uint8", 4, 7)
    a, b = _int("uint8", 2, 3, 5), _int("int8", 2, 4, 5)
    zeros = np.array([1, 2, 3, 255], "int32")
    body = """(
        qnn.dense(%x, %w, -3, %zeros, 1f, 1f, units=4, out_dtype="int32"),
        qnn.dense(%x, %w, 0, 9, 1f, 1f, units=4, out_dtype="int64"),
        qnn.batch_matmul(%a, %b, 128, -7, 1f, 1f, out_dtype="int32", transpose_b=True))"""
    first, second, batch = evaluate_bound(body, {"zeros": zeros}, x=x, w=w, a=a, b=b)
    data, weight = x.astype("int64"), w.astype("int64")
    np.testing.assert_array_equal(first, (data + 3) @ (weight - zeros[:, None]).T)
    np.testing.assert_array_equal(second, data @ (weight - 9).T)
    assert (first.dtype, second.dtype) == ("int32", "int64")
    expected = (a.astype("int64") - 128) @ (b.astype("int64") + 7).transpose(0, 2, 1)
    np.testing.assert_array_equal(batch, expected)


CONV = 'channels=6, kernel_size=[3, 2], out_dtype="int32"'


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("qnn.conv2d(%x, %w, 0, 0, 1f, 1f, channels=6, kernel_size=[3, 2])", "out_dtype is None; it can be"),
        (f"qnn.conv2d(%f, %w, 0, 0, 1f, 1f, {CONV})", "the data is float32; it can be int8, uint8, int16"),
        (f"qnn.conv2d(%x, %f, 0, 0, 1f, 1f, {CONV})", "the kernel is float32"),
        (f"qnn.conv2d(%x, %w, %v, 0, 1f, 1f, {CONV})", "the input zero point is a number, not a tensor"),
        (f"qnn.conv2d(%x, %w, 0, %v, 1f, 1f, {CONV})", "there are 2 zero points for a kernel of shape"),
        (f"qnn.conv2d(%x, %w, 0, 0, 1, 1f, {CONV})", "the input scale is int32; it can be float32"),
        (f'qnn.conv2d(%x, %w, 0, %v, 1f, 1f, {CONV}, kernel_layout="bad")', "bad"),
        ('qnn.dense(%m, %m, 0, 0, 1f, 1f, units=4, out_dtype="int32")', "units is 4, but the weight has 2"),
        (
            'qnn.batch_matmul(%m, %m, 0, 0, 1f, 1f, out_dtype="int32")',
            "transpose_a must be False and transpose_b True",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call: str, message: str) -> None:
    inputs = {
        "x": np.zeros((1, 4, 7, 6), "int8"),
        "w": np.zeros((6, 4, 3, 2), "int8"),
        "f": np.zeros((1, 4, 7, 6), "float32"),
        "v": np.zeros(2, "int32"),
        "m": np.zeros((2, 3), "int8"),
    }
    with pytest.raises(ModelError, match=message):
        imported(program(call, **inputs))
