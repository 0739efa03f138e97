"""The network and the measurer of the tests of AutoTVM."""

import sys
from pathlib import Path
from typing import Any

import pytest

import relay_layout.tuning.measurers as measurers
from relay_layout.relay import auto_scheduler

sys.path.insert(0, str(Path(__file__).parents[1] / "autotvm"))
from tuning_harness import MadeUp, network


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> MadeUp:
    """What measures on this machine."""
    measurer = MadeUp()
    monkeypatch.setattr(measurers, "local_measurer", lambda target, **options: measurer)
    return measurer


@pytest.fixture(scope="session")
def extracted() -> tuple[list[Any], list[int]]:
    """The tasks of a network, and their weights."""
    return auto_scheduler.extract_tasks(network()["main"], None, "llvm -mcpu=x86-64-v3")
