"""Maxima and averages over windows, over the whole image, and down to a given size."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm import relax, te, topi

from relay_layout.errors import ModelError
from relay_layout.ir import Expression, Extent, is_static, operator_name, shape_of
from relay_layout.layout import Layout
from relay_layout.relay.operators.attributes import Attributes
from relay_layout.relay.operators.direct import named_attributes, plain, relax_function
from relay_layout.relay.operators.operator import Build, Export, Operator, Scope, extents
from relay_layout.relay.operators.windows import (
    SPATIAL,
    Window,
    full_padding,
    logical_extents,
    numbers,
    parsed_layout,
    per_axis,
    positive,
    python_padding,
    windows,
)


def _layout(text: str, rank: int) -> Layout:
    return parsed_layout("layout", text, f"NC{SPATIAL[rank]}", "NC")


def _sizes(layout: Layout, rank: int, data: Expression) -> list[Extent]:
    """The spatial extents of the data."""
    sizes = logical_extents(layout, extents(data), "the data")
    return [sizes[axis] for axis in SPATIAL[rank]]


def _pool(rank: int, kind: str) -> Operator:
    name = f"nn.{kind}_pool{rank}d"
    averages = kind == "avg"
    ones, zeros = (1,) * rank, (0,) * rank

    def prepare(**given: Any) -> tuple[list[Any], dict[str, Any]]:
        data = given.pop("data")
        for attribute in ("pool_size", "strides", "dilation"):
            given[attribute] = per_axis(given[attribute], rank)
        return [data], given | {"padding": python_padding(given["padding"], rank)}

    return Operator(
        name,
        ("data",),
        build_pool(rank, averages),
        f"{kind.capitalize()}Pool{rank}DAttrs",
        signature=(
            f"data, pool_size={ones}, strides={ones}, dilation={ones}, padding={zeros}, "
            f"layout='NC{SPATIAL[rank]}', out_layout='', ceil_mode=False"
            + (", count_include_pad=False" if averages else "")
        ),
        prepare=prepare,
        relax_names=(name,),
        export=_export_pool(rank, averages),
    )


def build_pool(rank: int, averages: bool) -> Build:
    """How a window's average, or its maximum, is taken over ``rank`` axes."""
    function = relax_function(f"nn.{'avg' if averages else 'max'}_pool{rank}d")

    def build(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
        data = operands[0]
        layout = _layout(attributes.layout, rank)
        sizes = _sizes(layout, rank, data)
        kernel = positive("pool_size", attributes.pool_size, rank)
        strides = positive("strides", attributes.strides, rank)
        dilation = positive("dilation", attributes.dilation, rank)
        padding = full_padding(attributes.padding, rank)
        moved = windows(kernel, strides, dilation, padding)
        for axis, window, size in zip(SPATIAL[rank], moved, sizes, strict=True):
            window.check_fits(axis, size)
        keywords: dict[str, Any] = {"ceil_mode": attributes.ceil_mode}
        if averages:
            keywords["count_include_pad"] = attributes.count_include_pad
        if attributes.ceil_mode and _starts_outside(moved, sizes):
            keywords["ceil_mode"] = False
            if averages and attributes.count_include_pad:
                # With its padding made part of the image, all that it averages is inside.
                data = relax.op.nn.pad(data, _pad_width(layout, padding, rank))
                keywords["count_include_pad"] = False
                sizes = [size + w.before + w.after for w, size in zip(moved, sizes, strict=True)]
                moved = windows(kernel, strides, dilation, (0,) * (2 * rank))
            after = [w.after_for(w.ceil_count(size), size) for w, size in zip(moved, sizes, strict=True)]
            padding = (*(window.before for window in moved), *after)
        return function(
            data,
            pool_size=kernel,
            strides=strides,
            dilation=dilation,
            padding=padding,
            layout=str(layout),
            **keywords,
        )

    return build


def _starts_outside(moved: Sequence[Window], sizes: Sequence[Extent]) -> bool:
    """Whether a window that rounding up adds starts behind the tensor, along some axis."""
    outside = any(window.starts_outside(size) for window, size in zip(moved, sizes, strict=True))
    if outside and not is_static(sizes):
        raise ModelError("ceil_mode with windows behind the data needs known extents")
    return outside


def _pad_width(layout: Layout, padding: Sequence[int], rank: int) -> list[int]:
    width = []
    for axis in layout.axes:
        place = SPATIAL[rank].find(axis.name)
        width += [padding[place], padding[place + rank]] if place >= 0 else [0, 0]
    return width


def _export_pool(rank: int, averages: bool) -> Export:
    def export(call: relax.Call) -> Mapping[str, Any] | None:
        if not _keeps_layout(call.attrs):
            return None
        names = ["pool_size", "strides", "dilation", "padding", "layout", "ceil_mode"]
        names += ["count_include_pad"] if averages else []
        values = named_attributes(call, *names)
        return values if not values["ceil_mode"] else _without_late_windows(values, call, rank)

    return export


def _without_late_windows(values: dict[str, Any], call: relax.Call, rank: int) -> dict[str, Any] | None:
    """Attributes for a call that rounds up in Relax, where windows that start too late are left out."""
    moved = windows(values["pool_size"], values["strides"], values["dilation"], values["padding"])
    try:
        sizes = _sizes(_layout(values["layout"], rank), rank, call.args[0])
        if not _starts_outside(moved, sizes):
            return values
    except (ModelError, ValueError):
        return None
    after = []
    for window, size in zip(moved, sizes, strict=True):
        number = window.ceil_count(size) - window.starts_outside(size)
        if number > window.count(size) and values.get("count_include_pad"):
            return None
        after.append(window.after_for(number, size))
    values["padding"] = (*values["padding"][:rank], *after)
    return values | {"ceil_mode": False}


def _keeps_layout(attributes: Any) -> bool:
    out_layout = plain(attributes.out_layout)
    return not out_layout or out_layout == plain(attributes.layout)


def _global(kind: str) -> Operator:
    def build(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
        data = operands[0]
        layout = _layout(attributes.layout, 2)
        for axis, size in zip("HW", _sizes(layout, 2, data), strict=True):
            if size == 0:
                raise ModelError(f"axis {axis} of the data has no elements")
        if kind == "avg":
            return relax.op.nn.adaptive_avg_pool2d(data, (1, 1), str(layout))
        places = [place for place, axis in enumerate(layout.axes) if axis.name in "HW"]
        return relax.op.max(data, places, keepdims=True)

    def averaged(call: relax.Call) -> Mapping[str, Any] | None:
        if plain(call.attrs.output_size) != (1, 1) or not _keeps_layout(call.attrs):
            return None
        return {"layout": plain(call.attrs.layout)}

    averages = kind == "avg"
    return Operator(
        f"nn.global_{kind}_pool2d",
        ("data",),
        build,
        "GlobalPool2DAttrs",
        signature="data, layout='NCHW', out_layout=''",
        relax_names=("nn.adaptive_avg_pool2d" if averages else "max",),
        export=averaged if averages else _export_global_maximum,
    )


def _export_global_maximum(call: relax.Call) -> Mapping[str, Any] | None:
    """The layout of images whose two dimensions a maximum keeps with one element each."""
    shape = shape_of(call.args[0])
    if shape is None or len(shape) != 4 or not call.attrs.keepdims or call.attrs.axis is None:
        return None
    axes = sorted(int(axis) % 4 for axis in call.attrs.axis)
    layouts = {(2, 3): "NCHW", (1, 2): "NHWC"}
    layout = layouts.get((axes[0], axes[-1])) if len(axes) == 2 else None
    return None if layout is None else {"layout": layout}


def _adaptive(rank: int, kind: str) -> Operator:
    name = f"nn.adaptive_{kind}_pool{rank}d"

    def export(call: relax.Call) -> Mapping[str, Any] | None:
        if operator_name(call) != name or not _keeps_layout(call.attrs):
            return None
        return {"output_size": plain(call.attrs.output_size) or (), "layout": plain(call.attrs.layout)}

    def prepare(**given: Any) -> tuple[list[Any], dict[str, Any]]:
        size = given.pop("output_size", None)
        data = given.pop("data")
        return [data], given if size is None else given | {"output_size": per_axis(size, 1)}

    average: dict[str, Any] = {"relax_names": (name,), "export": export}
    return Operator(
        name,
        ("data",),
        _build_adaptive(rank, kind),
        f"AdaptivePool{rank}DAttrs",
        signature=f"data, output_size=None, layout='NC{SPATIAL[rank]}', out_layout=''",
        prepare=prepare,
        **(average if kind == "avg" else {"carried": True}),
    )


def _build_adaptive(rank: int, kind: str) -> Build:
    compute: Callable[..., te.Tensor] = {
        1: topi.nn.adaptive_pool1d,
        2: topi.nn.adaptive_pool,
        3: topi.nn.adaptive_pool3d,
    }[rank]

    def build(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
        data = operands[0]
        layout = _layout(attributes.layout, rank)
        _sizes(layout, rank, data)
        wanted = numbers("output_size", attributes.output_size, sorted({0, 1, rank}), 1)
        if not wanted:
            # As large as the image: windows of one element. TVM fails at averages of them in one dimension.
            return data
        size = wanted * rank if len(wanted) == 1 else wanted
        if kind == "avg":
            return relax_function(f"nn.adaptive_avg_pool{rank}d")(data, size, str(layout))
        return scope.builder.call_te(
            lambda image: compute(image, size, "max", str(layout)),
            data,
            primfunc_name_hint=f"adaptive_max_pool{rank}d",
        )

    return build


ROWS = (
    *(_pool(rank, kind) for kind in ("max", "avg") for rank in (1, 2, 3)),
    _global("max"),
    _global("avg"),
    *(_adaptive(rank, kind) for kind in ("max", "avg") for rank in (1, 2, 3)),
)
