"""The table of layers."""

from __future__ import annotations

import json
from typing import Any

from relay_layout.bench.layers.results import totals
from relay_layout.bench.layers.table import format_layers


def layer(name: str, uses: int, ours: float | None, onednn: float | None, **fields: Any) -> Any:
    gigaflop = 0.1
    gflops = None if ours is None else gigaflop / ours * 1e6
    return {
        "layer": name,
        "workload": {},
        "uses": uses,
        "gigaflop": gigaflop,
        "algorithm": "direct",
        "knobs": {"tile_pixels": 28, "tile_channels": 1, "order": "pixels"},
        "source": "default",
        "ours_us": ours,
        "gflops": gflops,
        "peak_share": None if gflops is None else gflops / 400,
        "onednn_us": onednn,
        "ours_least_us": ours,
        "onednn_least_us": onednn,
        "ratio": ours / onednn if ours and onednn else None,
        "relative_error": 1e-6,
        "agrees": True if ours and onednn else None,
        "failures": [],
        **fields,
    }


def result(layers: list[Any], notes: list[str], **fields: Any) -> Any:
    return {
        "models": [{"model": "net", "layers": layers, "totals": totals(layers, 400.0), "notes": notes}],
        "threads": 2,
        "peak_gflops": 400.0,
        "call_us": {"relay-layout": 0.51, "oneDNN": 20.0},
        "versions": {"relay-layout": "0.1", "torch": "2.13"},
        "machine": {"cpu": "Example CPU", "cores": 4, "system": "Linux", "python": "3.11"},
        **fields,
    }


EVERYTHING = result(
    [
        layer(
            "conv2d 64x56x56 -> 64 3x3 NCHW16c",
            4,
            200.0,
            500.0,
            algorithm="winograd F(4,3)",
            source="tuned",
        ),
        layer("dense 512 -> 1000", 1, 1000.0, 800.0, onednn_least_us=400.0),
        layer("conv2d 8x8x8 -> 8 1x1 NHWC", 1, 500.0, 1.0, agrees=False),
        layer("broken", 1, None, 800.0, failures=["relay-layout: no such kernel"]),
    ],
    ["other has symbolic extents and is not tuned"],
)

TABLE = """\
Example CPU, 4 cores, threads: 2, multiply-add peak: 400.0 GFLOP/s
us: median of one call; GFLOP/s: those of the direct convolution; share: of the peak; ratio: below 1 \
relay-layout is faster

net
layer                              uses        algorithm         tile    knobs      us  GFLOP/s  share  oneDNN us    ratio
conv2d 64x56x56 -> 64 3x3 NCHW16c     4  winograd F(4,3)  28x1 pixels    tuned   200.0      500  125%*      500.0     0.40
dense 512 -> 1000                     1           direct  28x1 pixels  default  1000.0      100    25%     800.0?     1.25
conv2d 8x8x8 -> 8 1x1 NHWC            1           direct  28x1 pixels  default   500.0      200    50%        1.0  500.00!
broken                                1           direct  28x1 pixels  default       -        -      -      800.0        -
all uses                              7                                         2300.0      261    65%     3601.0     0.64
geometric mean                                                                                                        0.71
other has symbolic extents and is not tuned
broken: relay-layout: no such kernel
net: 0.60 GFLOP in 2.30 ms, 261 GFLOP/s, 65% of the multiply-add peak

relay-layout 0.1, torch 2.13
part of every time, a call of a layer of one pixel: relay-layout 0.5 us, oneDNN 20.0 us
* more than the peak: Winograd multiplies less often than what is counted
! results differ by more than 0.001; left out of ratios over all layers
? more than 1.5 times the quickest call: the machine did something else"""  # noqa: E501


def test_table() -> None:
    assert format_layers(EVERYTHING) == TABLE


def test_marks_that_no_layer_has_are_not_explained() -> None:
    text = format_layers(result([layer("plain", 1, 1000.0, 800.0)], [], call_us={}))
    assert text.endswith("\n\nrelay-layout 0.1, torch 2.13")


def test_a_direct_convolution_above_the_peak_doubts_the_peak() -> None:
    text = format_layers(result([layer("quick", 1, 200.0, 500.0)], []))
    assert "  125%?  " in text
    assert text.endswith("\n? more than the peak: the machine did something else when that was measured")


def test_a_model_without_layers() -> None:
    lines = format_layers(result([], [])).splitlines()
    assert [line.split()[0] for line in lines[4:7]] == ["layer", "all", "geometric"]


def test_the_result_is_json() -> None:
    assert json.loads(json.dumps(EVERYTHING, allow_nan=False)) == EVERYTHING
