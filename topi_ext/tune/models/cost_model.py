"""A model of run times, learned from records: gradient-boosted trees over named features."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from topi_ext.errors import RelayLayoutError
from topi_ext.tune.models.features import Features

_PARAMETERS = {
    "objective": "reg:squarederror",
    "tree_method": "hist",
    "max_depth": 5,
    "eta": 0.2,
    "min_child_weight": 1,
    "lambda": 1.0,
    "nthread": 1,
    "seed": 0,
    "verbosity": 0,
}
_ROUNDS = 60
"""Trees of the boosted model."""
_OTHERS_WEIGHT = 0.25
"""The weight of a trial of another task, where one of its own counts 1."""
_PRIOR = 1.0
"""How much evidence the belief in the estimate is worth: about ten trials."""

_FAILURE_FACTOR = 4.0
"""A kernel that failed counts as this much slower than the slowest that ran."""


@dataclass
class Samples:
    """Trials of one task: features, estimated cycles and seconds (infinite where it failed) of each."""

    features: list[Features] = field(default_factory=list)
    cycles: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def add(self, features: Features, cycles: float, seconds: float) -> None:
        """One trial more."""
        self.features.append(features)
        self.cycles.append(cycles)
        self.seconds.append(seconds)

    def __len__(self) -> int:
        return len(self.seconds)


class SharedSamples:
    """The samples of several tasks, which all of them learn from while they grow."""

    def __init__(self) -> None:
        self._all: list[Samples] = []

    def new(self) -> Samples:
        """Samples of a further task."""
        self._all.append(Samples())
        return self._all[-1]

    def others(self, own: Samples) -> list[Samples]:
        """Those of all other tasks."""
        return [samples for samples in self._all if samples is not own]


class CostModel:
    """Predicts how kernels of one task compare.

    It learns how far the estimate of cycles is to be trusted, and by what factor it is wrong, compared with
    the task's other kernels: that carries over between tasks, and before there is anything to learn from, the
    estimate itself decides. The same samples give the same model.
    """

    def __init__(self) -> None:
        self._xgboost = load_xgboost()
        self._booster: Any = None
        self._names: list[str] = []
        self._trust = 1.0

    def fit(self, own: Samples, others: Sequence[Samples] = ()) -> None:
        """Learn from a task's own trials, and with less weight from those of other tasks."""
        tasks = [(own, 1.0), *((samples, _OTHERS_WEIGHT) for samples in others)]
        # Of a single trial nothing can be said but how good the task's other kernels are.
        tasks = [(samples, weight) for samples, weight in tasks if len(samples) > 1]
        self._booster, self._trust = None, 1.0
        if not tasks:
            return
        self._trust = _trust(tasks)
        rows = [row for samples, _ in tasks for row in samples.features]
        self._names = sorted({name for row in rows for name in row})
        targets = np.concatenate([_targets(samples, self._trust) for samples, _ in tasks])
        weights = np.concatenate([np.full(len(samples), weight) for samples, weight in tasks])
        data = self._xgboost.DMatrix(self._matrix(rows), targets, weight=weights, nthread=1)
        self._booster = self._xgboost.train(_PARAMETERS, data, num_boost_round=_ROUNDS)

    def predict(self, features: Sequence[Features], cycles: Sequence[float]) -> np.ndarray:
        """Predicted logarithms of run times, up to a constant of the task; float64 [kernels]."""
        estimates = self._trust * np.log(np.asarray(cycles, dtype=np.float64))
        if self._booster is None or not features:
            return estimates
        data = self._xgboost.DMatrix(self._matrix(features), nthread=1)
        return estimates + self._booster.predict(data).astype(np.float64)

    def _matrix(self, rows: Sequence[Features]) -> np.ndarray:
        missing = math.nan
        return np.array([[row.get(name, missing) for name in self._names] for row in rows], dtype=np.float32)


def _trust(tasks: Sequence[tuple[Samples, float]]) -> float:
    """The power of the estimate that fits best, near 1 where there are few samples."""
    agreement = spread = _PRIOR
    for samples, weight in tasks:
        estimates, times = np.log(np.asarray(samples.cycles)), _log_seconds(samples)
        estimates = estimates - estimates.mean()
        agreement += weight * float(estimates @ (times - times.mean()))
        spread += weight * float(estimates @ estimates)
    return min(1.0, max(0.0, agreement / spread))


def _targets(samples: Samples, trust: float) -> np.ndarray:
    """What the estimate leaves to explain."""
    errors = _log_seconds(samples) - trust * np.log(np.asarray(samples.cycles))
    return errors - np.median(errors)


def _log_seconds(samples: Samples) -> np.ndarray:
    seconds = np.asarray(samples.seconds, dtype=np.float64)
    ran = np.isfinite(seconds)
    if not ran.any():
        return np.zeros(len(samples))
    return np.log(np.where(ran, seconds, seconds[ran].max() * _FAILURE_FACTOR))


def load_xgboost() -> Any:
    """The package; RelayLayoutError that says how to install it."""
    try:
        import xgboost
    except ImportError:
        raise RelayLayoutError(
            "tuning with a model needs xgboost: pip install 'relay-layout[tune]', or choose another strategy"
        ) from None
    return xgboost
