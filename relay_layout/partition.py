"""Backends that take over parts of a graph, and what may cross into them.

After BYOC (Chen et al., 2021): patterns name the operators that a backend runs, neighbours that it runs are
merged into one region, and a region becomes one call of a packed function. What is added here is the border:
a backend states per region the layout and the alignment of every tensor that crosses it. Transforms are
inserted where a tensor lies otherwise, ahead of time, and a region that no statement fits is refused.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import tvm
from tvm import relax
from tvm_ffi import structural_equal, structural_map

from relay_layout.environment.one_at_a_time import one_at_a_time
from relay_layout.errors import LayoutError, VerificationError
from relay_layout.graph import Graph, Node, Value, build_graph
from relay_layout.ir import (
    Expression,
    bindings_of,
    function_attributes,
    function_scope,
    relax_functions,
    with_functions,
)
from relay_layout.layout import Layout
from relay_layout.ops.dimension_names import DimensionNames
from relay_layout.rewrite.moving import move
from relay_layout.targets.backend import TensorView
from topi_ext.messages import first_line

_CODEGEN = "Codegen"


@dataclass(frozen=True)
class Region:
    """What a backend is asked about: tensors that cross its border, and the Relax function of it all.

    Weights that are constant are within the function.
    """

    name: str
    inputs: tuple[TensorView, ...]
    outputs: tuple[TensorView, ...]
    function: relax.Function


@dataclass(frozen=True)
class Contract:
    """How a backend runs a region.

    ``function`` names a packed function, which is called with the inputs and then with the outputs, whose
    memory it fills. ``inputs`` and ``outputs`` are their layouts in the tensors' own letters: ``"NHWC[a=8]"``
    asks for channels padded with zeros to a multiple of 8, None for a tensor as the model has it.
    """

    function: str
    inputs: Sequence[str | None]
    outputs: Sequence[str | None]


class PartitionBackend(Protocol):
    """Something that runs whole regions."""

    @property
    def name(self) -> str:
        """What regions and messages call it."""

    @property
    def patterns(self) -> Sequence[tuple[str, Any]]:
        """What it runs: names, and patterns of :mod:`tvm.relax.dpl`, the larger ones first."""

    def accept(self, region: Region) -> Contract | str:
        """How it runs the region, or why it does not."""


@one_at_a_time
def partition(module: tvm.IRModule, backends: Sequence[PartitionBackend]) -> tvm.IRModule:
    """The module with the regions that backends run as calls of them, guarded at their borders.

    Backends are asked in order; those before take what they match first. The layouts of the rest may be
    chosen afterwards, which takes the transforms at the borders into account.

    LayoutError for a region that its backend refuses, or whose tensors do not fit what it states;
    VerificationError where a tensor would cross a border otherwise than stated.
    """
    _check_backends(backends)
    patterns = [
        (f"{backend.name}.{name}", pattern) for backend in backends for name, pattern in backend.patterns
    ]
    module = relax.transform.ConvertToDataflow(min_size=1)(relax.transform.Normalize()(module))
    module = relax.transform.FuseOpsByPattern(patterns, bind_constants=True, annotate_codegen=False)(module)
    module = relax.transform.MergeCompositeFunctions()(module)
    return guard_partitions(module, backends)


@one_at_a_time
def guard_partitions(module: tvm.IRModule, backends: Sequence[PartitionBackend]) -> tvm.IRModule:
    """A module whose regions are functions with the attribute "Codegen", with each call guarded.

    Regions may come from :func:`partition` or from TVM's own passes. Errors are those of :func:`partition`.
    """
    _check_backends(backends)
    known = {backend.name: backend for backend in backends}
    regions: dict[str, tuple[relax.Function, PartitionBackend]] = {}
    for variable, function in module.functions_items():
        owner = _owner(function)
        if owner is None:
            continue
        if owner not in known:
            names = ", ".join(known) or "none"
            raise LayoutError(
                f"region '{variable.name_hint}' belongs to backend '{owner}', which is not among {names}"
            )
        regions[variable.name_hint] = function, known[owner]
    guarded = _Guard(module, regions).run()
    _check_crossings(guarded, regions)
    return guarded


def _check_backends(backends: object) -> None:
    """LayoutError for what is no list of what has the parts of a :class:`PartitionBackend`."""
    if not isinstance(backends, list | tuple):
        raise LayoutError(f"backends are a list, not {backends!r}")
    for backend in backends:
        patterns = getattr(backend, "patterns", None)
        is_named = isinstance(getattr(backend, "name", None), str)
        if not (
            is_named and isinstance(patterns, list | tuple) and callable(getattr(backend, "accept", None))
        ):
            raise LayoutError(
                f"backend {backend!r} is none: it needs a name, which is text, a list of patterns, and a "
                "method accept(region)"
            )


def _answer(backend: PartitionBackend, region: Region, place: str) -> Contract:
    """What the backend states of a region; LayoutError where it refuses, raises, or states nothing."""
    try:
        answer: Any = backend.accept(region)
    except Exception as error:
        raise LayoutError(f"{place}: accept raised {type(error).__name__}: {first_line(error)}") from error
    if isinstance(answer, str):
        raise LayoutError(f"backend {backend.name} refuses region '{region.name}': {answer}")
    if not isinstance(answer, Contract):
        raise LayoutError(f"{place}: accept gave {answer!r}; give a Contract, or text that says why not")
    for layouts in (answer.inputs, answer.outputs):
        if isinstance(layouts, str) or not isinstance(layouts, Sequence):
            raise LayoutError(f"{place}: {layouts!r} of a contract is no list of layouts")
    return answer


def _owner(function: Any) -> str | None:
    found = function_attributes(function).get(_CODEGEN) if isinstance(function, relax.Function) else None
    return None if found is None else str(found)


class _Guard:
    def __init__(
        self, module: tvm.IRModule, regions: Mapping[str, tuple[relax.Function, PartitionBackend]]
    ) -> None:
        self._module = module
        self._regions = regions
        self._builder = relax.BlockBuilder()
        self._names: dict[relax.Var, Expression] = {}

    def run(self) -> tvm.IRModule:
        """The module with guarded calls in "main" and without the regions' functions."""
        main = self._module["main"]
        graph = build_graph(main)
        names = _names(graph, self._regions)
        nodes = {node.variable: node for node in graph.nodes}
        with function_scope(self._builder, "main", main.params, function_attributes(main)):
            with self._builder.dataflow():
                for binding in bindings_of(main):
                    self._bind(binding, nodes.get(binding.var), names)
                output = self._builder.emit_output(self._replaced(main.body.body))
            self._builder.emit_func_output(output)
        others = {
            variable: function
            for variable, function in self._module.functions_items()
            if _owner(function) is None and variable.name_hint != "main"
        }
        guarded = with_functions(self._module, others)
        guarded["main"] = self._builder.finalize()["main"]
        return relax.transform.CanonicalizeBindings()(guarded)

    def _bind(self, binding: Any, node: Node | None, names: DimensionNames) -> None:
        value = self._replaced(binding.value)
        name = str(binding.var.name)
        callee = _callee(value)
        if isinstance(binding, relax.MatchCast):
            self._names[binding.var] = self._builder.match_cast(value, binding.ty, name)
        elif callee in self._regions and node is not None:
            self._names[binding.var] = self._call(callee, value, node, names)
        else:
            self._names[binding.var] = self._builder.emit(value, name_hint=name)

    def _call(self, name: str, call: relax.Call, node: Node, names: DimensionNames) -> Expression:
        function, backend = self._regions[name]
        result, hint = function.ret_ty, str(node.variable.name)
        inputs = [_view(value, names) for value in node.operands]
        outputs = [_view(value, names) for value in node.results]
        place = f"backend {backend.name}, region '{name}'"
        answer = _answer(backend, Region(name, tuple(inputs), tuple(outputs), function), place)
        wanted = list(_layouts(answer.inputs, inputs, f"{place}, input"))
        given = list(_layouts(answer.outputs, outputs, f"{place}, output"))
        arguments = [
            move(self._builder, argument, _plain(view), layout, view.shape, f"{hint}_input")
            for argument, view, layout in zip(call.args, inputs, wanted, strict=True)
        ]
        held = [
            relax.TensorType(layout.shape(view.shape, _plain(view)), view.dtype)
            for view, layout in zip(outputs, given, strict=True)
        ]
        for position, (argument, view, layout) in enumerate(zip(arguments, inputs, wanted, strict=True)):
            _check(f"{place}, input {position}", argument.ty, view, layout)
        made = self._builder.emit(
            relax.op.call_dps_packed(answer.function, relax.Tuple(arguments), held), name_hint=hint
        )
        parts = [made] if len(held) == 1 else [relax.TupleGetItem(made, index) for index in range(len(held))]
        back = [
            move(self._builder, part, layout, _plain(view), view.shape, hint)
            for part, view, layout in zip(parts, outputs, given, strict=True)
        ]
        return relax.Tuple(back) if isinstance(result, relax.TupleType) else back[0]

    def _replaced(self, expression: Expression) -> Expression:
        found = {
            variable: self._names[variable]
            for variable in relax.analysis.free_vars(expression)
            if variable in self._names
        }
        if isinstance(expression, relax.Var):
            return found.get(expression, expression)
        if not found:
            return expression
        return structural_map(expression, (relax.Var, lambda variable: found.get(variable, variable)))


def _names(graph: Graph, regions: Mapping[str, tuple[relax.Function, PartitionBackend]]) -> DimensionNames:
    """What dimensions are called around the regions, by what is within them too."""
    within = {name: build_graph(_flat(function)) for name, (function, _) in regions.items()}
    known: dict[Value, str] = {}
    while True:
        names, found = DimensionNames(graph, known, within.values()), dict(known)
        for node in graph.nodes:
            inner = within.get(_callee(node.expression))
            if inner is None:
                continue
            outside, inside = _border(node.operands, node.results), _border(inner.parameters, inner.outputs())
            border = list(zip(outside, inside, strict=True))
            told = {own: names.reached(outer) for outer, own in border if names.reached(outer)}
            own_names = DimensionNames(inner, told)
            found |= {outer: own_names.reached(own) for outer, own in border if own_names.reached(own)}
        if found == known:
            return names
        known = found


def _border(given: Sequence[Value], made: Sequence[Value]) -> Iterable[Value]:
    yield from given
    yield from made


def _flat(function: relax.Function) -> relax.Function:
    """A region whose parts, which are functions within it, are put in their places."""
    alone = tvm.IRModule({"main": function.without_attr(_CODEGEN).with_attr("global_symbol", "main")})
    return relax.transform.InlinePrivateFunctions()(relax.transform.LambdaLift()(alone))["main"]


def _callee(expression: Any) -> str:
    """The function of the module that a call calls; "" for all else."""
    return str(getattr(getattr(expression, "op", None), "name_hint", ""))


def _view(value: Value, names: DimensionNames) -> TensorView:
    return TensorView(tuple(value.shape or ()), value.dtype, names.of(value), False)


def _plain(view: TensorView) -> Layout:
    return Layout.generic(len(view.shape))


def _layouts(texts: Sequence[str | None], views: Sequence[TensorView], place: str) -> Iterable[Layout]:
    """What a contract states, over the tensors' dimensions. LayoutError where it cannot be meant."""
    if len(texts) != len(views):
        raise LayoutError(f"{place}: {len(texts)} layouts are stated for {len(views)} tensors")
    for position, (text, view) in enumerate(zip(texts, views, strict=True)):
        if text is None:
            yield _plain(view)
            continue
        layout = Layout.parse(text)
        if sorted(layout.primal) != sorted(view.letters):
            known = f"called {view.letters}" if view.letters else "without names"
            raise LayoutError(
                f"{place} {position}: layout {text} is stated of a tensor whose dimensions are {known}"
            )
        own = layout.over_dimensions(view.letters)
        if not own.unaligned.fits(view.shape, _plain(view)):
            shape = ", ".join(map(str, view.shape))
            raise LayoutError(f"{place} {position}: layout {text} does not fit the shape ({shape})")
        yield own


def _check(place: str, kind: Any, view: TensorView, layout: Layout) -> None:
    """VerificationError unless a tensor of that type is the view in that layout."""
    expected = relax.TensorType(layout.shape(view.shape, _plain(view)), view.dtype)
    if not structural_equal(kind, expected):
        raise VerificationError(f"{place}: {kind} crosses the border, expected {expected}")


def _check_crossings(
    module: tvm.IRModule, regions: Mapping[str, tuple[relax.Function, PartitionBackend]]
) -> None:
    """VerificationError where a region is still called without a guard, as from another function."""
    for variable, function in relax_functions(module).items():
        for called in relax.analysis.all_global_vars(function):
            if called.name_hint in regions:
                raise VerificationError(
                    f"function '{variable.name_hint}' calls region '{called.name_hint}' past its guard"
                )
