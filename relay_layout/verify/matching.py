"""Whether a converted call means what the original call meant, on the dimensions of the original tensors."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from relay_layout.graph import Node, Value
from relay_layout.verify.comparing import (
    Mismatch,
    Provided,
    by_origin,
    constant_differs,
    kind_of,
    lies_wrong,
    require_arguments,
    require_attributes,
    require_unchanged,
)
from relay_layout.verify.digits import (
    Digit,
    Dims,
    covers,
    describe,
    joined,
    over,
    plain,
    regrouped,
    shape_of_dims,
)
from relay_layout.verify.meanings import reading_of
from relay_layout.verify.reading import Kind, Labels, Name, Reading, frame_of, named_digits, names_of
from relay_layout.verify.symbols import Extent, Shape, extents, times


@dataclass
class _Binding:
    """What the dimensions of the converted call stand for, in names of the original call."""

    digits: dict[Name, tuple[Digit, ...]] = field(default_factory=dict)
    decided_by: dict[Name, str] = field(default_factory=dict)
    whole: dict[Name, Name] = field(default_factory=dict)
    outer: dict[Name, tuple[Name, int]] = field(default_factory=dict)


def result_dims(
    old: Node,
    new: Node,
    provided: Sequence[Provided],
    variables: Callable[[Any], Any],
    guesses: Callable[[Value], Iterator[Dims]],
) -> tuple[Dims, ...]:
    """How the results of ``new`` lie over those of ``old``; :class:`Mismatch` unless they hold the same.

    ``variables`` gives the original of a variable that is no tensor. ``guesses`` proposes how an original
    tensor may lie where nothing in the call decides it: a constant among constants, a tensor of ones.
    """
    if len(new.operands) != len(old.operands) or len(new.results) != len(old.results):
        raise Mismatch(f"it has {len(new.operands)} operands, expected {len(old.operands)}")
    before = reading_of(old)
    after = reading_of(new) if before is not None else None
    if before is None or after is None:
        require_unchanged(old, new, provided, variables)
        return tuple(plain(extents(value.shape or ())) for value in old.results)
    require_attributes(old, new, before.interpreted)
    if not before.reads_arguments:
        require_arguments(old, new, variables)
    match = _Match(old, new, before, after, provided, guesses)
    return match.run()


class _Match:
    """Names of the converted call bound, operand by operand, to digits of names of the original call."""

    def __init__(
        self,
        old: Node,
        new: Node,
        before: Reading,
        after: Reading,
        provided: Sequence[Provided],
        guesses: Callable[[Value], Iterator[Dims]],
    ) -> None:
        self.old, self.new = old, new
        self.before, self.after = before, after
        self.provided = provided
        self.guesses = guesses
        self.before_names, self.after_names = names_of(before), names_of(after)
        self.binding = _Binding()
        # OUTER names that have one element in some operand, and the first such operand.
        self.ones: dict[Name, int] = {}

    def run(self) -> tuple[Dims, ...]:
        constants = []
        for position, entry in enumerate(self.provided):
            if entry.dims is None:
                constants.append(position)
            else:
                self._bind(position, entry.dims)
        for position in constants:
            self._constant(position)
        for kind in (Kind.WHOLE, Kind.OUTER):
            if any(name.kind is kind for name in (*self.before_names, *self.after_names)):
                self._bind_units(kind)
        self._check_blocks()
        return tuple(self._result(place) for place in range(len(self.new.results)))

    # Operands

    def _bind(self, position: int, dims: Dims) -> None:
        entry = self.provided[position]
        labels, shape = self.after.operands[position], extents(entry.value.shape or ())
        named = named_digits(dims, self.before.operands[position])
        if len(named) != len(labels):
            raise Mismatch(f"tensor '{entry.value.name}' has {len(named)} dimensions, not {len(labels)}")
        for place, (name, unit) in enumerate(labels):
            if not self._fits(position, name, unit, named[place], shape[place]):
                raise Mismatch(self._wrong(position, place, dims))

    def _fits(self, position: int, name: Name, unit: int, digits: tuple[Digit, ...], extent: Extent) -> bool:
        """Whether the converted call's dimension ``name`` may hold ``digits``; binds it to them."""
        binding = self.binding
        if name.kind is Kind.EXACT:
            return digits == joined([Digit(name, unit, extent)])
        if name.kind is Kind.FREE:
            if any(digit.axis.group != name.group and digit.axis.kind is not Kind.OUTER for digit in digits):
                return False
            if any(digit.axis.kind not in (Kind.FREE, Kind.OUTER) for digit in digits):
                return False
            bound = binding.digits.get(name)
            if bound is None or (bound == () and self.after.broadcasts):
                binding.digits[name] = digits
                binding.decided_by[name] = self.provided[position].value.name
                return True
            return bound == digits or (digits == () and self.after.broadcasts)
        if name.kind is Kind.WHOLE:
            if digits == ():
                return True
            if len(digits) != 1 or not self._is_whole(position, digits[0]):
                return False
            found = digits[0].axis
            if found.group != name.group or found.kind is not Kind.WHOLE:
                return False
            return binding.whole.setdefault(name, found) == found
        return self._fits_outer(position, name, digits, extent)

    def _fits_outer(self, position: int, name: Name, digits: tuple[Digit, ...], extent: Extent) -> bool:
        if not digits:
            # Which original dimension it stands for is known by another operand, or at the end.
            self.ones.setdefault(name, position)
            return True
        found = digits[0].axis
        if found.kind is not Kind.OUTER or found.group != name.group:
            return False
        if extent == 0:
            # Nothing has no size of steps.
            return self.binding.outer.get(name, (found, 0))[0] == found
        unit = self._blocks(self.before.operands[position], self.provided[position].original, found, extent)
        if unit is None or digits != joined([Digit(found, unit, extent)]):
            return False
        return self.binding.outer.setdefault(name, (found, unit)) == (found, unit)

    def _blocks(self, labels: Labels, value: Value, name: Name, extent: Extent) -> int | None:
        """Elements of the original dimension in one step of a dimension of ``extent`` steps."""
        places = [place for place, label in enumerate(labels) if label.name == name]
        original = extents(value.shape or ())[places[0]] if places else None
        if isinstance(original, int) and isinstance(extent, int):
            return original // extent if extent and original % extent == 0 else None
        return 1 if original == extent else None

    def _is_whole(self, position: int, digit: Digit) -> bool:
        shape = extents(self.provided[position].original.shape or ())
        return any(
            label.name == digit.axis and digit.unit == 1 and shape[place] == digit.extent
            for place, label in enumerate(self.before.operands[position])
        )

    # Constants

    def _constant(self, position: int) -> None:
        """A constant must hold the original one as the rest of the call needs it."""
        entry = self.provided[position]
        expected = self._expected(position)
        if expected is not None:
            if not entry.holds(expected):
                raise Mismatch(constant_differs(entry, expected))
            self._bind(position, expected)
            return
        shape = extents(entry.value.shape or ())
        same_order = regrouped(plain(extents(entry.original.shape or ())), shape)
        for guess in (*self.guesses(entry.original), *([same_order] if same_order is not None else [])):
            if len(guess) != len(shape) or shape_of_dims(guess) != shape:
                continue
            if entry.holds(guess):
                self._bind(position, guess)
                return
        raise Mismatch(
            f"{kind_of(entry)} '{entry.value.name}' of shape {entry.value.shape} does not hold the original "
            f"{kind_of(entry)} of shape {entry.original.shape} in any layout that the call allows"
        )

    def _expected(self, position: int) -> Dims | None:
        """How an operand must lie over the original one, None where what is bound does not decide it."""
        entry = self.provided[position]
        shape = extents(entry.value.shape or ())
        labels = self.after.operands[position]
        if len(labels) != len(shape):
            return None
        named: list[tuple[Digit, ...]] = []
        for (name, unit), extent in zip(labels, shape, strict=True):
            digits = self._digits(name, unit, extent, self.before.operands[position], entry.original)
            if digits is None:
                return None
            named.append(digits)
        return over(tuple(named), frame_of(self.before.operands[position], entry.original))

    def _digits(
        self, name: Name, unit: int, extent: Extent, labels: Labels, original: Value
    ) -> tuple[Digit, ...] | None:
        """What a dimension of ``extent`` stands for by what is bound."""
        if extent == 1:
            return ()
        if name.kind is Kind.EXACT:
            return (Digit(name, unit, extent),)
        if name.kind is Kind.FREE:
            # Operands of one element there, which broadcast, do not decide how others lie.
            return self.binding.digits.get(name) or None
        if name.kind is Kind.WHOLE:
            found = self.binding.whole.get(name)
            return (Digit(found, 1, extent),) if found is not None else None
        bound = self.binding.outer.get(name)
        if bound is not None:
            return (Digit(bound[0], bound[1], extent),)
        names = [other for other in self.before_names if other.kind is Kind.OUTER]
        step = self._blocks(labels, original, names[0], extent) if len(names) == 1 else None
        return (Digit(names[0], step, extent),) if step is not None else None

    # The whole call

    def _bind_units(self, kind: Kind) -> None:
        """Names of one element, which the elements do not tell apart: by what is done to them, in order."""
        bound = self.binding.whole if kind is Kind.WHOLE else self.binding.outer
        taken = {entry if isinstance(entry, Name) else entry[0] for entry in bound.values()}
        left = [name for name in self.before_names if name.kind is kind]
        for name in self.after_names:
            if name.kind is not kind:
                continue
            if kind is Kind.OUTER and name in self.binding.outer:
                found, unit = self.binding.outer[name]
                self._check_amounts(name, found, unit)
                left.remove(found)
                continue
            if name in self.binding.whole:
                left.remove(self.binding.whole[name])
                continue
            fitting = [other for other in left if other not in taken and self._may_be(name, other)]
            if not fitting:
                expected = sorted({self._done(self.before, other, 1) for other in left}) or ["nothing"]
                raise Mismatch(
                    f"a dimension is provided as {self._done(self.after, name, self._step(name, left))}, "
                    f"expected {' and '.join(expected)}"
                )
            if kind is Kind.WHOLE:
                self.binding.whole[name] = fitting[0]
            else:
                self.binding.outer[name] = (fitting[0], self._unit(name, fitting[0]) or 1)
            left.remove(fitting[0])
        if left:
            raise Mismatch(f"no dimension is provided as {self._done(self.before, left[0], 1)}, expected one")

    def _may_be(self, name: Name, other: Name) -> bool:
        if name.group != other.group:
            return False
        if name.kind is Kind.WHOLE:
            return True
        unit = self._unit(name, other)
        return unit is not None and self._amounts(self.after, name, unit) == self._amounts(
            self.before, other, 1
        )

    def _unit(self, name: Name, other: Name) -> int | None:
        """Elements in one step of an OUTER name that has one element, if it stands for ``other``."""
        if name not in self.ones:
            return 1
        position = self.ones[name]
        return self._blocks(self.before.operands[position], self.provided[position].original, other, 1)

    def _step(self, name: Name, names: Sequence[Name]) -> int:
        return (self._unit(name, names[0]) if names and name.kind is Kind.OUTER else None) or 1

    def _amounts(self, reading: Reading, name: Name, unit: int) -> tuple[int, ...]:
        return tuple(amount * unit for amount in reading.amounts.get(name, ()))

    def _done(self, reading: Reading, name: Name, unit: int) -> str:
        amounts = self._amounts(reading, name, unit)
        return f"'{name.group}{' ' + str(amounts) if amounts else ''}'"

    def _check_amounts(self, name: Name, found: Name, unit: int) -> None:
        if self._amounts(self.after, name, unit) != self._amounts(self.before, found, 1):
            raise Mismatch(
                f"a dimension is provided as {self._done(self.after, name, unit)}, "
                f"expected {self._done(self.before, found, 1)}"
            )

    def _check_blocks(self) -> None:
        """Parts of an OUTER dimension that lie elsewhere must be less than one of its steps."""
        steps = dict(self.binding.outer.values())
        for digits in self.binding.digits.values():
            for digit in digits:
                if digit.axis.kind is not Kind.OUTER:
                    continue
                step = steps.get(digit.axis, 1)
                end = times(digit.unit, digit.extent)
                if not isinstance(end, int) or end > step:
                    raise Mismatch(
                        f"the dimension of its '{digit.axis.group}' is provided in parts, expected whole"
                    )

    def _result(self, place: int) -> Dims:
        value, original = self.new.results[place], self.old.results[place]
        if value.dtype != original.dtype:
            raise Mismatch(f"result '{value.name}' is provided as {value.dtype}, expected {original.dtype}")
        if value.is_empty and original.is_empty:
            return ()
        shape = extents(value.shape or ())
        labels, frame = self.after.results[place], frame_of(self.before.results[place], original)
        named = []
        for (name, unit), extent in zip(labels, shape, strict=True):
            digits = self._digits(name, unit, extent, self.before.results[place], original)
            if digits is None and name.kind is Kind.FREE:
                return self._guessed_result(place, shape)
            named.append(digits or ())
        dims = over(tuple(named), frame)
        if dims is None or shape_of_dims(dims) != shape or not covers(dims, extents(original.shape or ())):
            shown = describe(dims, extents(original.shape or ())) if dims is not None else "no layout"
            raise Mismatch(
                f"result '{value.name}' of shape {value.shape} is provided as {shown}, expected a layout of "
                f"'{original.name}' of shape {original.shape}"
            )
        return dims

    def _guessed_result(self, place: int, shape: Shape) -> Dims:
        """A result that holds the same along some dimensions, which may then lie in any order."""
        original = self.old.results[place]
        for guess in self.guesses(original):
            if shape_of_dims(guess) != shape:
                continue
            named = named_digits(guess, self.before.results[place])
            for label, digits in zip(self.after.results[place], named, strict=True):
                name = label.name
                bound = self.binding.digits.get(name) if name.kind is Kind.FREE else None
                if bound is not None and bound != digits:
                    break
                if bound is None and any(digit.axis.group != name.group for digit in digits):
                    break
            else:
                return guess
        value = self.new.results[place]
        raise Mismatch(
            f"result '{value.name}' of shape {value.shape} is provided, expected a layout of "
            f"'{original.name}' of shape {original.shape}"
        )

    def _wrong(self, position: int, place: int, dims: Dims) -> str:
        """What is said of an operand that does not lie as the call needs it."""
        entry = self.provided[position]
        expected = self._expected(position)
        if expected is not None and expected != dims:
            return lies_wrong(entry, expected)
        name = self.after.operands[position][place].name
        shape = extents(entry.original.shape or ())
        shown = describe(dims, shape)
        own = [
            chr(ord("A") + axis)
            for axis, label in enumerate(self.before.operands[position])
            if label.name.group == name.group
        ]
        held = describe(dims[place : place + 1], tuple(extent if extent != 1 else 2 for extent in shape))
        return (
            f"tensor '{entry.value.name}' is provided as {shown} of '{entry.original.name}'"
            f"{by_origin(entry.value.name, entry.origin)}; its dimension {place} is {held} where "
            f"{_part(name)} is expected to be {' or '.join(own) or 'none'}"
        )


def _part(name: Name) -> str:
    return f"'{name.group}'" if name.group else "a dimension of no part of its own"
