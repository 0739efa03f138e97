"""Sizes that a graph computes in floating point of those of its inputs, as detectors scale their images."""

from pathlib import Path

import numpy as np
import pytest

from tests.relay_layout.frontend.onnx.test_sizes import check, ints

IMAGES = [(1, 4, 9, 5), (2, 4, 7, 31)]
SCALED = """
    shape = Shape(x)  first = Slice(shape, zero, two)  last = Slice(shape, two, four)
    shortest = ReduceMin <keepdims=0> (last)  longest = ReduceMax <keepdims=0> (last)
    real_shortest = Cast <to=1> (shortest)  real_longest = Cast <to=1> (longest)
    a = Div(sixteen, real_shortest)  by_longest = Reciprocal(real_longest)  b = Mul(by_longest, forty)
    scale = Min(a, b)  real = Cast <to=1> (last)  scaled = Mul(real, scale)  whole = Floor(scaled)
    inner = Cast <to=7> (whole)  sizes = Concat <axis=0> (first, inner)
    image = Resize <coordinate_transformation_mode="half_pixel", mode="linear"> (x, , , sizes)
"""
CONSTANTS = {
    **{"zero": ints(0), "two": ints(2), "four": ints(4)},
    **{"sixteen": np.float32(16), "forty": np.float32(40)},
}


def test_the_shortest_side_is_scaled_to_a_length(tmp_path: Path) -> None:
    check(tmp_path, f"{SCALED} y = Relu(image)", CONSTANTS, IMAGES)


def test_scaled_images_are_padded_to_multiples(tmp_path: Path) -> None:
    nodes = f"""
        {SCALED} padded_from = Shape <start=2> (image)  real_sizes = Cast <to=1> (padded_from)
        blocks = Div(real_sizes, eight)  more = Ceil(blocks)  due = Mul(more, eight)
        whole_due = Cast <to=7> (due)  lacking = Sub(whole_due, padded_from)
        widths = Concat <axis=0> (none, lacking)  padded = Pad(image, widths)
        y = AveragePool <kernel_shape=[8, 8], strides=[8, 8]> (padded)
    """
    constants = CONSTANTS | {"eight": np.float32(8), "none": np.zeros(6, "int64")}
    check(tmp_path, nodes, constants, IMAGES)


def test_floats_of_data_are_no_sizes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    counted = []
    monkeypatch.setattr(
        "relay_layout.frontend.extents.counts.Counts.count", lambda *given: counted.append(given)
    )
    nodes = """
        shape = Shape <start=3> (x)  real = Cast <to=1> (shape)  most = ReduceMax <keepdims=0> (x)
        part = Mul(real, most)  whole = Cast <to=7> (part)  sum = Cast <to=1> (whole)  y = Add(x, sum)
    """
    check(tmp_path, nodes, {}, [(1, 4, 2, 3)])
    assert not counted
