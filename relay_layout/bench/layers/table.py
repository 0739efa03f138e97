"""The result of ``bench --layers`` as text for people."""

from collections.abc import Mapping
from typing import Any, Literal

from relay_layout.bench.compare import TOLERANCE
from relay_layout.bench.layers.results import NOISY, LayerRow, LayersResult, ModelLayers, is_noisy
from relay_layout.bench.peers import OURS
from relay_layout.bench.table import columns_of_numbers

_ABSENT = "-"
_ABOVE, _DIFFERS, _NOISY = "*", "!", "?"

_TIMES: tuple[tuple[Literal["ours_us", "onednn_us"], Literal["ours_least_us", "onednn_least_us"]], ...] = (
    ("ours_us", "ours_least_us"),
    ("onednn_us", "onednn_least_us"),
)


def format_layers(result: LayersResult) -> str:
    """A table for each model, with its totals, and notes on what stands out."""
    return "\n\n".join([_heading(result), *map(_model, result["models"]), _notes(result)])


def _heading(result: LayersResult) -> str:
    machine = result["machine"]
    return (
        f"{machine['cpu']}, {machine['cores']} cores, threads: {result['threads']}, "
        f"multiply-add peak: {result['peak_gflops']:.1f} GFLOP/s\n"
        "us: median of one call; GFLOP/s: those of the direct convolution; share: of the peak; "
        f"ratio: below 1 {OURS} is faster"
    )


def _model(model: ModelLayers) -> str:
    totals = model["totals"]
    rows = [["layer", "uses", "algorithm", "tile", "knobs", "us", "GFLOP/s", "share", "oneDNN us", "ratio"]]
    rows += [_row(row) for row in model["layers"]]
    rows.append(
        [
            "all uses",
            str(totals["uses"]),
            "",
            "",
            "",
            _number(totals["ours_us"] or None, 1),
            _number(totals["gflops"], 0),
            _share(totals["peak_share"]),
            _number(totals["onednn_us"] or None, 1),
            _number(totals["ratio"], 2),
        ]
    )
    rows.append(["geometric mean", *[""] * 8, _number(totals["geometric_mean"], 2)])
    failures = [f"{row['layer']}: {text}" for row in model["layers"] for text in row["failures"]]
    return "\n".join([model["model"], columns_of_numbers(rows), *model["notes"], *failures, *_whole(model)])


def _whole(model: ModelLayers) -> list[str]:
    """What all uses of all layers reach together: every operation counts alike."""
    totals = model["totals"]
    gflops, milliseconds = totals["gflops"], totals["ours_us"] / 1e3
    if gflops is None:
        return []
    return [
        f"{model['model']}: {gflops * milliseconds / 1e3:.2f} GFLOP in {milliseconds:.2f} ms, "
        f"{gflops:.0f} GFLOP/s, {_share(totals['peak_share'])} of the multiply-add peak"
    ]


def _row(row: LayerRow) -> list[str]:
    return [
        row["layer"],
        str(row["uses"]),
        row["algorithm"],
        knobs_text(row["knobs"]),
        row["source"],
        _time(row["ours_us"], row["ours_least_us"]),
        _number(row["gflops"], 0),
        _share(row["peak_share"]) + _mark_of_share(row),
        _time(row["onednn_us"], row["onednn_least_us"]),
        _number(row["ratio"], 2) + (_DIFFERS if row["agrees"] is False else ""),
    ]


def _notes(result: LayersResult) -> str:
    rows = [row for model in result["models"] for row in model["layers"]]
    lines = [", ".join(f"{name} {version}" for name, version in result["versions"].items())]
    if result["call_us"]:
        lines.append(calls_text(result["call_us"]))
    if any(_mark_of_share(row) == _ABOVE for row in rows):
        lines.append(f"{_ABOVE} more than the peak: Winograd multiplies less often than what is counted")
    if any(row["agrees"] is False for row in rows):
        lines.append(
            f"{_DIFFERS} results differ by more than {TOLERANCE:g}; left out of ratios over all layers"
        )
    if any(is_noisy(row[side], row[least]) for row in rows for side, least in _TIMES):
        lines.append(f"{_NOISY} more than {NOISY:g} times the quickest call: the machine did something else")
    if any(_mark_of_share(row) == _NOISY for row in rows):
        lines.append(f"{_NOISY} more than the peak: the machine did something else when that was measured")
    return "\n".join(lines)


def calls_text(microseconds: Mapping[str, float]) -> str:
    """What a call costs in each runtime."""
    calls = ", ".join(f"{name} {value:.1f} us" for name, value in microseconds.items())
    return f"part of every time, a call of a layer of one pixel: {calls}"


def knobs_text(knobs: Mapping[str, Any]) -> str:
    """The register tile, pixels by vectors of channels, and what the threads split."""
    return f"{knobs['tile_pixels']}x{knobs['tile_channels']} {knobs['order']}"


def _time(median: float | None, least: float | None) -> str:
    return _number(median, 1) + (_NOISY if is_noisy(median, least) else "")


def _share(share: float | None) -> str:
    return _ABSENT if share is None else f"{share:.0%}"


def _mark_of_share(row: LayerRow) -> str:
    """Only Winograd's algorithm can do more than the machine's multiply-adds."""
    if row["peak_share"] is None or row["peak_share"] <= 1.0:
        return ""
    return _NOISY if row["algorithm"] == "direct" else _ABOVE


def _number(value: float | None, digits: int) -> str:
    return _ABSENT if value is None else f"{value:.{digits}f}"
