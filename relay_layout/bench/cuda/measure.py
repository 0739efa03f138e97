"""What ``scripts.benchmark_cuda`` measures on a GPU: one function for each kind of line.

They run in a process that a wrong kernel may crash or hang, and are sent there by name. What a GPU holds
stays there: files and arrays go in, and numbers come out.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm

import relay_layout
from relay_layout.bench.cuda.layers import cudnn_layer, our_layer
from relay_layout.bench.cuda.peers import OURS, captured, fastest_kernels, host_us, measured, peer_calls
from relay_layout.bench.cuda.prepare import Case, seeded_input, target_of
from topi_ext.cuda.kernel import Convolution

LAYER_CALLS = 20
"""Calls of a layer in a graph."""


@dataclass(frozen=True)
class NetworkTimes:
    """``difference`` as :func:`output_difference` has it, ``milliseconds`` by the names of peers, and the
    microseconds of a call on the host.
    """

    difference: float
    milliseconds: dict[str, float]
    host_us: float


def output_difference(artifact: Path, expected: Sequence[np.ndarray]) -> float:
    """The largest difference of an output, relative to its largest element."""
    return _difference(relay_layout.load(artifact), expected)


def network_times(
    case: Case, artifact: Path, expected: Sequence[np.ndarray], peers: Sequence[str]
) -> NetworkTimes:
    """A network beside torch; ``peers`` are those of torch that are wanted."""
    import torch

    session = relay_layout.load(artifact)
    difference = _difference(session, expected)
    with fastest_kernels(torch, tf32=case.precision == "tf32"):
        runners = {OURS: session.launch, **peer_calls(torch, case.model, case.batch, case.precision, peers)}
        taken = measured(torch, list(runners.values()))
    found = dict(zip(runners, map(statistics.median, taken), strict=True))
    return NetworkTimes(difference, found, host_us(torch, session.launch))


def layer_times(workload: Convolution, case: Case, known: Mapping[str, bytes]) -> tuple[float, float]:
    """Microseconds of a layer, ours and cuDNN's, each by a CUDA graph of many calls: the host takes longer to
    launch most of them than the GPU to run them. ``known`` is as in :func:`our_layer`.
    """
    import torch

    pair = [our_layer(workload, target_of(case), tvm.cuda(0), known), cudnn_layer(workload, torch)]
    with fastest_kernels(torch, tf32=workload.dtype == "tf32"):
        graphs = [captured(torch, call, LAYER_CALLS) for call in pair]
        taken = measured(torch, graphs)
    ours, cudnn = (1e3 / LAYER_CALLS * statistics.median(times) for times in taken)
    return ours, cudnn


def _difference(session: Any, expected: Sequence[np.ndarray]) -> float:
    (spec,) = session.inputs
    image = seeded_input(spec.shape)
    found = list(session.run({spec.name: image}).values())
    pairs = zip(found, expected, strict=True)
    differences = [float(np.abs(one - other).max() / np.abs(other).max()) for one, other in pairs]
    session.feed({spec.name: image})
    # Not a number is the worst.
    return max(differences, key=lambda each: (each != each, each))
