"""Relay's registries of layout callbacks, and the configuration of layout passes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from relay_layout.errors import LayoutError
from relay_layout.layout import Layout
from relay_layout.relay.entered import Entered
from relay_layout.relay.registries.registry import Callback, Registry

CONVERT = Registry("convert layout", ("attrs", "inputs", "tinfos", "desired_layouts"), LayoutError)
ALTER = Registry("alter layout", ("attrs", "inputs", "tinfos", "out_type"), LayoutError)
INFER = Registry("infer layout", ("attrs", "new_in_layouts", "old_in_layouts", "old_in_types"), LayoutError)


def register_convert_op_layout(op_name: str, convert_layout: Callback | None = None, level: int = 10) -> Any:
    """Register ``f(attrs, inputs, tinfos, desired_layouts)`` for an operator; a decorator without ``f``.

    ``attrs`` are the call's attributes, complete (``dict(attrs)`` is a copy to change). ``inputs`` are
    expressions to build the new call from; ``tinfos`` the types of the tensors as they were, tuples
    flattened; ``desired_layouts`` the entry of ConvertLayout's dictionary. The result is a call with as many
    arguments, or None to leave the operator alone. The highest level holds; LayoutError for an unknown
    operator or a second callback of the same level.
    """
    return CONVERT.register(op_name, convert_layout, level)


def register_alter_op_layout(op_name: str, alter_layout: Callback | None = None, level: int = 10) -> Any:
    """Register ``f(attrs, inputs, tinfos, out_type)`` for AlterOpLayout; a decorator without ``f``.

    As :func:`register_convert_op_layout`, but asked for every call of the operator.
    """
    return ALTER.register(op_name, alter_layout, level)


def register_infer_correct_layout(
    op_name: str, infer_correct_layout: Callback | None = None, level: int = 10
) -> Any:
    """Register ``f(attrs, new_in_layouts, old_in_layouts, old_in_types)``, which tells what layouts an
    operator has; a decorator without ``f``.

    Called with None for ``new_in_layouts`` it tells the layouts of the call as it is; called with layouts,
    what the operator needs when its producers give those. It returns :class:`InferCorrectLayoutOutput`.
    """
    return INFER.register(op_name, infer_correct_layout, level)


def reset(op_name: str) -> None:
    """Forget every callback for an operator."""
    for registry in (CONVERT, ALTER, INFER):
        registry.reset(op_name)


class InferCorrectLayoutOutput:
    """Layouts that an operator needs and gives, and the attributes that go with them.

    Layouts are texts such as ``"NHWC"`` or :class:`relay_layout.Layout`; an empty text, ``"__undef__"`` or
    None stands for the layout that the operand had before. ``new_attrs`` is None where nothing changes.
    """

    def __init__(
        self,
        input_layouts: Sequence[str | Layout | None],
        output_layouts: Sequence[str | Layout | None],
        new_attrs: Mapping[str, Any] | None = None,
    ) -> None:
        self.input_layouts = tuple(_text(layout) for layout in input_layouts)
        self.output_layouts = tuple(_text(layout) for layout in output_layouts)
        self.new_attrs = new_attrs


def _text(layout: str | Layout | None) -> str:
    # TVM's own layouts have their text as a name.
    text = "" if layout is None else str(getattr(layout, "name", layout))
    return "" if text in ("__undef__", "undef") else text


class LayoutConfig(Entered):
    """``with LayoutConfig(skip_layers=[0]):`` leaves out convolutions by their position.

    Positions count nn.conv2d and nn.deformable_conv2d from 0 in the order in which they run; those beyond a
    module's last one leave out nothing. Configurations nest, the innermost holds; each thread has its own.
    """

    def __init__(self, skip_layers: Sequence[int] | None = None) -> None:
        wanted = "skip_layers: a list of positions from 0 on is needed"
        if isinstance(skip_layers, int | str):
            raise LayoutError(f"{wanted}, not {skip_layers!r}")
        positions = list(skip_layers or ())
        for position in positions:
            if not isinstance(position, int | np.integer) or position < 0:
                raise LayoutError(f"{wanted}, and {position!r} is none")
        self.skip_layers = frozenset(map(int, positions))
