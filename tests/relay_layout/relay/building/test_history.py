"""Logs of ``relay-layout tune`` around ``relay.build``."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from relay_layout import relay
from relay_layout.errors import InputError
from relay_layout.relay.building import targets
from relay_layout.relay.building.history import apply_history_best, logs_applied


def test_the_innermost_logs_hold() -> None:
    with apply_history_best("a.jsonl"):
        with apply_history_best(["b.jsonl", Path("c.jsonl")]):
            assert logs_applied() == ("b.jsonl", Path("c.jsonl"))
        with apply_history_best(None):
            assert logs_applied() == ()
        assert logs_applied() == ("a.jsonl",)
    assert logs_applied() == ()


def test_targets_take_the_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def resolve(target: object, *, threads: int | None, tuning_records: Sequence[object]) -> None:
        seen.append((target, tuning_records))

    monkeypatch.setattr(targets, "resolve_target", resolve)
    with relay.autotvm.apply_history_best("log.jsonl"):
        targets.build_target("llvm")
    targets.build_target("llvm")
    assert seen == [("native", ("log.jsonl",)), ("native", ())]


def test_a_log_of_autotvm_is_told(tmp_path: Path) -> None:
    log = tmp_path / "old.log"
    log.write_text('{"input": [], "config": {}, "result": [], "version": 0.2, "tvm_version": "0.8.0"}\n')
    with apply_history_best(log), pytest.raises(InputError) as error:
        targets.build_target("llvm")
    assert str(error.value) == (
        f"tuning records: {log} is no tuning log: not one of its lines is a record; of AutoTVM's log "
        "relay-layout import-log makes starting points"
    )
