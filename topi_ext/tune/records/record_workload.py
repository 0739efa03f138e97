"""The workloads of records: what was written down is checked field by field."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, NoReturn

from topi_ext.cuda.multiplication import MULTIPLICATIONS
from topi_ext.cuda.workload import DepthwiseConvolution, nhwc_class
from topi_ext.dtypes import DTYPE_BYTES
from topi_ext.errors import RelayLayoutError
from topi_ext.family import Workload
from topi_ext.workloads.convolution import VolumeWorkload
from topi_ext.workloads.reading import workload_class
from topi_ext.workloads.separable import SeparableWorkload, separable
from topi_ext.workloads.text import unset_fields, with_tuples
from topi_ext.workloads.transform import TransformWorkload

_LARGEST_EXTENT = 1 << 31
_LAYOUT = re.compile(r"(?=.*[A-Z])(?:[A-Z]|[1-9]\d{0,8}[a-z])+")
_AXES = re.compile(r"[A-Z]+")
_PAIRS = {"kernel": 2, "strides": 2, "padding": 4, "dilation": 2}
_LEAST = {"strides": 1, "kernel": 1, "padding": 0, "dilation": 1}
_EXTENTS = ("batch", "in_channels", "out_channels", "in_height", "in_width", "groups")
_LAYOUTS = ("data_layout", "kernel_layout", "out_layout")
_LEAST_OF_DEPTH = (1, 1, 1, 0, 0, 1)
"""The least value of each field of :attr:`topi_ext.workloads.convolution.VolumeWorkload.depth`."""
_LEAST_BEFORE = (1,) * 6 + (0,) * 4 + (1,) * 2
"""The least value of each field of :attr:`topi_ext.workloads.separable.SeparableWorkload.before`."""
_MULTIPLIED = (*MULTIPLICATIONS, "float32")


def kernel_workload(found: Any) -> Workload:
    """What a kernel computes; RelayLayoutError with the first thing that is wrong with it."""
    if not isinstance(found, dict):
        refuse("workload: expected an object")
    on_gpu = nhwc_class(found.get("operator"))
    kind: type[Workload] = on_gpu or workload_class(found)
    _check_optional(found, kind)
    _check_numbers(found, kind)
    if on_gpu:
        if found["dtype"] not in _MULTIPLIED:
            refuse(f"workload: dtype: expected one of {', '.join(_MULTIPLIED)}")
    else:
        _check_storage(found)
    if not isinstance(found["operator"], str):
        refuse("workload: operator: expected a string")
    workload = kind(**with_tuples(found))
    _check_fit(workload)
    return workload


def _check_optional(found: Mapping[str, Any], kind: type[Workload]) -> None:
    """The names of fields, and those that may be left out."""
    unset = unset_fields(kind)
    check_names("workload", found, {item.name for item in fields(kind)} - (set(unset) - set(found)))
    for name in sorted(set(unset) & set(found)):
        if unset[name] is False and found[name] is not True:
            refuse(f"workload: {name}: expected true, or no such field")
        if unset[name] is not False and not is_whole(found[name], 1):
            refuse(f"workload: {name}: expected a whole number of at least 1, or no such field")


def _check_numbers(found: Mapping[str, Any], kind: type[Workload]) -> None:
    for name in _EXTENTS:
        if not is_whole(found[name], 1):
            refuse(f"workload: {name}: expected a whole number of at least 1")
    for name, count in _PAIRS.items():
        if not _are_whole(found[name], [_LEAST[name]] * count):
            refuse(f"workload: {name}: expected {count} whole numbers of at least {_LEAST[name]}")
    if kind is SeparableWorkload and not _are_whole(found["before"], _LEAST_BEFORE):
        refuse("workload: before: expected 12 whole numbers: image, kernel, strides, padding, dilation")
    if kind is VolumeWorkload and not _are_whole(found["depth"], _LEAST_OF_DEPTH):
        refuse(
            "workload: depth: expected extent, taps, stride, padding in front and behind, and dilation, as "
            "whole numbers"
        )


def _check_storage(found: Mapping[str, Any]) -> None:
    """Layouts and data types of a processor's kernel."""
    for name in _LAYOUTS:
        if not isinstance(found[name], str) or not _LAYOUT.fullmatch(found[name]):
            refuse(f"workload: {name}: expected a layout such as NCHW16c")
    for name in ("dtype", "out_dtype"):
        if not isinstance(found[name], str) or found[name] not in DTYPE_BYTES:
            refuse(f"workload: {name}: expected a data type such as float32")


def _check_fit(workload: Workload) -> None:
    """What is due of several fields together."""
    extents = [workload.out_height, workload.out_width]
    if isinstance(workload, VolumeWorkload):
        extents.append(workload.out_depth)
    if min(extents) < 1:
        refuse("workload: the kernel is larger than the image")
    if workload.in_channels % workload.groups or workload.out_channels % workload.groups:
        refuse(f"workload: {workload.groups} groups do not divide the channels")
    if isinstance(workload, DepthwiseConvolution) and workload.groups != workload.in_channels:
        refuse(f"workload: {workload.groups} groups of {workload.in_channels} channels are not depthwise")
    if (
        isinstance(workload, SeparableWorkload)
        and separable(workload.depthwise, workload.pointwise) != workload
    ):
        refuse("workload: the depthwise convolution and the pointwise one do not fit together")


def transform_workload(found: Mapping[str, Any]) -> TransformWorkload:
    """What a layout transform moves; RelayLayoutError with the first thing that is wrong with it."""
    check_names("workload", found, {item.name for item in fields(TransformWorkload)})
    axes, shape = found["axes"], found["shape"]
    if not isinstance(axes, str) or not _AXES.fullmatch(axes) or len(set(axes)) != len(axes):
        refuse("workload: axes: expected different capital letters such as NCHW")
    if not isinstance(shape, list) or len(shape) != len(axes) or not all(is_whole(one, 1) for one in shape):
        refuse(f"workload: shape: expected {len(axes)} whole numbers of at least 1")
    for name in ("source_layout", "target_layout"):
        layout = found[name]
        fits = isinstance(layout, str) and _LAYOUT.fullmatch(layout)
        if not fits or sorted(filter(str.isupper, layout)) != sorted(axes):
            refuse(f"workload: {name}: expected a layout of the axes {axes}")
    if not isinstance(found["dtype"], str) or not found["dtype"]:
        refuse("workload: dtype: expected a data type such as float32")
    return TransformWorkload(**{**found, "shape": tuple(shape)})


def check_names(what: str, found: Mapping[str, Any], expected: set[str]) -> None:
    """RelayLayoutError unless ``found`` has the expected fields and no others; ``what`` is its name."""
    missing, unknown = sorted(expected - set(found)), sorted(set(found) - expected)
    if missing:
        refuse(f"{what} without field '{missing[0]}'")
    if unknown:
        refuse(f"{what} with unknown field {json.dumps(unknown[0])[:80]}")


def is_whole(value: Any, least: int) -> bool:
    """Is it a whole number of at least ``least``, of a size that a tensor can have?"""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < _LARGEST_EXTENT


def _are_whole(values: Any, least: Sequence[int]) -> bool:
    return (
        isinstance(values, list)
        and len(values) == len(least)
        and all(is_whole(value, lowest) for value, lowest in zip(values, least, strict=True))
    )


def refuse(reason: str) -> NoReturn:
    """Raises RelayLayoutError."""
    raise RelayLayoutError(reason)
