"""Convolutions against their definitions."""

import numpy as np
import pytest
from relay_harness import close, evaluate, imported, program
from window_reference import axes, convolve, convolve_transposed

import relay_layout
from relay_layout.errors import RelayLayoutError
from relay_layout.relay.exporting.module import to_tree
from relay_layout.relay.importing import from_tree
from relay_layout.relay.operators import TABLE
from relay_layout.relay.syntax import print_text, read_text

RNG = np.random.default_rng(3)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def test_conv1d() -> None:
    x, w = normal(2, 6, 11), normal(4, 6, 3)
    grouped = normal(4, 3, 2)
    results = evaluate(
        """(nn.conv1d(%x, %w),
            nn.conv1d(%x, %w, strides=[2], padding=[1, 2], dilation=[2], channels=4, kernel_size=[3]),
            nn.conv1d(%x, %g, padding=[1, 1], groups=2),
            nn.conv1d(%xl, %wl, data_layout="NWC", kernel_layout="WIO", padding=[2, 0]),
            nn.conv1d(%x, %w, out_layout="NWC"))""",
        x=x,
        w=w,
        g=grouped,
        xl=axes(x, "NCW", "NWC"),
        wl=axes(w, "OIW", "WIO"),
    )
    close(results[0], convolve(x, w, [1], [0, 0], [1]))
    close(results[1], convolve(x, w, [2], [1, 2], [2]))
    close(results[2], convolve(x, grouped, [1], [1, 1], [1], 2))
    close(results[3], axes(convolve(x, w, [1], [2, 0], [1]), "NCW", "NWC"))
    close(results[4], axes(convolve(x, w, [1], [0, 0], [1]), "NCW", "NWC"))


def test_conv2d_attributes() -> None:
    x, w = normal(2, 6, 9, 7), normal(4, 6, 3, 2)
    grouped = normal(9, 2, 2, 2)
    results = evaluate(
        """(nn.conv2d(%x, %w),
            nn.conv2d(%x, %w, strides=[2, 1], padding=[1], dilation=[1, 2]),
            nn.conv2d(%x, %w, strides=[1, 3], padding=[2, 1]),
            nn.conv2d(%x, %w, padding=[0, 1, 2, 3], channels=4, kernel_size=[3, 2]),
            nn.conv2d(%x, %g, groups=3))""",
        x=x,
        w=w,
        g=grouped,
    )
    close(results[0], convolve(x, w, [1, 1], [0] * 4, [1, 1]))
    close(results[1], convolve(x, w, [2, 1], [1] * 4, [1, 2]))
    close(results[2], convolve(x, w, [1, 3], [2, 1, 2, 1], [1, 1]))
    close(results[3], convolve(x, w, [1, 1], [0, 1, 2, 3], [1, 1]))
    close(results[4], convolve(x, grouped, [1, 1], [0] * 4, [1, 1], 3))


def test_conv2d_layouts() -> None:
    x, w = normal(2, 6, 5, 7), normal(4, 6, 3, 2)
    pairs = [("NHWC", "HWIO"), ("NHWC", "OHWI"), ("HWCN", "HWIO"), ("HWNC", "HWOI"), ("NCHW", "IOHW")]
    inputs: dict[str, np.ndarray] = {}
    calls = []
    for number, (data, kernel) in enumerate(pairs):
        inputs |= {f"x{number}": axes(x, "NCHW", data), f"w{number}": axes(w, "OIHW", kernel)}
        attributes = f'data_layout="{data}", kernel_layout="{kernel}", padding=[1, 0, 0, 2]'
        calls.append(f"nn.conv2d(%x{number}, %w{number}, {attributes})")
    expected = convolve(x, w, [1, 1], [1, 0, 0, 2], [1, 1])
    for (data, _), result in zip(pairs, evaluate(f"({', '.join(calls)})", **inputs), strict=True):
        close(result, axes(expected, "NCHW", data))


def test_depthwise_weights() -> None:
    """O counts the input channels and I what each one gives, or O counts all results."""
    x, w = normal(1, 3, 6, 5), normal(6, 1, 2, 3)
    form = w.reshape(3, 2, 2, 3)
    attributes = "groups=3, channels=6, kernel_size=[2, 3]"
    nhwc = f'{attributes}, data_layout="NHWC"'
    results = evaluate(
        f"""(nn.conv2d(%x, %w, {attributes}),
             nn.conv2d(%x, %f, {attributes}),
             nn.conv2d(%n, %h, {nhwc}, kernel_layout="HWOI"),
             nn.conv2d(%n, %i, {nhwc}, kernel_layout="HWIO"),
             nn.conv2d(%n, %o, {nhwc}, kernel_layout="HWIO"))""",
        x=x,
        w=w,
        f=form,
        n=axes(x, "NCHW", "NHWC"),
        h=axes(form, "OIHW", "HWOI"),
        i=axes(form, "OIHW", "HWIO"),
        o=axes(w, "OIHW", "HWIO"),
    )
    expected = convolve(x, w, [1, 1], [0] * 4, [1, 1], 3)
    for result in results[:2]:
        close(result, expected)
    for result in results[2:]:
        close(result, axes(expected, "NCHW", "NHWC"))


def test_conv3d() -> None:
    x, w = normal(1, 4, 5, 6, 4), normal(6, 4, 2, 3, 1)
    depthwise = normal(8, 1, 2, 2, 2)
    results = evaluate(
        """(nn.conv3d(%x, %w, strides=[1, 2, 1], padding=[1, 0, 2], dilation=[2, 1, 1]),
            nn.conv3d(%x, %w, padding=[0, 1, 0, 1, 0, 1], out_layout="NDHWC"),
            nn.conv3d(%n, %d, data_layout="NDHWC", kernel_layout="DHWIO", padding=[1]),
            nn.conv3d(%x, %g, groups=4, channels=8, kernel_size=[2, 2, 2]))""",
        x=x,
        w=w,
        n=axes(x, "NCDHW", "NDHWC"),
        d=axes(w, "OIDHW", "DHWIO"),
        g=depthwise.reshape(4, 2, 2, 2, 2),
    )
    close(results[0], convolve(x, w, [1, 2, 1], [1, 0, 2] * 2, [2, 1, 1]))
    close(results[1], axes(convolve(x, w, [1] * 3, [0, 1, 0, 1, 0, 1], [1] * 3), "NCDHW", "NDHWC"))
    close(results[2], axes(convolve(x, w, [1] * 3, [1] * 6, [1] * 3), "NCDHW", "NDHWC"))
    close(results[3], convolve(x, depthwise, [1] * 3, [0] * 6, [1] * 3, 4))


def test_conv1d_and_conv3d_transposed() -> None:
    x, w = normal(2, 4, 5), normal(4, 3, 3)
    y, v = normal(1, 2, 3, 4, 2), normal(2, 3, 2, 1, 3)
    results = evaluate(
        """(nn.conv1d_transpose(%x, %w, strides=[3], padding=[1, 2], output_padding=[2]),
            nn.conv1d_transpose(%x, %w, groups=2, dilation=[2], channels=6, kernel_size=[3]),
            nn.conv3d_transpose(%y, %v, strides=[2, 1, 2], padding=[0, 0, 1], output_padding=[1, 0, 1]),
            nn.conv3d_transpose(%n, %k, data_layout="NDHWC", kernel_layout="DHWOI"))""",
        x=x,
        w=w,
        y=y,
        v=v,
        n=axes(y, "NCDHW", "NDHWC"),
        k=axes(v, "IODHW", "DHWOI"),
    )
    close(results[0], convolve_transposed(x, w, [3], [1, 2], [1], [2]))
    close(results[1], convolve_transposed(x, w, [1], [0, 0], [2], [0], 2))
    close(results[2], convolve_transposed(y, v, [2, 1, 2], [0, 0, 1] * 2, [1] * 3, [1, 0, 1]))
    expected = convolve_transposed(y, v, [1] * 3, [0] * 6, [1] * 3, [0] * 3)
    close(results[3], axes(expected, "NCDHW", "NDHWC"))


def test_conv2d_transposed() -> None:
    x, w = normal(2, 4, 5, 3), normal(4, 3, 3, 2)
    results = evaluate(
        """(nn.conv2d_transpose(%x, %w, strides=[2, 3], padding=[1, 0, 0, 1], output_padding=[1, 2]),
            nn.conv2d_transpose(%x, %w, groups=2, dilation=[1, 2]),
            nn.conv2d_transpose(%n, %h, data_layout="NHWC", kernel_layout="HWIO", strides=[2, 2]),
            nn.conv2d_transpose(%x, %o, kernel_layout="OIHW", out_layout="NHWC"))""",
        x=x,
        w=w,
        n=axes(x, "NCHW", "NHWC"),
        h=axes(w, "IOHW", "HWIO"),
        o=axes(w, "IOHW", "OIHW"),
    )
    close(results[0], convolve_transposed(x, w, [2, 3], [1, 0, 0, 1], [1, 1], [1, 2]))
    close(results[1], convolve_transposed(x, w, [1, 1], [0] * 4, [1, 2], [0, 0], 2))
    close(results[2], axes(convolve_transposed(x, w, [2, 2], [0] * 4, [1, 1], [0, 0]), "NCHW", "NHWC"))
    close(results[3], axes(convolve_transposed(x, w, [1, 1], [0] * 4, [1, 1], [0, 0]), "NCHW", "NHWC"))


def test_integers() -> None:
    x = RNG.integers(0, 256, (1, 4, 5, 5)).astype("uint8")
    w = RNG.integers(-128, 128, (3, 4, 3, 3)).astype("int8")
    exact, narrow = evaluate(
        '(nn.conv2d(%x, %w, out_dtype="int32"), nn.conv2d(%x, %w))',
        x=x,
        w=w,
    )
    expected = convolve(x, w, [1, 1], [0] * 4, [1, 1]).astype("int64")
    assert exact.dtype == np.int32
    np.testing.assert_array_equal(exact, expected)
    np.testing.assert_array_equal(narrow, expected.astype("uint8"))


def blocked(array: np.ndarray, layout: str) -> np.ndarray:
    """NCHW or OIHW as NCHW{t}c or OIHW{i}i{o}o."""
    if layout.startswith("NCHW"):
        size = int(layout[4:-1])
        n, c, h, w = array.shape
        return np.ascontiguousarray(array.reshape(n, c // size, size, h, w).transpose(0, 1, 3, 4, 2))
    inner, outer = (int(part) for part in layout[4:-1].split("i"))
    o, i, h, w = array.shape
    split = array.reshape(o // outer, outer, i // inner, inner, h, w)
    return np.ascontiguousarray(split.transpose(0, 2, 4, 5, 3, 1))


@pytest.mark.parametrize("name", ["nn.conv2d", "nn.contrib_conv2d_NCHWc"])
def test_blocks_of_channels(name: str, tmp_path: object) -> None:
    x, w = normal(1, 8, 6, 5), normal(8, 8, 3, 3)
    attributes = 'data_layout="NCHW4c", kernel_layout="OIHW4i4o", padding=[1, 1, 1, 1]'
    call = f'{name}(%x, %w, {attributes}, channels=8, kernel_size=[3, 3], out_layout="NCHW8c")'
    arrays = {"x": blocked(x, "NCHW4c"), "w": blocked(w, "OIHW4i4o")}
    expected = convolve(x, w, [1, 1], [1] * 4, [1, 1])
    close(_compiled(call, arrays, f"{tmp_path}/model"), blocked(expected.astype("float32"), "NCHW8c"))


def test_blocks_of_a_weight_that_are_not_told(tmp_path: object) -> None:
    """As ``relay.nn.contrib_conv2d_nchwc`` has them by default."""
    x, w = normal(1, 8, 6, 5), normal(8, 8, 3, 3)
    call = 'nn.contrib_conv2d_NCHWc(%x, %w, data_layout="NCHW4c", channels=8, kernel_size=[3, 3])'
    arrays = {"x": blocked(x, "NCHW4c"), "w": blocked(w, "OIHW4i8o")}
    expected = convolve(x, w, [1, 1], [0] * 4, [1, 1])
    close(_compiled(call, arrays, f"{tmp_path}/model"), blocked(expected.astype("float32"), "NCHW4c"))


@pytest.mark.parametrize("name", ["nn.conv2d", "nn.contrib_conv2d_NCHWc"])
def test_a_weight_that_divides_an_axis_twice(name: str, tmp_path: object) -> None:
    """As integer kernels had theirs: four inputs of each output lie together."""
    x, w = normal(1, 8, 6, 5), normal(8, 8, 3, 3)
    call = f'{name}(%x, %w, data_layout="NCHW8c", kernel_layout="OIHW2i8o4i")'
    divided = np.ascontiguousarray(w.reshape(1, 8, 1, 2, 4, 3, 3).transpose(0, 2, 5, 6, 3, 1, 4))
    expected = convolve(x, w, [1, 1], [0] * 4, [1, 1])
    result = _compiled(call, {"x": blocked(x, "NCHW8c"), "w": divided}, f"{tmp_path}/model")
    close(result, blocked(expected.astype("float32"), "NCHW8c"))


def test_depthwise_blocks(tmp_path: object) -> None:
    x, w = normal(1, 8, 6, 5), normal(8, 1, 3, 3)
    attributes = 'data_layout="NCHW4c", kernel_layout="OIHW1i4o", groups=8'
    call = f"nn.contrib_depthwise_conv2d_NCHWc(%x, %w, {attributes})"
    arrays = {"x": blocked(x, "NCHW4c"), "w": blocked(w, "OIHW1i4o")}
    expected = convolve(x, w, [1, 1], [0] * 4, [1, 1], 8)
    close(_compiled(call, arrays, f"{tmp_path}/model"), blocked(expected.astype("float32"), "NCHW4c"))


def test_plain_result_layout(tmp_path: object) -> None:
    x, w = normal(1, 3, 6, 5), normal(4, 3, 3, 3)
    result = _compiled('nn.conv2d(%x, %w, out_layout="NHWC")', {"x": x, "w": w}, f"{tmp_path}/model")
    close(result, axes(convolve(x, w, [1, 1], [0] * 4, [1, 1]), "NCHW", "NHWC"))


def _compiled(body: str, arrays: dict[str, np.ndarray], path: str) -> np.ndarray:
    """The result by way of the project's own lowering: TVM's has no blocks."""
    relay_layout.compile(imported(program(body, **arrays))).save(path)
    (result,) = relay_layout.load(path).run(arrays).values()
    return result


def test_types_of_weights() -> None:
    text = """def @main(%x: Tensor[(1, 4, 8, 8), float32], %a, %b, %c, %o) {
        %0 = nn.conv2d(%x, %a, channels=6, kernel_size=[3, 2], groups=2);
        %1 = nn.conv2d_transpose(%0, %b, channels=10, kernel_size=[3, 3], groups=2);
        nn.deformable_conv2d(%1, %o, %c, channels=5, kernel_size=[3, 3], strides=[2, 2], deformable_groups=2)
    }"""
    parameters = from_tree(read_text(text, "test"))["main"].params
    shapes = [tuple(int(extent) for extent in parameter.ty.shape) for parameter in parameters[1:]]
    assert shapes == [(6, 2, 3, 2), (6, 5, 3, 3), (5, 10, 3, 3), (1, 36, 3, 4)]


def test_type_of_a_blocked_weight() -> None:
    attributes = 'channels=16, kernel_size=[3, 1], data_layout="NCHW4c", kernel_layout="OIHW4i8o"'
    text = f"def @main(%x: Tensor[(1, 2, 8, 8, 4), float32], %w) {{ nn.conv2d(%x, %w, {attributes}) }}"
    weight = from_tree(read_text(text, "test"))["main"].params[1]
    assert tuple(int(extent) for extent in weight.ty.shape) == (2, 2, 3, 1, 4, 8)


def test_unknown_batch() -> None:
    text = """def @main(%x: Tensor[(?, 3, 8, 8), float32], %w: Tensor[(4, 3, 3, 3), float32]) {
        nn.conv2d(%x, %w, padding=[1, 1]) }"""
    module = imported(text)
    assert str(module["main"].ret_ty.shape[0]) == str(module["main"].params[0].ty.shape[0])


def test_printed_as_relay_prints_it() -> None:
    text = """def @main(%x: Tensor[(1, 3, 8, 8), float32], %w: Tensor[(4, 3, 3, 3), float32]) {
        nn.conv2d(%x, %w, padding=[1, 1], channels=4, kernel_size=[3, 3]) }"""
    printed = print_text(to_tree(imported(text)))
    assert "nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=4, kernel_size=[3, 3])" in printed


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ("strides=[0, 1]", "strides is [0, 1], not 2 numbers from 1 to 2147483647"),
        ("dilation=[1]", "dilation is [1], not 2 numbers"),
        ("padding=[1, 2, 3]", "padding is [1, 2, 3], not 1 or 2 or 4 numbers from 0"),
        ("padding=[-1, 0]", "padding is [-1, 0], not"),
        ("groups=0", "groups is 0, not a number from 1 to 2147483647"),
        ("kernel_size=[3, 2]", "kernel_size is [3, 2]; the weight has [3, 3]"),
        ("channels=5", "channels is 5; the weight has 4 outputs"),
        ('data_layout="NCHX"', "data_layout is 'NCHX', which is no order of NCHW"),
        ('data_layout="NCHW2h"', "data_layout is 'NCHW2h'; the axis H cannot be split here"),
        ('data_layout="NCHW4c"', "the data has 4 dimensions; the layout NCHW4c has 5"),
        ("dilation=[9, 1]", "a window of 19 does not fit into the 8 elements of axis H and its padding"),
        ("groups=2", "3 input channels in 2 groups do not fit a weight with 3 inputs and 4 outputs"),
    ],
)
def test_wrong_attributes(attributes: str, message: str) -> None:
    text = f"""def @main(%x: Tensor[(1, 3, 8, 8), float32], %w: Tensor[(4, 3, 3, 3), float32]) {{
        nn.conv2d(%x, %w, {attributes}) }}"""
    with pytest.raises(RelayLayoutError) as caught:
        from_tree(read_text(text, "test"))
    assert message in str(caught.value)


def test_python_arguments() -> None:
    arguments = {"strides": 2, "padding": 1, "dilation": 1, "groups": 1, "channels": 4, "kernel_size": 3}
    layouts = {"data_layout": "NHWC", "kernel_layout": "", "out_layout": "", "out_dtype": ""}
    operands, attributes = TABLE["nn.conv2d"].prepare(data="x", weight="w", **arguments, **layouts)  # type: ignore[misc]
    assert operands == ["x", "w"]
    assert attributes["padding"] == (1, 1, 1, 1)
    assert attributes["kernel_size"] == (3, 3)
    assert attributes["kernel_layout"] == "HWIO"
