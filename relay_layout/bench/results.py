"""What a benchmark returns: dictionaries that JSON can hold as they are."""

from collections.abc import Iterable
from statistics import geometric_mean
from typing import TypedDict

from relay_layout.bench.machine import Machine
from relay_layout.bench.peers import OURS
from relay_layout.bench.workers.measure import Summary


class PeerResult(Summary):
    """One peer on one model."""

    version: str
    prepare_seconds: float
    """In a fresh process, from the file to the first outputs: the runtime's import included, and compiling,
    but for relay-layout, which has compiled before and loads an artifact."""
    relative_error: float | None
    """Against ONNX Runtime's outputs; None if there are none or they cannot be compared."""
    agrees: bool | None
    """Whether the error is within the tolerance; None if ONNX Runtime gave no outputs."""


class ModelResult(TypedDict):
    """One model: a peer is either in ``peers`` or, with a message, in ``failures``."""

    model: str
    threads: int
    peers: dict[str, PeerResult]
    failures: dict[str, str]
    ratios: dict[str, float]
    """relay-layout's median latency over each other peer's; below 1 relay-layout is faster."""


class BenchResult(TypedDict):
    """A whole benchmark."""

    models: list[ModelResult]
    geometric_mean: dict[str, float]
    """The mean of the ratios by peer, over the models where neither side's outputs are wrong."""
    machine: Machine


def ratios(peers: dict[str, PeerResult]) -> dict[str, float]:
    """relay-layout's median over each other peer's; empty if relay-layout was not measured."""
    if OURS not in peers:
        return {}
    ours = peers[OURS]["median_ms"]
    return {name: ours / peer["median_ms"] for name, peer in peers.items() if name != OURS}


def geometric_mean_of_ratios(models: Iterable[ModelResult]) -> dict[str, float]:
    """By peer; a time of outputs that are wrong is not comparable and left out."""
    comparable: dict[str, list[float]] = {}
    for model in models:
        for name, ratio in model["ratios"].items():
            if all(model["peers"][side]["agrees"] is not False for side in (OURS, name)):
                comparable.setdefault(name, []).append(ratio)
    return {name: geometric_mean(values) for name, values in comparable.items()}
