"""All knobs of a workload, as a search sees them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from topi_ext.cuda.knobs import GemmKnobs
from topi_ext.cuda.multiprocessor import Multiprocessor
from topi_ext.cuda.workload import DepthwiseConvolution, GemmConvolution
from topi_ext.errors import RelayLayoutError
from topi_ext.family import Machine, Workload, family_of
from topi_ext.processor import Processor
from topi_ext.tune.models.depthwise_features import depthwise_features, thread_features
from topi_ext.tune.models.features import Features, knob_features, workload_features
from topi_ext.tune.models.product_features import convolution_features, product_features
from topi_ext.tune.records.record import knobs_key

_WORST_ESTIMATE = 1e30


class Knobs(Protocol):
    """Whatever arranges the loops of a kernel: all that a tuner needs of it is its name."""

    def to_dict(self) -> dict[str, Any]:
        """Named knobs, as a record keeps them."""
        ...


@dataclass(frozen=True)
class Candidate:
    """Knobs with their estimated cycles; ``key`` is the same for the same knobs."""

    key: str
    knobs: Any
    cycles: float

    @cached_property
    def fields(self) -> Mapping[str, Any]:
        """The knobs by name."""
        return dict(self.knobs.to_dict())


def _candidate(knobs: Any, cycles: float) -> Candidate:
    # A model takes the logarithm of the estimate.
    estimate = cycles if 0 < cycles < math.inf else _WORST_ESTIMATE
    return Candidate(knobs_key(knobs.to_dict()), knobs, estimate)


class Space:
    """The candidates of one workload on one machine, the least estimated cycles first.

    Without ``winograd`` those kernels are left out that round differently from the direct convolution.
    """

    def __init__(self, workload: Workload, processor: Machine, *, winograd: bool = True) -> None:
        self.workload = workload
        self.processor = processor
        self._winograd = winograd
        self._features: dict[str, Features] = {}

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        """All of them; a GPU's are thousands, and take a second."""
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
        """What is compiled where nothing was measured."""
        _, knobs = family_of(self.workload).cheapest(self.workload, self.processor, self._winograd)
        chosen = self.find(knobs.to_dict())
        return self.candidates[0] if chosen is None else chosen

    @cached_property
    def kinds(self) -> list[Candidate]:
        """On a GPU, of each instruction and each way of copying what has the least estimate.

        Estimates are off by more than these differ, and a search that never tries one learns nothing of it.
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
        """The candidate with these knobs; a log of before there was a knob lacks it."""
        found = self._by_key.get(knobs_key(knobs))
        if found is not None:
            return found
        whole = self._whole(knobs)
        return None if whole is None else self._by_key.get(knobs_key(whole.to_dict()))

    def priced(self, knobs: Mapping[str, Any]) -> Candidate | None:
        """The candidate with these knobs, estimated without the others."""
        whole = self._whole(knobs)
        if whole is None:
            return None
        cycles = family_of(self.workload).estimate(self.workload, self.processor, whole)
        return None if cycles is None else _candidate(whole, cycles)

    def _whole(self, knobs: Mapping[str, Any]) -> Any:
        """The knobs of these names, those that are left out by default; None where they do not fit."""
        try:
            return family_of(self.workload).knobs_from_dict(self.workload, self.processor, knobs)
        except RelayLayoutError:
            return None

    def neighbours(self, candidate: Candidate) -> list[Candidate]:
        """The candidates with the same knobs but for the value of one."""
        own = candidate.fields
        return [
            other
            for other in self.candidates
            if other.fields.keys() == own.keys()
            and sum(other.fields[name] != value for name, value in own.items()) == 1
        ]

    def features(self, candidate: Candidate) -> Features:
        """What a model sees of a candidate."""
        if candidate.key not in self._features:
            self._features[candidate.key] = self._of_workload | self._of_candidate(candidate)
        return self._features[candidate.key]

    @cached_property
    def _of_workload(self) -> Features:
        if isinstance(self.workload, GemmConvolution):
            return product_features(self.workload)
        if isinstance(self.workload, DepthwiseConvolution):
            return depthwise_features(self.workload)
        return workload_features(self.workload)

    def _of_candidate(self, candidate: Candidate) -> Features:
        workload, machine = self.workload, self.processor
        if isinstance(workload, GemmConvolution):
            assert isinstance(machine, Multiprocessor)
            return convolution_features(workload, machine, candidate.knobs, candidate.cycles)
        if isinstance(workload, DepthwiseConvolution):
            assert isinstance(machine, Multiprocessor)
            return thread_features(workload, machine, candidate.knobs, candidate.cycles)
        assert isinstance(machine, Processor)
        return knob_features(workload, machine, candidate.fields, candidate.cycles)


__all__ = ["Candidate", "Knobs", "Space"]
