"""A heuristic choice without a proof of optimality, for when the integer program runs out of time.

Groups are decided in the order in which they compute, keeping the best few partial solutions that differ in
what the rest of the graph can still see: the dynamic programming over the operators of a network of Liu et
al., "Optimizing CNN Model Inference on CPUs" (USENIX ATC 2019), with a bounded number of states where that
work approximates. Then single groups change their choice for as long as that pays. The same descent starts
from the unchanged module, from every operator's cheapest choice, and from Relay's greedy way: convolutions
take their cheapest choice, everything else follows the layout of its first operand. So the result is never
worse than any of these.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from relay_layout.choice.problem import Group, Problem, total_cost
from relay_layout.choice.reduction import Reduced
from relay_layout.choice.state import State, orders_in, read_in, state_of, written_in

MOST_STATES = 64
"""The most partial solutions kept at a time (the width of the beam), in small problems."""

MOST_STEPS = 400_000
"""Bounds the partial solutions evaluated in total: in large problems fewer are kept at a time."""

MOST_SWEEPS = 20
"""Passes over all groups of the local descent, which usually ends after a few."""


def approximate(problem: Problem, reduced: Reduced) -> list[int]:
    """A choice for each group of ``problem``; ``reduced`` is its reduction."""
    swept = descend(reduced.problem, sweep(reduced.problem))
    starts = [
        problem.choice_of(reduced.places(swept)),
        [0] * len(problem.groups),
        [min(range(len(group.costs)), key=group.costs.__getitem__) for group in problem.groups],
        follow(problem),
    ]
    ends = [descend(problem, start) for start in starts]
    return min(ends, key=lambda choice: total_cost(problem, choice))


def follow(problem: Problem) -> list[int]:
    """The choice of Relay's greedy algorithm in an unreduced problem."""
    written = [written_in(state) for state in problem.fixed]
    choice = []
    for group in problem.groups:
        best = 0
        if group.is_anchor:
            best = min(range(len(group.costs)), key=group.costs.__getitem__)
        else:
            for place, states in enumerate(group.states):
                first = next((place for place, state in enumerate(states) if read_in(state)), None)
                if first is not None and read_in(states[first]) == 1 << written[group.tensors[first]]:
                    best = place
                    break
        for tensor, state in zip(group.tensors, group.states[best], strict=True):
            if written_in(state) >= 0:
                written[tensor] = written_in(state)
        choice.append(best)
    return choice


@dataclass(frozen=True)
class _Partial:
    """A solution of the groups decided so far: its cost, its last choice, and the solution that it
    extends.
    """

    cost: float
    choice: int
    before: "_Partial | None"

    def choices(self) -> list[int]:
        """A choice for each group that is decided."""
        found, partial = list[int](), self
        while partial.before is not None:
            found.append(partial.choice)
            partial = partial.before
        return found[::-1]


_Partials = dict[tuple[State, ...], _Partial]
"""Partial solutions by the states of the tensors that other groups touch as well."""


def sweep(problem: Problem) -> list[int]:
    """Beam search: decide the groups in order, keeping the cheapest partial solutions.

    Of those that leave equal states to the groups that follow, only the cheapest is kept.
    """
    choices = sum(len(group.costs) for group in problem.groups)
    most = max(1, min(MOST_STATES, MOST_STEPS // max(1, choices)))
    last = [touching[-1] if touching else -1 for touching in problem.touching]
    best: _Partials = {(): _Partial(0.0, -1, None)}
    live: list[int] = []
    for place, group in enumerate(problem.groups):
        new = [tensor for tensor in group.tensors if tensor not in set(live)]
        start = tuple(problem.fixed[tensor] for tensor in new)
        tensors = live + new
        kept = [position for position, tensor in enumerate(tensors) if last[tensor] > place]
        begun = {states + start: partial for states, partial in best.items()}
        following = _with_choices(problem, group, tensors, kept, begun)
        live = [tensors[position] for position in kept]
        best = dict(sorted(following.items(), key=lambda item: item[1].cost)[:most])
    return min(best.values(), key=lambda partial: partial.cost).choices()


def _with_choices(
    problem: Problem, group: Group, tensors: Sequence[int], kept: Sequence[int], begun: _Partials
) -> _Partials:
    """The partial solutions, over the states of ``tensors``, with each choice of ``group``.

    They are known by the states of ``kept``, positions among the tensors.
    """
    positions = [tensors.index(tensor) for tensor in group.tensors]
    following: _Partials = {}
    for before, partial in begun.items():
        for choice, own in enumerate(group.states):
            after = list(before)
            cost = partial.cost + group.costs[choice]
            for position, state in zip(positions, own, strict=True):
                joined = before[position] | state
                after[position] = joined
                costs = problem.tensor_costs[tensors[position]]
                cost += costs.total(joined) - costs.total(before[position])
            key = tuple([after[position] for position in kept])
            known = following.get(key)
            if known is None or cost < known.cost:
                following[key] = _Partial(cost, choice, partial)
    return following


def descend(problem: Problem, choice: Sequence[int]) -> list[int]:
    """Local search: change the choice of single groups for as long as the total cost falls."""
    current = list(choice)
    for _ in range(MOST_SWEEPS):
        changed = False
        states = _combined(problem, current)
        for place, group in enumerate(problem.groups):
            if len(group.costs) == 1:
                continue
            present = group.states[current[place]]
            others = [states[tensor].without(own) for tensor, own in zip(group.tensors, present, strict=True)]
            costs = [
                cost
                + sum(
                    problem.tensor_costs[tensor].total(other | state)
                    for tensor, other, state in zip(group.tensors, others, own, strict=True)
                )
                for cost, own in zip(group.costs, group.states, strict=True)
            ]
            best = min(range(len(costs)), key=costs.__getitem__)
            if costs[best] < costs[current[place]] - 1e-9:
                changed = True
                current[place] = best
                for tensor, old, new in zip(group.tensors, present, group.states[best], strict=True):
                    states[tensor].add(old, -1)
                    states[tensor].add(new)
        if not changed:
            break
    return current


class _Combined:
    """The combined state of a tensor, from which the state of one group can be removed again."""

    def __init__(self, fixed: State) -> None:
        self.fixed = fixed
        self.written = -1
        self.readers: dict[int, int] = {}

    def add(self, state: State, count: int = 1) -> None:
        if written_in(state) >= 0:
            self.written = written_in(state) if count > 0 else -1
        for order in orders_in(read_in(state)):
            self.readers[order] = self.readers.get(order, 0) + count

    def without(self, state: State) -> State:
        self.add(state, -1)
        rest = state_of(
            self.written if self.written >= 0 else None,
            [order for order, count in self.readers.items() if count],
        )
        self.add(state)
        return self.fixed | rest


def _combined(problem: Problem, choice: Sequence[int]) -> list[_Combined]:
    states = [_Combined(fixed) for fixed in problem.fixed]
    for group, chosen in zip(problem.groups, choice, strict=True):
        for tensor, state in zip(group.tensors, group.states[chosen], strict=True):
            states[tensor].add(state)
    return states
