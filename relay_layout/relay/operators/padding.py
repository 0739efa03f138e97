"""Operators of Relay that pad by numbers of elements that are known: nn.pad and nn.mirror_pad."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax, topi

from relay_layout.errors import ModelError
from relay_layout.ir import Constant, Expression, constant_array, dtype_of
from relay_layout.relay.operators.attributes import Attributes
from relay_layout.relay.operators.direct import plain
from relay_layout.relay.operators.operator import Exported, Operator, Scope, extents, scalar_like
from relay_layout.relay.operators.windows import MOST

_MODES = {"constant": "constant", "edge": "replicate", "reflect": "reflect"}
"""Relay's names of modes to those of Relax."""

_RELAY_MODES = {relax_name: name for name, relax_name in _MODES.items()}


def _widths(value: Any, data: Expression, least: int) -> list[int]:
    """Pairs of before and after, one for each axis, as one list."""
    rank = len(extents(data))
    rows = value if isinstance(value, tuple | list) else ()
    if len(rows) != rank or not all(isinstance(row, tuple | list) and len(row) == 2 for row in rows):
        raise ModelError(f"pad_width has no pair of numbers for each of {rank} dimensions")
    widths = [width for row in rows for width in row]
    if not all(isinstance(width, int) and least <= width <= MOST for width in widths):
        raise ModelError(f"pad_width is {list(rows)}; its numbers are from {least} to {MOST}")
    return [int(width) for width in widths]


def _check_mirror(data: Expression, widths: Sequence[int], mode: str, edge: int) -> None:
    """ModelError where a mirror image would be longer than the tensor; ``edge`` is 1 if it lacks the edge."""
    for axis, extent in enumerate(extents(data)):
        width = max(widths[2 * axis : 2 * axis + 2])
        if isinstance(extent, int) and width > max(extent - edge, 0):
            raise ModelError(
                f"pad_width is {width} on axis {axis}, but {mode} of {extent} elements gives "
                f"{max(extent - edge, 0)} at most"
            )


def _pad(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    data, value = operands
    mode = attributes.pad_mode
    if mode not in _MODES:
        raise ModelError(f"pad_mode is '{mode}', not one of {', '.join(_MODES)}")
    # Negative widths take elements away; where nothing is invented they mean the same in every mode.
    widths = _widths(attributes.pad_width, data, -MOST if mode == "constant" else 0)
    if mode == "reflect":
        _check_mirror(data, widths, mode, 1)
    if mode == "edge" and any(
        extent == 0 and max(widths[2 * axis : 2 * axis + 2]) for axis, extent in enumerate(extents(data))
    ):
        raise ModelError("there is no edge element to repeat")
    if mode != "constant":
        return relax.op.nn.pad(data, widths, _MODES[mode])
    if not all(extent == 1 for extent in extents(value)):
        raise ModelError(f"pad_value has {len(extents(value))} dimensions; it is one number")
    if isinstance(value, Constant):
        number = constant_array(value).reshape(-1)[0].astype(dtype_of(data)).item()
        # Relax's attribute is a float64.
        if not isinstance(number, int) or int(float(number)) == number:
            return relax.op.nn.pad(data, widths, mode, number)
    return _padded_with(scope, data, widths, value)


def _padded_with(scope: Scope, data: Expression, widths: list[int], value: Expression) -> Expression:
    """Padding by a number that is known only when it runs: chosen by what a mask of ones becomes."""
    if dtype_of(value) != dtype_of(data):
        value = scope.emit(relax.op.astype(value, dtype_of(data)))
    if extents(value):
        value = relax.op.reshape(value, [])
    mask = scope.emit(relax.op.nn.pad(relax.op.ones_like(data), widths))
    inside = relax.op.not_equal(mask, scalar_like(0, data))
    return relax.op.where(inside, relax.op.nn.pad(data, widths), value)


def _export_pad(call: relax.Call) -> Exported | None:
    mode = _RELAY_MODES.get(str(call.attrs.pad_mode))
    if mode is None:
        return None
    widths = plain(call.attrs.pad_width)
    value = np.array(plain(call.attrs.pad_value) or 0).astype(dtype_of(call.args[0]))
    pairs = tuple(zip(widths[::2], widths[1::2], strict=True))
    return Exported([call.args[0], value], {"pad_width": pairs, "pad_mode": mode})


def _mirror_pad(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    data = operands[0]
    mode = attributes.mode
    if mode not in ("SYMMETRIC", "REFLECT"):
        raise ModelError(f"mode is '{mode}', not SYMMETRIC or REFLECT")
    widths = _widths(attributes.pad_width, data, 0)
    _check_mirror(data, widths, mode, 1 if mode == "REFLECT" else 0)
    return scope.builder.call_te(
        lambda tensor: topi.nn.mirror_pad(tensor, widths[::2], widths[1::2], mode),
        data,
        primfunc_name_hint="mirror_pad",
    )


def _prepare_pad(**given: Any) -> tuple[list[Any], Mapping[str, Any]]:
    """A number is of Relay's usual dtype for it; the importer makes it one of the data's."""
    width = tuple(tuple(row) for row in given["pad_width"])
    return [given["data"], given["pad_value"]], {"pad_width": width, "pad_mode": given["pad_mode"]}


ROWS = (
    Operator(
        "nn.pad",
        ("data", "pad_value"),
        _pad,
        "PadAttrs",
        signature="data, pad_width, pad_value=0, pad_mode='constant'",
        prepare=_prepare_pad,
        relax_names=("nn.pad",),
        export=_export_pad,
    ),
    Operator(
        "nn.mirror_pad",
        ("data",),
        _mirror_pad,
        "MirrorPadAttrs",
        signature="data, pad_width, mode='SYMMETRIC'",
        carried=True,
    ),
)
