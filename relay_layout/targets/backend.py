"""Backends that are asked, operator by operator, which layouts they accept.

After the layout requirements of Glow (Rotem et al., 2018): a backend answers per node with a layout for every
input and output, alignments included, or leaves the node to follow its neighbours. A transform is inserted
where what is provided is not what is required.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from numbers import Real
from typing import Any, Protocol

from tvm import ir

from relay_layout.errors import LayoutError
from relay_layout.graph import Node, Value
from relay_layout.ir import Extent
from relay_layout.layout import Layout
from relay_layout.ops import ConvolutionLayouts, Offers, Rule, Signature, Wanted, unchanged
from relay_layout.ops.convolution_rule import alignment_misfit, tensors_of
from relay_layout.ops.dimension_names import DimensionNames
from relay_layout.targets.convolutions import CONVOLUTION_AXES
from topi_ext.messages import first_line


@dataclass(frozen=True)
class TensorView:
    """One input or output: extents (symbolic ones are expressions), dtype, and names of dimensions.

    ``letters`` are those of the operator's own layout attribute, or else those that the convolutions around
    it give to its dimensions, transpositions in between or not; of a tensor that none of them reaches, those
    of the graph's convolutions; empty where dimensions have no names.
    """

    shape: tuple[Extent, ...]
    dtype: str
    letters: str
    is_constant: bool


@dataclass(frozen=True)
class OperatorView:
    """What a backend is asked about: the Relax operator without ``relax.``, its attributes and tensors."""

    operator: str
    attributes: Mapping[str, Any]
    inputs: tuple[TensorView, ...]
    outputs: tuple[TensorView, ...]


@dataclass(frozen=True)
class Requirement:
    """One way to run an operator: a layout for every input and output, in their own letters.

    ``"NHWC[a=32]"`` asks for channels padded with zeros to a multiple of 32. None stands for the layout that
    the tensor has in the module. ``microseconds`` is what it costs beside transforms, at least 0.
    """

    inputs: Sequence[str | None]
    outputs: Sequence[str | None]
    microseconds: float = 0.0


class LayoutBackend(Protocol):
    """A target, or something that takes over parts of a graph."""

    @property
    def name(self) -> str:
        """What reports call it."""

    def requirements(self, operator: OperatorView) -> Sequence[Requirement] | None:
        """The ways in which it runs the operator, all equally right; None where any layout will do.

        With an empty list, and with requirements that do not fit the tensors, the operator keeps its layout;
        reports say of the latter, under ``not_converted``, what does not fit.
        """


class RequiredRule(Rule):
    """A node as a backend runs it."""

    decides = True

    def __init__(self, backend: LayoutBackend, view: OperatorView, own: Rule | None) -> None:
        self._backend = backend
        self._required = _answer(backend, view)
        self._view = view
        self._own = own

    @property
    def asks_nothing(self) -> bool:
        """Whether any layout will do."""
        return self._required is None

    @property
    def refuses(self) -> str:
        """What to say of a layout that it has no signature for."""
        return f"backend {self._backend.name} does not run {self._view.operator} in it"

    def signatures(self, node: Node, wanted: Wanted, offers: Offers) -> Iterable[Signature]:
        """The requirements that the operator can meet in these layouts."""
        for requirement in self._required or ():
            signature = self._meeting(node, *self._asked(node, requirement), offers)
            if signature is not None:
                yield replace(signature, cost=requirement.microseconds)

    def misfit(self, node: Node) -> str:
        """What to say of an operator that can meet none of the requirements; "" where there are none."""
        asked = [self._asked(node, requirement) for requirement in self._required or ()]
        if not asked or any(_is_original(node, *layouts) for layouts in asked):
            return ""
        why, named = "", _named(self._view, *asked[0]) if node.operator in CONVOLUTION_AXES else None
        if named is not None and all(tensor.has_same_axes for tensor in tensors_of(node, named)):
            why = alignment_misfit(node, named)
        first = (self._required or ())[0]
        texts = " -> ".join(", ".join(map(str, side)) for side in (first.inputs, first.outputs))
        return (
            f"backend {self._backend.name} requires {texts}, in which {self._view.operator} cannot run here"
            + (f": {why}" if why else "")
        )

    def _asked(self, node: Node, requirement: Requirement) -> tuple[list[Layout], list[Layout]]:
        return (
            _layouts(requirement.inputs, self._view.inputs, node.operands, self._place("input")),
            _layouts(requirement.outputs, self._view.outputs, node.results, self._place("output")),
        )

    def _meeting(
        self, node: Node, inputs: Sequence[Layout], outputs: Sequence[Layout], offers: Offers
    ) -> Signature | None:
        if _is_original(node, inputs, outputs):
            return unchanged(node)
        if self._own is None:
            return None
        asked = Wanted(tuple((layout,) for layout in inputs), tuple((layout,) for layout in outputs))
        for signature in self._own.signatures(node, asked, _Required(offers, self._view, inputs, outputs)):
            if signature.operands == tuple(inputs) and signature.results == tuple(outputs):
                return signature
        return None

    def _place(self, side: str) -> str:
        return f"backend {self._backend.name}, {side} of {self._view.operator}"


class _Required:
    """What a rule is offered when a backend has decided: its requirement, and the target's costs."""

    def __init__(
        self, offers: Offers, view: OperatorView, inputs: Sequence[Layout], outputs: Sequence[Layout]
    ) -> None:
        self._offers = offers
        self._view = view
        self._inputs = inputs
        self._outputs = outputs

    def convolution_layouts(self, node: Node) -> Iterable[ConvolutionLayouts]:
        """The requirement in the convolution's own letters."""
        yield _named(self._view, self._inputs, self._outputs)

    def operator_cost(self, node: Node, operands: Sequence[Layout], results: Sequence[Layout]) -> float:
        """As the target has it."""
        return self._offers.operator_cost(node, operands, results)


def _is_original(node: Node, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> bool:
    original = unchanged(node)
    return (tuple(inputs), tuple(outputs)) == (original.operands, original.results)


def _named(view: OperatorView, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> ConvolutionLayouts:
    """Layouts of a convolution in its own letters."""
    tensors = (*view.inputs[:2], view.outputs[0])
    layouts = (*inputs[:2], outputs[0])
    data, kernel, out = (
        str(layout.in_letters(tensor.letters)) for layout, tensor in zip(layouts, tensors, strict=True)
    )
    return ConvolutionLayouts(data, kernel, out)


def _answer(backend: LayoutBackend, view: OperatorView) -> Sequence[Requirement] | None:
    """What the backend says of an operator; LayoutError where it raises, or says what is no requirement."""
    place = f"backend {backend.name}, {view.operator}"
    try:
        answer = backend.requirements(view)
    except Exception as error:
        raise LayoutError(
            f"{place}: requirements raised {type(error).__name__}: {first_line(error)}"
        ) from error
    if answer is None:
        return None
    if not isinstance(answer, list | tuple) or not all(isinstance(one, Requirement) for one in answer):
        raise LayoutError(f"{place}: requirements gave {answer!r}; give a list of Requirement, or None")
    for requirement in answer:
        cost = requirement.microseconds
        if isinstance(cost, bool) or not isinstance(cost, Real) or not isfinite(cost):
            raise LayoutError(f"{place}: microseconds={cost!r} of a requirement is no number")
        if cost < 0:
            raise LayoutError(
                f"{place}: microseconds={cost!r} of a requirement is below 0: nothing costs less"
            )
        for layouts in (requirement.inputs, requirement.outputs):
            if isinstance(layouts, str) or not isinstance(layouts, Sequence):
                raise LayoutError(f"{place}: {layouts!r} of a requirement is no list of layouts")
    return answer


def check_backend(backend: object) -> None:
    """LayoutError for what has not the name and the method of a :class:`LayoutBackend`."""
    if isinstance(getattr(backend, "name", None), str) and callable(getattr(backend, "requirements", None)):
        return
    raise LayoutError(
        f"backend {backend!r} is none: it needs a name, which is text, and a method requirements(operator)"
    )


def backend_rules(
    backend: LayoutBackend, names: DimensionNames, rules: Callable[[Node], Rule | None]
) -> Callable[[Node], Rule | None]:
    """The rules of a graph under a backend: its requirements, and ``rules`` for what it leaves open."""
    found: dict[Node, Rule | None] = {}

    def rule_of(node: Node) -> Rule | None:
        if node not in found:
            found[node] = _rule(node)
        return found[node]

    def _rule(node: Node) -> Rule | None:
        own = rules(node)
        if not node.operator or not node.has_known_ranks:
            return own
        required = RequiredRule(backend, view_of(node, names), own)
        return own if required.asks_nothing else required

    return rule_of


def view_of(node: Node, names: DimensionNames) -> OperatorView:
    """A node as a backend sees it."""
    attributes = _attributes(node)
    own: dict[int, str] = {}
    data = str(attributes.get("data_layout") or attributes.get("layout") or "")
    kernel = str(attributes.get("kernel_layout") or "")
    if kernel:
        own[1] = kernel
    inputs = [
        _tensor(value, own.get(place) or _fitting(data, value) or names.of(value))
        for place, value in enumerate(node.operands)
    ]
    out = str(attributes.get("out_layout") or data)
    outputs = [_tensor(value, _fitting(out, value) or names.of(value)) for value in node.results]
    return OperatorView(node.operator, attributes, tuple(inputs), tuple(outputs))


def _attributes(node: Node) -> dict[str, Any]:
    attributes = node.expression.attrs
    if attributes is None:
        return {}
    if isinstance(attributes, ir.DictAttrs):
        return {str(name): value for name, value in attributes.items()}
    fields = type(attributes).__tvm_ffi_type_info__.fields
    return {field.name: getattr(attributes, field.name) for field in fields}


def _tensor(value: Value, letters: str) -> TensorView:
    return TensorView(tuple(value.shape or ()), value.dtype, letters, value.constant is not None)


def _fitting(layout: str, value: Value) -> str:
    return layout if layout.isupper() and len(layout) == value.rank else ""


def _layouts(
    texts: Sequence[str | None], tensors: Sequence[TensorView], values: Sequence[Value], place: str
) -> list[Layout]:
    """A requirement's layouts over the tensors' dimensions. LayoutError where they cannot be meant."""
    if len(texts) != len(values):
        raise LayoutError(f"{place}: {len(texts)} layouts are required for {len(values)} tensors")
    layouts = []
    for text, tensor, value in zip(texts, tensors, values, strict=True):
        if text is None:
            layouts.append(value.identity)
            continue
        try:
            layout = Layout.parse(text)
        except LayoutError as error:
            raise LayoutError(f"{place}: {error}") from None
        if layout.is_any:
            raise LayoutError(
                f"{place}: '*' is no layout to require; None stands for the one that the tensor has, "
                "and requirements that are None for any layout"
            )
        if sorted(layout.primal) != sorted(tensor.letters):
            known = f"called {tensor.letters}" if tensor.letters else "without names"
            raise LayoutError(f"{place}: layout {text} is required of a tensor whose dimensions are {known}")
        layouts.append(layout.over_dimensions(tensor.letters))
    return layouts
