"""Large networks: time, depth, size of the problem that is left to solve, and memory."""

import random
import subprocess
import sys
import textwrap
import time
import xml.dom.minidom
from pathlib import Path

import pytest
import tvm
from tvm import relax

from relay_layout.choice import candidates
from relay_layout.choice.candidates import collect_signatures
from relay_layout.choice.problem import problem_of
from relay_layout.choice.reduction import reduce_problem
from relay_layout.choice.solver import solve
from relay_layout.graph import Graph, Node, Value, build_graph
from relay_layout.layout import Layout
from relay_layout.layout_request import LayoutRequest
from relay_layout.ops import Signature
from relay_layout.rewrite.convert_layout import ConversionReport, convert_layout
from relay_layout.targets import TargetOffers, resolve_target
from scripts import conversion_time
from scripts.conversion_time import NETWORKS, network
from tests.relax_modules import main_of
from tests.relay_layout.choice.solving import own_cost, unreduced

ROOT = Path(__file__).resolve().parents[2]
TARGET = resolve_target("x86-64-v4", threads=2)


def offered(module: tvm.IRModule) -> tuple[Graph, dict[Node, list[Signature]]]:
    graph = build_graph(module["main"])
    return graph, collect_signatures(graph, TargetOffers(TARGET))


def conversion_seconds(module: tvm.IRModule, request: LayoutRequest) -> tuple[float, ConversionReport]:
    """Of the processor, not of the clock: other processes may have the machine."""
    start = time.process_time()
    _, report = convert_layout(module, request, TARGET)
    return time.process_time() - start, report


def growth(
    large: tvm.IRModule, small: tvm.IRModule, request: LayoutRequest
) -> tuple[float, ConversionReport]:
    """How many times as long ``large`` takes: the least of three, since a machine's speed changes."""
    ratios = []
    for _ in range(3):
        before, _ = conversion_seconds(small, request)
        seconds, report = conversion_seconds(large, request)
        ratios.append(seconds / before)
        if ratios[-1] < 6.0:
            break
    return min(ratios), report


@pytest.mark.parametrize("name", NETWORKS)
def test_hundreds_of_operators(name: str) -> None:
    """Four times the operators take four times as long, with a margin; sixteen times would be quadratic."""
    ratio, report = growth(network(name, 480), network(name, 120), LayoutRequest())
    assert report.layout_transforms <= 2
    assert report.solver_status == "optimal"
    assert ratio < 8.0


@pytest.mark.parametrize("name", NETWORKS)
def test_nothing_is_left_to_the_integer_program(name: str) -> None:
    graph, signatures = offered(network(name, 200))
    outputs = {value: value.identity for value in graph.outputs()}
    problem = problem_of(graph, signatures, lambda value, source, target: 5.0, outputs, own_cost)
    assert not reduce_problem(problem).problem.groups


@pytest.mark.parametrize("name", NETWORKS)
def test_signatures_do_not_gather_with_depth(name: str) -> None:
    few, many = (max(len(ways) for ways in offered(network(name, size))[1].values()) for size in (200, 600))
    assert few == many <= 10


def transposed_at_random(operators: int) -> tvm.IRModule:
    """Transposes in ever other orders, which name a layout more each."""
    rng = random.Random(0)
    image = relax.Var("image", relax.TensorType((2, 16, 3, 3, 5), "float32"))
    with main_of(image) as builder:
        value = image
        for _ in range(operators):
            axes = rng.sample(range(5), 5)
            value = builder.emit(relax.op.nn.relu(builder.emit(relax.op.permute_dims(value, axes))))
        builder.result = value
    return builder.finalize()


def test_signatures_are_bounded_where_layouts_are_many() -> None:
    _, signatures = offered(transposed_at_random(150))
    most = max(len(ways) for ways in signatures.values())
    assert candidates.MOST_LAYOUTS < most <= 1 + 2 * candidates.MOST_LAYOUTS


def test_bounded_signatures_still_convert(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "MOST_LAYOUTS", 2)
    _, report = convert_layout(network("mixed", 100), LayoutRequest(), TARGET)
    assert report.verified
    assert report.solver_status == "optimal"


def many_readers(readers: int) -> tvm.IRModule:
    image = relax.Var("image", relax.TensorType((1, 32, 4, 4), "float32"))
    weight = relax.const([[[[0.5]]] * 32] * 32, "float32")
    with main_of(image) as builder:
        total = builder.emit(relax.op.nn.conv2d(image, weight))
        for _ in range(readers):
            total = builder.emit(relax.op.add(total, builder.emit(relax.op.nn.relu(image))))
        builder.result = total
    return builder.finalize()


def test_four_hundred_readers_share_a_transform() -> None:
    ratio, report = growth(many_readers(400), many_readers(100), LayoutRequest.parse("NHWC"))
    assert report.layout_transforms == 2
    assert ratio < 8.0


@pytest.mark.parametrize("seed", range(3))
def test_choice_is_optimal_where_features_are_read_far_ahead(seed: int) -> None:
    """DenseNet under random costs, which leave groups to the integer program, against the full program."""
    rng = random.Random(seed)
    graph, signatures = offered(network("dense", 80))
    signatures = {
        node: [
            Signature(way.operands, way.results, way.attributes, rng.uniform(0, 9), way.alias) for way in ways
        ]
        for node, ways in signatures.items()
    }
    costs = {value: rng.uniform(0.5, 5) for value in graph.values()}

    def transform_cost(value: Value, source: Layout, target: Layout) -> float:
        return costs[value]

    outputs = {value: value.identity for value in graph.outputs()}
    problem = problem_of(graph, signatures, transform_cost, outputs, own_cost)
    assert reduce_problem(problem).problem.groups
    reduced = solve(graph, signatures, transform_cost, outputs, operator_cost=own_cost)
    with unreduced():
        full = solve(graph, signatures, transform_cost, outputs, operator_cost=own_cost)
    assert reduced.status == full.status == "optimal"
    assert reduced.objective == pytest.approx(full.objective, rel=1e-9)


def test_the_table_of_conversion_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drawing = tmp_path / "growth.svg"
    arguments = ["--sizes", "20,60", "--networks", "chain,residual", "--repeat", "1", "--plot", str(drawing)]
    assert conversion_time.main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [
        "network",
        *["chain"] * 2,
        *["residual"] * 2,
        "chain",
        "residual",
    ]
    assert lines[1].split()[-1] == "optimal"
    assert "grows with operators to the power of" in lines[-1]
    assert xml.dom.minidom.parse(str(drawing)).getElementsByTagName("polyline").length == 2


@pytest.mark.slow
def test_ten_thousand_operators_one_after_another() -> None:
    ratio, report = growth(network("elementwise", 10_000), network("elementwise", 2500), LayoutRequest())
    assert report.solver_status == "optimal"
    assert ratio < 8.0


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_five_thousand_operators(name: str) -> None:
    ratio, _ = growth(network(name, 5000), network(name, 1250), LayoutRequest())
    assert ratio < 8.0


MEMORY = """
    import resource
    import sys

    import numpy as np
    import tvm
    from tvm import relax

    from relay_layout.layout_request import LayoutRequest
    from relay_layout.rewrite.convert_layout import convert_layout
    from relay_layout.targets import resolve_target
    from tests.relax_modules import main_of

    channels, layers = int(sys.argv[1]), int(sys.argv[2])
    peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    before = peak()
    data = relax.Var("data", relax.TensorType((1, channels, 8, 8), "float32"))
    with main_of(data) as builder:
        value = data
        for layer in range(layers):
            tensor = tvm.runtime.empty((channels, channels, 3, 3), "float32")
            np.from_dlpack(tensor)[...] = layer
            value = builder.emit(relax.op.nn.conv2d(value, relax.const(tensor), padding=1))
        builder.result = value
    module = builder.finalize()
    _, report = convert_layout(module, LayoutRequest.parse("NHWC"), resolve_target("x86-64-v4"))
    assert report.layout_transforms == 2 and report.layout_transforms_weights == 0
    print((peak() - before) / (layers * channels * channels * 9 * 4))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("channels", "layers"), [(512, 53), (3712, 1)])
def test_weights_are_held_at_most_twice(channels: int, layers: int) -> None:
    """Half a gigabyte of weights, in many tensors and in one, all to be transposed.

    What the imports take is not counted: it is several hundred megabytes where PyTorch is installed.
    """
    command = [sys.executable, "-c", textwrap.dedent(MEMORY), str(channels), str(layers)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert 1.0 < float(ran.stdout) < 2.2
