"""Workloads: derived facts, and the line of JSON that is the key of a record."""

import json
from dataclasses import replace

import pytest
from tvm import tirx

from topi_ext.workloads.convolution import (
    COLUMNS,
    PLANES,
    ROWS,
    ConvolutionWorkload,
    SpatialAxis,
    volume_workload,
)
from topi_ext.workloads.reading import convolution_from_json
from topi_ext.workloads.text import operator_of

BASE = ConvolutionWorkload(
    batch=1,
    in_channels=64,
    out_channels=128,
    in_height=56,
    in_width=55,
    kernel=(3, 3),
    strides=(2, 1),
    padding=(1, 0, 2, 1),
    dilation=(1, 2),
    groups=1,
    data_layout="NCHW16c",
    kernel_layout="OIHW16i16o",
    out_layout="NCHW16c",
    dtype="float32",
    out_dtype="float32",
)


def test_json_round_trip_is_one_sorted_line() -> None:
    text = BASE.to_json()
    assert convolution_from_json(text) == BASE
    assert "\n" not in text
    assert list(json.loads(text)) == sorted(json.loads(text))
    assert hash(convolution_from_json(text)) == hash(BASE)


def test_a_flag_is_written_where_it_is_set() -> None:
    fitting = replace(BASE, pairs_fit=True, spare_bits=2)
    assert "pairs_fit" not in BASE.to_json() and "spare_bits" not in BASE.to_json()
    assert json.loads(fitting.to_json())["pairs_fit"] is True
    assert convolution_from_json(fitting.to_json()) == fitting


def test_a_symbolic_batch_becomes_its_name() -> None:
    symbolic = replace(BASE, batch=tirx.Var("n", "int64"))
    assert convolution_from_json(symbolic.to_json()) == replace(BASE, batch="n")


def test_extents_of_the_result() -> None:
    assert (BASE.out_height, BASE.out_width) == ((56 + 3 - 3) // 2 + 1, 55 + 1 - 5 + 1)
    pixels = BASE.out_height * BASE.out_width
    assert BASE.macs == pixels * 128 * 64 * 9


@pytest.mark.parametrize(
    ("changes", "depthwise", "pointwise"),
    [
        ({}, False, False),
        ({"groups": 64}, True, False),
        ({"groups": 64, "out_channels": 64}, True, False),
        ({"groups": 2}, False, False),
        ({"in_channels": 1}, False, False),
        ({"kernel": (1, 1), "strides": (1, 1), "padding": (0, 0, 0, 0)}, False, True),
        ({"kernel": (1, 1), "strides": (2, 1), "padding": (0, 0, 0, 0)}, False, False),
        ({"kernel": (1, 1), "strides": (1, 1), "padding": (0, 0, 0, 1)}, False, False),
    ],
)
def test_kinds(changes: dict[str, object], depthwise: bool, pointwise: bool) -> None:
    workload = replace(BASE, **changes)  # type: ignore[arg-type]
    assert (workload.is_depthwise, workload.is_pointwise) == (depthwise, pointwise)


def test_operator_of_a_text() -> None:
    assert operator_of(BASE.to_json()) == "conv2d"


def test_axes_of_a_convolution() -> None:
    assert BASE.along(ROWS) == SpatialAxis(56, 3, 2, pad_before=1, pad_after=2, dilation=1)
    assert BASE.along(COLUMNS) == SpatialAxis(55, 3, 1, pad_before=0, pad_after=1, dilation=2)


def test_a_convolution_over_two_axes_has_one_plane() -> None:
    assert BASE.along(PLANES) == SpatialAxis(1, 1, 1, 0, 0, 1)
    assert (BASE.in_depth, BASE.kernel_depth, BASE.out_depth) == (1, 1, 1)


def test_planes_of_a_volume_come_back_from_json() -> None:
    depth = SpatialAxis(9, 3, 2, pad_before=1, pad_after=0, dilation=2)
    layouts = {
        "data_layout": "NCDHW16c",
        "kernel_layout": "OIDHW16i16o",
        "out_layout": "NCDHW16c",
    }
    volume = convolution_from_json(volume_workload(replace(BASE, **layouts), depth).to_json())
    assert volume.along(PLANES) == depth
    assert (volume.in_depth, volume.kernel_depth, volume.out_depth) == (9, 3, 3)
