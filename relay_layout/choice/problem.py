"""The optimization problem: groups of operators with choices, and tensors whose transforms have costs.

A tensor needs one transform for each memory order in which it is read but not written, whatever the number of
readers (:mod:`.costs`). What one choice contributes to that, the orders read and written, is its *state*
(:mod:`.state`).
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from relay_layout.choice.costs import TransformCosts
from relay_layout.choice.memory import MemoryOrders
from relay_layout.choice.state import State, state_of
from relay_layout.graph import Graph, Node, Value
from relay_layout.layout import Layout
from relay_layout.ops import Signature
from relay_layout.targets.convolutions import CONVOLUTION_AXES

Pick = int | tuple[int, int]
"""The index of a signature, or of a choice in each of two merged groups."""


@dataclass(eq=False)
class Group:
    """One operator, or several that are chosen together.

    ``states[i]`` are the states of ``tensors`` under choice ``i``, ``costs[i]`` its microseconds. For one
    operator ``picks[i]`` is the index of its signature, for several the choices of the two ``parts``.
    ``node`` is the index of the operator, or of the first one. ``is_anchor`` marks convolutions.
    """

    tensors: tuple[int, ...]
    states: list[tuple[State, ...]]
    costs: list[float]
    picks: list[Pick]
    node: int = -1
    parts: "tuple[Group, Group] | None" = None
    is_anchor: bool = False


@dataclass(eq=False)
class Problem:
    """Select one choice per group such that the costs of groups and of transforms have the least sum.

    ``tensor_costs`` has the transform costs of each tensor, and ``fixed`` the part of its state that no
    choice changes: the orders of inputs and outputs. ``constant`` is added to the cost of every solution.
    """

    tensor_costs: list[TransformCosts]
    fixed: list[State]
    groups: list[Group]
    constant: float = 0.0
    nodes: int = 0
    touching: list[list[int]] = field(default_factory=list)
    """For each tensor the indices of the groups that read or write it, ascending."""

    def __post_init__(self) -> None:
        self.touching = [[] for _ in self.tensor_costs]
        for place, group in enumerate(self.groups):
            for tensor in group.tensors:
                self.touching[tensor].append(place)

    def choice_of(self, places: Sequence[int]) -> list[int]:
        """The choice of each group of an unreduced problem, from the index of each node's signature."""
        return [group.picks.index(place) for group, place in zip(self.groups, places, strict=True)]


OperatorCost = Callable[[Node, Signature], float]
"""Microseconds of a node that runs as a signature says."""

TransformCost = Callable[[Value, Layout, Layout], float]
"""Microseconds to transform a value from one layout to another at run time; 0 for constants."""


def problem_of(
    graph: Graph,
    signatures: Mapping[Node, Sequence[Signature]],
    transform_cost: TransformCost,
    outputs: Mapping[Value, Layout],
    operator_cost: OperatorCost,
) -> Problem:
    """The problem of a graph: one group per node, in order, with one choice per signature.

    Among signatures that read and write the same orders, only the first of the cheapest becomes a choice.
    Values that nothing reads, and values of unknown shape, are left out.
    """
    orders = MemoryOrders()
    numbers: dict[Value, int] = {}
    fixed: list[State] = []
    for value in graph.values():
        if value.shape is None or not (value.consumers or value in outputs):
            continue
        numbers[value] = len(fixed)
        written = orders.number(value, value.identity) if value.producer is None else None
        read = [orders.number(value, outputs[value])] if value in outputs else []
        fixed.append(state_of(written, read))
    groups = []
    for number, node in enumerate(graph.nodes):
        best: dict[tuple[State, ...], int] = {}
        choices = signatures[node]
        costs = [operator_cost(node, signature) for signature in choices]
        reads = _tensors(node.operands, numbers)
        writes = _tensors(node.results, numbers)
        tensors = tuple(dict.fromkeys([tensor for tensor, _, _ in (*reads, *writes)]))
        for place, signature in enumerate(choices):
            states = dict.fromkeys(tensors, 0)
            for tensor, value, position in reads:
                states[tensor] |= state_of(None, [orders.number(value, signature.operands[position])])
            for tensor, value, position in writes:
                states[tensor] |= state_of(orders.number(value, signature.results[position]))
            key = tuple(states.values())
            if key not in best or costs[place] < costs[best[key]]:
                best[key] = place
        groups.append(
            Group(
                tensors,
                list(best),
                [costs[place] for place in best.values()],
                list(best.values()),
                node=number,
                is_anchor=node.operator in CONVOLUTION_AXES,
            )
        )
    return Problem(_costs(numbers, orders, transform_cost), fixed, groups, nodes=len(graph.nodes))


def _costs(
    values: Iterable[Value], orders: MemoryOrders, transform_cost: TransformCost
) -> list[TransformCosts]:
    """The transform costs of each value; values with equal tables share one object."""
    shared: dict[Hashable, TransformCosts] = {}
    found = []
    for value in values:
        layouts = orders.layouts(value)
        table = tuple(
            tuple(0.0 if source is target else transform_cost(value, source, target) for target in layouts)
            for source in layouts
        )
        found.append(shared.setdefault(table, TransformCosts(table)))
    return found


def _tensors(values: Sequence[Value], numbers: Mapping[Value, int]) -> list[tuple[int, Value, int]]:
    """(number, value, position) of each of ``values`` that is a tensor of the problem."""
    return [(numbers[value], value, place) for place, value in enumerate(values) if value in numbers]


def total_cost(problem: Problem, choice: Sequence[int]) -> float:
    """The cost, in microseconds, of a solution: the index of a choice for each group."""
    states = list(problem.fixed)
    total = problem.constant
    for group, place in zip(problem.groups, choice, strict=True):
        total += group.costs[place]
        for tensor, state in zip(group.tensors, group.states[place], strict=True):
            states[tensor] |= state
    return total + sum(costs.total(state) for costs, state in zip(problem.tensor_costs, states, strict=True))


def lower_bound(problem: Problem) -> float:
    """A lower bound on the cost of any solution: the cheapest choice of each group, without transforms."""
    return problem.constant + sum(min(group.costs) for group in problem.groups)


def signature_places(problem: Problem, settled: Sequence[tuple[Group, int]]) -> list[int]:
    """The index of each node's chosen signature, from groups that cover all nodes, each with its choice."""
    places = [0] * problem.nodes
    open_groups = list(settled)
    while open_groups:
        group, choice = open_groups.pop()
        pick = group.picks[choice]
        if group.parts is None:
            assert isinstance(pick, int)
            places[group.node] = pick
        else:
            assert isinstance(pick, tuple)
            open_groups += zip(group.parts, pick, strict=True)
    return places
