"""Interleaving with runners whose time is made up."""

from __future__ import annotations

import pytest

from relay_layout.bench.workers.measure import SLOW_REPEATS, measure_interleaved, summarize
from relay_layout.bench.workers.process import PeerError


class FakeRunner:
    """Takes the same time each run, notes its turns in a shared log, and may fail in a given turn."""

    def __init__(self, name: str, latency: float, log: list[str], fails_in_turn: int | None = None) -> None:
        self.name = name
        self.latency = latency
        self.log = log
        self.fails_in_turn = fails_in_turn
        self.turns = 0
        self.runs = 0

    def run(self, settle: int, repeats: int) -> list[float]:
        self.turns += 1
        if self.turns == self.fails_in_turn:
            raise PeerError(f"{self.name}: gone")
        self.runs += settle + repeats
        self.log.append(self.name)
        return [self.latency] * repeats


def test_each_runner_gets_its_share_of_time() -> None:
    log: list[str] = []
    runners = {"fast": FakeRunner("fast", 0.001, log), "medium": FakeRunner("medium", 0.02, log)}
    measured = measure_interleaved(runners, seconds=2.0)
    assert not measured.failures
    for name, runner in runners.items():
        spent = sum(measured.seconds[name])
        assert 1.7 <= spent <= 2.3
        assert len(measured.seconds[name]) == round(spent / runner.latency)


def test_one_run_of_each_block_is_not_timed() -> None:
    runner = FakeRunner("only", 0.02, [])
    measured = measure_interleaved({"only": runner}, seconds=2.0)
    warm_up_turns = 3
    warm_up_runs = 1 + 5 + 10
    assert runner.runs == warm_up_runs + len(measured.seconds["only"]) + (runner.turns - warm_up_turns)


def test_turns_alternate_and_the_first_place_moves_on() -> None:
    log: list[str] = []
    runners = {name: FakeRunner(name, 0.02, log) for name in "abc"}
    measure_interleaved(runners, seconds=2.0)
    warm_up = 9
    assert "".join(log[warm_up:]).startswith("abcbcacab")


def test_a_slow_runner_is_run_three_times_without_warm_up() -> None:
    log: list[str] = []
    slow = FakeRunner("slow", 0.6, log)
    measured = measure_interleaved({"slow": slow, "fast": FakeRunner("fast", 0.01, log)}, seconds=1.0)
    assert measured.seconds["slow"] == [0.6] * SLOW_REPEATS
    assert slow.runs == 1 + SLOW_REPEATS


def test_a_runner_just_below_slow_still_gets_five_rounds() -> None:
    measured = measure_interleaved({"x": FakeRunner("x", 0.4, [])}, seconds=1.0)
    assert len(measured.seconds["x"]) == 5


@pytest.mark.parametrize("turn", [1, 2, 5])
def test_a_runner_that_fails_is_left_out_and_the_others_go_on(turn: int) -> None:
    log: list[str] = []
    runners = {"bad": FakeRunner("bad", 0.02, log, fails_in_turn=turn), "good": FakeRunner("good", 0.02, log)}
    measured = measure_interleaved(runners, seconds=1.0)
    assert measured.failures == {"bad": "bad: gone"}
    assert list(measured.seconds) == ["good"]
    assert sum(measured.seconds["good"]) >= 0.8


def test_a_run_that_was_held_up_does_not_cost_others() -> None:
    class HeldUpOnce(FakeRunner):
        def run(self, settle: int, repeats: int) -> list[float]:
            times = super().run(settle, repeats)
            return [*times[:-1], 30.0] if self.turns == 4 else times

    measured = measure_interleaved({"x": HeldUpOnce("x", 0.01, [])}, seconds=1.0)
    assert len(measured.seconds["x"]) >= 90


def test_nothing_to_measure() -> None:
    assert measure_interleaved({}, seconds=1.0).seconds == {}


def test_summary_is_in_milliseconds() -> None:
    summary = summarize([0.001, 0.002, 0.003, 0.004, 0.100])
    assert summary == {
        "median_ms": pytest.approx(3.0),
        "min_ms": pytest.approx(1.0),
        "iqr_ms": pytest.approx(2.0),
        "repeats": 5,
    }
