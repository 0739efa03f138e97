"""Padding operators taken into the convolution or pooling that follows."""

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from relay_layout.ir import Expression, dtype_of, operator_name, rebuild_functions, with_attributes
from relay_layout.layout import Layout


def fold_explicit_padding(module: tvm.IRModule) -> tvm.IRModule:
    """``nn.pad`` of the image dimensions alone, with the value that the next operator pads with itself.

    That is zero for convolutions, the least value for max pooling; for average pooling zero where padded
    pixels count.
    """
    module = relax.transform.Normalize()(module)
    module = rebuild_functions(module, lambda function: _Folder().visit_expr(function))
    return relax.transform.DeadCodeElimination()(module)


_LAYOUT = {
    "nn.conv1d": "data_layout",
    "nn.conv2d": "data_layout",
    "nn.conv3d": "data_layout",
    **{f"nn.{kind}_pool{rank}d": "layout" for kind in ("avg", "max") for rank in (1, 2, 3)},
}


@mutator
class _Folder(PyExprMutator):
    def visit_call_(self, call: relax.Call) -> Expression:
        """A convolution or pooling with the padding before it; other calls only get their new arguments."""
        call = super().visit_call_(call)
        name = operator_name(call)
        if name not in _LAYOUT or not isinstance(call.args[0], relax.Var):
            return call
        pad = self.lookup_binding(call.args[0])
        if pad is None or operator_name(pad) != "nn.pad" or str(pad.attrs.pad_mode) != "constant":
            return call
        attributes = call.attrs
        layout = Layout.parse(str(getattr(attributes, _LAYOUT[name])))
        widths = _spatial_widths(pad, layout)
        if widths is None or not _pads_alike(name, call, pad):
            return call
        present = [int(amount) for amount in attributes.padding]
        averages = name.startswith("nn.avg_pool")
        if averages and any(present) and not bool(attributes.count_include_pad):
            return call
        changed: dict[str, object] = {
            "padding": [old + new for old, new in zip(present, widths, strict=True)]
        }
        if averages:
            changed["count_include_pad"] = True
        return with_attributes(call, [pad.args[0], *call.args[1:]], **changed)


def _spatial_widths(pad: relax.Call, layout: Layout) -> list[int] | None:
    """What is added before each image dimension, then after each; None if others are padded too."""
    widths = [int(amount) for amount in pad.attrs.pad_width]
    if len(widths) != 2 * len(layout.axes) or min(widths, default=0) < 0:
        return None
    pairs = list(zip(widths[0::2], widths[1::2], strict=True))
    before, after = [], []
    for axis, (low, high) in zip(layout.axes, pairs, strict=True):
        if axis.name in "DHW" and axis.factor is None:
            before.append(low)
            after.append(high)
        elif low or high:
            return None
    return before + after


def _pads_alike(name: str, call: relax.Call, pad: relax.Call) -> bool:
    """Whether a convolution or pooling would pad with the same value as the padding operator."""
    value = float(pad.attrs.pad_value)
    if "_pool" not in name:
        return value == 0.0
    if bool(call.attrs.ceil_mode):
        return False
    return value == 0.0 if name.startswith("nn.avg_pool") else value <= _least(dtype_of(call.args[0]))


def _least(dtype: str) -> float:
    return float(tvm.tirx.min_value(dtype).value)
