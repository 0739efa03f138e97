"""Random networks for random backends: what a backend requires of each operator, met and proven.

`check(seed, steps)` is the reproducer that failures print; the graph, the backend's answers and what else is
asked follow from the seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax

from relay_layout.choice.plan import LayoutPlan, plan_layout
from relay_layout.choice.solver import solve
from relay_layout.errors import VerificationError
from relay_layout.explanation.reasons import not_converted
from relay_layout.graph import Node, build_graph
from relay_layout.layout import Layout
from relay_layout.layout_request import LayoutRequest
from relay_layout.ops import Signature, unchanged
from relay_layout.rewrite.border import with_border_layouts
from relay_layout.rewrite.rewriter import Rewritten, rewrite
from relay_layout.targets import OperatorView, Requirement, resolve_target
from relay_layout.verify import verify
from relay_layout.verify.originals import Held, moved_from, plain_of
from relay_layout.verify.padding import Paddings
from tests import layout_graphs
from tests import layout_moves as moves
from tests import layout_steps as steps_of
from tests.fuzzing import smallest_failure
from tests.layout_graphs import Step
from tests.layout_steps import Graph
from tests.relay_layout.verify.mutation import some_mutants

op = relax.op
LETTERS = "NCHW"
KERNELS = ("OIHW", "HWIO", "OHWI", "HWOI")
ALIGNMENTS = (1, 4, 32)
FORBIDDEN_US = 1e9
MOST_MUTANTS = 12
"""Mutants of one conversion that are tried."""


def squeezed_excitation(graph: Graph, x: Any) -> Any:
    """Channels scaled by what their means say."""
    if not graph.is_known(x, 1) or graph.shape(x)[1] > 64:
        return None
    channels = graph.shape(x)[1]
    mean = graph.builder.emit(op.mean(x, [2, 3], keepdims=True))
    narrow = graph.builder.emit(op.nn.relu(op.nn.conv2d(mean, graph.constant(3, channels, 1, 1))))
    gate = graph.builder.emit(op.sigmoid(op.nn.conv2d(narrow, graph.constant(channels, 3, 1, 1))))
    return op.multiply(x, gate)


def attention(graph: Graph, x: Any) -> Any:
    """Pixels that attend to each other, with channels as heads."""
    n, c, h, w = x.ty.shape.values
    if not graph.is_known(x, 1) or int(c) > 64:
        return None
    rows = graph.builder.emit(op.permute_dims(op.reshape(x, (n, c, h * w)), [0, 2, 1]))
    scores = graph.builder.emit(op.matmul(rows, op.permute_dims(rows, [0, 2, 1])))
    mixed = graph.builder.emit(op.matmul(op.nn.softmax(scores, axis=-1), rows))
    return op.reshape(op.permute_dims(mixed, [0, 2, 1]), (n, c, h, w))


def rectified(graph: Graph, x: Any) -> Any:
    """What keeps zeros zero, with bounds or factors."""
    kind = graph.of(("bounded", "factor", "divided", "quotient", "bias"))
    if kind == "bounded":
        return op.clip(x, 0, 6)
    if kind == "factor":
        return op.multiply(x, relax.const(0.5))
    if kind == "divided" or not graph.is_known(x, 1):
        return op.divide(x, relax.const(2.0))
    if kind == "quotient":
        return op.divide(x, graph.constant(1, graph.shape(x)[1], 1, 1))
    return op.add(x, graph.constant(1, graph.shape(x)[1], 1, 1))


def grouped_shuffle(graph: Graph, x: Any) -> Any:
    """The channels of a divisor of their number of groups interleaved."""
    n, c, h, w = x.ty.shape.values
    if not graph.is_known(x, 1):
        return None
    groups = graph.of([count for count in range(1, int(c) + 1) if int(c) % count == 0])
    split = graph.builder.emit(op.reshape(x, (n, groups, int(c) // groups, h, w)))
    turned = graph.builder.emit(op.permute_dims(split, [0, 2, 1, 3, 4]))
    if graph.rng.random() < 0.4:
        turned = graph.builder.emit(op.nn.relu(turned))
    return op.reshape(turned, (n, c, h, w))


STEPS: list[Step] = [
    (steps_of.convolution, 4, 26),
    (steps_of.pooling, 4, 3),
    (steps_of.global_pooling, 4, 1),
    (steps_of.unary, None, 4),
    (rectified, 4, 4),
    (steps_of.clip, None, 1),
    (steps_of.binary, None, 6),
    (steps_of.select, None, 1),
    (steps_of.alike, None, 1),
    (steps_of.branch, None, 1),
    (steps_of.batch_norm, 4, 2),
    (steps_of.layer_norm, 4, 1),
    (steps_of.channel_norm, 4, 1),
    (steps_of.prelu, 4, 1),
    (steps_of.pad, 4, 2),
    (steps_of.softmax, 4, 1),
    (steps_of.reduction, None, 2),
    (steps_of.extreme, 4, 1),
    (steps_of.cumulative, 4, 1),
    (moves.concat, 4, 3),
    (moves.split, 4, 3),
    (moves.sliced, 4, 2),
    (moves.reshape, 4, 2),
    (moves.shuffle, 4, 4),
    (grouped_shuffle, 4, 6),
    (moves.transpose, 4, 1),
    (moves.repeated, 4, 1),
    (moves.taken, 4, 1),
    (moves.resize, 4, 1),
    (moves.matrix, 4, 1),
    (moves.broadcast, 4, 1),
    (squeezed_excitation, 4, 2),
    (attention, 4, 1),
]


class RandomBackend:
    """Asks for layouts at random: of each operator the same whenever it is asked."""

    name = "random"

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        # One accelerator mostly asks for one thing, with exceptions.
        self._usual = self._image()

    def requirements(self, operator: OperatorView) -> Sequence[Requirement] | None:
        """Nothing for a third, an empty list for some, and one or several ways else."""
        kind = self._rng.random()
        if kind < (0.05 if "conv" in operator.operator else 0.5):
            return None
        if kind < 0.55 and kind >= 0.5:
            return []
        count = 1 if self._rng.random() < 0.8 else 2
        return [self._one(operator) for _ in range(count)]

    def _one(self, operator: OperatorView) -> Requirement:
        data = self._usual if self._rng.random() < 0.7 else self._image()
        out = data if self._rng.random() < 0.85 else self._image()
        microseconds = float(self._rng.integers(0, 5))
        if operator.operator == "nn.conv2d":
            return Requirement([data, self._kernel(data, out)], [out], microseconds)
        inputs = [data if sorted(tensor.letters) == sorted(LETTERS) else None for tensor in operator.inputs]
        outputs = [data if sorted(tensor.letters) == sorted(LETTERS) else None for tensor in operator.outputs]
        return Requirement(inputs, outputs, microseconds)

    def _of(self, choices: Sequence[Any]) -> Any:
        return choices[int(self._rng.integers(len(choices)))]

    def _image(self) -> str:
        text = self._of(("NCHW", "NHWC", "NHWC", "HWNC", "NCHW4c", "NCHW8c", "NCHW16c"))
        alignment = self._of(ALIGNMENTS) if text.isupper() else 1
        text = text.replace("C", f"C[a={alignment}]") if alignment > 1 else text
        return text.replace("N", "N[a=4]", 1) if text.isupper() and self._rng.random() < 0.05 else text

    def _kernel(self, data: str, out: str) -> str:
        text = self._of(KERNELS)
        if self._rng.random() < 0.05:
            return text
        for letter, image in (("I", data), ("O", out)):
            layout = Layout.parse(image)
            if layout.alignment("C") > 1:
                text = text.replace(letter, f"{letter}[a={layout.alignment('C')}]")
            elif layout.is_blocked and "[" not in text:
                text += f"{layout.block('C')}{letter.lower()}"
        return text


def request_of(seed: int) -> LayoutRequest:
    """A backend alone mostly; beside desired layouts, which it goes before, or none at all."""
    rng = np.random.default_rng(seed)
    backend = RandomBackend(seed)
    kind = rng.random()
    if kind < 0.7:
        return LayoutRequest(backend=backend)
    desired = {
        "nn.conv2d": [
            str(rng.choice(["NHWC", "NCHW", "HWNC", "NCHW4c", "NCHW8c"])),
            str(rng.choice(["default", "default", "OHWI", "HWIO", "OIHW"])),
        ],
        **({"nn.max_pool2d": ["NHWC"]} if rng.random() < 0.5 else {}),
    }
    if Layout.parse(desired["nn.conv2d"][0]).is_blocked:
        desired["nn.conv2d"][1] = "default"
    skipped = [0] if rng.random() < 0.2 else []
    request = LayoutRequest.parse(desired_layouts=desired, backend=backend if kind < 0.85 else None)
    return LayoutRequest(
        request.desired_layouts,
        backend=request.backend,
        skip_layers=frozenset(skipped),
        for_any_module=True,
    )


def check(seed: int, steps: int) -> None:
    """Convert a graph as a random backend wants it; what is wrong is an AssertionError of one line."""
    graph = layout_graphs.random_graph(seed, steps, STEPS)
    module = graph.builder.finalize()
    request = request_of(seed)
    target = resolve_target("native", threads=2)
    plan = plan_layout(with_border_layouts(module, request), request, target)
    rewritten = rewrite(plan.graph, plan.solution, dict(plan.outputs))
    verify("main", plan.graph, rewritten.function, plan.outputs, rewritten.placements)
    assert all(not_converted(plan).values()), "a node keeps its layout for no reason"
    _no_transforms_cancel(rewritten)
    _no_dearer_than_each_alone(plan)
    converted = tvm.IRModule({"main": rewritten.function})
    layout_graphs.compare(graph, module, converted, seed)
    _mutants_are_refused(graph, module, plan, rewritten, seed)


def _no_transforms_cancel(rewritten: Rewritten) -> None:
    """No tensor is brought into another order and back with nothing between that computes."""
    found = build_graph(rewritten.function)
    starts: dict[Any, list[tuple[Held, int]]] = {}
    paddings = Paddings()
    for node in found.nodes:
        if len(node.operands) != 1 or len(node.results) != 1 or node.name in rewritten.names:
            # What the original function computes, or does to its tensors itself.
            continue
        operand, result = node.operands[0], node.results[0]
        before = starts.get(operand, [])
        if (plain := plain_of(operand)) is not None:
            before = [*before, (Held(operand, plain, ()), 0)]
        for held, inserted in before:
            after = moved_from(node, held) or paddings.adjusted(node, held)
            if after is None:
                continue
            moves_elements = node.operator in ("permute_dims", "layout_transform", "nn.pad", "strided_slice")
            count = inserted + moves_elements
            same = after.root is held.root and after.dims == plain_of(after.root) and after.frame is None
            assert not (same and count > 1 and result.shape == after.root.shape), (
                f"'{node.name}' is '{after.root.name}' again after {count} transforms"
            )
            starts.setdefault(result, []).append((after, count))


def _no_dearer_than_each_alone(plan: LayoutPlan) -> None:
    """Not more transforms, and not dearer ones, than where each operator asks for its own on its own."""
    alone = {node: _alone(node, choices) for node, choices in plan.signatures.items()}
    # All choices are there, so that equal memory has one name and one price.
    naive = solve(
        plan.graph,
        plan.signatures,
        plan.objective.transform,
        plan.outputs,
        operator_cost=lambda node, choice: (
            plan.objective.operator(node, choice) + FORBIDDEN_US * (choice is not alone[node])
        ),
        time_limit=10.0,
    )
    assert plan.solution.objective <= naive.objective * (1 + 1e-6) + 1e-3, (
        f"costs {plan.solution.objective}, each operator alone {naive.objective}"
    )


def _alone(node: Node, choices: Sequence[Signature]) -> Signature:
    original = unchanged(node)
    same = [
        choice
        for choice in choices
        if (choice.operands, choice.results) == (original.operands, original.results)
    ]
    return (same or sorted(choices, key=lambda choice: choice.cost))[0]


def _mutants_are_refused(
    graph: Graph, module: tvm.IRModule, plan: LayoutPlan, rewritten: Rewritten, seed: int
) -> None:
    """What has one thing wrong is refused, or computes the same."""
    # What a callback puts in an operator's place is taken at its word.
    trusted = {
        name
        for placement in rewritten.placements
        if placement.signature.by_callback
        for name, node in rewritten.names.items()
        if node == placement.node.name
    }
    for mutant in some_mutants(rewritten.function, np.random.default_rng(seed), MOST_MUTANTS):
        if mutant.binding in trusted:
            continue
        try:
            verify("main", plan.graph, mutant.function, plan.outputs, rewritten.placements)
        except VerificationError:
            continue
        try:
            layout_graphs.compare(graph, module, tvm.IRModule({"main": mutant.function}), seed)
        except AssertionError as error:
            raise AssertionError(f"mutant '{mutant.binding}' ({mutant.kind}) passes: {error}") from error


def failure(seed: int, steps: int) -> str | None:
    """The reproducer of the smallest beginning of a graph that fails, None if it does not."""
    return smallest_failure(__name__, check, seed, steps)


def fuzzed(seed: int) -> str | None:
    """One graph of the sweep: its size follows from the seed."""
    return failure(seed, 3 + seed % 9)
