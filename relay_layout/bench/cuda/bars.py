"""What is asked of networks on an H100, beside what was seen: ``scripts.benchmark_cuda`` ends with it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import geometric_mean

TOLERANCES = {"fp16": 2e-2, "tf32": 2e-2, "fp32": 1e-4}
"""The largest error by precision, as a share of an output's largest element: float16 and TF32 round every
operand to 11 bits, each time by at most 2^-11 of it, and networks have up to a hundred layers."""

LATENCY_SHARE = 0.9
"""What ResNet-50 may take of torch's time: channels last, float16, cuDNN autotuned, a CUDA graph."""

SMALL_SPEEDUP = 1.3
LAYER_SHARE = 0.9
LAYER_BATCH = 32


@dataclass
class Seen:
    """What a run has measured so far.

    ``differences`` by precision and network, relative to the largest output; ``ratios`` of torch's
    milliseconds to ours, ``host_us`` microseconds of a call on the host, by network and batch, ``layers`` of
    cuDNN's microseconds to ours, by batch.
    """

    differences: dict[str, dict[str, float]] = field(default_factory=dict)
    ratios: dict[tuple[str, int], float] = field(default_factory=dict)
    layers: dict[int, list[float]] = field(default_factory=dict)
    host_us: dict[tuple[str, int], float] = field(default_factory=dict)


@dataclass(frozen=True)
class Bar:
    """One line: what is asked, what was seen, and whether that meets it; None where it was not measured."""

    asked: str
    seen: str
    met: bool | None

    def row(self) -> str:
        verdict = {True: "met", False: "not met", None: "not measured"}[self.met]
        return f"{self.asked}: {self.seen}; {verdict}"


def bars(seen: Seen, networks: Sequence[str], precision: str = "fp16") -> list[Bar]:
    """All of them; ``networks`` are those whose outputs are compared, ``precision`` that of the times."""
    found = [_outputs(seen.differences.get(each, {}), each, networks) for each in TOLERANCES]
    for batch in (1, LAYER_BATCH):
        found.append(
            _compared(
                f"resnet50 {precision} batch {batch}, at most {LATENCY_SHARE} of torch's latency",
                seen.ratios.get(("resnet50", batch)),
                lambda ratio: 1 / ratio <= LATENCY_SHARE,
                lambda ratio: f"{1 / ratio:.2f}",
            )
        )
    times = seen.layers.get(LAYER_BATCH, [])
    found.append(
        _compared(
            f"layers at batch {LAYER_BATCH}, at least {LAYER_SHARE} of cuDNN's throughput (geometric mean)",
            geometric_mean(times) if times else None,
            lambda mean: mean >= LAYER_SHARE,
            lambda mean: f"{mean:.2f} over {len(times)} layers",
        )
    )
    for name in ("mobilenet_v2", "efficientnet_b0"):
        found.append(
            _compared(
                f"{name} {precision} batch 1, at least {SMALL_SPEEDUP} times faster than torch",
                seen.ratios.get((name, 1)),
                lambda ratio: ratio >= SMALL_SPEEDUP,
                lambda ratio: f"{ratio:.2f}",
            )
        )
    host = max(seen.host_us.values(), default=None)
    asked = "microseconds of a call on the host, measured"
    return [*found, _compared(asked, host, lambda _: True, lambda us: f"{us:.0f} at most")]


def _outputs(differences: Mapping[str, float], precision: str, networks: Sequence[str]) -> Bar:
    tolerance = TOLERANCES[precision]
    asked = f"outputs of {len(networks)} networks in {precision}, within {tolerance:g} of the largest element"
    if not differences:
        return Bar(asked, "-", None)
    # Not a number is the worst.
    worst = max(differences, key=lambda name: (not differences[name] < tolerance, differences[name]))
    wrong = [name for name, difference in differences.items() if not difference < tolerance]
    missing = [name for name in networks if name not in differences]
    seen = f"{differences[worst]:.1e} at most ({worst})"
    seen += f", wrong: {', '.join(wrong)}" if wrong else ""
    seen += f", missing: {', '.join(missing)}" if missing else ""
    return Bar(asked, seen, False if wrong else None if missing else True)


def _compared(
    asked: str, value: float | None, meets: Callable[[float], bool], shown: Callable[[float], str]
) -> Bar:
    return Bar(asked, "-", None) if value is None else Bar(asked, shown(value), meets(value))
