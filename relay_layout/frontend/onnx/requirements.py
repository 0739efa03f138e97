"""What nodes ask of the sizes of inputs that are known at run time alone.

A file may hold the numbers of one size where its inputs are open: a Reshape to (1, 1280) is right for one
image, whatever the inputs say of their batch. Sizes are checked in each call by what is written down here.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

from tvm import relax, tirx

from relay_layout.frontend.extents.arithmetic import as_expression, simplify
from relay_layout.frontend.extents.known_sizes import Interval, known_interval, known_sizes
from relay_layout.frontend.extents.residues import never_more
from relay_layout.frontend.onnx.assumptions import Assumption, Assumptions
from relay_layout.frontend.values import Unsupported, shape_of, written
from relay_layout.ir import Extent, is_static

_LARGEST = 1 << 16
"""No size is asked to be as much or more."""

_SIGNS: dict[type, str] = {
    tirx.Add: "+",
    tirx.Sub: "-",
    tirx.Mul: "*",
    tirx.FloorDiv: "//",
    tirx.FloorMod: "%",
    tirx.EQ: "==",
    tirx.NE: "!=",
    tirx.LT: "<",
    tirx.LE: "<=",
    tirx.GT: ">",
    tirx.GE: ">=",
}
_FUNCTIONS: dict[type, str] = {tirx.Min: "min", tirx.Max: "max"}


class Requirements:
    """Conditions, as :mod:`relay_layout.artifact.conditions` has them, on the sizes of ``inputs`` by name.

    What is assumed of the sizes is a condition, too.
    """

    def __init__(self, inputs: Mapping[str, relax.Var], assumptions: Assumptions) -> None:
        self._assumptions = assumptions
        self._sizes: list[tuple[tirx.Var, str]] = []
        self._texts: dict[str, None] = {}
        self._unsure: list[Extent] = []
        for name, variable in inputs.items():
            owner = name if name.isidentifier() else f"input({name!r})"
            for axis, extent in enumerate(shape_of(variable)):
                if isinstance(extent, tirx.Var):
                    self._sizes.append((extent, f"{owner}.shape[{axis}]"))
        for condition in assumptions.conditions():
            self._note(condition)

    @staticmethod
    def none() -> "Requirements":
        """Those of nodes that may never run."""
        return Requirements({}, Assumptions())

    @property
    def texts(self) -> Sequence[str]:
        """One for each condition."""
        return tuple(self._texts)

    def equal(self, left: Extent, right: Extent) -> None:
        """Ask that both are equal, where nothing tells already. Unsupported where they never are."""
        difference = simplify(left - right)
        if not isinstance(difference, int):
            self._note(tirx.EQ(as_expression(left), as_expression(right)))
        elif difference:
            raise Unsupported(f"needs {written([left])} to be {written([right])}, which it is for no input")

    def assume_equal(self, left: Extent, right: Extent) -> bool:
        """Whether both are always equal, or asked to be; False where the data decide, and for two numbers.

        Raises :class:`.Assumption` where one size, or its remainder, decides.
        """
        if self._assumptions.equal(left, right):
            return True
        if is_static((left, right)) or not (self.tell(left) and self.tell(right)):
            return False
        self.equal(left, right)
        return True

    def tell(self, extent: Extent) -> bool:
        """Whether the sizes of inputs tell an extent, and not data."""
        return self._text(as_expression(extent)) is not None

    def divisible(self, extent: Extent, by: Extent) -> None:
        """Ask that one divides the other."""
        self.equal(simplify(extent % by), 0)

    def more(self, extent: Extent, least: int) -> None:
        """Ask for an extent of more than ``least``."""
        if not isinstance(extent, int) and not never_more(least + 1, extent):
            self._note(tirx.GT(extent, as_expression(least)))
            self.granted(extent, least)

    def other_than(self, extent: Extent, number: int) -> None:
        """Ask for an extent that is not ``number``, where nothing tells already; the extent is open."""
        if not never_more(number + 1, extent):
            self._note(tirx.NE(extent, as_expression(number)))

    def unsure(self, extent: Extent) -> None:
        """Write down that it would help to know whether an extent of one size is not negative.

        Exporters work out shapes before the windows that tell how large images are at least.
        """
        self._unsure.append(extent)

    def granted(self, extent: Extent, least: int) -> None:
        """Know of an open extent that it is more than ``least``, which others see to.

        Raises :class:`.Assumption` where that tells of an extent of which it was not known.
        """
        size, *others = tirx.analysis.undefined_vars(extent)
        unsure = [each for each in self._unsure if size in tirx.analysis.undefined_vars(each)]
        if others or not unsure or not self.tell(extent):
            return
        found = bisect_left(
            range(_LARGEST), True, key=lambda first: never_more(least + 1, extent, least=first)
        )
        if found < _LARGEST and any(never_more(0, each, least=found) for each in unsure):
            raise Assumption(size, Interval(found, None))

    def within_pixels(self, bound: Extent, extent: Extent) -> bool:
        """Whether a bound is from 0 to an extent in all images that have pixels, as is asked of them then.

        Nothing is asked, and False returned, where it is not, and of what data decide.
        """
        if not (self.tell(bound) and self.tell(extent)):
            return False
        read = set(tirx.analysis.undefined_vars(as_expression(bound) + as_expression(extent)))
        fewest = {size: self._assumptions.fewest(size) for size, _ in self._sizes if size in read}
        known = {size: Interval(least, None).within(known_interval(size)) for size, least in fewest.items()}
        with known_sizes(known):
            if not never_more(0, bound) or not never_more(bound, extent):
                return False
        for size, least in fewest.items():
            self.more(size, least - 1)
        return True

    def no_more(self, extent: Extent, most: Extent) -> None:
        """Ask for an extent of at most ``most``, where nothing tells already. Unsupported where none is."""
        if never_more(extent, most):
            return
        if isinstance(extent, int) and isinstance(most, int):
            raise Unsupported(f"needs {extent} elements along an axis of {most}")
        self._note(tirx.LE(as_expression(extent), as_expression(most)))

    def _note(self, condition: Any) -> None:
        """Of extents that are computed of data there is nothing to say before a call."""
        text = self._text(condition)
        if text is not None:
            self._texts[text] = None

    def _text(self, value: Any, inner: bool = False) -> str | None:
        if isinstance(value, tirx.IntImm):
            return str(int(value))
        if isinstance(value, tirx.Var):
            return next((text for variable, text in self._sizes if variable.same_as(value)), None)
        sign, function = _SIGNS.get(type(value)), _FUNCTIONS.get(type(value))
        if sign is None and function is None:
            return None
        is_arithmetic = isinstance(value, tirx.Add | tirx.Sub | tirx.Mul | tirx.FloorDiv | tirx.FloorMod)
        parts = [self._text(part, inner=is_arithmetic) for part in (value.a, value.b)]
        if None in parts:
            return None
        if function is not None:
            return f"{function}({parts[0]}, {parts[1]})"
        text = f"{parts[0]} {sign} {parts[1]}"
        return f"({text})" if inner else text
