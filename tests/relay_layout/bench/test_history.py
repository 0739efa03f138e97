"""Benchmarks compared with saved ones."""

import json
from pathlib import Path
from typing import Any

import pytest

from relay_layout.bench import history
from relay_layout.bench.history import changes, check_comparable, format_changes, load, save
from relay_layout.bench.peers import OURS
from relay_layout.errors import InputError

MACHINE = {"cpu": "a processor", "cores": 2, "system": "a system", "python": "3.11"}


def peer(median: float, iqr: float = 0.0, version: str = "1") -> dict[str, Any]:
    return {
        "median_ms": median,
        "min_ms": median,
        "iqr_ms": iqr,
        "repeats": 9,
        "version": version,
        "prepare_seconds": 1.0,
        "relative_error": 0.0,
        "agrees": True,
    }


def result(threads: int = 2, **models: dict[str, Any]) -> Any:
    made = [
        {"model": name, "threads": threads, "peers": peers, "failures": {}, "ratios": {}}
        for name, peers in models.items()
    ]
    return {"models": made, "geometric_mean": {}, "machine": MACHINE}


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (peer(10.0), peer(10.0), "same"),
        (peer(10.0), peer(10.29), "same"),
        (peer(10.0), peer(10.31), "slower"),
        (peer(10.0), peer(9.72), "same"),
        (peer(10.0), peer(9.70), "faster"),
        # A fifth of spread on either side: 14 % of margin.
        (peer(10.0, 2.0), peer(11.3, 2.26), "same"),
        (peer(10.0, 2.0), peer(11.5, 2.3), "slower"),
        (peer(10.0, 2.0), peer(8.9, 1.78), "same"),
        (peer(10.0, 2.0), peer(8.7, 1.74), "faster"),
    ],
)
def test_a_change_counts_beyond_the_spread(
    before: dict[str, Any], after: dict[str, Any], verdict: str
) -> None:
    (found,) = changes(result(m={OURS: before}), result(m={OURS: after}))
    assert found["verdict"] == verdict


def test_what_all_runtimes_became_slower_by_is_the_machine() -> None:
    before = result(m={OURS: peer(10.0), "torch": peer(20.0), "onnxruntime": peer(5.0)})
    after = result(m={OURS: peer(12.0), "torch": peer(24.0), "onnxruntime": peer(6.0)})
    (found,) = changes(before, after)
    assert (found["drift"], found["change"], found["verdict"]) == (
        pytest.approx(1.2),
        pytest.approx(1.0),
        "same",
    )


def test_a_runtime_of_another_version_tells_nothing_of_the_machine() -> None:
    before = result(m={OURS: peer(10.0), "torch": peer(20.0, version="1")})
    after = result(m={OURS: peer(12.0), "torch": peer(24.0, version="2")})
    (found,) = changes(before, after)
    assert (found["drift"], found["verdict"]) == (1.0, "slower")


def test_models_that_both_have() -> None:
    before = result(a={OURS: peer(1.0)}, b={OURS: peer(1.0)}, c={"torch": peer(1.0)})
    after = result(b={OURS: peer(1.0)}, c={OURS: peer(1.0)}, d={OURS: peer(1.0)})
    assert [each["model"] for each in changes(before, after)] == ["b"]


def test_a_table() -> None:
    found = changes(result(m={OURS: peer(10.0)}), result(m={OURS: peer(8.0)}))
    assert format_changes(found, "yesterday").splitlines() == [
        "relay-layout against yesterday, ms; change: time now over time before, less the machine's",
        "model  before    now  machine  change  margin  verdict",
        "m      10.000  8.000    +0.0%  -20.0%    3.0%   faster",
        "geometric mean of the changes -20.0%",
    ]
    assert format_changes([], "yesterday") == "no model in common with the benchmark of yesterday"


def test_saved_and_read_back(folder: Path) -> None:
    save("bench.json", result(m={OURS: peer(1.0)}))
    saved = load("bench.json")
    assert saved["result"] == result(m={OURS: peer(1.0)})
    assert saved["time"].endswith("Z")
    assert [path.name for path in folder.iterdir()] == ["bench.json"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "b.json: not a saved benchmark: it is not readable as JSON"),
        ("[]", "b.json: not a benchmark that bench --save of this version wrote"),
        (
            '{"kind": "relay-layout benchmark", "schema": 2}',
            "b.json: not a benchmark that bench --save of this version wrote",
        ),
        (
            json.dumps(
                {
                    "kind": "relay-layout benchmark",
                    "schema": 1,
                    "time": "",
                    "result": result(m={OURS: {**peer(1.0), "median_ms": "1"}}),
                }
            ),
            "b.json.result.models[0].peers.relay-layout.median_ms: expected a number",
        ),
    ],
)
def test_other_files(content: str, message: str, folder: Path) -> None:
    Path("b.json").write_text(content)
    with pytest.raises(InputError) as error:
        load("b.json")
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("changed", "threads", "message"),
    [
        (
            {"cpu": "another"},
            2,
            "--against: b.json was measured on a processor with 2 cores, and this is another with 2",
        ),
        ({}, 1, "--against: b.json was measured with 2 threads; give --threads 2"),
    ],
)
def test_times_that_say_nothing_of_each_other(
    changed: dict[str, Any], threads: int, message: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save("b.json", result(m={OURS: peer(1.0)}))
    monkeypatch.setattr(history, "describe_machine", lambda: {**MACHINE, **changed})
    with pytest.raises(InputError) as error:
        check_comparable("b.json", load("b.json"), threads)
    assert str(error.value) == message


def test_a_device_is_no_benchmark() -> None:
    with pytest.raises(OSError, match="it is a device, not a file"):
        load("/dev/null")
