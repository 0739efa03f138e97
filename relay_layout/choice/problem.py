"""What there is to choose: groups of operators with choices, and tensors whose transforms cost.

The *state* of a tensor, as far as one choice decides it, is an int: the order that the choice writes it in
and the set of orders that the choice reads it in. States of several choices combine by bitwise or. A tensor
then costs one transform for each order in which it is read and not written, however many readers that has.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from relay_layout.choice.memory import MemoryOrders
from relay_layout.graph import Graph, Node, Value
from relay_layout.layout import Layout
from relay_layout.ops import Signature

_WRITTEN_BITS = 16
_WRITTEN_MASK = (1 << _WRITTEN_BITS) - 1

State = int
"""Written order plus one in the low bits, 0 for none; above them a bit for each order read."""

Pick = int | tuple[int, int]
"""The place of a signature, or of a choice in each of two groups."""


def state_of(written: int | None, read: Sequence[int] = ()) -> State:
    """The state with that order written and those read."""
    mask = 0
    for order in read:
        mask |= 1 << order
    return mask << _WRITTEN_BITS | (0 if written is None else written + 1)


def written_in(state: State) -> int:
    """The order written, -1 for none."""
    return (state & _WRITTEN_MASK) - 1


def read_in(state: State) -> int:
    """A bit for each order read."""
    return state >> _WRITTEN_BITS


def orders_in(mask: int) -> list[int]:
    """The orders whose bits are set."""
    return [order for order in range(mask.bit_length()) if mask >> order & 1]


def transforms_in(state: State) -> int:
    """How many transforms a tensor in this state needs; some choice must write it."""
    written = (state & _WRITTEN_MASK) - 1
    return (state >> _WRITTEN_BITS & ~(1 << written)).bit_count()


def narrowed(state: State, fixed: State) -> State:
    """``state`` without the reads that cost nothing beside ``fixed``: of an order written or read there."""
    written = (state | fixed) & _WRITTEN_MASK
    free = fixed >> _WRITTEN_BITS
    if written:
        free |= 1 << (written - 1)
    return state & ~(free << _WRITTEN_BITS)


@dataclass(eq=False)
class Group:
    """One operator, or several that are chosen together.

    ``states[i]`` are the states of ``tensors`` under choice ``i``, ``costs[i]`` its microseconds. For one
    operator ``picks[i]`` is the place of its signature, for several the choices of the two ``parts``.
    ``node`` is the place of the operator, or the first place. ``is_anchor`` marks convolutions.
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
    """Choose one choice of each group so that groups and tensors cost least together.

    ``tensor_costs`` are microseconds of one transform of each tensor; ``fixed`` is what is the same whatever
    is chosen: the orders of inputs and outputs. ``constant`` is added to every solution.
    """

    tensor_costs: list[float]
    fixed: list[State]
    groups: list[Group]
    constant: float = 0.0
    nodes: int = 0
    touching: list[list[int]] = field(default_factory=list)
    """Places of the groups that touch each tensor, rising."""

    def __post_init__(self) -> None:
        self.touching = [[] for _ in self.tensor_costs]
        for place, group in enumerate(self.groups):
            for tensor in group.tensors:
                self.touching[tensor].append(place)

    def choice_of(self, places: Sequence[int]) -> list[int]:
        """The choices of an unreduced problem that are the signatures at ``places``, by node."""
        return [group.picks.index(place) for group, place in zip(self.groups, places, strict=True)]


def problem_of(
    graph: Graph,
    signatures: Mapping[Node, Sequence[Signature]],
    transform_cost: Callable[[Value], float],
    outputs: Mapping[Value, Layout],
) -> Problem:
    """The problem of a graph: a group for each node, in order, with a choice for each signature.

    Of signatures that read and write the same orders only the first of the cheapest is a choice. Values that
    nothing reads, or whose transforms cost nothing, are no tensors.
    """
    orders = MemoryOrders()
    numbers: dict[Value, int] = {}
    costs: list[float] = []
    fixed: list[State] = []
    for value in graph.values():
        cost = transform_cost(value)
        if cost <= 0.0 or not (value.consumers or value in outputs):
            continue
        numbers[value] = len(costs)
        costs.append(cost)
        written = orders.number(value, value.identity) if value.producer is None else None
        read = [orders.number(value, outputs[value])] if value in outputs else []
        fixed.append(state_of(written, read))
    groups = []
    for number, node in enumerate(graph.nodes):
        best: dict[tuple[State, ...], int] = {}
        choices = signatures[node]
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
            if key not in best or signature.cost < choices[best[key]].cost:
                best[key] = place
        groups.append(
            Group(
                tensors,
                list(best),
                [choices[place].cost for place in best.values()],
                list(best.values()),
                node=number,
                is_anchor="conv" in node.operator,
            )
        )
    return Problem(costs, fixed, groups, nodes=len(graph.nodes))


def _tensors(values: Sequence[Value], numbers: Mapping[Value, int]) -> list[tuple[int, Value, int]]:
    """The number, value and position of those that are tensors of the problem."""
    return [(numbers[value], value, place) for place, value in enumerate(values) if value in numbers]


def total_cost(problem: Problem, choice: Sequence[int]) -> float:
    """Microseconds of a solution: the place of a choice for each group."""
    states = list(problem.fixed)
    total = problem.constant
    for group, place in zip(problem.groups, choice, strict=True):
        total += group.costs[place]
        for tensor, state in zip(group.tensors, group.states[place], strict=True):
            states[tensor] |= state
    return total + sum(
        cost * transforms_in(state) for cost, state in zip(problem.tensor_costs, states, strict=True)
    )


def lower_bound(problem: Problem) -> float:
    """What every solution costs at least: each group its cheapest choice, and no transforms."""
    return problem.constant + sum(min(group.costs) for group in problem.groups)


def signature_places(problem: Problem, settled: Sequence[tuple[Group, int]]) -> list[int]:
    """The place of the chosen signature of each node, from chosen groups that cover all nodes."""
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
