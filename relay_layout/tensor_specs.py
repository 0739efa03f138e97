"""What is said of a network's inputs and outputs to those who call it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tvm import relax

from relay_layout.artifact import Quantization, TensorSpec
from relay_layout.artifact.fields import DTYPES
from relay_layout.artifact.memory_order import channels_last
from relay_layout.errors import ModelError
from relay_layout.graph import build_graph
from relay_layout.graph.border import dimension_letters, input_names, memory_orders, output_names, size_bounds
from relay_layout.ir import fields_of, shape_of
from relay_layout.layout_request import LayoutRequest
from relay_layout.quantization.border import quantized_border


@dataclass(frozen=True)
class Border:
    """What is known of the inputs and the outputs before anything is converted, for each side in order."""

    names: tuple[list[str], list[str]]
    quantization: tuple[list[Quantization | None], list[Quantization | None]]
    letters: Mapping[int, str]


def border_of(function: relax.Function) -> Border:
    """The border of a module as it was loaded; ModelError for a tensor that no caller could pass."""
    names = input_names(function), output_names(function)
    _check_dtypes(names, function)
    return Border(names, quantized_border(function), dimension_letters(build_graph(function)))


def _check_dtypes(names: tuple[list[str], list[str]], function: relax.Function) -> None:
    for role, named, types in (
        ("input", names[0], [parameter.ty for parameter in function.params]),
        ("output", names[1], fields_of(function.ret_ty)),
    ):
        for name, kind in zip(named, types, strict=True):
            if isinstance(kind, relax.TupleType):
                raise ModelError(
                    f"{role} '{name}' is a tuple of {len(kind.fields)}; make each of its tensors an {role} "
                    "of its own"
                )
            if str(kind.dtype) not in DTYPES:
                raise ModelError(
                    f"{role} '{name}' is {kind.dtype}, which numpy does not have: let the network take and "
                    "give float32 or float16, and convert inside it"
                )


def tensor_specs(
    function: relax.Function, border: Border, request: LayoutRequest
) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """What an artifact says of each input and each output of a converted function, in its layouts."""
    kinds = fields_of(function.body.body.ty)
    sides = zip(
        border.names,
        ([parameter.ty for parameter in function.params], kinds),
        (request.input_layouts, request.output_layouts),
        memory_orders(function),
        border.quantization,
        strict=True,
    )
    bounds = size_bounds(function)
    inputs, outputs = (
        tuple(
            _spec(*tensor, layouts, border.letters, bounds)
            for tensor in zip(names, types, orders, quantization, strict=True)
        )
        for names, types, layouts, orders, quantization in sides
    )
    return inputs, outputs


def _spec(
    name: str,
    kind: Any,
    declared: tuple[int, ...],
    quantization: Quantization | None,
    layouts: Mapping[str, str],
    letters: Mapping[int, str],
    bounds: Mapping[str, tuple[int, int | None]],
) -> TensorSpec:
    held = tuple(size if isinstance(size, int) else str(size) for size in shape_of(_Typed(kind)) or ())
    rank = len(held)
    order = declared or tuple(range(rank))
    # The function's types are what lies in memory; the caller sees the model's own dimensions.
    shape = tuple(held[order.index(axis)] for axis in range(rank))
    usual = rank == 4 and order in ((0, 1, 2, 3), channels_last(4))
    layout = layouts.get(name, "".join(letters[4][axis] for axis in order) if usual else "")
    if quantization is not None and quantization.axis is not None and name in layouts:
        quantization = replace(quantization, axis=layout.index(letters[rank][quantization.axis]))
    own = {size: bounds[size] for size in shape if isinstance(size, str) and size in bounds}
    return TensorSpec(name, shape, str(kind.dtype), layout, order, bool(declared), quantization, own)


@dataclass(frozen=True)
class _Typed:
    """Something with a type, for :func:`shape_of`."""

    ty: Any
