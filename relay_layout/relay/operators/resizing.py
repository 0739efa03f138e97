"""Resizing of images over one to three spatial axes, and the upsampling of relay.nn, which is one."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax, topi

from relay_layout.errors import ModelError
from relay_layout.ir import Expression, Extent, dtype_of, is_static
from relay_layout.relay.operators.attributes import Attributes
from relay_layout.relay.operators.direct import named_attributes, plain, relax_function
from relay_layout.relay.operators.operator import Exported, Operator, Scope, extents, numbers_of, rank_of
from relay_layout.relay.operators.windows import SPATIAL, positive

_METHODS = ("nearest_neighbor", "linear", "cubic")
_MODES = (
    "half_pixel",
    "align_corners",
    "asymmetric",
    "pytorch_half_pixel",
    "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)
_ROUNDINGS = ("", "round", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
_HALVES_UP = "round_prefer_ceil"
_LAYOUTS = {
    1: re.compile(r"NCW([1-9]\d*c)?|NWC"),
    2: re.compile(r"NCHW([1-9]\d*c)?|NHWC"),
    3: re.compile(r"NCDHW([1-9]\d*c)?|NDHWC"),
}


def one_of(value: str, allowed: Sequence[str], name: str) -> str:
    """``value``; ModelError unless it is one of those allowed."""
    if value not in allowed:
        raise ModelError(f"{name} is '{value}'; it can be {', '.join(entry or 'empty' for entry in allowed)}")
    return value


def checked_layout(layout: str, dimensions: int, data: Expression) -> str:
    """The layout of an image; ModelError unless it fits the data and can be resized."""
    if not _LAYOUTS[dimensions].fullmatch(layout):
        raise ModelError(f"layout is '{layout}'; only channels first, last or in blocks can be computed")
    if len(re.findall(r"[A-Zc]", layout)) != rank_of(data):
        raise ModelError(f"the data has {rank_of(data)} dimensions, but the layout is '{layout}'")
    return layout


def _rounding(method: str, mode: str, rounding: str) -> str:
    """Relay rounds halves away from zero, Relax to the even neighbour; here no coordinate is negative."""
    if method != "nearest_neighbor":
        return rounding
    return _HALVES_UP if rounding == "round" or (not rounding and mode == "align_corners") else rounding


def resized(
    scope: Scope, data: Expression, dimensions: int, size: Sequence[Extent], attributes: Mapping[str, Any]
) -> Expression:
    """``image.resize2d`` or ``image.resize3d`` of Relax to a size, with complete attributes otherwise."""
    method = one_of(attributes["method"], _METHODS, "method")
    mode = one_of(attributes["coordinate_transformation_mode"], _MODES, "coordinate_transformation_mode")
    rounding = one_of(attributes["rounding_method"], _ROUNDINGS, "rounding_method")
    layout = checked_layout(attributes["layout"], dimensions, data)
    roi = attributes["roi"] or (0.0,) * (2 * dimensions)
    if len(roi) != 2 * dimensions:
        raise ModelError(f"roi is {list(roi)}; it needs {2 * dimensions} numbers")
    dtype = dtype_of(data)
    out_dtype = attributes["out_dtype"] or dtype
    # Relax gives the data's dtype whatever it is asked for, and computes in float32 within.
    if out_dtype != dtype and dtype != "float32":
        data = scope.emit(relax.op.astype(data, "float32"))
    resized = relax_function(f"image.resize{dimensions}d")(
        data,
        tuple(size),
        tuple(float(value) for value in roi),
        layout,
        method,
        mode,
        _rounding(method, mode, rounding),
        attributes["cubic_alpha"],
        int(attributes["cubic_exclude"]),
        attributes["extrapolation_value"],
    )
    return resized if out_dtype == dtype else relax.op.astype(resized, out_dtype)


def _resize(dimensions: int, layout: str) -> Operator:
    def build(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
        size = positive("size", attributes["size"], dimensions)
        return resized(scope, operands[0], dimensions, size, attributes)

    def export(call: relax.Call) -> Exported | None:
        values = named_attributes(
            call,
            "roi",
            "layout",
            "method",
            "coordinate_transformation_mode",
            "rounding_method",
            "cubic_alpha",
            "cubic_exclude",
            "extrapolation_value",
        )
        method, rounding = values["method"], values["rounding_method"]
        if _rounding(method, values["coordinate_transformation_mode"], rounding) != rounding:
            return None
        if method == "nearest_neighbor" and rounding == _HALVES_UP:
            values["rounding_method"] = "round"
        size = numbers_of(call.args[1])
        out_dtype = plain(call.attrs.out_dtype)
        if not size:
            return None
        if out_dtype not in (None, "", "void", dtype_of(call.args[0])):
            return None
        return Exported([call.args[0]], {**values, "size": size, "out_dtype": None})

    return Operator(
        f"image.resize{dimensions}d",
        ("data",),
        build,
        f"Resize{dimensions}DAttrs",
        signature=_resize_signature(layout),
        prepare=_prepare_resize(dimensions),
        relax_names=(f"image.resize{dimensions}d",),
        export=export,
    )


def _resize_signature(layout: str) -> str:
    return (
        f"data, size, roi=None, layout='{layout}', method='linear', "
        "coordinate_transformation_mode='half_pixel', rounding_method='', cubic_alpha=-0.5, "
        "cubic_exclude=0, extrapolation_value=0.0, out_dtype=None"
    )


RESIZE2D_SIGNATURE = _resize_signature("NCHW")


def _prepare_resize(dimensions: int) -> Callable[..., tuple[Sequence[Any], Mapping[str, Any]]]:
    def prepare(**arguments: Any) -> tuple[Sequence[Any], Mapping[str, Any]]:
        roi = arguments["roi"]
        arguments["roi"] = (
            tuple(float(value) for value in roi) if roi is not None else (0.0,) * 2 * dimensions
        )
        return [arguments.pop("data")], arguments

    return prepare


def _resize1d(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    method = one_of(attributes.method, _METHODS, "method")
    mode = one_of(attributes.coordinate_transformation_mode, _MODES, "coordinate_transformation_mode")
    rounding = one_of(attributes.rounding_method, _ROUNDINGS, "rounding_method")
    roi = attributes.roi or (0.0, 0.0)
    if len(roi) != 2:
        raise ModelError(f"roi is {list(roi)}; it needs 2 numbers")
    return scope.builder.call_te(
        topi.image.resize1d,
        operands[0],
        roi=[float(value) for value in roi],
        size=list(positive("size", attributes.size, 1)),
        layout=checked_layout(attributes.layout, 1, operands[0]),
        method=method,
        coordinate_transformation_mode=mode,
        rounding_method=_rounding(method, mode, rounding),
        bicubic_alpha=attributes.cubic_alpha,
        bicubic_exclude=attributes.cubic_exclude,
        extrapolation_value=attributes.extrapolation_value,
        out_dtype=attributes.out_dtype,
    )


_RESIZE_DEFAULTS = {
    "roi": None,
    "rounding_method": "",
    "cubic_alpha": -0.5,
    "cubic_exclude": 0,
    "extrapolation_value": 0.0,
    "out_dtype": None,
}


def _upsampling(dimensions: int) -> Any:
    """A resizing to rounded multiples of the extents; to whole ones of those that are not known."""

    def build(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
        layout = checked_layout(attributes.layout, dimensions, operands[0])
        shape = extents(operands[0])
        size: list[Extent] = []
        for axis in SPATIAL[dimensions]:
            extent, factor = shape[layout.index(axis)], attributes[f"scale_{axis.lower()}"]
            if not math.isfinite(factor) or not factor > 0:
                raise ModelError(f"scale_{axis.lower()} is {factor}; it must be positive")
            if isinstance(extent, int):
                size.append(int(np.rint(np.float32(extent) * np.float32(factor))))
            elif float(factor).is_integer():
                size.append(extent * int(factor))
            else:
                raise ModelError(f"scale_{axis.lower()} is {factor}; the extent {axis} must be known for it")
        if is_static(size):
            positive("size", tuple(size), dimensions)
        return upsampled(scope, operands[0], dimensions, size, attributes)

    return build


def upsampled(
    scope: Scope, data: Expression, dimensions: int, size: Sequence[Extent], attributes: Attributes
) -> Expression:
    """The resizing that an upsampling with these attributes is."""
    if dimensions == 2:
        mode = "align_corners" if attributes.align_corners else "asymmetric"
    else:
        mode = attributes.coordinate_transformation_mode
    resizing = {
        **_RESIZE_DEFAULTS,
        "layout": attributes.layout,
        "method": attributes.method.removeprefix("bi" if dimensions == 2 else "tri"),
        "coordinate_transformation_mode": mode,
    }
    return resized(scope, data, dimensions, size, resizing)


UPSAMPLING_SIGNATURE = (
    "data, scale_h=1, scale_w=1, layout='NCHW', method='nearest_neighbor', align_corners=False"
)

UPSAMPLING3D_SIGNATURE = (
    "data, scale_d=1, scale_h=1, scale_w=1, layout='NCDHW', method='nearest_neighbor', "
    "coordinate_transformation_mode='half_pixel'"
)


ROWS: tuple[Operator, ...] = (
    _resize(2, "NCHW"),
    _resize(3, "NCDHW"),
    Operator(
        "image.resize1d",
        ("data",),
        _resize1d,
        "Resize1DAttrs",
        signature=_resize_signature("NCW"),
        prepare=_prepare_resize(1),
        carried=True,
    ),
    Operator(
        "nn.upsampling",
        ("data",),
        _upsampling(2),
        "UpSamplingAttrs",
        signature=UPSAMPLING_SIGNATURE,
    ),
    Operator(
        "nn.upsampling3d",
        ("data",),
        _upsampling(3),
        "UpSampling3DAttrs",
        signature=UPSAMPLING3D_SIGNATURE,
    ),
)
