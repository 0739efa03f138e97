"""A benchmark's result as text."""

from collections.abc import Callable, Sequence

from relay_layout.bench.compare import QUANTIZED_TOLERANCE, TOLERANCE
from relay_layout.bench.peers import OURS, PEERS
from relay_layout.bench.results import BenchResult, ModelResult, PeerResult
from relay_layout.columns import columns

_ABSENT = "-"


def format_table(result: BenchResult) -> str:
    """Latencies and ratios, then errors, seconds to start, versions, and what failed."""
    names = _peer_names(result["models"])
    models = result["models"]
    sections = [
        _heading(result),
        _latencies(result, names),
        _of_peers(_ERRORS, _error, models, names),
        _of_peers(_STARTS, _start, models, names),
    ]
    notes = _notes(models, names)
    return "\n\n".join([*sections, "\n".join(notes)] if notes else sections)


def _peer_names(models: Sequence[ModelResult]) -> list[str]:
    """Every peer of any model, in the table's usual order, the caller's own peers last."""
    seen = dict.fromkeys(name for model in models for name in [*model["peers"], *model["failures"]])
    return [name for name in PEERS if name in seen] + [name for name in seen if name not in PEERS]


def _heading(result: BenchResult) -> str:
    machine = result["machine"]
    threads = sorted({model["threads"] for model in result["models"]})
    used = ", ".join(map(str, threads))
    return (
        f"{machine['cpu']}, {machine['cores']} cores, threads: {used}\n"
        f"median latency in ms; ratio: {OURS}'s latency over the peer's, below 1 {OURS} is faster"
    )


def _latencies(result: BenchResult, names: Sequence[str]) -> str:
    header = ["model"]
    mean = ["geometric mean"]
    for name in names:
        header += [name] if name == OURS else [name, "ratio"]
        mean += [""] if name == OURS else ["", _ratio(result["geometric_mean"].get(name))]
    rows = [header]
    for model in result["models"]:
        row = [model["model"]]
        for name in names:
            row.append(_latency(model["peers"].get(name)))
            if name != OURS:
                row.append(_ratio(model["ratios"].get(name)))
        rows.append(row)
    return columns_of_numbers([*rows, mean] if any(mean[1:]) else rows)


_ERRORS = "largest error of the outputs, relative to onnxruntime's largest value"
_STARTS = f"seconds to the first outputs: import, load or compile, one run; {OURS} loads an artifact"


def _of_peers(
    heading: str,
    shown: Callable[[PeerResult | None], str],
    models: Sequence[ModelResult],
    names: Sequence[str],
) -> str:
    """A table of one text for each model and peer."""
    rows = [["model", *names]]
    rows += [[model["model"], *(shown(model["peers"].get(name)) for name in names)] for model in models]
    return f"{heading}\n{columns_of_numbers(rows)}"


def _notes(models: Sequence[ModelResult], names: Sequence[str]) -> list[str]:
    versions = {
        name: model["peers"][name]["version"] for name in names for model in models if name in model["peers"]
    }
    notes = [", ".join(f"{name} {version}" for name, version in versions.items())] if versions else []
    if any(peer["agrees"] is False for model in models for peer in model["peers"].values()):
        limits = f"{TOLERANCE:g}, or {QUANTIZED_TOLERANCE:g} of a quantized network"
        notes.append(f"! outputs differ by more than {limits}; left out of the geometric mean")
    notes += [f"{model['model']}: {message}" for model in models for message in model["failures"].values()]
    return notes


def _latency(peer: PeerResult | None) -> str:
    if peer is None:
        return _ABSENT
    milliseconds = peer["median_ms"]
    digits = 3 if milliseconds < 1 else 2 if milliseconds < 100 else 0
    return f"{milliseconds:.{digits}f}" + ("!" if peer["agrees"] is False else "")


def _start(peer: PeerResult | None) -> str:
    return _ABSENT if peer is None else f"{peer['prepare_seconds']:.2f}"


def _ratio(ratio: float | None) -> str:
    return _ABSENT if ratio is None else f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.4f}"


def _error(peer: PeerResult | None) -> str:
    if peer is None or peer["agrees"] is None:
        return _ABSENT
    error = peer["relative_error"]
    text = "differs" if error is None else "0" if error == 0 else f"{error:.1e}"
    return text + ("!" if peer["agrees"] is False else "")


def columns_of_numbers(rows: Sequence[Sequence[str]]) -> str:
    """Columns of equal width: the first to the left, numbers to the right."""
    return columns(rows, right=range(1, len(rows[0])))
