"""One way in which an operator can run: a layout for each operand and result, and what it costs."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from tvm import relax

from relay_layout.graph import Node
from relay_layout.ir import Expression
from relay_layout.layout import Layout


@dataclass(frozen=True)
class Signature:
    """Layouts over the axes of the original tensors (A is dimension 0), and a cost in microseconds.

    An operand layout with more axes than the operand has dimensions asks for leading unit dimensions
    first, as broadcasting does. ``attributes`` replaces attributes of the call; ``alias`` marks a
    choice under which the operator moves no data, so that its operand is its result. ``replacement``, if
    given, computes the results on operands in their layouts instead of the operator. ``by_callback`` says
    that the caller's code chose it, so that nothing is known of what it computes but what is declared here.
    """

    operands: tuple[Layout, ...]
    results: tuple[Layout, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict, hash=False, compare=False)
    cost: float = 0.0
    alias: bool = False
    replacement: "Replacement | None" = field(default=None, hash=False, compare=False)
    by_callback: bool = False


Replacement = Callable[[relax.BlockBuilder, Sequence[Expression]], Expression]
"""Emits what takes an operator's place."""


@dataclass
class Placement:
    """One node as it was rewritten: what a verifier checks."""

    node: Node
    signature: Signature
    operands: list[Expression]
    results: list[Expression]


class Rule(ABC):
    """How one kind of operator takes part in layouts; a row of the operator table names one."""

    decides: ClassVar[bool] = False
    """Does it leave no choice? Where it gives signatures, the operator does not run as it is then."""

    is_anchor: ClassVar[bool] = False
    """Does it bring up layouts, those that the target or the caller names, whatever is around it?"""

    @property
    def summary(self) -> str:
        """One line on how the dimensions correspond, for the user."""
        return ""

    @property
    def refuses(self) -> str:
        """What to say of a layout that it has no signature for; "" where its summary says it."""
        return ""

    @abstractmethod
    def signatures(self, node: Node, wanted: "Wanted", offers: "Offers") -> Iterable[Signature]:
        """Every way to run ``node`` other than as it is, given layouts its neighbours may have."""


@dataclass(frozen=True)
class Wanted:
    """Layouts that occur around a node: what producers may provide and consumers may ask for."""

    operands: tuple[tuple[Layout, ...], ...]
    results: tuple[tuple[Layout, ...], ...]


class Offers(Protocol):
    """Asked by anchor operators: the layouts a target (or the caller) runs them in."""

    def convolution_layouts(self, node: Node) -> Iterable["ConvolutionLayouts"]:
        """Layouts in the convolution's own letters, most preferred first."""

    def operator_cost(self, node: Node, operands: Sequence[Layout], results: Sequence[Layout]) -> float:
        """Microseconds of a node that is bound by memory rather than by arithmetic."""


@dataclass(frozen=True)
class ConvolutionLayouts:
    """One combination that a kernel exists for, and its estimated microseconds."""

    data: str
    kernel: str
    out: str
    cost: float = 0.0


def unchanged(node: Node, cost: float = 0.0) -> Signature:
    """The operator as the original module has it."""
    return Signature(
        tuple(value.identity for value in node.operands),
        tuple(value.identity for value in node.results),
        cost=cost,
    )
