"""Branches and loops of PyTorch's programs that the data decide, as functions beside "main"."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import tvm
from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.frontend.body_building import Bodies
from relay_layout.frontend.expressions import Expressions
from relay_layout.frontend.identity import ByIdentity
from relay_layout.frontend.run_time_loops import Trip, run_branch, run_loop, run_scan
from relay_layout.frontend.torch.control_flow import BRANCH, LOOP, SCAN
from relay_layout.frontend.torch.node import Converter, value_of
from relay_layout.frontend.torch.operators.counted import counts_of, looked_at_anew
from relay_layout.frontend.torch.operators.open_numbers import OpenFloat, as_scalar
from relay_layout.frontend.values import Extents, Unsupported, Value, extents, shape_of

BODY_NAMES = frozenset(call.__name__ for call in (BRANCH, LOOP, SCAN))
"""The names of the calls that :class:`ProgramBodies` has converters for."""


class ProgramBodies:
    """The functions that the loops and branches of one program run."""

    def __init__(self) -> None:
        self._bodies: Bodies | None = None
        self._custom: frozenset[str] = BODY_NAMES
        self._constants: ByIdentity[Any, Any] = ByIdentity()

    def converters(self, custom: frozenset[str]) -> dict[str, Converter]:
        """For calls of :mod:`relay_layout.frontend.torch.control_flow`, by their names.

        ``custom`` are the names of all other converters that are not TVM's.
        """
        self._custom = custom | BODY_NAMES
        own = {BRANCH: _branch, LOOP: _loop, SCAN: _scan}
        return {call.__name__: self._converter(convert) for call, convert in own.items()}

    def added_to(self, module: tvm.IRModule) -> tvm.IRModule:
        """The module with all functions."""
        return module if self._bodies is None else self._bodies.added_to(module)

    def _converter(self, convert: Callable[["_Place"], Any]) -> Converter:
        def converted(node: Any, importer: Any) -> Any:
            if self._bodies is None:
                self._bodies = Bodies(importer.block_builder, counts_of(importer))
            try:
                return convert(_Place(node, importer, self._bodies, self._custom, self._constants))
            except Unsupported as error:
                raise ModelError(f"node '{node.name}' {error}") from None

        return converted


@dataclass(frozen=True)
class _Place:
    """A call and what is around it, as :class:`relay_layout.frontend.run_time_loops.Writer` has it."""

    node: Any
    importer: Any
    bodies: Bodies
    custom: frozenset[str]
    constants: ByIdentity[Any, Any]

    @property
    def label(self) -> str:
        """What bodies are named after."""
        return str(self.node.name).removesuffix("_loop").replace("while_loop", "while").replace("_impl", "")

    @property
    def builder(self) -> Any:
        """Takes all expressions."""
        return self.importer.block_builder

    def expression(self, value: Value) -> Any:
        """Any tensor value as a Relax expression."""
        return Expressions(self.builder)(value, self.label)

    def emit(self, expression: Any, part: str = "") -> Any:
        """Bind an expression to a variable."""
        return self.builder.emit(expression, name_hint=f"{self.label}_{part or 'part'}")

    def values(self, arguments: Sequence[Any]) -> list[Value]:
        """Operands of the call, or results of a graph, as loops carry them."""
        return [self._value(value_of(self.importer, one)) for one in arguments]

    def given(self, arguments: Sequence[Any]) -> list[Any]:
        """Operands as a graph takes them."""
        return [value_of(self.importer, one) for one in arguments]

    def condition(self, value: Any) -> Any:
        """What a program says of going on, as a bool without dimensions or a number."""
        value = value_of(self.importer, value)
        if isinstance(value, bool):
            return np.array(value)
        if isinstance(getattr(value, "ty", None), relax.TensorType):
            if len(shape_of(value)):
                value = self.emit(relax.op.reshape(value, []), "condition")
            return value if isinstance(value, relax.Var) else self.emit(value, "condition")
        return as_scalar(self.importer, OpenFloat(value), "bool")

    def like(self, values: Sequence[Value], examples: Sequence[Any]) -> list[Any]:
        """Values as a program has them that has ``examples`` in their place: tensors or numbers."""
        return [
            self._number(value) if isinstance(example, int | torch.SymInt) else value
            for value, example in zip(values, examples, strict=True)
        ]

    def _value(self, held: Any) -> Value:
        if isinstance(held, bool | int):
            return np.array(held, "int64")
        kind = getattr(held, "ty", None)
        if isinstance(kind, relax.TensorType):
            return held
        if str(kind) == "int64":
            return extents(held)
        raise Unsupported("carries a value that is neither a tensor nor an integer, which is not supported")

    def _number(self, value: Value) -> Any:
        if isinstance(value, np.ndarray):
            return int(value)
        if isinstance(value, Extents):
            return value.array.item()
        number = self.emit(relax.op.reshape(value, [1]), "number")
        return counts_of(self.importer).count(number, None, f"{self.label}_number")


class _Body:
    """A graph whose nodes are converted each time it is called; those that read only operands, once.

    Loops and branches are converted each time: what is converted once belongs to the function around, which
    would run a loop that may be no part of any trip. The graph takes ``own`` parameters when it is called,
    and ``operands`` at all times.
    """

    def __init__(self, place: _Place, graph: Any, own: int, operands: Sequence[Any]) -> None:
        self._place = place
        self._module = place.importer.env[graph]
        nodes = list(self._module.graph.nodes)
        parameters = [node for node in nodes if node.op == "placeholder"]
        self._own, fixed = parameters[:own], parameters[own:]
        self.examples = [node.meta.get("val") for node in self._own]
        place.importer.env.update(zip(fixed, operands, strict=True))
        changing = {*self._own, *(node for node in nodes if _runs_graphs(node))}
        for node in nodes:
            if not changing.isdisjoint(node.all_input_nodes):
                changing.add(node)
        operations = [node for node in nodes if node.op not in ("placeholder", "output")]
        self._repeated = [node for node in operations if node in changing]
        self._once = [node for node in operations if node not in changing]
        self._output = nodes[-1]

    def prepare(self) -> "_Body":
        """Convert what reads operands alone."""
        once, self._once = self._once, []
        self._convert(once)
        return self

    def __call__(self, *given: Any) -> Any:
        """What the graph gives, as its nodes."""
        self.prepare()
        with looked_at_anew(self._place.importer):
            self._place.importer.env.update(zip(self._own, given, strict=True))
            self._convert(self._repeated)
        return self._output.args[0]

    def _convert(self, nodes: Sequence[Any]) -> None:
        importer = self._place.importer
        for node in nodes:
            if node.op == "get_attr":
                held = getattr(self._module, node.target)
                is_graph = isinstance(held, torch.fx.GraphModule)
                importer.env[node] = held if is_graph else self._place.constants.kept(held, self._constant)
                continue
            name = node.target.__name__
            convert = importer.convert_map[name]
            importer.env[node] = convert(node, importer) if name in self._place.custom else convert(node)

    def _constant(self, tensor: Any) -> Any:
        return relax.const(self._place.importer._convert_pytorch_tensor_to_tvm(tensor.contiguous()))


def _runs_graphs(node: Any) -> bool:
    return node.op == "call_function" and node.target.__name__ in BODY_NAMES


def _branch(place: _Place) -> list[Any]:
    condition, graphs, operands = place.node.args
    sides = [
        _Body(place, graph, 0, place.given(given)) for graph, given in zip(graphs, operands, strict=True)
    ]

    def results(side: _Body) -> Callable[[], list[Value]]:
        return lambda: place.values(side())

    found = run_branch(place, place.bodies, place.condition(condition), [results(side) for side in sides])
    return place.like(found, place.node.meta["val"])


def _loop(place: _Place) -> list[Any]:
    graphs, carried, operands = place.node.args
    goes_on, body = (
        _Body(place, graph, len(carried), place.given(given)).prepare()
        for graph, given in zip(graphs, operands, strict=True)
    )

    def step(_: Any, states: Sequence[Value]) -> Trip:
        left = place.values(body(*place.like(states, body.examples)))
        return Trip(due(left), left, [])

    def due(states: Sequence[Value]) -> Any:
        return place.condition(goes_on(*place.like(states, goes_on.examples)))

    given = place.values(carried)
    found, _ = run_loop(place, place.bodies, given, step, None, due(given))
    return place.like(found, place.node.meta["val"])


def _scan(place: _Place) -> list[Any]:
    graph, carried, scanned, operands = place.node.args
    own = len(carried) + len(scanned)
    body = _Body(place, graph, own, place.given(operands)).prepare()
    tensors = place.given(scanned)

    def step(trip: Any, states: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        rows = [place.emit(relax.op.take(tensor, trip, 0), "row") for tensor in tensors]
        left = place.values(body(*place.like([*states, *rows], body.examples)))
        return left[: len(carried)], left[len(carried) :]

    trips = shape_of(tensors[0])[0]
    found, rows = run_scan(place, place.bodies, place.values(carried), step, trips)
    return place.like([*found, *rows], place.node.meta["val"])
