"""The search space of one workload: candidates of knobs with estimates and features."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from topi_ext.cuda.gemm_knobs import GemmKnobs
from topi_ext.errors import RelayLayoutError
from topi_ext.family import Machine, Workload, family_of
from topi_ext.tune.models.feature_table import features_of_knobs, features_of_workload
from topi_ext.tune.models.features import Features
from topi_ext.tune.records.record import knobs_key

_WORST_ESTIMATE = 1e30
"""Cycles in place of an estimate that is no positive number, of which a model could take no logarithm."""


@dataclass(frozen=True)
class Candidate:
    """Knobs with their estimated cycles, over all threads; ``key`` is equal for equal knobs."""

    key: str
    knobs: Any
    cycles: float

    @cached_property
    def fields(self) -> Mapping[str, Any]:
        """The knobs by name."""
        return dict(self.knobs.to_dict())


def _candidate(knobs: Any, cycles: float) -> Candidate:
    estimate = cycles if 0 < cycles < math.inf else _WORST_ESTIMATE
    return Candidate(knobs_key(knobs.to_dict()), knobs, estimate)


class Space:
    """The candidates of one workload on one machine, by ascending estimated cycles.

    Without ``winograd`` kernels that round differently from the direct convolution are left out.
    """

    def __init__(self, workload: Workload, processor: Machine, *, winograd: bool = True) -> None:
        self.workload = workload
        self.processor = processor
        self._winograd = winograd
        self._features: dict[str, Features] = {}

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        """All candidates; a GPU has thousands, and computing them takes a second."""
        found: dict[str, Candidate] = {}
        for cycles, knobs in family_of(self.workload).knob_space(self.workload, self.processor):
            if not self._winograd and knobs.to_dict()["algorithm"] == "winograd":
                continue
            candidate = _candidate(knobs, cycles)
            found.setdefault(candidate.key, candidate)
        return tuple(sorted(found.values(), key=lambda candidate: (candidate.cycles, candidate.key)))

    @cached_property
    def _by_key(self) -> dict[str, Candidate]:
        return {candidate.key: candidate for candidate in self.candidates}

    def __len__(self) -> int:
        return len(self.candidates)

    @cached_property
    def default(self) -> Candidate:
        """The candidate that is compiled where nothing was measured."""
        _, knobs = family_of(self.workload).cheapest(self.workload, self.processor, self._winograd)
        chosen = self.find(knobs.to_dict())
        return self.candidates[0] if chosen is None else chosen

    @cached_property
    def cheapest_of_each_kind(self) -> list[Candidate]:
        """For a GPU's products, the lowest estimate for each pair of instruction and way of copying.

        Estimates of different kinds differ by less than their error, and a search that tries none of a kind
        learns nothing about it. Empty for other workloads.
        """
        found: dict[tuple[Any, Any], Candidate] = {}
        for candidate in self.candidates:
            if isinstance(candidate.knobs, GemmKnobs):
                kind = candidate.knobs.instruction, candidate.knobs.copies
                best = found.setdefault(kind, candidate)
                if best.cycles == candidate.cycles and best.knobs.stages < candidate.knobs.stages:
                    found[kind] = candidate
        return list(found.values())

    def find(self, knobs: Mapping[str, Any]) -> Candidate | None:
        """The candidate with these knobs, or None; knobs that a record leaves out have their default."""
        found = self._by_key.get(knobs_key(knobs))
        if found is not None:
            return found
        complete = self._with_defaults(knobs)
        return None if complete is None else self._by_key.get(knobs_key(complete.to_dict()))

    def estimated(self, knobs: Mapping[str, Any]) -> Candidate | None:
        """As :meth:`find`, without computing all candidates."""
        complete = self._with_defaults(knobs)
        if complete is None:
            return None
        cycles = family_of(self.workload).estimate(self.workload, self.processor, complete)
        return None if cycles is None else _candidate(complete, cycles)

    def _with_defaults(self, knobs: Mapping[str, Any]) -> Any:
        """The knobs with these values and defaults for the others; None if they do not fit the workload."""
        try:
            return family_of(self.workload).knobs_from_dict(self.workload, self.processor, knobs)
        except RelayLayoutError:
            return None

    def neighbours(self, candidate: Candidate) -> list[Candidate]:
        """The candidates that differ from ``candidate`` in the value of exactly one knob."""
        own = candidate.fields
        return [
            other
            for other in self.candidates
            if other.fields.keys() == own.keys()
            and sum(other.fields[name] != value for name, value in own.items()) == 1
        ]

    def features(self, candidate: Candidate) -> Features:
        """The features of a candidate and of the workload, as a cost model sees them."""
        if candidate.key not in self._features:
            own = features_of_knobs(self.workload, self.processor, candidate.knobs, candidate.cycles)
            self._features[candidate.key] = self._workload_features | own
        return self._features[candidate.key]

    @cached_property
    def _workload_features(self) -> Features:
        return features_of_workload(self.workload)
