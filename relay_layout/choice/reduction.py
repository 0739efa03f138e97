"""Exact reductions of a problem: an optimum of what is left gives an optimum of the whole.

Four steps, repeated until none applies:

- A choice that costs no less than another of its group, even if every tensor that the two treat differently
  had to be transformed once more, is dropped.
- What all choices of a group have in common becomes part of the fixed states; orders that are read or written
  anyway are no longer a group's concern.
- A tensor that only one group touches becomes part of the costs of its choices.
- Two groups that share a tensor which no other group touches become one group of all pairs of their choices;
  of pairs that look the same to the rest of the graph only the cheapest stays. So a chain of operators is as
  good as one operator, and a residual block, or the branches up to a concat, are as well.

These are the reductions of partitioned boolean quadratic programming (R0 to RII in Scholz and Eckstein,
"Register Allocation for Irregular Architectures", LCTES 2002; for layouts in Anderson and Gregg, "Optimal DNN
Primitive Selection with Partitioned Boolean Quadratic Programming", CGO 2018), carried over to tensors whose
transforms several readers share. Of a network that is a series of such blocks nothing is left; what is left
of others goes to the integer program.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from relay_layout.choice.problem import (
    Group,
    Problem,
    signature_places,
)
from relay_layout.choice.state import State, narrowed, read_in, state_of

MOST_CHOICES = 32
"""A pair of groups with more choices than this after reduction stays two groups."""

MOST_PAIRS = 1024
"""Pairs of choices that are looked at for one merge."""


@dataclass(frozen=True)
class Reduced:
    """What is left of a problem, and the groups that are settled."""

    problem: Problem
    settled: Sequence[tuple[Group, int]]

    def places(self, choice: Sequence[int]) -> list[int]:
        """The place of each node's signature, from a choice for each group that is left."""
        return signature_places(self.problem, [*self.settled, *zip(self.problem.groups, choice, strict=True)])


def reduce_problem(problem: Problem, *, most_choices: int = MOST_CHOICES) -> Reduced:
    """Reduce ``problem``, which stays as it is."""
    return _Reduction(problem, most_choices).run()


class _Reduction:
    def __init__(self, problem: Problem, most_choices: int) -> None:
        self.costs = problem.tensor_costs
        self.fixed = list(problem.fixed)
        self.constant = problem.constant
        self.nodes = problem.nodes
        self.most_choices = most_choices
        self.groups = {
            place: Group(
                group.tensors,
                list(group.states),
                list(group.costs),
                list(group.picks),
                node=group.node,
                parts=group.parts,
                is_anchor=group.is_anchor,
            )
            for place, group in enumerate(problem.groups)
        }
        self.next = len(self.groups)
        self.touching = [set(places) for places in problem.touching]
        self.readable = [read_in(state) for state in problem.fixed]
        for group in problem.groups:
            for states in group.states:
                for tensor, state in zip(group.tensors, states, strict=True):
                    self.readable[tensor] |= read_in(state)
        self.settled: list[tuple[Group, int]] = []
        # Groups whose costs are news since their dominated choices were dropped.
        self.unsorted = set(self.groups)
        # Sizes of pairs whose merge had too many choices.
        self.too_many: dict[tuple[int, int], tuple[int, ...]] = {}
        self.dirty = deque(self.groups)
        self.shared = deque(range(len(self.costs)))

    def run(self) -> Reduced:
        while self.dirty or self.shared:
            if self.dirty:
                place = self.dirty.popleft()
                if place in self.groups:
                    self._simplify(place)
            else:
                self._merge_at(self.shared.popleft())
        for tensor, touching in enumerate(self.touching):
            if not touching:
                self.constant += self.costs[tensor].total(self.fixed[tensor])
                self.fixed[tensor] = state_of(0)
        left = sorted(self.groups.values(), key=lambda group: group.node)
        rest = Problem(list(self.costs), self.fixed, left, self.constant, self.nodes)
        return Reduced(rest, self.settled)

    def _simplify(self, place: int) -> None:
        group = self.groups[place]
        if self._narrow(group) or place in self.unsorted:
            self.unsorted.discard(place)
            self._drop_dominated(group)
        for position in reversed(range(len(group.tensors))):
            tensor = group.tensors[position]
            alone = len(self.touching[tensor]) == 1
            common = {states[position] for states in group.states}
            if alone:
                fixed, costs = self.fixed[tensor], self.costs[tensor]
                group.costs = [
                    own + costs.total(fixed | states[position])
                    for own, states in zip(group.costs, group.states, strict=True)
                ]
                self.fixed[tensor] = state_of(0)
                self.unsorted.add(place)
            elif len(common) == 1:
                self.fixed[tensor] |= common.pop()
                self.dirty.extend(other for other in self.touching[tensor] if other != place)
            else:
                continue
            self._forget(place, tensor)
            group.tensors = group.tensors[:position] + group.tensors[position + 1 :]
            group.states = [states[:position] + states[position + 1 :] for states in group.states]
            self.dirty.append(place)
        if not group.tensors:
            best = min(range(len(group.costs)), key=group.costs.__getitem__)
            self.constant += group.costs[best]
            self.settled.append((group, best))
            del self.groups[place]

    def _forget(self, place: int, tensor: int) -> None:
        touching = self.touching[tensor]
        touching.discard(place)
        if len(touching) == 1:
            self.dirty.extend(touching)
        elif len(touching) == 2:
            self.shared.append(tensor)

    def _narrow(self, group: Group) -> bool:
        """Leave out of the states what the fixed states have anyway, and merge choices that become equal.

        False if there is nothing of either.
        """
        best: dict[tuple[State, ...], int] = {}
        fixed = [self.fixed[tensor] for tensor in group.tensors]
        for choice, states in enumerate(group.states):
            key = tuple(map(narrowed, states, fixed))
            if key not in best or group.costs[choice] < group.costs[best[key]]:
                best[key] = choice
        if list(best) == group.states:
            return False
        group.states = list(best)
        _select(group, list(best.values()), states=False)
        return True

    def _drop_dominated(self, group: Group, most: int | None = None) -> bool:
        """Keep what no cheaper choice could stand in for. In rising cost, so that what is kept stays.

        False, with the group as it was, where that would be more choices than ``most``.
        """
        if len(group.costs) == 1:
            return True
        costs = np.array(group.costs)
        tables = [table for table in map(partial(self._more, group), range(len(group.tensors))) if table]
        kept = np.empty(len(costs), int)
        size = 0
        for choice in np.argsort(costs, kind="stable"):
            others = kept[:size]
            room = costs[choice] - costs[others]
            for more, states in tables:
                room -= more[states[choice], states[others]]
            if (room >= 0.0).any():
                continue
            if size == most:
                return False
            kept[size] = choice
            size += 1
        if size < len(costs):
            _select(group, sorted(kept[:size].tolist()))
        return True

    def _more(self, group: Group, position: int) -> tuple[np.ndarray, np.ndarray] | None:
        """What a tensor's transforms cost more with one state of its own than with another; and the states
        of all choices, as places in that table. None where all have the same.
        """
        tensor = group.tensors[position]
        costs, fixed, reads = self.costs[tensor], self.fixed[tensor], self.readable[tensor]
        places: dict[State, int] = {}
        states = [places.setdefault(states[position], len(places)) for states in group.states]
        if len(places) == 1:
            return None
        more = [[costs.max_increase(old | fixed, new | fixed, reads) for new in places] for old in places]
        return np.array(more), np.array(states)

    def _merge_at(self, tensor: int) -> None:
        if len(self.touching[tensor]) != 2:
            return
        left, right = sorted(self.touching[tensor])
        first, second = self.groups[left], self.groups[right]
        if len(first.costs) * len(second.costs) > MOST_PAIRS:
            return
        # Two groups may share many tensors, each of which asks for the merge.
        closed = sum(len(self.touching[common]) == 2 for common in {*first.tensors} & {*second.tensors})
        sizes = (len(first.costs), len(first.tensors), len(second.costs), len(second.tensors), closed)
        if self.too_many.get((left, right)) == sizes:
            return
        merged = self._pairs(first, second)
        if not self._drop_dominated(merged, max(self.most_choices, len(first.costs), len(second.costs))):
            self.too_many[left, right] = sizes
            return
        place, self.next = self.next, self.next + 1
        del self.groups[left], self.groups[right]
        self.groups[place] = merged
        for both in {*first.tensors, *second.tensors}:
            touching = self.touching[both]
            touching -= {left, right}
            if both in merged.tensors:
                touching.add(place)
                self.shared.append(both)
            else:
                self.fixed[both] = state_of(0)
        self.dirty.append(place)

    def _pairs(self, first: Group, second: Group) -> Group:
        """Both groups as one; the tensors that only they touch are part of its costs."""
        common = [tensor for tensor in first.tensors if tensor in second.tensors]
        closed = [tensor for tensor in common if len(self.touching[tensor]) == 2]
        open_common = [tensor for tensor in common if tensor not in closed]
        of_first = _Side(first, closed, open_common)
        of_second = _Side(second, closed, open_common)
        # States of the closed tensors repeat from choice to choice, so their costs are counted once.
        inner = {
            (left, right): sum(
                self.costs[tensor].total(self.fixed[tensor] | one | other)
                for tensor, one, other in zip(closed, left, right, strict=True)
            )
            for left in set(of_first.closed)
            for right in set(of_second.closed)
        }
        best: dict[tuple[State, ...], float] = {}
        picks: dict[tuple[State, ...], tuple[int, int]] = {}
        for i, (own, cost) in enumerate(zip(of_first.own, first.costs, strict=True)):
            closed_states, shared = of_first.closed[i], of_first.shared[i]
            for j, (other, other_cost) in enumerate(zip(of_second.own, second.costs, strict=True)):
                total = cost + other_cost + inner[closed_states, of_second.closed[j]]
                key = own + other
                if shared:
                    key = tuple(map(_joined, shared, of_second.shared[j])) + key
                if key not in best or total < best[key]:
                    best[key] = total
                    picks[key] = (i, j)
        return Group(
            (*open_common, *of_first.tensors, *of_second.tensors),
            list(best),
            list(best.values()),
            list(picks.values()),
            node=min(first.node, second.node),
            parts=(first, second),
        )


class _Side:
    """The states of one group of a pair, sorted by who else sees them."""

    def __init__(self, group: Group, closed: list[int], shared: list[int]) -> None:
        places = {tensor: place for place, tensor in enumerate(group.tensors)}
        both = {*closed, *shared}
        self.tensors = [tensor for tensor in group.tensors if tensor not in both]
        self.closed = _columns(group, [places[tensor] for tensor in closed])
        self.shared = _columns(group, [places[tensor] for tensor in shared])
        self.own = _columns(group, [places[tensor] for tensor in self.tensors])


def _columns(group: Group, places: list[int]) -> list[tuple[State, ...]]:
    return [tuple([states[place] for place in places]) for states in group.states]


def _select(group: Group, kept: list[int], *, states: bool = True) -> None:
    group.costs = [group.costs[choice] for choice in kept]
    group.picks = [group.picks[choice] for choice in kept]
    if states:
        group.states = [group.states[choice] for choice in kept]


def _joined(left: State, right: State) -> State:
    return narrowed(left | right, 0)
