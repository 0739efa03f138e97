"""Shapes that a caller gives for a model's inputs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from operator import index

from relay_layout.errors import ModelError

_ADDRESSES = 1 << 47
"""Bytes that a program can have on the processors of today."""


@dataclass(frozen=True)
class Input:
    """A true input of a graph.

    ``element_type`` is ONNX's code; ``shape`` holds extents and names of symbolic ones, and is None where
    not even the rank is declared.
    """

    name: str
    element_type: int
    shape: tuple[int | str, ...] | None


def unknown_input(label: str, name: str, names: Iterable[str]) -> ModelError:
    """The error about a shape that is given for something else than one of the inputs, ``names``."""
    return ModelError(f"{label} has no input '{name}'; its inputs are {', '.join(names) or 'none'}")


def settle_shapes(
    inputs: Mapping[str, Input], given: Mapping[str, Sequence[int]], label: str
) -> dict[str, tuple[int | str, ...]]:
    """The shape of every input with ``given`` ones filled in.

    A symbolic extent that one given shape fixes is fixed in all inputs. ModelError for a shape that does
    not fit what the file declares.
    """
    symbols: dict[str, tuple[int, str]] = {}
    settled = {}
    for name, shape in given.items():
        if name not in inputs:
            raise unknown_input(label, name, inputs)
        settled[name] = _given_shape(inputs[name], shape, symbols, label)
    for name, declared in inputs.items():
        if name not in settled:
            if declared.shape is None:
                raise ModelError(
                    f"{label}: input '{name}' declares no shape: give one (--input-shape {name}:1,3,224,224)"
                )
            settled[name] = declared.shape
    return {
        name: tuple(symbols[extent][0] if extent in symbols else extent for extent in settled[name])
        for name in inputs
    }


def _given_shape(
    declared: Input, shape: Sequence[int], symbols: dict[str, tuple[int, str]], label: str
) -> tuple[int | str, ...]:
    place = f"{label}: input '{declared.name}'"
    extents = positive_extents(shape, place)
    text = ",".join(map(str, extents))
    if declared.shape is None:
        return extents
    if len(extents) != len(declared.shape):
        raise ModelError(
            f"{place} has {len(declared.shape)} dimensions in the file, "
            f"not {len(extents)} as in the given shape {text}"
        )
    for axis, (fixed, wanted) in enumerate(zip(declared.shape, extents, strict=True)):
        if isinstance(fixed, str):
            known, source = symbols.setdefault(fixed, (wanted, declared.name))
            if known != wanted:
                raise ModelError(
                    f"{place}: dimension {axis} is '{fixed}', "
                    f"which is {known} in the given shape of '{source}', not {wanted}"
                )
        elif fixed != wanted:
            raise ModelError(
                f"{place}: dimension {axis} is {fixed} in the file, not {wanted} as in the given shape {text}"
            )
    return extents


def positive_extents(shape: Sequence[int], place: str) -> tuple[int, ...]:
    """A given shape as integers; ModelError where it holds anything but positive ones."""
    try:
        extents = tuple(index(extent) for extent in shape)
    except TypeError:
        raise ModelError(f"{place}: the given shape {shape!r} is not a list of integers") from None
    if any(extent < 1 for extent in extents):
        text = ",".join(map(str, extents))
        raise ModelError(f"{place}: the given shape {text} has an extent below 1")
    if prod(extents) >= _ADDRESSES:
        text = ",".join(map(str, extents))
        raise ModelError(f"{place}: the given shape {text} has more elements than any machine's memory holds")
    return extents
