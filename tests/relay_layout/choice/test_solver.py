"""The solver against enumeration of every assignment, and what it does when time runs out."""

import itertools
import random
from collections.abc import Mapping, Sequence
from contextlib import nullcontext

import pytest
import tvm
from tvm import relax

from relay_layout.choice import solver
from relay_layout.choice.candidates import collect_signatures
from relay_layout.choice.costs import TransformCosts
from relay_layout.choice.heuristic import approximate
from relay_layout.choice.memory import MemoryOrders, expanded, same_memory
from relay_layout.choice.problem import Group, Problem, problem_of, total_cost
from relay_layout.choice.program import Minimum, minimise
from relay_layout.choice.reduction import Reduced, reduce_problem
from relay_layout.choice.solver import TIE_BREAK_US, Solution, solve, status_of_all
from relay_layout.choice.state import state_of
from relay_layout.graph import Node, Value, build_graph
from relay_layout.layout import Layout
from relay_layout.ops import Signature
from relay_layout.targets import TargetOffers, resolve_target
from tests.relay_layout.choice.solving import own_cost, unreduced

MOST_ASSIGNMENTS = 1500
PINNED = ("ABCD", "ACDB", "ABCD8b", "ABCD16b")


def random_module(seed: int, steps: int = 5) -> tvm.IRModule:
    """Operators wired at random: shared values, residuals, tuples, constants, transposes, several outputs."""
    rng = random.Random(seed)
    builder = relax.BlockBuilder()
    image = relax.Var("image", relax.TensorType((1, 16, 8, 8), "float32"))

    def step(left: relax.Expr, right: relax.Expr) -> relax.Expr | Sequence[relax.Expr]:
        kind = rng.choice(["conv", "conv", "relu", "add", "bias", "pool", "transpose", "split", "concat"])
        channels = int(left.ty.shape.values[1])
        if kind == "conv":
            return relax.op.nn.conv2d(left, relax.const([[[[0.5]]] * channels] * 16, "float32"))
        if kind == "relu":
            return relax.op.nn.relu(left)
        if kind == "bias":
            return relax.op.multiply(left, relax.const([[[0.5]]] * channels, "float32"))
        if kind == "pool":
            return relax.op.nn.max_pool2d(left, (3, 3), (1, 1), (1, 1, 1, 1))
        if kind == "transpose":
            return relax.op.permute_dims(left, [0, 1, 3, 2])
        if kind == "split" and channels % 2 == 0:
            parts = builder.emit(relax.op.split(left, 2, axis=1))
            return [relax.TupleGetItem(parts, place) for place in range(2)]
        if kind == "concat":
            constant = relax.const([[[[0.5] * 8] * 8] * 8], "float32")
            return relax.op.concat([left, constant, right], axis=1)
        equal = list(left.ty.shape.values) == list(right.ty.shape.values)
        return relax.op.add(left, right if equal else left)

    with builder.function("main", [image]):
        with builder.dataflow():
            values = [image]
            for _ in range(steps):
                found = step(rng.choice(values[-3:]), rng.choice(values))
                values += [builder.emit(part) for part in (found if isinstance(found, list) else [found])]
            outputs = [builder.emit_output(value) for value in values[-2:]]
        builder.emit_func_output(relax.Tuple(outputs))
    return builder.finalize()


class Case:
    """A random graph with random costs, which reach assignments that a real target would never choose."""

    def __init__(self, seed: int, steps: int | None = None, most: int = 3, *, by_pair: bool = False) -> None:
        """With ``by_pair`` what a transform costs depends on the layouts at both its ends."""
        rng = random.Random(1000 + seed)
        steps = steps or rng.randint(3, 7)
        self.graph = build_graph(random_module(seed, steps)["main"])
        offered = collect_signatures(self.graph, TargetOffers(resolve_target("x86-64-v4", threads=1)))
        spread = rng.choice([2.0, 10.0])
        self.signatures = {
            node: [
                Signature(way.operands, way.results, way.attributes, rng.uniform(0, spread), way.alias)
                for way in [ways[0], *rng.sample(ways[1:], min(len(ways) - 1, most - 1))]
            ]
            for node, ways in offered.items()
        }
        self.costs = {value: rng.uniform(0.5, 5) for value in self.graph.values()}
        self.orders = MemoryOrders()
        self.by_pair = by_pair
        self.outputs = {
            value: value.identity if value.rank != 4 else Layout.parse(rng.choice(PINNED))
            for value in self.graph.outputs()
        }

    def assignments(self) -> int:
        count = 1
        for ways in self.signatures.values():
            count *= len(ways)
        return count

    def solve(self, *, time_limit: float = 30.0, reduce: bool = True) -> Solution:
        """Without ``reduce``, by the integer program alone."""
        arguments = self.graph, self.signatures, self.transform_cost, self.outputs
        with nullcontext() if reduce else unreduced():
            return solve(*arguments, operator_cost=own_cost, time_limit=time_limit)

    def problem(self) -> Problem:
        return problem_of(self.graph, self.signatures, self.charged, self.outputs, own_cost)

    def transform_cost(self, value: Value, source: Layout, target: Layout) -> float:
        if not self.by_pair:
            return self.costs[value]
        ends = self.orders.number(value, source), self.orders.number(value, target)
        return self.costs[value] * random.Random(str(ends)).choice([0.2, 1.0, 1.0, 3.0])

    def charged(self, value: Value, source: Layout, target: Layout) -> float:
        return self.transform_cost(value, source, target) + TIE_BREAK_US

    def cost(self, chosen: Mapping[Node, Signature]) -> float:
        """The objective from its definition."""
        total = sum(signature.cost for signature in chosen.values())
        for value in self.graph.values():
            written = value.identity
            if value.producer is not None:
                written = chosen[value.producer].results[value.producer.results.index(value)]
            needed = [chosen[node].operands[position] for node, position in value.consumers]
            if value in self.outputs:
                needed.append(self.outputs[value])
            made: list[Layout] = []
            for layout in dict.fromkeys(needed):
                if not any(same_memory(value, layout, other) for other in (written, *made)):
                    made.append(layout)
            total += sum(self.charged(value, written, layout) for layout in made)
        return total

    def least(self) -> float:
        """The least cost of any assignment."""
        return min(
            self.cost(dict(zip(self.signatures, ways, strict=True)))
            for ways in itertools.product(*self.signatures.values())
        )

    def unchanged(self) -> dict[Node, Signature]:
        return {node: ways[0] for node, ways in self.signatures.items()}

    def greedy(self) -> dict[Node, Signature]:
        """As Relay does: convolutions run as they like best, the rest follows its first operand if it can."""
        present = {value: value.identity for value in self.graph.parameters}
        chosen = {}
        for node, ways in self.signatures.items():
            follows = [
                way
                for way in ways
                if node.operands[0] in present
                and same_memory(node.operands[0], way.operands[0], present[node.operands[0]])
            ]
            chosen[node] = (follows or ways)[0]
            if node.operator == "nn.conv2d":
                chosen[node] = min(ways, key=lambda way: way.cost)
            present |= dict(zip(node.results, chosen[node].results, strict=True))
        return chosen


def check_enumeration(seed: int, by_pair: bool) -> bool:
    """Compare with enumeration, with and without reduction; False where there are too many or only one."""
    case = Case(seed, by_pair=by_pair)
    if not 1 < case.assignments() <= MOST_ASSIGNMENTS:
        return False
    least = case.least()
    for reduce in (True, False):
        solution = case.solve(reduce=reduce)
        found = case.cost(solution.signatures)
        again = f"tests.relay_layout.choice.test_solver.check_enumeration({seed}, {by_pair})"
        assert found == pytest.approx(least, abs=1e-9), f"{again}: {found} found, {least} is least"
        assert solution.objective == pytest.approx(found, abs=1e-9), f"{again}: wrong objective"
        assert solution.status in ("optimal", "trivial"), f"{again}: {solution.status}"
        assert solution.gap == 0.0, f"{again}: gap {solution.gap}"
    return True


@pytest.mark.parametrize("by_pair", [False, True], ids=["by tensor", "by pair"])
@pytest.mark.parametrize("first", range(0, 250, 50))
def test_objective_equals_enumeration(first: int, by_pair: bool) -> None:
    checked = [check_enumeration(seed, by_pair) for seed in range(first, first + 50)]
    assert sum(checked) >= 33, "too few graphs have several assignments and few enough to enumerate"


def random_problem(seed: int, by_pair: bool) -> Problem:
    """Groups that read and write at random, several operators' worth each, beyond what graphs hold."""
    rng = random.Random(seed)
    tensors, orders = rng.randint(1, 6), rng.randint(2, 4)
    writer = [rng.randrange(-1, 5) for _ in range(tensors)]
    fixed = [
        state_of(
            rng.randrange(orders) if writer[tensor] < 0 else None,
            [order for order in range(orders) if rng.random() < 0.15],
        )
        for tensor in range(tensors)
    ]
    groups = []
    for place in range(5):
        own = [tensor for tensor in range(tensors) if writer[tensor] == place or rng.random() < 0.5]
        ways = [
            tuple(
                state_of(
                    rng.randrange(orders) if writer[tensor] == place else None,
                    [order for order in range(orders) if rng.random() < 0.35],
                )
                for tensor in own
            )
            for _ in range(rng.randint(1, 5))
        ]
        costs = [rng.choice([rng.uniform(0, 4), 1.0]) for _ in ways]
        groups.append(Group(tuple(own), ways, costs, list(range(len(ways))), node=place))

    def pairs() -> TransformCosts:
        cost = rng.choice([rng.uniform(0.1, 3), 1.0])
        factors = [0.2, 1.0, 1.0, 3.0] if by_pair else [1.0]
        return TransformCosts([[cost * rng.choice(factors) for _ in range(orders)] for _ in range(orders)])

    tensor_costs = [pairs() for _ in range(tensors)]
    return Problem(tensor_costs, fixed, groups, rng.uniform(0, 2), nodes=5)


def check_reduction(seed: int, most_choices: int, by_pair: bool) -> int:
    """Compare a reduced problem with enumeration of the whole; the number of groups that were left."""
    problem = random_problem(seed, by_pair)
    every = itertools.product(*[range(len(group.costs)) for group in problem.groups])
    least = min(total_cost(problem, chosen) for chosen in every)
    reduced = reduce_problem(problem, most_choices=most_choices)
    left: list[int] = []
    if reduced.problem.groups:
        minimum = minimise(reduced.problem, 30.0)
        assert minimum.choice is not None
        left = minimum.choice
    again = f"tests.relay_layout.choice.test_solver.check_reduction({seed}, {most_choices}, {by_pair})"
    found = total_cost(problem, problem.choice_of(reduced.places(left)))
    assert found == pytest.approx(least, abs=1e-9), f"{again}: {found} found, {least} is least"
    inside = total_cost(reduced.problem, left)
    assert inside == pytest.approx(least, abs=1e-9), f"{again}: the reduced problem says {inside}"
    return len(left)


@pytest.mark.parametrize("by_pair", [False, True], ids=["by tensor", "by pair"])
@pytest.mark.parametrize("most_choices", [1, 4, 64])
def test_reduction_keeps_an_optimum(most_choices: int, by_pair: bool) -> None:
    left = [check_reduction(seed, most_choices, by_pair) for seed in range(300)]
    if most_choices < 64:
        assert any(left), "nothing was left to the integer program"


@pytest.mark.parametrize("by_pair", [False, True], ids=["by tensor", "by pair"])
@pytest.mark.parametrize("seed", range(20))
def test_reduced_and_full_program_agree_on_larger_graphs(seed: int, by_pair: bool) -> None:
    case = Case(seed, steps=60, most=5, by_pair=by_pair)
    full, reduced = case.solve(reduce=False), case.solve()
    assert full.status == reduced.status == "optimal"
    assert case.cost(reduced.signatures) == pytest.approx(case.cost(full.signatures), rel=1e-9), (
        f"Case({seed}, 60, 5, by_pair={by_pair})"
    )


def check_heuristic(seed: int, steps: int | None) -> tuple[float, float]:
    """What the heuristic costs without and with the help of reductions, each over the least cost."""
    case = Case(seed, steps, most=5)
    problem = case.problem()
    least = case.solve(time_limit=60.0).objective
    costs = []
    for reduced in (Reduced(problem, ()), reduce_problem(problem)):
        chosen = approximate(problem, reduced)
        cost = total_cost(problem, chosen)
        again = f"tests.relay_layout.choice.test_solver.check_heuristic({seed}, {steps})"
        assert cost <= case.cost(case.unchanged()) + 1e-9, f"{again}: worse than the unchanged graph"
        assert cost <= case.cost(case.greedy()) + 1e-9, f"{again}: worse than greedy"
        assert cost <= 1.1 * least, f"{again}: {cost} is more than a tenth above {least}"
        costs.append(cost / least)
    return costs[0], costs[1]


@pytest.mark.parametrize("first", range(0, 300, 100))
def test_heuristic_on_small_graphs(first: int) -> None:
    for seed in range(first, first + 100):
        check_heuristic(seed, None)


@pytest.mark.parametrize("seed", range(20))
def test_heuristic_on_larger_graphs(seed: int) -> None:
    check_heuristic(seed, 60)


@pytest.mark.parametrize("seed", [1, 3, 4])
def test_without_time_the_heuristic_takes_over(seed: int) -> None:
    case = Case(seed, steps=60, most=5)
    solution = case.solve(time_limit=1e-9, reduce=False)
    assert solution.status == "heuristic"
    assert solution.objective == pytest.approx(case.cost(solution.signatures), abs=1e-9)
    least = case.solve().objective
    assert (1.0 - solution.gap) * solution.objective <= least + 1e-9
    assert 0.0 < solution.gap < 1.0


@pytest.mark.parametrize("place", [0, 1])
def test_time_limit_takes_the_better_solution_and_tells_the_gap(
    place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(1, steps=60, most=5)
    best = case.solve().objective
    bound = 0.9 * best

    def stopped(problem: Problem, time_limit: float) -> Minimum:
        unchanged = [0] * len(problem.groups)
        found = unchanged if place == 0 else minimise(problem, 60.0).choice
        return Minimum(found, False, bound)

    monkeypatch.setattr(solver, "minimise", stopped)
    solution = case.solve(reduce=False)
    assert solution.status == "time limit"
    assert solution.objective <= 1.1 * best
    assert solution.gap == pytest.approx(1.0 - bound / solution.objective)
    assert solution.objective == pytest.approx(case.cost(solution.signatures), abs=1e-9)


def test_solutions_together_have_the_status_of_the_least_known() -> None:
    assert status_of_all(["optimal", "trivial"]) == "optimal"
    assert status_of_all(["optimal", "time limit", "trivial"]) == "time limit"
    assert status_of_all(["heuristic", "time limit"]) == "heuristic"


def test_nothing_to_choose_is_trivial() -> None:
    case = Case(1)
    case.signatures = {node: ways[:1] for node, ways in case.signatures.items()}
    solution = case.solve()
    assert solution.status == "trivial"
    assert solution.objective == pytest.approx(case.cost(solution.signatures))


def test_of_equal_solutions_the_one_with_fewer_transforms_wins() -> None:
    graph = build_graph(random_module(3)["main"])
    ways = collect_signatures(graph, TargetOffers(resolve_target("x86-64-v4", threads=1)))
    free = {
        node: [
            Signature(way.operands, way.results, way.attributes, 1.0, way.alias) for way in reversed(all_ways)
        ]
        for node, all_ways in ways.items()
    }
    outputs = {value: value.identity for value in graph.outputs()}
    solution = solve(graph, free, lambda value, source, target: 1e-9, outputs, operator_cost=own_cost)
    assert solution.objective == pytest.approx(len(graph.nodes), abs=TIE_BREAK_US / 2)


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
