"""The result as text and JSON, and its mean."""

from __future__ import annotations

import math

import pytest

from relay_layout.bench.machine import describe_machine
from relay_layout.bench.results import (
    BenchResult,
    ModelResult,
    PeerResult,
    geometric_mean_of_ratios,
    ratios,
)
from relay_layout.bench.table import format_table
from relay_layout.environment import host


def peer(
    median: float, error: float | None = 1e-6, agrees: bool | None = True, version: str = "1.0"
) -> PeerResult:
    return PeerResult(
        median_ms=median,
        min_ms=median,
        iqr_ms=0.0,
        repeats=10,
        version=version,
        prepare_seconds=0.25,
        relative_error=error,
        agrees=agrees,
    )


def model(name: str, peers: dict[str, PeerResult], failures: dict[str, str] | None = None) -> ModelResult:
    return ModelResult(model=name, threads=2, peers=peers, failures=failures or {}, ratios=ratios(peers))


def result(*models: ModelResult) -> BenchResult:
    return BenchResult(
        models=list(models),
        geometric_mean=geometric_mean_of_ratios(models),
        machine={"cpu": "Example CPU", "cores": 4, "system": "Linux", "python": "3.11"},
    )


RESULT = result(
    model(
        "resnet18",
        {
            "relay-layout": peer(10.0, version="0.1"),
            "onnxruntime": peer(12.5, 0.0, version="1.31"),
            "tvm": peer(1909.4),
        },
    ),
    model(
        "tiny",
        {"relay-layout": peer(0.5, version="0.1"), "onnxruntime": peer(0.4, 0.0, version="1.31")},
        {"tvm": "tvm: the worker was killed by SIGSEGV while preparing"},
    ),
)

TABLE = """\
Example CPU, 4 cores, threads: 2
median latency in ms; ratio: relay-layout's latency over the peer's, below 1 relay-layout is faster

model           relay-layout  onnxruntime  ratio   tvm   ratio
resnet18               10.00        12.50   0.80  1909  0.0052
tiny                   0.500        0.400   1.25     -       -
geometric mean                              1.00        0.0052

largest error of the outputs, relative to onnxruntime's largest value
model     relay-layout  onnxruntime      tvm
resnet18       1.0e-06            0  1.0e-06
tiny           1.0e-06            0        -

seconds to the first outputs: import, load or compile, one run; relay-layout loads an artifact
model     relay-layout  onnxruntime   tvm
resnet18          0.25         0.25  0.25
tiny              0.25         0.25     -

relay-layout 0.1, onnxruntime 1.31, tvm 1.0
tiny: tvm: the worker was killed by SIGSEGV while preparing"""


def test_table() -> None:
    assert format_table(RESULT) == TABLE


def test_wrong_outputs_are_marked_and_left_out_of_the_mean() -> None:
    wrong = result(
        model("a", {"relay-layout": peer(1.0), "torch": peer(2.0)}),
        model("b", {"relay-layout": peer(1.0), "torch": peer(8.0, 0.5, agrees=False)}),
        model("c", {"relay-layout": peer(1.0, None, agrees=False), "torch": peer(8.0)}),
    )
    assert wrong["geometric_mean"] == {"torch": pytest.approx(0.5)}
    text = format_table(wrong)
    assert "8.00!" in text
    assert "5.0e-01!" in text
    assert "differs!" in text
    assert "! outputs differ by more than 0.001" in text


def test_without_a_reference_nothing_is_marked() -> None:
    unknown = result(model("a", {"relay-layout": peer(1.0, None, None), "torch": peer(2.0, None, None)}))
    assert unknown["geometric_mean"] == {"torch": pytest.approx(0.5)}
    assert "!" not in format_table(unknown)


def test_own_peers_come_last() -> None:
    own = result(model("a", {"mine:peer": peer(1.0), "tvm": peer(1.0), "relay-layout": peer(1.0)}))
    header = format_table(own).splitlines()[3].split()
    assert header == ["model", "relay-layout", "tvm", "ratio", "mine:peer", "ratio"]


def test_without_our_own_time_there_are_no_ratios() -> None:
    without = result(model("a", {"torch": peer(2.0)}, {"relay-layout": "relay-layout: no"}))
    assert without["models"][0]["ratios"] == {}
    assert without["geometric_mean"] == {}
    assert "a: relay-layout: no" in format_table(without)


def test_without_ratios_there_is_no_row_for_their_mean() -> None:
    alone = format_table(result(model("a", {"relay-layout": peer(1.0)})))
    assert "a              1.00" in alone and "geometric mean" not in alone


def test_no_models() -> None:
    assert "model\n\n" in format_table(result())


def test_geometric_mean() -> None:
    models = [
        model("a", {"relay-layout": peer(1.0), "torch": peer(4.0)}),
        model("b", {"relay-layout": peer(1.0), "torch": peer(9.0)}),
    ]
    assert geometric_mean_of_ratios(models)["torch"] == pytest.approx(1 / math.sqrt(36))


def test_machine() -> None:
    machine = describe_machine()
    assert (machine["cpu"], machine["cores"]) == (host.cpu_model(), host.cpu_count())
