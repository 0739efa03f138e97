"""The integer program against enumeration of every assignment."""

import itertools
import random

import pytest
import tvm
from tvm import relax

from relay_layout.candidates import collect_signatures
from relay_layout.graph import Graph, Node, Value, build_graph
from relay_layout.layout import Layout
from relay_layout.ops import Signature
from relay_layout.solver import TIE_BREAK_US, expanded, same_memory, solve
from relay_layout.targets import TargetOffers, resolve_target


def random_module(seed: int) -> tvm.IRModule:
    """A few convolutions, additions, concatenations and pools wired at random."""
    rng = random.Random(seed)
    builder = relax.BlockBuilder()
    image = relax.Var("image", relax.TensorType((1, 16, 8, 8), "float32"))
    with builder.function("main", [image]):
        with builder.dataflow():
            values = [image]
            for _ in range(rng.randint(2, 5)):
                kind = rng.choice(["conv", "conv", "relu", "add", "pool", "transpose"])
                left, right = rng.choice(values), rng.choice(values)
                if kind == "conv":
                    channels = int(left.ty.shape.values[1])
                    weight = relax.const([[[[0.5]]] * channels] * 16, "float32")
                    values.append(builder.emit(relax.op.nn.conv2d(left, weight)))
                elif kind == "relu":
                    values.append(builder.emit(relax.op.nn.relu(left)))
                elif kind == "add":
                    values.append(builder.emit(relax.op.add(left, right)))
                elif kind == "pool":
                    values.append(builder.emit(relax.op.nn.max_pool2d(left, (3, 3), (1, 1), (1, 1, 1, 1))))
                else:
                    turned = builder.emit(relax.op.permute_dims(left, [0, 1, 3, 2]))
                    values.append(turned)
            outputs = [builder.emit_output(value) for value in values[-2:]]
        builder.emit_func_output(relax.Tuple(outputs))
    return builder.finalize()


def cost_of(
    graph: Graph,
    chosen: dict[Node, Signature],
    transform_cost: dict[Value, float],
    outputs: dict[Value, Layout],
) -> float:
    """The model's objective, computed from its definition rather than from constraints."""
    total = sum(signature.cost for signature in chosen.values())
    for value in graph.values():
        written = value.identity
        if value.producer is not None:
            written = chosen[value.producer].results[value.producer.results.index(value)]
        needed = [chosen[node].operands[position] for node, position in value.consumers]
        if value in outputs:
            needed.append(outputs[value])
        made: list[Layout] = []
        for layout in needed:
            if not any(same_memory(value, layout, other) for other in (written, *made)):
                made.append(layout)
        total += len(made) * (transform_cost[value] + TIE_BREAK_US)
    return total


@pytest.mark.parametrize("seed", range(60))
def test_objective_equals_enumeration(seed: int) -> None:
    rng = random.Random(1000 + seed)
    graph = build_graph(random_module(seed)["main"])
    signatures = collect_signatures(graph, TargetOffers(resolve_target("x86-64-v4", threads=1)))
    # Random costs reach assignments that a real target would never choose.
    signatures = {
        node: [
            Signature(choice.operands, choice.results, choice.attributes, rng.uniform(0, 10), choice.alias)
            for choice in rng.sample(choices, min(len(choices), 3))
        ]
        for node, choices in signatures.items()
    }
    if any(not choices for choices in signatures.values()):
        pytest.skip("a node without signatures")
    transform_cost = {value: rng.uniform(0.5, 5) for value in graph.values()}
    outputs = {value: value.identity for value in graph.outputs()}
    solution = solve(graph, signatures, transform_cost.__getitem__, outputs)
    best = min(
        cost_of(graph, dict(zip(signatures, choice, strict=True)), transform_cost, outputs)
        for choice in itertools.product(*signatures.values())
    )
    assert solution.objective_us == pytest.approx(best, rel=1e-6), f"random_module({seed})"
    assert cost_of(graph, dict(solution.signatures), transform_cost, outputs) == pytest.approx(best, rel=1e-6)


def test_layouts_of_a_single_pixel_share_memory() -> None:
    pixel = Value("pixel", (1, 32, 1, 1), "float32", None)
    image = Value("image", (1, 32, 2, 2), "float32", None)
    blocked, channels_last = Layout.parse("ABCD16b"), Layout.parse("ACDB")
    assert same_memory(pixel, blocked, channels_last)
    assert not same_memory(image, blocked, channels_last)


def test_expanded_layout_keeps_trailing_axes() -> None:
    assert str(expanded(Layout.parse("AB"), 4)) == "ABCD"
    assert str(expanded(Layout.parse("BA"), 4)) == "ABDC"
    assert str(expanded(Layout.generic(0), 2)) == "AB"


def test_time_limit_of_zero_still_answers() -> None:
    graph = build_graph(random_module(3)["main"])
    signatures = collect_signatures(graph, TargetOffers(resolve_target("x86-64-v4", threads=1)))
    outputs = {value: value.identity for value in graph.outputs()}
    solution = solve(graph, signatures, lambda value: 1.0, outputs, time_limit=1e-9)
    assert set(solution.signatures) == set(graph.nodes)
