"""Padding by amounts that depend on the sizes of images, against ONNX Runtime."""

from pathlib import Path

import numpy as np
import pytest

import relay_layout
from relay_layout.errors import InputError, ModelError
from tests.relay_layout.frontend.onnx.test_sizes import check, ints, model_of, random

SIZES = [(1, 4, 8, 8), (2, 4, 9, 7), (1, 4, 5, 6)]

TO_EVEN = """
    shape = Shape <start=2> (x)  over = Mod (shape, two)  none = Mul (over, zero)
    widths = Concat <axis=0> (none, {before}, none, {after})
"""
CONSTANTS = {"two": ints(2), "zero": ints(0)}


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
@pytest.mark.parametrize("sides", [("none", "over"), ("over", "none"), ("over", "over")])
def test_images_become_even(mode: str, sides: tuple[str, str], tmp_path: Path) -> None:
    nodes = TO_EVEN.format(before=sides[0], after=sides[1])
    check(tmp_path, f'{nodes} y = Pad <mode="{mode}"> (x, widths)', CONSTANTS, SIZES)


def test_amounts_below_zero_crop(tmp_path: Path) -> None:
    nodes = TO_EVEN.format(before="less", after="over").replace("widths =", "less = Neg (over)  widths =")
    check(tmp_path, f"{nodes} y = Pad (x, widths, c)", CONSTANTS | {"c": np.float32(2)}, SIZES)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
@pytest.mark.parametrize("pads", [(-1, 2, 1, -2), (1, -1, -1, 2), (-1, -1, -2, 0)], ids=str)
def test_what_is_left_of_a_cropped_image_is_padded(mode: str, pads: tuple[int, ...], tmp_path: Path) -> None:
    constants = {"widths": ints(*pads), "axes": ints(-1, 2)}
    check(tmp_path, f'y = Pad <mode="{mode}"> (x, widths, , axes)', constants, SIZES)


@pytest.mark.parametrize("mode", ["constant", "edge"])
def test_no_more_is_cropped_than_there_is(mode: str, tmp_path: Path) -> None:
    constants = {"widths": ints(-3, 1), "axes": ints(2)}
    check(tmp_path, f'y = Pad <mode="{mode}"> (x, widths, , axes)', constants, SIZES)
    with pytest.raises(InputError) as error:
        relay_layout.load(tmp_path / "sizes.rla").run({"x": np.zeros((1, 4, 2, 5), "float32")})
    expected = "the model was exported for inputs of which 3 <= x.shape[2], got x.shape[2] = 2"
    assert str(error.value) == expected


def test_nothing_is_padded_with_its_edge(tmp_path: Path) -> None:
    constants = {"widths": ints(2, 1), "axes": ints(3)}
    check(tmp_path, 'y = Pad <mode="edge"> (x, widths, , axes)', constants, SIZES)
    with pytest.raises(InputError) as error:
        relay_layout.load(tmp_path / "sizes.rla").run({"x": np.zeros((1, 4, 2, 0), "float32")})
    assert "x.shape[3] > 0, got x.shape[3] = 0" in str(error.value)
    cropped = {"widths": ints(-4, 1), "axes": ints(1)}
    with pytest.raises(ModelError) as refused:
        relay_layout.compile(model_of('y = Pad <mode="edge"> (x, widths, , axes)', cropped, 19))
    assert str(refused.value).endswith("(Pad) has no elements along axis 1 of [n,0,h,w] to pad with")


def test_an_image_is_padded_to_the_size_of_another(tmp_path: Path) -> None:
    """As in a U-Net whose images are of any size."""
    nodes = """
        small = MaxPool <kernel_shape=[2,2], strides=[2,2]> (x)
        back = ConvTranspose <strides=[2,2]> (small, k)
        whole = Shape <start=2> (x)  present = Shape <start=2> (back)  missing = Sub (whole, present)
        none = Mul (missing, zero)  before = Div (missing, two)  after = Sub (missing, before)
        widths = Concat <axis=0> (none, before, none, after)
        padded = Pad (back, widths)  y = Concat <axis=1> (padded, x)
    """
    check(tmp_path, nodes, CONSTANTS | {"k": random(4, 4, 2, 2)}, SIZES)


def test_windows_of_images_that_do_not_divide(tmp_path: Path) -> None:
    """Padded to whole windows, cut into these, put together and cropped, as attention within windows does."""
    nodes = """
        h = Shape <start=2, end=3> (x)  n = Shape <end=1> (x)  w = Shape <start=3> (x)
        rest = Mod (h, three)  up = Sub (three, rest)  lacking = Mod (up, three)
        widths = Concat <axis=0> (z, z, z, z, z, z, lacking, z)
        padded = Pad (x, widths)  tall = Shape <start=2, end=3> (padded)  rows = Div (tall, three)
        parts = Concat <axis=0> (n, four, rows, three, w)
        apart = Reshape (padded, parts)  mean = ReduceMean <keepdims=1> (apart, axes)
        centred = Sub (apart, mean)
        goal = Concat <axis=0> (n, four, tall, w)  whole = Reshape (centred, goal)
        cropped = Slice (whole, z, h, two)  y = Add (cropped, x)
    """
    constants = {"three": ints(3), "four": ints(4), "z": ints(0), "two": ints(2), "axes": ints(3)}
    check(tmp_path, nodes, constants, SIZES)


@pytest.mark.parametrize(
    "first",
    ["first = Identity (two)", "pairs = Div (tall, two)  last = Mod (minus, pairs)  first = Mul (last, two)"],
    ids=["up", "down"],
)
def test_windows_of_shifted_images(first: str, tmp_path: Path) -> None:
    """Padded to whole windows of 4x4 and rolled by 2, up or down, as shifted windows of attention are."""
    nodes = f"""
        n = Shape <end=1> (x)  size = Shape <start=2> (x)
        rest = Mod (size, four)  up = Sub (four, rest)  lacking = Mod (up, four)
        widths = Concat <axis=0> (z, z, z, z, z, z, lacking)  padded = Pad (x, widths)
        tall = Shape <start=2, end=3> (padded)  wide = Shape <start=3> (padded)  {first}
        below = Slice (padded, first, far, two)  above = Slice (padded, z, first, two)
        rolled = Concat <axis=2> (below, above)
        right = Slice (rolled, two, far, three)  left = Slice (rolled, z, two, three)
        shifted = Concat <axis=3> (right, left)
        rows = Div (tall, four)  columns = Div (wide, four)
        six = Concat <axis=0> (n, four, rows, four, columns, four)  cut = Reshape (shifted, six)
        windows = Transpose <perm=[0,2,4,1,3,5]> (cut)  four_each = Concat <axis=0> (minus, four, four, four)
        each = Reshape (windows, four_each)  mean = ReduceMean <keepdims=1> (each, three)
        centred = Sub (each, mean)  all = Shape <end=1> (centred)
        pixels = Mul (tall, wide)  per_row = Div (pixels, four)  per_image = Div (per_row, four)
        batch = Div (all, per_image)  goal = Concat <axis=0> (batch, rows, columns, four, four, four)
        apart = Reshape (centred, goal)  woven = Transpose <perm=[0,3,1,4,2,5]> (apart)
        image = Concat <axis=0> (batch, four, tall, wide)  whole = Reshape (woven, image)
        y = Add (whole, padded)
    """
    constants = {"z": ints(0), "two": ints(2), "three": ints(3), "four": ints(4), "minus": ints(-1)}
    check(tmp_path, nodes, constants | {"far": ints(2**62)}, SIZES)


def test_rows_of_whole_windows_ask_for_pixels(tmp_path: Path) -> None:
    """An image with any rows has 4 once it is padded to a multiple."""
    nodes = """
        h = Shape <start=2, end=3> (x)  rest = Mod (h, four)  up = Sub (four, rest)  lacking = Mod (up, four)
        widths = Concat <axis=0> (z, z, z, z, z, z, lacking, z)  padded = Pad (x, widths)
        y = Slice (padded, z, three, two)
    """
    constants = {"z": ints(0), "two": ints(2), "three": ints(3), "four": ints(4)}
    check(tmp_path, nodes, constants, [(1, 4, 1, 5), (2, 4, 9, 7)])
    with pytest.raises(InputError) as error:
        relay_layout.load(tmp_path / "sizes.rla").run({"x": np.zeros((1, 4, 0, 5), "float32")})
    expected = "the model was exported for inputs of which x.shape[2] > 0, got x.shape[2] = 0"
    assert str(error.value) == expected


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(
    "node",
    [
        "Conv <{mode}, strides=[2,2]> (x, k)",
        "Conv <{mode}, strides=[2,3]> (x, l)",
        "Conv <{mode}, strides=[2,2]> (x, p)",
        "MaxPool <{mode}, strides=[2,2], kernel_shape=[3,2]> (x)",
        "AveragePool <{mode}, strides=[2,2], kernel_shape=[3,3]> (x)",
        "AveragePool <{mode}, strides=[2,2], kernel_shape=[3,3], count_include_pad=1> (x)",
        "LpPool <{mode}, strides=[2,2], kernel_shape=[3,3]> (x)",
    ],
)
def test_padding_to_the_size_over_the_stride(node: str, mode: str, tmp_path: Path) -> None:
    weights = {"k": random(5, 4, 3, 3), "l": random(5, 4, 5, 2), "p": random(5, 4, 1, 1)}
    used = {name: weight for name, weight in weights.items() if f", {name})" in node}
    filled = node.replace("{mode}", f'auto_pad="{mode}"')
    check(tmp_path, f"y = {filled}", used, SIZES)


@pytest.mark.parametrize(
    ("amounts", "condition"),
    [
        ("w = Constant <value_ints=[0, 0, 0, 0, 0, 0, 3, 0]> ()", "x.shape[2] > 3"),
        ("c = Shape <start=3, end=4> (x)  w = Concat <axis=0> (z, c, y0)", "x.shape[2] - x.shape[3] > 0"),
    ],
    ids=["a number", "computed"],
)
def test_no_more_is_reflected_than_there_is(amounts: str, condition: str, tmp_path: Path) -> None:
    constants = {"z": ints(0, 0, 0, 0, 0, 0), "y0": ints(0)} if "z" in amounts else {}
    relay_layout.compile(model_of(f'{amounts}  y = Pad <mode="reflect"> (x, w)', constants, 19)).save(
        tmp_path / "sizes.rla"
    )
    session = relay_layout.load(tmp_path / "sizes.rla")
    assert session.run({"x": np.zeros((1, 4, 6, 3), "float32")})["y"].shape == (1, 4, 9, 3)
    with pytest.raises(InputError) as error:
        session.run({"x": np.zeros((1, 4, 3, 3), "float32")})
    assert condition in str(error.value)


def test_reflecting_more_than_there_is_of_a_known_axis_is_refused() -> None:
    nodes = 'w = Constant <value_ints=[0, 4, 0, 0, 0, 0, 0, 0]> ()  y = Pad <mode="reflect"> (x, w)'
    with pytest.raises(ModelError) as error:
        relay_layout.compile(model_of(nodes, {}, 19))
    assert str(error.value).endswith(
        "(Pad) reflects 4 elements of an axis of [4], which has fewer behind its edge: pad less, or in mode "
        "'edge'"
    )


def test_amounts_that_are_computed_from_the_image_are_refused() -> None:
    nodes = "m = ReduceMax <keepdims=0> (x)  i = Cast <to=7> (m)  w = Expand (i, eight)  y = Pad (x, w)"
    with pytest.raises(ModelError) as error:
        relay_layout.compile(model_of(nodes, {"eight": ints(8)}, 19))
    assert "(Pad) needs a constant for its input 1, not a tensor computed at run time" in str(error.value)
