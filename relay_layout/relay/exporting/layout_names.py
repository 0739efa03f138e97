"""Layouts of transforms by the names that the operators around them have for theirs.

Relax keeps of a transform which dimension goes where; Relay's text names both layouts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from typing import Any

from tvm import relax

from relay_layout.errors import LayoutError
from relay_layout.ir import Expression, ints, is_layout_change, operator_name, shape_of
from relay_layout.layout import Layout
from relay_layout.ops import is_elementwise
from relay_layout.relay.operators.layout_texts import layouts_of

Names = Mapping[relax.Var, tuple[str, str]]
"""The two layouts of each transform, by the variable that it is bound to."""

_ROUNDS = 4
"""How often names are carried on, through as many transforms behind one another."""


def named_transforms(bindings: Sequence[Any]) -> Names:
    """The layouts of the transforms among bindings in A-normal form.

    They are in the letters of the convolutions and poolings that read or write what is transformed, through
    elementwise operators and those that give tuples as well; in letters from A on where there are none.
    """
    calls = {one.var: one.value for one in bindings if isinstance(one.value, relax.Call)}
    found = {}
    for variable, call in calls.items():
        texts = _generic(call)
        if texts is not None:
            found[variable] = texts
    if not found:
        return found
    known: dict[relax.Var, str] = {}
    for variable, call in calls.items():
        _take(known, call, variable)
    entries = _entries(bindings, calls)
    for _ in range(_ROUNDS):
        before = len(known)
        for variable, value in [*entries, *reversed(entries)]:
            if isinstance(value, relax.Var):
                _share(known, [variable, value])
            elif variable in found:
                found[variable] = _renamed(known, found[variable], value.args[0], variable)
            elif is_elementwise(operator_name(value)) and isinstance(value.ty, relax.TensorType):
                _share(known, [variable, *value.args])
        if len(known) == before:
            break
    return found


def _entries(
    bindings: Sequence[Any], calls: Mapping[relax.Var, relax.Call]
) -> list[tuple[relax.Var, relax.Call | relax.Var]]:
    """The calls, and for each result that is taken out of a call's tuple the first operand of that call."""
    entries: list[tuple[relax.Var, relax.Call | relax.Var]] = []
    for one in bindings:
        value = one.value
        if isinstance(value, relax.TupleGetItem):
            source = calls.get(value.tuple_value)
            value = source.args[0] if source is not None and source.args else None
        if isinstance(value, relax.Call | relax.Var):
            entries.append((one.var, value))
    return entries


def _generic(call: relax.Call) -> tuple[str, str] | None:
    """The layouts of a transform in letters from A on; None for other calls."""
    name = operator_name(call)
    if name not in ("permute_dims", "layout_transform"):
        return None
    shape, result = shape_of(call.args[0]), shape_of(call)
    if shape is None or result is None:
        return None
    if name == "layout_transform":
        return layouts_of(call.attrs.index_map, shape, result)
    if not is_layout_change(call) or len(shape) > len(ascii_uppercase):
        return None
    letters = ascii_uppercase[: len(shape)]
    axes = range(len(shape))[::-1] if call.attrs.axes is None else ints(call.attrs.axes)
    return letters, "".join(letters[axis] for axis in axes)


def _take(known: dict[relax.Var, str], call: relax.Call, result: relax.Var) -> None:
    """The layouts that the attributes of a call name."""
    data = _attribute(call, "data_layout") or _attribute(call, "layout")
    if not data or not call.args:
        return
    _tell(known, call.args[0], data)
    _tell(known, result, _attribute(call, "out_layout") or data)
    kernel = _attribute(call, "kernel_layout")
    if kernel and len(call.args) > 1:
        weight = 2 if "deformable" in operator_name(call) else 1
        _tell(known, call.args[weight], kernel)


def _attribute(call: relax.Call, name: str) -> str:
    value = getattr(call.attrs, name, None)
    return value if isinstance(value, str) else ""


def _tell(known: dict[relax.Var, str], tensor: Expression, text: str) -> None:
    """Note the layout of a tensor, unless one is known or it has other dimensions."""
    if not isinstance(tensor, relax.Var) or tensor in known or not isinstance(tensor.ty, relax.TensorType):
        return
    shape, layout = shape_of(tensor), _parsed(text)
    if shape is not None and layout is not None and layout.rank == len(shape):
        known[tensor] = text


def _share(known: dict[relax.Var, str], tensors: Sequence[Expression]) -> None:
    text = next((known[one] for one in tensors if isinstance(one, relax.Var) and one in known), None)
    if text is not None:
        for one in tensors:
            _tell(known, one, text)


def _renamed(
    known: dict[relax.Var, str], texts: tuple[str, str], data: Expression, result: relax.Var
) -> tuple[str, str]:
    """The layouts of a transform by what is known of either side, which then is known of both."""
    for tensor, text in ((result, texts[1]), (data, texts[0])):
        if not isinstance(tensor, relax.Var) or tensor not in known:
            continue
        letters = _letters(text, known[tensor])
        if letters is not None and set(texts[0].upper()) | set(texts[1].upper()) <= {*letters, *"0123456789"}:
            new = tuple("".join(_changed(letters, letter) for letter in one) for one in texts)
            _tell(known, data, new[0])
            _tell(known, result, new[1])
            return new[0], new[1]
    return texts


def _letters(text: str, name: str) -> dict[str, str] | None:
    """What each letter of a layout is called in another text of it; None where it is another layout."""
    one, other = _parsed(text), _parsed(name)
    if one is None or other is None or len(one.axes) != len(other.axes):
        return None
    letters: dict[str, str] = {}
    for left, right in zip(one.axes, other.axes, strict=True):
        if left.factor != right.factor or letters.setdefault(left.name, right.name) != right.name:
            return None
    return letters if len(set(letters.values())) == len(letters) else None


def _changed(letters: Mapping[str, str], letter: str) -> str:
    if letter.isdigit():
        return letter
    return letters[letter] if letter.isupper() else letters[letter.upper()].lower()


def _parsed(text: str) -> Layout | None:
    try:
        return Layout.parse(text)
    except LayoutError:
        return None
