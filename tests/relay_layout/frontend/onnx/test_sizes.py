"""Models for images of any size: one artifact, images of several sizes, ONNX Runtime's numbers for each."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import relay_layout
from relay_layout.errors import InputError
from tests.module_operators import operators
from tests.onnx_reference import reference_session

SIZES = [(1, 4, 8, 6), (3, 4, 12, 10), (2, 4, 2, 4)]


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, "int64")


def model_of(nodes: str, constants: dict[str, np.ndarray], opset: int) -> Any:
    header = f'<ir_version: 8, opset_import: ["" : {opset}]> sizes () => ()'
    model = onnx.parser.parse_model(f"{header} {{ {nodes} }}")
    graph = model.graph
    graph.input.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4, "h", "w"]))
    graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, None))
    return model


def check(
    folder: Path,
    nodes: str,
    constants: dict[str, np.ndarray],
    sizes: Sequence[tuple[int, ...]] = SIZES,
    opset: int = 19,
) -> None:
    model = model_of(nodes, constants, opset)
    relay_layout.compile(model).save(folder / "sizes.rla")
    session, reference = relay_layout.load(folder / "sizes.rla"), reference_session(model.SerializeToString())
    for size in sizes:
        image = np.random.default_rng(0).standard_normal(size).astype("float32")
        (wanted,) = reference.run(None, {"x": image})
        found = session.run({"x": image})["y"]
        assert found.shape == wanted.shape, size
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5, err_msg=str(size))


HALVES = """
    shape = Shape(x)  n, c, h, w = Split <num_outputs=4> (shape)
    rows = Div(h, two)  columns = Div(w, two)  channels = Mul(c, four)
    six = Concat <axis=0> (n, c, rows, two, columns, two)
    four_ways = Concat <axis=0> (n, channels, rows, columns)
"""
TWO_AND_FOUR = {"two": ints(2), "four": ints(4)}


@pytest.mark.parametrize(
    "nodes",
    [
        "y = SpaceToDepth <blocksize=2> (x)",
        f"{HALVES} y = Reshape(x, six)",
        f"{HALVES} r = Relu(x) t = Reshape(r, six) y = Relu(t)",
        f"{HALVES} t = Reshape(x, six) p = Transpose <perm=[0, 1, 3, 5, 2, 4]> (t) y = Reshape(p, four_ways)",
    ],
    ids=["space to depth", "a view of an input", "a view between others", "as PyTorch exports it"],
)
def test_extents_that_are_quotients(nodes: str, tmp_path: Path) -> None:
    check(tmp_path, nodes, TWO_AND_FOUR if "two" in nodes else {})


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool", "AveragePool included", "LpPool"])
@pytest.mark.parametrize(
    "window",
    [
        "kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 1, 1]",
        "kernel_shape=[3, 2], strides=[2, 3], pads=[1, 0, 1, 1]",
        "kernel_shape=[2, 2], strides=[3, 3]",
        "kernel_shape=[2, 3], strides=[4, 2], dilations=[1, 2], pads=[1, 2, 0, 2]",
        "kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]",
    ],
)
def test_windows_that_are_rounded_up(kind: str, window: str, tmp_path: Path) -> None:
    operator, _, included = kind.partition(" ")
    counted = ", count_include_pad=1" if included else ""
    check(
        tmp_path, f"y = {operator} <ceil_mode=1, {window}{counted}> (x)", {}, [(1, 4, 9, 8), (2, 4, 13, 11)]
    )


def test_what_is_reflected_between_corners_has_two(tmp_path: Path) -> None:
    """One pixel alone was a division by zero."""
    attributes = 'mode="linear", padding_mode="reflection", align_corners=1'
    nodes = (
        f"t = Transpose <perm=[0, 2, 3, 1]> (x)  g = Slice(t, a, b, d)  y = GridSample <{attributes}> (x, g)"
    )
    constants = {"a": ints(0), "b": ints(2), "d": ints(3)}
    check(tmp_path, nodes, constants, opset=20)
    with pytest.raises(InputError, match=r"x.shape\[2\] > 1"):
        relay_layout.load(tmp_path / "sizes.rla").run({"x": np.ones((1, 4, 1, 3), "float32")})


def test_elements_at_fewer_places_than_there_are(tmp_path: Path) -> None:
    """ONNX Runtime takes places of an image, or of as many as there are."""
    places = {"p": np.array([[[[2]], [[-1]]]])}
    check(tmp_path, "y = GatherElements <axis=1> (x, p)", places)


@pytest.mark.parametrize("bounds", ["small, most", ", most", "small, "])
def test_the_best_are_as_many_as_clipped_rows(bounds: str, tmp_path: Path) -> None:
    constants = {"row": ints(2), "small": np.array(3), "most": np.array(8)}
    nodes = f"""shape = Shape(x)  rows = Gather(shape, row)  number = Clip(rows, {bounds})
        tall = Concat <axis=2> (x, x, x)  y, order = TopK <axis=2> (tall, number)"""
    check(tmp_path, nodes, constants)


def test_rows_of_pixels_are_as_long_as_windows(tmp_path: Path) -> None:
    constants = {"rows": ints(0, 4, -1), "w": np.ones((3, 4, 4), "float32")}
    model = model_of("r = Reshape(x, rows)  y = Conv <dilations=[2], pads=[0, 1]> (r, w)", constants, 19)
    relay_layout.compile(model).save(tmp_path / "sizes.rla")
    session = relay_layout.load(tmp_path / "sizes.rla")
    assert session.run({"x": np.ones((1, 4, 2, 3), "float32")})["y"].shape == (1, 3, 1)
    with pytest.raises(InputError) as raised:
        session.run({"x": np.ones((1, 4, 5, 1), "float32")})
    assert "x.shape[2] * x.shape[3] > 5" in str(raised.value)


@pytest.mark.parametrize(
    "window",
    [
        "kernel_shape=[2, 2], strides=[2, 2]",
        "kernel_shape=[3, 2], strides=[2, 1], ceil_mode=1",
        "kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]",
        "kernel_shape=[2, 2], dilations=[2, 3], pads=[1, 0, 0, 1]",
        'kernel_shape=[3, 3], auto_pad="SAME_LOWER"',
    ],
)
def test_places_of_maxima(window: str, tmp_path: Path) -> None:
    nodes = f"m, i = MaxPool <{window}> (x)  places = Cast <to=1> (i)  y = Add(m, places)"
    check(tmp_path, nodes, {}, [(1, 4, 9, 8), (2, 4, 13, 11)])


@pytest.mark.parametrize(
    ("start", "end"),
    [(1, -1), (-3, 2**60), (5, 2), (5, -3), (-4, -2), (-2, -4), (-3, 0), (-5, 4), (3, 3), (0, -3)],
)
def test_slices_that_may_be_empty(start: int, end: int, tmp_path: Path) -> None:
    bounds = {"s": ints(start), "e": ints(end), "a": ints(2)}
    check(tmp_path, "y = Slice(x, s, e, a)", bounds, [(1, 4, extent, 2) for extent in (12, 1, 3, 6)])


def test_slices_to_the_end_of_tensorflow_are_the_whole() -> None:
    """It counts to a thousand million there, which room was asked for."""
    bounds = {"s": ints(0), "e": ints(10**9), "a": ints(2)}
    module = relay_layout.from_onnx(model_of("y = Slice(x, s, e, a)", bounds, 19))
    assert operators(module) == []


@pytest.mark.parametrize("step", [1, -1])
def test_computed_bounds_may_count_from_the_end(step: int, tmp_path: Path) -> None:
    constants = {"three": ints(3), "a": ints(2), "step": ints(step), "end": ints(2**60 * step)}
    nodes = """
        h = Shape <start=2, end=3> (x)  third = Div (h, three)  less = Neg (third)  start = Sub (less, three)
        y = Slice (x, start, end, a, step)
    """
    check(tmp_path, nodes, constants, [(1, 4, extent, 2) for extent in (7, 8, 12, 16)])


def test_windows_tell_which_quotients_round_down(tmp_path: Path) -> None:
    """Rows are worked out before the windows that make (h - 7) // 4 + 1 of them, of 7 rows at least."""
    nodes = """
        shape = Shape(x)  n, c, h, w = Split <num_outputs=4> (shape)
        less = Sub(h, three)  halves = Div(less, two)  fewer = Sub(halves, two)
        quarters = Div(fewer, two)  rows = Add(quarters, one)
        a = Conv <strides=[2,1]> (x, window)  b = Conv <strides=[2,1]> (a, window)
        goal = Concat <axis=0> (n, rows, all, w)
        laid = Reshape(b, goal)  parts = Transpose <perm=[0,2,3,1]> (laid)
        y = MatMul(b, parts)
    """
    rng = np.random.default_rng(0)
    constants = {
        "one": ints(1),
        "two": ints(2),
        "three": ints(3),
        "all": ints(-1),
        "window": rng.standard_normal((4, 4, 3, 1)).astype("float32"),
    }
    check(tmp_path, nodes, constants, [(1, 4, 7, 6), (2, 4, 10, 3), (3, 4, 11, 1), (1, 4, 30, 5)])


@pytest.mark.parametrize(
    "start",
    [
        "less = Neg (h)  start = Div (less, three)",
        "less = Sub (one, h)  start = Div (less, three)",
        "less = Sub (h, ten)  start = Div (less, three)",
        "less = Neg (h)  start = Mod (less, three)",
    ],
    ids=[
        "of what is below zero",
        "of what may be zero",
        "of what may be below zero",
        "what is missing to a multiple",
    ],
)
def test_division_rounds_towards_zero(start: str, tmp_path: Path) -> None:
    constants = {"three": ints(3), "ten": ints(10), "end": ints(2**60), "a": ints(2), "one": ints(1)}
    nodes = f"h = Shape <start=2, end=3> (x)  {start}  y = Slice (x, start, end, a)"
    used = {name: value for name, value in constants.items() if name in nodes}
    check(tmp_path, nodes, used, [(1, 4, extent, 2) for extent in (3, 5, 8, 12, 16)])


@pytest.mark.parametrize(
    ("nodes", "names"),
    [
        ("y = LayerNormalization <axis=1> (x, s)", "s"),
        ("y = LayerNormalization <axis=-3> (x, s, b)", "sb"),
        ("y = RMSNormalization <axis=1> (x, s)", "s"),
    ],
)
def test_norms_over_the_image(nodes: str, names: str, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    scales = {name: random.standard_normal((4, 1, 1)).astype("float32") for name in names}
    check(tmp_path, nodes, scales, opset=23)


def test_windows_of_which_nodes_leave_out_attributes(tmp_path: Path) -> None:
    """ONNX defines these by functions, which refer to attributes that a node need not have."""
    nodes = """
        hann = HannWindow(count)  black = BlackmanWindow <periodic=0> (count)
        both = Mul(hann, black)  sum = ReduceSum <keepdims=0> (both)  y = Mul(x, sum)
    """
    check(tmp_path, nodes, {"count": np.array(6, "int64")})


@pytest.mark.parametrize(
    "nodes",
    [
        "y = Hardmax <axis=-1> (x)",
        "s = Sign (x)  i = ArgMax <axis=2, select_last_index=1> (s)  y = Cast <to=1> (i)",
        "y = ReverseSequence <batch_axis=0, time_axis=1> (x, n)",
        "p = ReduceSum <keepdims=0> (x, front)  d = EyeLike <k=1> (p)  y = Add (x, d)",
        "s = Shape (x)  y = AffineGrid <align_corners=1> (turn, s)",
        "s = Shape (x)  g = AffineGrid (turn, s)  y = GridSample (x, g)",
        "p = ReduceSum <keepdims=0> (x, one)  y = ScatterND (x, corner, p)",
        "t = Transpose <perm=[0, 2, 3, 1]> (x)  m = Reshape (t, square)  y = Det (m)",
        "v = ReduceMax <keepdims=0> (x)  y = Pad (x, around, v)",
    ],
    ids=[
        "hardmax",
        "last maximum",
        "sequences",
        "diagonal",
        "grid",
        "sampled grid",
        "scattered",
        "determinants",
        "padded",
    ],
)
def test_what_counts_pixels(nodes: str, tmp_path: Path) -> None:
    constants = {
        "front": ints(0, 1),
        "one": ints(1),
        "square": ints(0, 0, -1, 2, 2),
        "corner": ints(0, -1).reshape(1, 2),
        "around": ints(0, 0, 1, 0, 0, 0, 2, -1),
        "turn": random(1, 2, 3),
        "n": ints(3),
    }
    check(tmp_path, nodes, constants, [(1, 4, 8, 6), (1, 4, 3, 5)], opset=20)


@pytest.mark.parametrize("reduction", ["none", "add"])
def test_scattering_to_a_corner(reduction: str, tmp_path: Path) -> None:
    constants = {"i": ints(-1, 0).reshape(1, 1, 2, 1), "u": np.ones((1, 1, 2, 1), "float32")}
    check(tmp_path, f'y = ScatterElements <axis=2, reduction="{reduction}"> (x, i, u)', constants)


def test_descending_ranges(tmp_path: Path) -> None:
    nodes = (
        "s = Shape <start=2, end=3> (x)  h = Squeeze (s)  b = Sub (h, one)  e = Neg (h) "
        "r = Range (b, e, down)  y = Cast <to=1> (r)"
    )
    check(tmp_path, nodes, {"one": np.array(1), "down": np.array(-2)})


def test_a_range_by_a_step_that_sizes_decide(tmp_path: Path) -> None:
    nodes = (
        "s = Shape <start=2, end=3> (x)  h = Squeeze (s)  step = Div (h, two) "
        "r = Range (one, h, step)  y = Cast <to=1> (r)"
    )
    check(tmp_path, nodes, {"one": np.array(1), "two": np.array(2)}, [(1, 4, 8, 6), (1, 4, 13, 3)])


def test_scattering_to_all_rows_but_the_last(tmp_path: Path) -> None:
    constants = {"zero": ints(0), "last": ints(-1), "rows": ints(2), "columns": np.array(3)}
    nodes = (
        "a = Slice (x, zero, last, rows)  n = Neg (a)  e = Equal (a, a)  o = Cast <to=7> (e) "
        "i = CumSum <exclusive=1> (o, columns)  y = ScatterElements <axis=3> (x, i, n)"
    )
    check(tmp_path, nodes, constants)


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(2).standard_normal(shape).astype("float32")


@pytest.mark.parametrize(
    "after", ["s = Sigmoid (c)", "t = Sigmoid (c)  s = Mul (c, t)"], ids=["sigmoid", "silu"]
)
@pytest.mark.parametrize("last", ["Mul", "Add"])
def test_what_follows_a_convolution_with_numbers_for_each_channel(
    after: str, last: str, tmp_path: Path
) -> None:
    nodes = f"c = Conv <pads=[1,1,1,1]> (x, w)  {after}  y = {last} (s, k)"
    check(tmp_path, nodes, {"w": random(4, 4, 3, 3), "k": random(4, 1, 1)})


def test_volumes_of_any_size(tmp_path: Path) -> None:
    nodes = "v = Unsqueeze (x, a)  y = Conv <pads=[1,1,1,1,1,1]> (v, w)"
    check(tmp_path, nodes, {"a": ints(1), "w": random(3, 1, 3, 3, 3)})


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_aligned_corners_of_a_single_pixel(mode: str, tmp_path: Path) -> None:
    nodes = f"""
        shape = Shape <start=2> (x)  outer = Shape <end=2> (x)  size = Concat <axis=0> (outer, shape)
        small = AveragePool <kernel_shape=[2,2], strides=[2,2], ceil_mode=1> (x)
        y = Resize <mode="{mode}", coordinate_transformation_mode="align_corners"> (small, , , size)
    """
    check(tmp_path, nodes, {}, [(1, 4, 1, 5), (2, 4, 6, 6), (1, 4, 1, 1)])


def test_images_that_windows_do_not_fit_into_are_refused(tmp_path: Path) -> None:
    nodes = "c = Conv (x, w)  p = MaxPool <kernel_shape=[3,2]> (c)  y = GlobalAveragePool (p)"
    weights = {"w": random(4, 4, 3, 3)}
    check(tmp_path, nodes, weights, [(1, 4, 5, 4), (2, 4, 9, 7)])
    session = relay_layout.load(tmp_path / "sizes.rla")
    with pytest.raises(InputError) as caught:
        session.run({"x": random(1, 4, 4, 9)})
    assert str(caught.value) == (
        "input 'x': dimension 2 ('h') is 4, the model was exported for sizes from 5 on"
    )


@pytest.mark.parametrize("last", ["y = Gemm (f, g)", "y = MatMul (f, g)", "m = MatMul (f, g)  y = Relu (m)"])
def test_a_matrix_decides_on_the_size_of_images(last: str, tmp_path: Path) -> None:
    nodes = f"c = Conv <pads=[1,1,1,1]> (x, w)  r = Relu (c)  f = Flatten (r)  {last}"
    check(tmp_path, nodes, {"w": random(8, 4, 3, 3), "g": random(192, 5)}, [(1, 4, 4, 6), (3, 4, 6, 4)])
    session = relay_layout.load(tmp_path / "sizes.rla")
    with pytest.raises(InputError) as caught:
        session.run({"x": random(1, 4, 5, 5)})
    assert str(caught.value) == (
        "the model was exported for inputs of which (x.shape[2] * x.shape[3]) * 8 == 192, "
        "got x.shape[2] = 5, x.shape[3] = 5"
    )


def test_heads_are_as_many_as_channels_tell(tmp_path: Path) -> None:
    nodes = """
        a = Conv <strides=[2,2]> (x, w)  b = Conv <strides=[2,2]> (x, w)  c = Concat <axis=1> (a, b)
        n = Shape <end=1> (c)  h = Shape <start=2, end=3> (c)  w_ = Shape <start=3> (c)  pixels = Mul (w_, h)
        heads = Concat <axis=0> (n, any, four, pixels)  v = Reshape (c, heads)
        y = Transpose <perm=[0,1,3,2]> (v)
    """
    check(tmp_path, nodes, {"w": random(16, 4, 1, 1), "any": ints(-1), "four": ints(4)})


@pytest.mark.parametrize("bounds", [(0, 1), (-1, 2**63 - 1)], ids=["first", "last"])
def test_rows_are_divided_by_one_of_them(bounds: tuple[int, int], tmp_path: Path) -> None:
    nodes = """
        p = MaxPool <kernel_shape=[2,2], strides=[2,2]> (x)  row = Slice (p, start, end, axis)
        y = Div (p, row)
    """
    check(tmp_path, nodes, {"start": ints(bounds[0]), "end": ints(bounds[1]), "axis": ints(2)})


@pytest.mark.parametrize("smaller", ["MaxPool <kernel_shape=[3,3]> (x)", "Conv (x, w)"])
def test_an_image_is_cropped_to_a_smaller_one(smaller: str, tmp_path: Path) -> None:
    nodes = f"""
        small = {smaller}  shape = Shape (small)  size = Slice (shape, two, four)
        crop = Slice (x, start, size, axes)  y = Concat <axis=1> (crop, small)
    """
    constants = {"two": ints(2), "four": ints(4), "start": ints(0, 0), "axes": ints(2, 3)}
    if "w" in smaller:
        constants |= {"w": random(4, 4, 3, 3)}
    check(tmp_path, nodes, constants, [(1, 4, 9, 7), (2, 4, 3, 12)])


@pytest.mark.parametrize("rounding", ["Ceil", "Floor"])
@pytest.mark.parametrize("division", ["Div (real, two)", "Mul (real, half)"])
def test_extents_that_are_rounded_from_floats(rounding: str, division: str, tmp_path: Path) -> None:
    nodes = f"""
        h = Shape <start=2, end=3> (x)  real = Cast <to=1> (h)  part = {division}  whole = {rounding} (part)
        rows = Cast <to=7> (whole)  outer = Shape <end=2> (x)  inner = Shape <start=3> (x)
        shape = Concat <axis=0> (outer, rows, inner)  y = Expand (one, shape)
    """
    constants = {"two": np.float32([2]), "half": np.float32([0.5]), "one": random(1, 4, 1, 1)}
    check(tmp_path, nodes, constants, [(1, 4, 5, 3), (2, 4, 6, 2)])


def test_steps_that_sizes_decide(tmp_path: Path) -> None:
    nodes = """
        height = Shape <start=2, end=3> (x)  step = Div (height, two)  steps = Concat <axis=0> (step, two)
        y = Slice (x, begins, far, axes, steps)
    """
    constants = {"two": ints(2), "begins": ints(1, 0), "far": ints(99, 99), "axes": ints(2, 3)}
    check(tmp_path, nodes, constants, [(1, 4, 8, 6), (3, 4, 13, 10), (2, 4, 2, 3)])


def test_a_step_of_none_is_refused(tmp_path: Path) -> None:
    nodes = """
        height = Shape <start=2, end=3> (x)  step = Div (height, two)  y = Slice (x, begin, far, axis, step)
    """
    constants = {"two": ints(2), "begin": ints(0), "far": ints(99), "axis": ints(2)}
    session = relay_layout.compile(model_of(nodes, constants, 19)).session()
    with pytest.raises(InputError, match=r"inputs of which x\.shape\[2\] // 2 > 0, got x\.shape\[2\] = 1"):
        session.run({"x": np.zeros((1, 4, 1, 6), "float32")})


@pytest.mark.parametrize("opset", [11, 17])
def test_dimensions_of_one_element_go(opset: int, tmp_path: Path) -> None:
    """Which they are has to be known: results of a size would have fewer dimensions than others."""
    nodes = "m = GlobalMaxPool(x)  t = Transpose <perm=[0, 2, 3, 1]> (m)  y = Squeeze(t)"
    check(tmp_path, nodes, {}, [(3, 4, 8, 6), (2, 4, 1, 1)], opset)
    with pytest.raises(InputError) as error:
        relay_layout.load(tmp_path / "sizes.rla").run({"x": np.zeros((1, 4, 2, 2), "float32")})
    expected = "the model was exported for inputs of which x.shape[0] != 1, got x.shape[0] = 1"
    assert str(error.value) == expected


@pytest.mark.parametrize(
    ("node", "condition"),
    [
        ("AveragePool <kernel_shape=[3, 3], pads=[1, 1, 1, 1]> (x)", "x.shape[2] > 0"),
        ("MaxPool <kernel_shape=[3, 3], pads=[1, 1, 1, 1]> (x)", "x.shape[2] > 0"),
        ("LpPool <kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]> (x)", "x.shape[2] > 0"),
        ("ConvTranspose <strides=[2, 2], pads=[1, 1, 1, 1]> (x, k)", "(x.shape[2] * 2) - 1 > -1"),
    ],
)
def test_what_needs_pixels_asks_for_them(node: str, condition: str, tmp_path: Path) -> None:
    """Windows that reach beyond an image of no rows would divide by their number, or give less than none."""
    weights = {"k": np.ones((4, 4, 3, 3), "float32")} if "k)" in node else {}
    check(tmp_path, f"y = {node}", weights, [(2, 4, 5, 6), (0, 4, 3, 3)])
    with pytest.raises(InputError) as error:
        relay_layout.load(tmp_path / "sizes.rla").run({"x": np.zeros((1, 4, 0, 7), "float32")})
    expected = f"the model was exported for inputs of which {condition}, got x.shape[2] = 0"
    assert str(error.value) == expected
