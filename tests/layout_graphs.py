"""Random graphs of operators that take part in layouts, and their conversion against themselves.

`check(seed, steps, layout)` is the reproducer that failures print. A graph of fewer steps is the beginning of
the one with more, so the smallest number of steps that fails is found by counting up. In the layout "any" no
solver chooses: every operator runs in one of the ways that its rule offers, drawn at random.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import tvm
from tvm import relax

from relay_layout.choice.solver import Solution
from relay_layout.graph import Node, Value, build_graph
from relay_layout.layout import Layout
from relay_layout.layout_request import LayoutRequest
from relay_layout.ops import Signature, Wanted, table_rule, unchanged
from relay_layout.rewrite.convert_layout import convert_layout
from relay_layout.rewrite.rewriter import rewrite
from relay_layout.targets import TargetOffers, resolve_target
from relay_layout.verify import verify
from tests import layout_moves as moves
from tests import layout_steps as steps_of
from tests.fuzzing import smallest_failure
from tests.layout_steps import Graph
from tests.legalizing import legalized

LAYOUTS = ("auto", "NHWC", "NCHW", "NCHW4c", "NCHW8c", "HWNC", "none")
ANY = "any"
IMAGES = (3, 4, 5)

Step = tuple[Callable[[Graph, Any], Any], int | tuple[int, ...] | None, int]
"""What a step may add, the ranks that it takes, and how often it is tried."""

STEPS: list[Step] = [
    (steps_of.convolution, IMAGES, 12),
    (steps_of.transposed_convolution, IMAGES, 1),
    (steps_of.pooling, IMAGES, 3),
    (steps_of.global_pooling, IMAGES, 1),
    (steps_of.unary, None, 3),
    (steps_of.clip, None, 1),
    (steps_of.binary, None, 5),
    (steps_of.select, None, 2),
    (steps_of.alike, None, 1),
    (steps_of.branch, None, 1),
    (steps_of.batch_norm, IMAGES, 2),
    (steps_of.layer_norm, IMAGES, 2),
    (steps_of.channel_norm, IMAGES, 2),
    (steps_of.prelu, 4, 1),
    (steps_of.pad, IMAGES, 2),
    (steps_of.softmax, IMAGES, 1),
    (steps_of.reduction, None, 2),
    (steps_of.extreme, IMAGES, 1),
    (steps_of.median, 4, 1),
    (steps_of.cumulative, IMAGES, 1),
    (steps_of.topk, IMAGES, 1),
    (moves.concat, IMAGES, 3),
    (moves.split, IMAGES, 2),
    (moves.sliced, 4, 2),
    (moves.stack, 4, 1),
    (moves.expand, None, 1),
    (moves.reshape, 4, 2),
    (moves.shuffle, 4, 2),
    (moves.transpose, 4, 2),
    (moves.repeated, 4, 2),
    (moves.taken, 4, 1),
    (moves.indexed, 4, 1),
    (moves.gathered, 4, 1),
    (moves.resize, 4, 1),
    (moves.regions, 4, 1),
    (moves.quantized, 4, 1),
    (moves.matrix, 4, 2),
    (moves.contracted, 4, 1),
    (moves.encoded, 4, 1),
    (moves.broadcast, 4, 1),
    (moves.checked, 4, 1),
]


def random_graph(seed: int, steps: int, of: Sequence[Step] = STEPS) -> Graph:
    """A finished graph; its function has one input and gives its last values."""
    graph = Graph(seed)
    weights = np.array([weight for _, _, weight in of], float)
    in_dataflow = graph.rng.random() < 0.8
    with graph.builder.function("main", graph.inputs):
        with graph.builder.dataflow() if in_dataflow else nullcontext():
            for _ in range(steps):
                step, ranks, _ = of[int(graph.rng.choice(len(of), p=weights / weights.sum()))]
                value = graph.value(ranks)
                expression = step(graph, value) if value is not None else None
                if expression is not None:
                    graph.emit(expression)
            emit = graph.builder.emit_output if in_dataflow else graph.builder.emit
            outputs = [emit(value) for value in graph.values[-3:]]
        graph.builder.emit_func_output(relax.Tuple(outputs))
    return graph


def random_module(seed: int, steps: int) -> tvm.IRModule:
    """The module of :func:`random_graph`."""
    return random_graph(seed, steps).builder.finalize()


def compiled(module: tvm.IRModule) -> relax.VirtualMachine:
    """A module lowered as it is and not optimised."""
    target = tvm.target.Target({"kind": "llvm", "opt-level": 1})
    with target:
        module = legalized(module)
    return relax.VirtualMachine(tvm.compile(module, target), tvm.cpu())


def execute(module: tvm.IRModule, *arrays: np.ndarray) -> list[np.ndarray]:
    """What main computes, lowered as it is and not optimised."""
    return _run(compiled(module), *arrays)


def _run(machine: relax.VirtualMachine, *arrays: np.ndarray) -> list[np.ndarray]:
    return [tensor.numpy() for tensor in machine["main"](*map(tvm.runtime.tensor, arrays))]


def check(seed: int, steps: int, layout: str) -> None:
    """Convert a graph and compare what it computes with what it computed, at every size it is meant for."""
    graph = random_graph(seed, steps)
    module = graph.builder.finalize()
    converted = converted_any(module, seed) if layout == ANY else converted_to(module, layout)
    compare(graph, module, converted, seed)


def compare(graph: Graph, module: tvm.IRModule, converted: tvm.IRModule, seed: int) -> None:
    """AssertionError where a converted module computes something else, at any size of a graph."""
    extents = module["main"].params[0].ty.shape.values
    by_size = [_machines(graph, (module, converted), place) for place in range(2 if graph.sizes else 1)]
    for place, machines in enumerate(by_size):
        shape = _shape_at(graph, extents, place)
        image = np.random.default_rng(seed).uniform(-1, 1, shape).astype("float32")
        for want, have in zip(*[_run(machine, image) for machine in machines], strict=True):
            _compare(want, have)


def _machines(graph: Graph, modules: Sequence[tvm.IRModule], place: int) -> list[relax.VirtualMachine]:
    """The original and the converted module, compiled for any size.

    For one size where TVM fails on the symbols of the original, or where its simplifier gives up on them.
    """
    original, converted = modules
    try:
        machine = compiled(original)
    except tvm.error.InternalError:
        if not graph.sizes:
            raise
    else:
        try:
            return [machine, compiled(converted)]
        except tvm.error.InternalError as error:
            if not graph.sizes or "CanProveDivisible(info.padding_factor" not in str(error):
                raise
    numbers = {name.name: sizes[place] for name, sizes in graph.sizes.items()}
    return [compiled(relax.transform.BindSymbolicVars(numbers)(module)) for module in modules]


def _shape_at(graph: Graph, extents: Any, place: int) -> tuple[int, ...]:
    by_name = {name.name: sizes[place] for name, sizes in graph.sizes.items()}
    return tuple(
        int(extent) if not hasattr(extent, "name") else by_name[str(extent.name)] for extent in extents
    )


def _compare(want: np.ndarray, have: np.ndarray) -> None:
    assert want.shape == have.shape and want.dtype == have.dtype, f"{have.shape} for {want.shape}"
    scale = float(np.abs(want).max(initial=0.0)) + 1e-6
    worst = float(np.abs(want.astype("float64") - have).max(initial=0.0))
    assert np.isfinite(have).all() == np.isfinite(want).all(), "infinite on one side"
    assert not np.isfinite(worst) or worst <= 1e-3 * scale, f"differs by {worst / scale:.1e}"


def request_for(layout: str) -> LayoutRequest:
    """The request of a layout for images; sequences and volumes get theirs after it."""
    if layout in ("auto", "none"):
        return LayoutRequest.parse(layout)
    named = {"nn.conv2d": layout}
    if layout in ("NCHW", "NHWC"):
        named |= {"nn.conv1d": layout.replace("H", ""), "nn.conv3d": layout.replace("H", "DH")}
    return LayoutRequest.parse(desired_layouts={name: [own, "default"] for name, own in named.items()})


def converted_to(module: tvm.IRModule, layout: str) -> tvm.IRModule:
    """The module as the pass converts it."""
    return convert_layout(module, request_for(layout), resolve_target("native", threads=2))[0]


def converted_any(module: tvm.IRModule, seed: int) -> tvm.IRModule:
    """The module with every operator in a layout drawn at random from all that its rule offers."""
    module = relax.transform.Normalize()(module)
    graph = build_graph(module["main"])
    rng = np.random.default_rng(seed)
    chosen = {node: _drawn(node, rng) for node in graph.nodes}
    solution = Solution(chosen, "drawn", 0.0, 0.0, 0.0)
    outputs = {value: value.identity for value in graph.outputs()}
    rewritten = rewrite(graph, solution, outputs)
    verify("main", graph, rewritten.function, outputs, rewritten.placements)
    return tvm.IRModule({"main": rewritten.function})


def _drawn(node: Node, rng: np.random.Generator) -> Signature:
    rule, original = table_rule(node), unchanged(node)
    if rule is None or rng.random() < 0.2:
        return original
    offers = TargetOffers(resolve_target("native", threads=2))
    wanted = Wanted(
        tuple(tuple(_some_layouts(value, rng)) for value in node.operands),
        tuple(tuple(_some_layouts(value, rng)) for value in node.results),
    )
    found = list(rule.signatures(node, wanted, offers))
    return found[int(rng.integers(len(found)))] if found else original


def _some_layouts(value: Value, rng: np.random.Generator) -> Iterator[Layout]:
    letters = str(Layout.generic(value.rank))
    for _ in range(6 if letters else 0):
        order = "".join(rng.permutation(list(letters))) if rng.random() < 0.7 else letters
        if rng.random() < 0.5:
            order += f"{rng.choice([2, 4, 8])}{rng.choice(list(letters)).lower()}"
        yield Layout.parse(order)


def failure(seed: int, steps: int, layout: str) -> str | None:
    """The reproducer of the smallest beginning of a graph that fails, None if it does not."""
    return smallest_failure(__name__, check, seed, steps, layout)


def fuzzed(seed: int) -> str | None:
    """One graph of the sweep: its size and layout follow from the seed."""
    layouts = (*LAYOUTS, ANY, ANY, ANY)
    return failure(seed, 3 + seed % 9, layouts[seed % len(layouts)])
