"""Converted functions with one thing wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from tvm import relax, tirx
from tvm_ffi import structural_map

from relay_layout.ir import (
    Constant,
    constant,
    constant_array,
    operator_name,
    shape_of,
    with_attributes,
)
from relay_layout.layout import Layout
from relay_layout.layout.transform import equivalent_memory

TRANSFORMS = ("permute_dims", "layout_transform")
LAYOUT_ATTRIBUTES = ("data_layout", "kernel_layout", "out_layout", "layout")
AXIS_ATTRIBUTES = ("axis", "channel_axis", "seq_axis", "batch_axis")
AXES_ATTRIBUTES = ("axis", "axes")
NUMBERS = ("strides", "padding", "dilation", "output_padding", "pool_size", "output_size", "repeats")


@dataclass(frozen=True)
class Mutant:
    """A function with one binding changed, named by ``binding``; ``kind`` says what was changed."""

    binding: str
    kind: str
    function: relax.Function


Change = tuple[str, Any]
"""What is changed, and the new expression."""


def mutants(function: relax.Function, kinds: tuple[str, ...] = ("",)) -> Iterator[Mutant]:
    """Every mutant that type inference accepts, of the kinds that begin with one of ``kinds``."""
    bindings = [binding for block in function.body.blocks for binding in block.bindings]
    for place, binding in enumerate(bindings):
        for kind, expression in changes(binding.value):
            if not kind.startswith(kinds):
                continue
            changed = rebuilt(function, {place: expression})
            if changed is not None:
                yield Mutant(str(binding.var.name), kind, changed)
    output = bindings[-1].value
    if isinstance(output, relax.Tuple) and "outputs exchanged".startswith(kinds):
        for left, right in combinations(range(len(output.fields)), 2):
            if _same_type(output.fields[left], output.fields[right]):
                changed = rebuilt(
                    function, {len(bindings) - 1: relax.Tuple(_swapped(output.fields, left, right))}
                )
                if changed is not None:
                    yield Mutant(str(bindings[-1].var.name), "outputs exchanged", changed)


def some_mutants(function: relax.Function, rng: np.random.Generator, most: int) -> Iterator[Mutant]:
    """Up to ``most`` mutants of single bindings, drawn at random."""
    bindings = [binding for block in function.body.blocks for binding in block.bindings]
    found = [(place, change) for place, binding in enumerate(bindings) for change in changes(binding.value)]
    for number in rng.permutation(len(found))[:most]:
        place, (kind, expression) = found[int(number)]
        changed = rebuilt(function, {place: expression})
        if changed is not None:
            yield Mutant(str(bindings[place].var.name), kind, changed)


def rebuilt(function: relax.Function, changed: dict[int, Any]) -> relax.Function | None:
    """The function with the values of some bindings replaced; None if its types are then refused."""
    builder = relax.BlockBuilder()
    renamed: dict[relax.Var, Any] = {}
    place = 0
    try:
        with builder.function("main", list(function.params)):
            for block in function.body.blocks:
                for binding in block.bindings:
                    value = changed.get(place, binding.value)
                    value = structural_map(value, (relax.Var, lambda var: renamed.get(var, var)))
                    place += 1
                    # With types that follow from what is changed.
                    if isinstance(value, relax.Call):
                        value = relax.Call(value.op, value.args, value.attrs, value.ty_args)
                    elif isinstance(value, relax.TupleGetItem):
                        value = relax.TupleGetItem(value.tuple_value, value.index)
                    renamed[binding.var] = builder.emit(value, name_hint=binding.var.name)
            body = structural_map(function.body.body, (relax.Var, lambda var: renamed.get(var, var)))
            builder.emit_func_output(body)
        return builder.finalize()["main"]
    except Exception:
        # Type inference raises many kinds of exceptions.
        return None


def changes(expression: Any) -> Iterator[Change]:
    """Every way to have one binding's value wrong."""
    if isinstance(expression, relax.TupleGetItem):
        fields = expression.tuple_value.ty.fields
        for place, kind in enumerate(fields):
            if place != expression.index and str(kind) == str(fields[expression.index]):
                yield "result exchanged", relax.TupleGetItem(expression.tuple_value, place)
    if not isinstance(expression, relax.Call) or not operator_name(expression):
        return
    for source in (
        _permutations,
        _dropped,
        _layouts,
        _axes,
        _pad_widths,
        _fillings,
        _operands,
        _numbers,
        _constants,
        _index_maps,
        _slices,
    ):
        yield from source(expression)


def _attribute(call: relax.Call, name: str) -> Any:
    return getattr(call.attrs, name, None) if call.attrs is not None else None


def _ints(values: Any) -> list[int]:
    return [int(value) for value in values]


def _with(call: relax.Call, **updates: Any) -> relax.Call:
    return with_attributes(call, call.args, **updates)


def _swapped(items: Sequence[Any], left: int, right: int) -> list[Any]:
    found = list(items)
    found[left], found[right] = found[right], found[left]
    return found


def _same_type(left: Any, right: Any) -> bool:
    return str(left.ty) == str(right.ty)


def _permutations(call: relax.Call) -> Iterator[Change]:
    if operator_name(call) == "permute_dims" and call.attrs.axes is not None:
        axes = _ints(call.attrs.axes)
        for left, right in combinations(range(len(axes)), 2):
            yield "permute_dims swapped", _with(call, axes=_swapped(axes, left, right))


def _dropped(call: relax.Call) -> Iterator[Change]:
    if operator_name(call) in TRANSFORMS:
        yield "transform dropped", relax.op.reshape(call.args[0], shape_of(call))


def _layouts(call: relax.Call) -> Iterator[Change]:
    """Two parts of a layout exchanged, unless no element moves by it."""
    for name in LAYOUT_ATTRIBUTES:
        text = _attribute(call, name)
        if not text:
            continue
        tensors = {"kernel_layout": call.args[1:2], "out_layout": [call], "layout": [call.args[0], call]}
        layout = Layout.parse(str(text))
        parts = [str(axis) for axis in layout.axes]
        for left, right in combinations(range(len(parts)), 2):
            other = "".join(_swapped(parts, left, right))
            if not all(_moves_nothing(tensor, layout, other) for tensor in tensors.get(name, call.args[:1])):
                yield f"{name} {other}", _with(call, **{name: other})


def _moves_nothing(tensor: Any, layout: Layout, other: str) -> bool:
    order = layout.primal_layout
    extents = layout.logical_shape(shape_of(tensor) or (), order)
    return equivalent_memory(layout, other, extents, order)


def _axes(call: relax.Call) -> Iterator[Change]:
    for name in AXIS_ATTRIBUTES:
        axis = _attribute(call, name)
        if isinstance(axis, int):
            for step in (1, -1):
                yield f"{name} {step:+}", _with(call, **{name: axis + step})
    for name in AXES_ATTRIBUTES:
        axes = _attribute(call, name)
        if axes is None or isinstance(axes, int) or operator_name(call) == "permute_dims":
            continue
        for place, step in ((place, step) for place in range(len(axes)) for step in (1, -1)):
            moved = _ints(axes)
            moved[place] += step
            yield f"{name}[{place}] {step:+}", _with(call, **{name: moved})


def _pad_widths(call: relax.Call) -> Iterator[Change]:
    widths = _attribute(call, "pad_width")
    if widths is not None:
        given = _ints(widths)
        for left, right in combinations(range(len(given)), 2):
            if given[left] != given[right]:
                yield "pad widths swapped", _with(call, pad_width=_swapped(given, left, right))


def _fillings(call: relax.Call) -> Iterator[Change]:
    if operator_name(call) == "nn.pad" and str(call.attrs.pad_mode) == "constant":
        yield "filled with another number", _with(call, pad_value=float(call.attrs.pad_value) + 1.0)
        yield "filled with the last element", _with(call, pad_mode="replicate")


def _operands(call: relax.Call) -> Iterator[Change]:
    groups: list[tuple[list[Any], Callable[[list[Any]], list[Any]]]] = [(list(call.args), lambda args: args)]
    for place, argument in enumerate(call.args):
        if isinstance(argument, relax.Tuple):

            def within(fields: list[Any], place: int = place) -> list[Any]:
                args = list(call.args)
                args[place] = relax.Tuple(fields)
                return args

            groups.append((list(argument.fields), within))
    for items, arguments in groups:
        tensors = [place for place, item in enumerate(items) if isinstance(item.ty, relax.TensorType)]
        for left, right in combinations(tensors, 2):
            if _same_type(items[left], items[right]) and not items[left].same_as(items[right]):
                yield "operands swapped", with_attributes(call, arguments(_swapped(items, left, right)))


def _numbers(call: relax.Call) -> Iterator[Change]:
    for name in NUMBERS:
        values = _attribute(call, name)
        if values is None:
            continue
        if isinstance(values, int):
            yield f"{name} + 1", _with(call, **{name: values + 1})
            continue
        given = _ints(values)
        for place in range(len(given)):
            raised = list(given)
            raised[place] += 1
            yield f"{name}[{place}] + 1", _with(call, **{name: raised})
        for left, right in combinations(range(len(given)), 2):
            if given[left] != given[right]:
                yield f"{name} swapped", _with(call, **{name: _swapped(given, left, right)})
    for name in ("groups", "num_groups", "k"):
        value = _attribute(call, name)
        if isinstance(value, int):
            for other in sorted({1, 2, 4, value + 1} - {value}):
                yield f"{name} {other}", _with(call, **{name: other})


def _constants(call: relax.Call) -> Iterator[Change]:
    for place, argument in enumerate(call.args):
        fields = list(argument.fields) if isinstance(argument, relax.Tuple) else [argument]
        for inner, item in enumerate(fields):
            if not isinstance(item, Constant):
                continue
            array = constant_array(item)
            for left, right in combinations(range(array.ndim), 2):
                turned = array.swapaxes(left, right)
                if array.shape[left] == array.shape[right] > 1 and not np.array_equal(array, turned):
                    other = list(fields)
                    other[inner] = constant(np.ascontiguousarray(turned))
                    args = list(call.args)
                    args[place] = relax.Tuple(other) if isinstance(argument, relax.Tuple) else other[0]
                    yield f"constant {place} transposed", with_attributes(call, args)


def _index_maps(call: relax.Call) -> Iterator[Change]:
    if operator_name(call) != "layout_transform":
        return
    index_map = call.attrs.index_map
    variables, finals = list(index_map.initial_indices), list(index_map.final_indices)
    for left, right in combinations(range(len(finals)), 2):
        swapped = tirx.IndexMap(variables, _swapped(finals, left, right), None)
        yield "index map swapped", _with(call, index_map=swapped)
    for left, right in combinations(range(len(variables)), 2):
        swapped = tirx.IndexMap(_swapped(variables, left, right), finals, None)
        yield "index map renamed", _with(call, index_map=swapped)


def _slices(call: relax.Call) -> Iterator[Change]:
    if operator_name(call) != "strided_slice":
        return
    for place in range(1, len(call.args)):
        numbers = [int(getattr(entry, "value", entry)) for entry in call.args[place].fields]
        for inner in range(len(numbers)):
            for step in (1, -1):
                other = list(numbers)
                other[inner] += step
                args = list(call.args)
                args[place] = relax.Tuple([relax.prim_value(number) for number in other])
                yield f"slice argument {place} {step:+}", with_attributes(call, args)
