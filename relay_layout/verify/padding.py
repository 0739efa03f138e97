"""Tensors padded with zeros for alignment.

A padded tensor is a value of its own and lies as any other does. What it holds are the dimensions of a tensor
of the original function, however these lie over its root, with zeros behind the last element of some of them:
a dimension that is made of several parts of the root, as a channel shuffle leaves it, is padded as any other.
One such tensor has one value, whatever order its dimensions were in when it was padded.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from relay_layout.graph import Node, Value
from relay_layout.ir import constant, constant_array
from relay_layout.verify.arrangement_meanings import bounds_of
from relay_layout.verify.contents import rearranged
from relay_layout.verify.digits import Digit, Dims, joined, over, plain, shape_of_dims, through
from relay_layout.verify.originals import Held, relative
from relay_layout.verify.reading import integers
from relay_layout.verify.symbols import Extent, Shape, extents, ratio, times

Run = tuple[Digit, ...]


@dataclass(frozen=True)
class _Basis:
    """What digits are of: the dimensions of ``root``, or those of ``frame``, which lie over it."""

    root: Value
    frame: Dims | None

    @property
    def held(self) -> Held:
        """The dimensions themselves."""
        if self.frame is None:
            return Held(self.root, plain(extents(self.root.shape or ())), ())
        return Held(self.root, plain(shape_of_dims(self.frame)), (), self.frame)


@dataclass(frozen=True)
class _Padded:
    """A padded value: each of its dimensions as digits of ``basis``, and its extents with zeros and without.

    Dimensions of one element, which have no digits, are there only where they are padded.
    """

    basis: _Basis
    frame: Dims
    shape: Shape

    @property
    def before(self) -> Shape:
        """The extents without zeros."""
        return shape_of_dims(self.frame)


@dataclass(frozen=True)
class _Part:
    """One dimension of a tensor: what it holds, as digits of the basis, and its extent with zeros behind."""

    digits: Run
    extent: Extent

    @property
    def least(self) -> Extent:
        """Its extent without zeros."""
        return shape_of_dims((self.digits,))[0]

    @property
    def is_padded(self) -> bool:
        """Whether there are zeros."""
        return self.extent != self.least


class Paddings:
    """Values of the original function with zeros behind the last element of some dimensions."""

    def __init__(self) -> None:
        self._values: dict[_Padded, Value] = {}
        self._padded: dict[Value, _Padded] = {}

    def original(self, value: Value) -> Value:
        """What a padded value was made of; any other value itself."""
        padded = self._padded.get(value)
        return padded.basis.root if padded is not None else value

    def adjusted(self, node: Node, held: Held) -> Held | None:
        """The result of a pad or a slice that only adds or drops padding; None for any other call."""
        shape = node.operands[0].shape if node.operands else None
        if held.dims is None or shape is None or shape_of_dims(held.dims) != extents(shape):
            return None
        if node.operator == "nn.pad":
            changed = _after_pad(node)
        elif node.operator == "strided_slice":
            changed = _after_slice(node)
        else:
            return None
        return self.resized(held, changed) if changed is not None else None

    def resized(self, held: Held, shape: Shape) -> Held | None:
        """The same elements where dimensions have other extents, by zeros behind them or without those.

        None where elements would be lost, or where zeros lie between them.
        """
        opened = self._opened(held)
        if opened is None or len(opened[1]) != len(shape):
            return None
        basis, parts = opened
        found = []
        for part, extent in zip(parts, shape, strict=True):
            if part.extent != extent:
                least = part.least
                if not isinstance(extent, int) or not isinstance(least, int) or extent < least:
                    return None
            found.append(_Part(part.digits, extent))
        return self._closed(basis, found, held.origin)

    def padded_alike(self, original: Held, root: Value) -> Iterator[Held]:
        """An original tensor with zeros behind it where ``root``, a value of its elements, has them.

        Which dimensions of one element are padded the elements do not say, so that there may be several.
        """
        padded = self._padded.get(root)
        if padded is None:
            if root is original.root:
                yield original
            return
        if padded.basis.root is not original.root or original.dims is None:
            return
        dims = relative(original, padded.basis.held)
        if dims is None:
            return
        grown: list[Run] = []
        for dim in dims:
            found = _grown(dim, padded)
            if found is None:
                return
            grown.append(found)
        units = [place for place, run in enumerate(padded.frame) if not run]
        ones = [place for place, dim in enumerate(dims) if not dim]
        for places in permutations(ones, len(units)):
            taken = list(grown)
            for place, unit in zip(places, units, strict=True):
                taken[place] = (Digit(unit, 1, padded.shape[unit]),)
            yield Held(root, tuple(taken), original.origin)

    def _opened(self, held: Held) -> tuple[_Basis, list[_Part]] | None:
        """The dimensions of a tensor apart from their padding; None where zeros lie between elements."""
        if held.dims is None:
            return None
        padded = self._padded.get(held.root)
        if padded is None:
            parts = [_Part(dim, shape_of_dims((dim,))[0]) for dim in held.dims]
            return _Basis(held.root, held.frame), parts
        if held.frame is not None:
            return None
        parts = []
        for dim in held.dims:
            digits = _shrunk(dim, padded)
            if digits is None:
                return None
            parts.append(_Part(digits, shape_of_dims((dim,))[0]))
        return padded.basis, parts

    def _closed(self, basis: _Basis, parts: Sequence[_Part], origin: tuple[str, ...]) -> Held | None:
        """A tensor of these dimensions over the one value that holds it."""
        if not any(part.is_padded for part in parts):
            dims = tuple(part.digits for part in parts)
            whole = dims if basis.frame is None else through(dims, basis.frame)
            if whole is not None:
                return Held(basis.root, whole, origin)
            return Held(basis.root, dims, origin, basis.frame)
        padded = _padded_of(basis, parts)
        root = self._value(padded)
        units = [place for place, run in enumerate(padded.frame) if not run]
        found: list[Run] = []
        for part in parts:
            if part.is_padded and not part.digits:
                unit = next(place for place in units if padded.shape[place] == part.extent)
                units.remove(unit)
                found.append((Digit(unit, 1, part.extent),))
                continue
            dim = _grown(part.digits, padded)
            if dim is None or shape_of_dims((dim,)) != (part.extent,):
                return None
            found.append(dim)
        return Held(root, tuple(found), origin)

    def _value(self, padded: _Padded) -> Value:
        if padded not in self._values:
            root = padded.basis.root
            shape = tuple(extent if isinstance(extent, int) else extent.expression for extent in padded.shape)
            found = Value(root.name, shape, root.dtype, root.expression)
            if root.constant is not None:
                found.constant = found.expression = constant(_with_zeros(padded))
            self._values[padded] = found
            self._padded[found] = padded
        return self._values[padded]


def _after_pad(node: Node) -> Shape | None:
    attributes = node.attributes
    widths = integers(attributes.pad_width)
    zeros = str(attributes.pad_mode) == "constant" and float(attributes.pad_value) == 0.0
    if not zeros or any(widths[::2]) or len(node.operands) != 1 or node.results[0].shape is None:
        return None
    return extents(node.results[0].shape)


def _after_slice(node: Node) -> Shape | None:
    bounds = bounds_of(node)
    if bounds is None or any((begin, stride) != (0, 1) for begin, _, stride in bounds.values()):
        return None
    return extents(node.results[0].shape) if node.results[0].shape is not None else None


def _grown(dim: Run, padded: _Padded) -> Run | None:
    """Digits of the basis as digits of the padded value; None where zeros would lie between elements."""
    found = over((dim,), padded.frame)
    if found is None:
        return None
    return _resized_digits(found[0], padded.before, padded.shape)


def _shrunk(dim: Run, padded: _Padded) -> Run | None:
    """Digits of the padded value as those of the basis, without zeros; None where these lie in between."""
    # What is padded and has one element only has no digits without its padding.
    found = _resized_digits(dim, padded.shape, padded.before)
    whole = through((found,), padded.frame) if found is not None else None
    return whole[0] if whole is not None else None


def _resized_digits(dim: Run, before: Shape, after: Shape) -> Run | None:
    """Digits of dimensions of other extents, where what changes lies behind all else of ``dim``."""
    found = []
    for place, digit in enumerate(dim):
        extent = digit.extent
        is_last = times(digit.unit, digit.extent) == before[digit.axis]
        if is_last and before[digit.axis] != after[digit.axis]:
            changed = ratio(after[digit.axis], digit.unit)
            if place or changed is None:
                return None
            extent = changed
        found.append(Digit(digit.axis, digit.unit, extent))
    return joined(found)


def _padded_of(basis: _Basis, parts: Sequence[_Part]) -> _Padded:
    """The one way to write dimensions of which some are padded."""
    left = [digit for part in parts if not part.is_padded for digit in part.digits]
    wholes: list[tuple[Run, Extent]] = []
    units: list[int] = []
    for part in parts:
        if not part.is_padded:
            continue
        own, extent = list(part.digits), part.extent
        assert isinstance(extent, int)
        if not own:
            units.append(extent)
            continue
        # Zeros behind all of several parts may be zeros behind the first of them.
        while len(own) > 1 and isinstance(inner := own[-1].extent, int) and extent % inner == 0:
            left.append(own.pop())
            extent //= inner
        wholes.append((tuple(own), extent))
    left = _runs(left)
    found: list[tuple[Run, Extent]] = []
    for whole, extent in wholes:
        digits = whole
        while below := next((run for run in left if len(joined((digits[-1], run))) == 1), None):
            left.remove(below)
            digits, extent = joined((*digits, below)), times(extent, below.extent)
        found.append((digits, extent))
    found += [((run,), run.extent) for run in left]
    found.sort(key=lambda entry: (entry[0][-1].axis, str(entry[0][-1].unit)))
    return _Padded(
        basis,
        (*(digits for digits, _ in found), *((),) * len(units)),
        (*(extent for _, extent in found), *sorted(units)),
    )


def _runs(digits: Sequence[Digit]) -> list[Digit]:
    """Digits with those of one dimension that continue each other as one, in whatever order they are."""
    left, found = list(digits), []
    while left:
        run = left.pop()
        while other := next(
            (other for other in left if 1 in (len(joined((run, other))), len(joined((other, run))))), None
        ):
            left.remove(other)
            pairs = joined((run, other)), joined((other, run))
            (run,) = next(pair for pair in pairs if len(pair) == 1)
        found.append(run)
    return found


def _with_zeros(padded: _Padded) -> np.ndarray:
    """The content of a padded constant."""
    basis = padded.basis
    steps = [padded.frame] if basis.frame is None else [basis.frame, padded.frame]
    array = rearranged(constant_array(basis.root.constant), steps)
    before = [int(str(extent)) for extent in padded.before]
    widths = [(0, int(str(after)) - own) for own, after in zip(before, padded.shape, strict=True)]
    return np.pad(array.reshape(before), widths)
