"""Scales and sizes that exporters compute in floating point, for images of any size."""

from pathlib import Path

import numpy as np
import pytest

import relay_layout
from relay_layout.errors import ModelError
from tests.relay_layout.frontend.onnx.test_sizes import check, ints, model_of

IMAGES = [(1, 4, 6, 5), (2, 4, 3, 8)]
SIZES = """
    shape = Shape(x)  h = Gather(shape, second)  w = Gather(shape, third)
    real_h = Cast <to=1> (h)  more_h = Mul(factor, real_h)  again_h = Cast <to=1> (more_h)
    real_w = Cast <to=1> (w)  more_w = Mul(real_w, factor)  rows = Floor(again_h)  columns = Floor(more_w)
    r = Unsqueeze <axes=[0]> (rows)  c = Unsqueeze <axes=[0]> (columns)  inner = Concat <axis=0> (r, c)
"""
SCALES = f"""
    {SIZES} last = Slice <axes=[0], starts=[2], ends=[4]> (shape)  real = Cast <to=1> (last)
    shares = Div(inner, real)  scales = Concat <axis=0> (ones, shares)
"""
CONSTANTS = {"second": ints(2)[0], "third": ints(3)[0], "ones": np.ones(2, "float32")}


def test_upsample_by_a_floor_over_an_extent(tmp_path: Path) -> None:
    constants = CONSTANTS | {"factor": np.float32(1.5)}
    check(tmp_path, f"{SCALES} y = Upsample (x, scales)", constants, IMAGES, opset=9)


def test_the_first_resize_shrinks_by_sizes(tmp_path: Path) -> None:
    nodes = """
        shape = Shape(x)  last = Slice(shape, two, four)  real = Cast <to=1> (last)  less = Mul(real, half)
        whole = Floor(less)  shares = Div(whole, real)  scales = Concat <axis=0> (ones, shares)
        y = Resize (x, scales)
    """
    constants = {"two": ints(2), "four": ints(4), "half": np.float32(0.5), "ones": np.ones(2, "float32")}
    check(tmp_path, nodes, constants, IMAGES, opset=10)


def test_sizes_that_are_joined_in_floats(tmp_path: Path) -> None:
    nodes = f"""
        {SIZES} whole = Cast <to=7> (inner)  first = Slice(shape, zero, two)
        sizes = Concat <axis=0> (first, whole)
        y = Resize <coordinate_transformation_mode="half_pixel", mode="linear"> (x, nothing, nothing, sizes)
    """
    constants = CONSTANTS | {"factor": np.float32(1.5), "zero": ints(0), "two": ints(2)}
    check(tmp_path, nodes, constants | {"nothing": np.zeros(0, "float32")}, IMAGES, opset=11)


def test_scales_of_a_later_resize(tmp_path: Path) -> None:
    nodes = """
        shape = Shape(x)  last = Slice(shape, two, four)  real = Cast <to=1> (last)  more = Mul(real, factor)
        whole = Floor(more)  shares = Div(whole, real)  scales = Concat <axis=0> (ones, shares)
        y = Resize <mode="linear"> (x, , scales)
    """
    constants = {"two": ints(2), "four": ints(4), "factor": np.float32(1.5), "ones": np.ones(2, "float32")}
    check(tmp_path, nodes, constants, IMAGES, opset=13)


def test_scales_beside_another_extent_are_refused() -> None:
    nodes = f"{SCALES} t = Transpose <perm=[0, 1, 3, 2]> (x)  y = Upsample (t, scales)"
    constants = CONSTANTS | {"factor": np.float32(2)}
    with pytest.raises(ModelError, match="needs a constant for its input 1"):
        relay_layout.from_onnx(model_of(nodes, constants, 9))


def test_images_that_may_shrink_or_grow_are_refused() -> None:
    nodes = """
        shape = Shape(x)  last = Slice(shape, two, four)  real = Cast <to=1> (last)
        shares = Div(wanted, real)  scales = Concat <axis=0> (ones, shares)  y = Resize (x, scales)
    """
    constants = {"wanted": np.array([5, 5], "float32"), "ones": np.ones(2, "float32")}
    constants |= {"two": ints(2), "four": ints(4)}
    with pytest.raises(ModelError, match="may shrink some images and enlarge others"):
        relay_layout.from_onnx(model_of(nodes, constants, 10))


@pytest.mark.parametrize(
    "positions",
    [
        "limit = Cast <to=1> (w)  places = Range(begin, limit, step)",
        "real = Cast <to=1> (w)  limit = Mul(real, step)  places = Range(begin, limit, step)",
        "limit = Cast <to=11> (w)  places = Range(long_begin, limit, long_step)",
    ],
    ids=["length", "product", "doubles"],
)
def test_positions_in_floats_are_as_many_as_the_length(positions: str, tmp_path: Path) -> None:
    nodes = f"""
        shape = Shape(x)  w = Gather(shape, third)  {positions}  real_places = Cast <to=1> (places)
        waves = Sin(real_places)  y = Mul(x, waves)
    """
    numbers = {"begin": 0.0, "step": 1.0}
    constants = {"third": ints(3)[0], **{name: np.float32(number) for name, number in numbers.items()}}
    constants |= {f"long_{name}": np.float64(number) for name, number in numbers.items()}
    check(tmp_path, nodes, constants, IMAGES, opset=13)


def test_centres_of_pixels(tmp_path: Path) -> None:
    nodes = """
        shape = Shape(x)  w = Gather(shape, third)  real = Cast <to=1> (w)
        places = Range(begin, real, step)  y = Add (x, places)
    """
    check(tmp_path, nodes, {"third": ints(3)[0], "begin": np.float32(0.5), "step": np.float32(1)}, IMAGES)


def test_windows_that_are_counted_in_floats(tmp_path: Path) -> None:
    nodes = """
        shape = Shape(x)  w = Gather(shape, third)  less = Sub(w, one)  real = Cast <to=1> (less)
        steps = Div(real, stride)  windows = Add(steps, single)  whole = Ceil(windows)
        count = Cast <to=7> (whole)  sized = Unsqueeze(count, zero)  end = Mul(sized, two)
        extent = Unsqueeze(w, zero)
        added = Sub(end, extent)  pads = Concat <axis=0> (before, added)  y = Pad (x, pads)
    """
    constants = {
        "third": ints(3)[0],
        "one": ints(1)[0],
        "stride": np.float32(2),
        "single": np.float32(1),
        "zero": ints(0),
        "two": ints(2),
        "before": ints(0, 0, 0, 0, 0, 0, 0),
    }
    check(tmp_path, nodes, constants, IMAGES)
