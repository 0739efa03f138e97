"""The walk over both functions; see :mod:`relay_layout.verify`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

from tvm import relax
from tvm_ffi import structural_equal, structural_map

from relay_layout.choice.memory import expanded_shape
from relay_layout.errors import VerificationError
from relay_layout.graph import Graph, Node, Value, leaves
from relay_layout.layout import Layout
from relay_layout.ops import Placement
from relay_layout.verify.borders import Borders
from relay_layout.verify.casts import Casts
from relay_layout.verify.comparing import Mismatch, Provided, by_origin, same_tree
from relay_layout.verify.contents import Contents
from relay_layout.verify.digits import Dims, of_layout, plain, regrouped, shape_of_dims, through
from relay_layout.verify.matching import result_dims
from relay_layout.verify.originals import (
    Held,
    Originals,
    is_pure,
    live,
    moved_from,
    never,
    plain_of,
    relative,
)
from relay_layout.verify.padded_calls import Lifted, lifted
from relay_layout.verify.padding import Paddings
from relay_layout.verify.symbols import extents
from relay_layout.verify.unpaired import unpaired_problem

LONGEST_ORIGIN = 6
"""How many bindings a message names as those that decided how a tensor lies."""

MAX_GUESSED_RANK = 6
"""Largest rank of a constant whose order is sought by trying all orders of its dimensions."""


class Proof:
    """Proves that a converted function computes what the original does."""

    def __init__(
        self,
        function: str,
        original: Graph,
        converted: Graph,
        outputs: Mapping[Value, Layout],
        borders: Borders,
        placements: Sequence[Placement],
    ) -> None:
        self.function = function
        self.original, self.converted = original, converted
        self.outputs = outputs
        self.borders = borders
        self.chosen = {placement.node: placement.signature for placement in placements}
        self._of_constants = _layouts_of_constants(placements)
        self.contents = Contents()
        self.originals = Originals(original, converted, borders.passed)
        self.new: dict[Value, Held] = {}
        self.variables: dict[relax.Var, relax.Var] = {}
        self.matched: dict[Node, Node] = {}
        self.paddings = Paddings()
        self.casts = Casts(self.originals)

    def run(self) -> None:
        """Raise VerificationError at the first call, or output, that does not hold what it should."""
        self._parameters()
        for node in live(self.converted):
            if node not in self.borders.inside:
                self._converted_node(node)
        self._check_effects()
        self._check_outputs()

    def _parameters(self) -> None:
        before, after = self.original.parameters, self.converted.parameters
        if len(before) != len(after):
            self._fail("", "", f"{len(after)} parameters are provided, expected {len(before)}")
        for old, new in zip(before, after, strict=True):
            if old.shape is not None and (
                new.shape is None or extents(new.shape) != extents(old.shape) or new.dtype != old.dtype
            ):
                self._fail(new.name, "parameter", f"it is provided as {new.shape}, expected {old.shape}")
            self.new[new] = Held(old, plain_of(old), (new.name,))
        parameters = zip(self.original.function.params, self.converted.function.params, strict=True)
        self.variables.update({new: old for old, new in parameters})

    def _new(self, value: Value) -> Held:
        if value not in self.new:
            self.new[value] = Held(value, plain_of(value), (value.name,))
        return self.new[value]

    def _converted_node(self, node: Node) -> None:
        border = self.borders.results.get(node)
        if border is not None:
            self._cross(node, border)
            return
        held = [self._new(value) for value in node.operands]
        if node.results and all(result.is_empty for result in node.results) and is_pure(node):
            origin = _origin_with(node, held)
            self.new.update({value: Held(value, None, origin) for value in node.results})
            return
        if len(held) == 1 and len(node.results) == 1:
            found = moved_from(node, held[0])
            if found is not None:
                self.new[node.results[0]] = replace(found, origin=_origin_with(node, held))
                return
        errors: dict[Node, Mismatch] = {}
        for old in self._candidates(node, held):
            try:
                self._pair(old, node)
            except Mismatch as mismatch:
                errors[old] = mismatch
            else:
                return
        if self._adjusted(node, held):
            return
        for old in errors:
            try:
                if self._lifted(old, node, held):
                    return
            except Mismatch as mismatch:
                errors[old] = mismatch
        problem = unpaired_problem(node, held, errors, self.originals, self.matched)
        self._fail(node.name, node.operator, problem)

    def _adjusted(self, node: Node, held: list[Held]) -> bool:
        """Whether a call only helps to move a tensor: pads it, cuts it, or casts it there and back."""
        if len(held) != 1 or len(node.results) != 1:
            return False
        found = self.paddings.adjusted(node, held[0]) or self.casts.adjusted(node, held[0])
        if found is not None:
            self.new[node.results[0]] = replace(found, origin=_origin_with(node, held))
        return found is not None

    def _lifted(self, old: Node, new: Node, held: list[Held]) -> bool:
        """Whether a call means an original one on padded operands, and passes the padding on.

        Mismatch where it would pass it on, but means something else.
        """
        wrong = None
        for way in lifted(old, new, held, self.originals, self.paddings):
            try:
                self._lift(old, way, new)
            except Mismatch as mismatch:
                wrong = mismatch
            else:
                return True
        if wrong is not None:
            raise wrong
        return False

    def _lift(self, old: Node, way: Lifted, new: Node) -> None:
        provided = [
            self._beside(value, original, entry)
            for value, original, entry in zip(new.operands, way.node.operands, way.operands, strict=True)
        ]
        results = result_dims(way.node, new, provided, self._variable, self._guesses(old))
        self.matched[old] = new
        self.variables[new.variable] = old.variable
        origin = _origin(new, provided)
        for value, result, dims in zip(new.results, way.results, results, strict=True):
            lies = through(dims, result.dims) if result.dims is not None else None
            self.new[value] = replace(result, dims=lies, origin=origin)

    def _candidates(self, node: Node, held: list[Held]) -> Iterator[Node]:
        """The original calls that a converted one may be, the one of its name first, those taken last."""
        roots = [Held(self.paddings.original(entry.root), entry.dims, ()) for entry in held]
        found = self.originals.candidates(node.operator, roots)
        named = self.originals.called(node.operator, node.name)
        if named is not None and named not in self.matched and any(old is named for old in found):
            yield named
        yield from sorted((old for old in found if old is not named), key=self.matched.__contains__)
        if named is not None and named in self.matched and any(old is named for old in found):
            yield named

    def _pair(self, old: Node, new: Node) -> None:
        provided = [
            self._provided(value, original)
            for value, original in zip(new.operands, old.operands, strict=True)
        ]
        if old.operator:
            results = result_dims(old, new, provided, self._variable, self._guesses(old))
        else:
            results = self._same_expression(old, new, provided)
        self.matched[old] = new
        self.variables[new.variable] = old.variable
        origin = _origin(new, provided)
        for value, original, dims in zip(new.results, old.results, results, strict=True):
            held = self.originals.held(original)
            lies = through(dims, held.dims) if held.dims is not None else None
            self.new[value] = replace(held, dims=lies, origin=origin)

    def _provided(self, value: Value, original: Value) -> Provided:
        return self._beside(value, original, self.originals.held(original))

    def _beside(self, value: Value, original: Value, old: Held) -> Provided:
        """A tensor of the converted function beside an original one that lies as ``old``."""
        new = self._new(value)
        if original.is_empty and value.is_empty and value.dtype == original.dtype:
            shape = extents(value.shape or ())
            return Provided(value, original, None, new.origin, lambda dims: shape_of_dims(dims) == shape)
        if new.root.constant is not None and old.root.constant is not None:
            return Provided(value, original, None, new.origin, self._holds(new, old))
        dims = relative(new, old)
        if dims is None:
            shown = "" if old.dims is None or new.dims is None else " in another arrangement"
            raise Mismatch(
                f"tensor '{value.name}' is provided as '{new.root.name}'{shown}"
                f"{by_origin(value.name, new.origin)}, expected '{original.name}'"
            )
        return Provided(value, original, dims, new.origin, never)

    def _holds(self, new: Held, old: Held) -> Callable[[Dims], bool]:
        def holds(dims: Dims) -> bool:
            if old.dims is None or new.dims is None:
                return False
            after = [new.dims] if new.frame is None else [new.frame, new.dims]
            expected = through(dims, old.dims) if old.frame is None else None
            before = (
                [expected] if expected is not None else [*([old.frame] if old.frame else []), old.dims, dims]
            )
            return self.contents.same(old.root, before, new.root, after)

        return holds

    def _variable(self, variable: Any) -> Any:
        return self.variables.get(variable, variable)

    def _guesses(self, old: Node) -> Callable[[Value], Iterator[Dims]]:
        """How a tensor of ``old`` may lie: as the solver chose for it or for such a constant, or any way."""

        def guesses(value: Value) -> Iterator[Dims]:
            if value.shape is None:
                return
            signature = self.chosen.get(old)
            values = (*old.operands, *old.results)
            layouts = self._of_constants.get(value.shape, ())
            if signature is not None and value in values:
                layouts = ((*signature.operands, *signature.results)[values.index(value)], *layouts)
            for layout in layouts:
                shape = extents(expanded_shape(value, len(layout.primal)))
                dims = of_layout(layout, shape)
                frame = regrouped(plain(extents(value.shape)), shape)
                found = through(dims, frame) if dims is not None and frame is not None else None
                if found is not None:
                    yield found
            same = plain(extents(value.shape))
            yield same
            if len(same) <= MAX_GUESSED_RANK:
                yield from permutations(same)

        return guesses

    def _same_expression(self, old: Node, new: Node, provided: Sequence[Provided]) -> tuple[Dims, ...]:
        """An expression that is no operator call must be the original one on the original tensors."""
        for entry in provided:
            expected = plain_of(entry.original)
            if expected is None:
                continue
            if not entry.lies_as(expected):
                raise Mismatch(
                    f"tensor '{entry.value.name}' is provided as {entry.shown}, "
                    f"expected '{entry.original.name}'"
                )
        before = list(relax.analysis.free_vars(old.expression))
        after = list(relax.analysis.free_vars(new.expression))
        renamed = dict(zip(after, before, strict=False))
        replaced = structural_map(
            new.expression, (relax.Var, lambda variable: renamed.get(variable, variable))
        )
        if len(before) != len(after) or not structural_equal(old.expression, replaced):
            raise Mismatch("the expression is not the original one")
        return tuple(plain_of(value) or () for value in old.results)

    def _cross(self, node: Node, placement: Placement) -> None:
        """A node that a callback replaced: its operands and results as the signature declares them."""
        signature = placement.signature
        for value, new, layout in zip(
            placement.node.operands, self.borders.operands[placement.node], signature.operands, strict=True
        ):
            if new is None:
                continue
            try:
                entry = self._provided(new, value)
            except Mismatch as mismatch:
                self._fail(node.name, node.operator, str(mismatch))
            expected = _layout_dims(layout, value)
            if expected is not None and not entry.lies_as(expected):
                self._fail(
                    node.name,
                    node.operator,
                    f"tensor '{new.name}' is provided as {entry.shown} of '{value.name}', expected {layout}",
                )
        self.matched[placement.node] = node
        self.variables[node.variable] = placement.node.variable
        for new, value, layout in zip(node.results, placement.node.results, signature.results, strict=True):
            dims = _layout_dims(layout, value)
            if value.shape is not None and (dims is None or extents(new.shape or ()) != shape_of_dims(dims)):
                self._fail(
                    node.name,
                    node.operator,
                    f"the layout callback for {placement.node.operator} put '{new.name}' of shape "
                    f"{new.shape} there, expected {layout} of '{value.name}' of shape {value.shape}",
                )
            self.new[new] = Held(self.originals.held(value).root, dims, (node.name,))

    def _check_effects(self) -> None:
        """Calls with effects must all be there, in their order."""
        expected = [node for node in self.originals.nodes if not is_pure(node)]
        places = {node: place for place, node in enumerate(self.converted.nodes)}
        last = -1
        for node in expected:
            place = places.get(self.matched[node], -1) if node in self.matched else -1
            if place <= last:
                self._fail(
                    node.name, node.operator, "it has effects and is provided out of order or not at all"
                )
            last = place

    def _check_outputs(self) -> None:
        before, after = list(leaves(self.original.output)), list(leaves(self.converted.output))
        if not same_tree(self.original.output, self.converted.output, self._variable):
            self._fail("", "output", f"{len(after)} outputs are provided, expected {len(before)}")
        for place, (original, value) in enumerate(zip(before, after, strict=True)):
            promised = self.outputs.get(original, original.identity)
            try:
                entry = self._provided(value, original)
            except Mismatch as mismatch:
                self._fail(value.name, f"output {place}", str(mismatch))
            expected = _layout_dims(promised, original)
            if expected is None and original.shape is None:
                continue
            if expected is None or not entry.lies_as(expected) or value.dtype != original.dtype:
                self._fail(
                    value.name,
                    f"output {place}",
                    f"tensor '{value.name}' is provided as {entry.shown} of '{original.name}'"
                    f"{by_origin(value.name, entry.origin)}, expected {promised}",
                )

    def _fail(self, binding: str, operator: str, problem: str) -> None:
        place = f", binding '{binding}'" if binding else ""
        raise VerificationError(f"function '{self.function}'{place} ({operator or 'expression'}): {problem}")


def _origin_with(node: Node, held: Sequence[Held]) -> tuple[str, ...]:
    """Who decided how operands lie, and the call."""
    return (*(name for entry in held for name in entry.origin), node.name)[-LONGEST_ORIGIN:]


def _origin(node: Node, provided: Sequence[Provided]) -> tuple[str, ...]:
    """Who decides how results lie: the call, where it names layouts, else who decided its operands."""
    tensors = [entry.origin for entry in provided if entry.dims is not None]
    if not tensors or any(hasattr(node.attributes, name) for name in ("data_layout", "layout")):
        return (node.name,)
    names = dict.fromkeys(name for origin in tensors for name in origin)
    if any(value.rank != entry.value.rank for value in node.results for entry in provided[:1]):
        names[node.name] = None
    return tuple(names)[-LONGEST_ORIGIN:]


def _layouts_of_constants(placements: Sequence[Placement]) -> dict[Any, tuple[Layout, ...]]:
    """The layouts in which constants are read, by their shape: what a call is expanded to reads the same."""
    found: dict[Any, dict[Layout, None]] = {}
    for placement in placements:
        for value, layout in zip(placement.node.operands, placement.signature.operands, strict=True):
            if value.constant is not None:
                found.setdefault(value.shape, {})[layout] = None
    return {shape: tuple(layouts) for shape, layouts in found.items()}


def _layout_dims(layout: Layout, value: Value) -> Dims | None:
    return of_layout(layout, extents(value.shape)) if value.shape is not None else None
