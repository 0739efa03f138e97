"""The picture of a fleet, by what workers and the tracker say."""

import pytest

from relay_layout.tuning.fleet.messages import Failed, Finished, LogLine, Started, TaskStarted
from relay_layout.tuning.fleet.status import FleetStatus, TargetStatus
from topi_ext.tune.measuring.boards import BoardEvent
from topi_ext.tune.transform_tuner import TransformProgress
from topi_ext.tune.tuner import TuneProgress

PLACE = "10.0.0.2:9090"


@pytest.fixture
def target() -> TargetStatus:
    return TargetStatus("pi5", "aarch64-cortex-a76", "logs/aarch64-cortex-a76.jsonl")


@pytest.fixture
def status(target: TargetStatus) -> FleetStatus:
    return FleetStatus("10.0.0.1:9190", [target])


def test_how_far_a_target_is(status: FleetStatus, target: TargetStatus) -> None:
    assert target.now == "choosing layouts"
    for message in (Started(7), TransformProgress(3, 9, "NCHW -> NHWC")):
        assert status.update(target, message) == ""
    assert (target.tasks, target.now) == (7, "layout transform 3 of 9")
    status.update(target, TaskStarted("conv2d 64"))
    status.update(target, TuneProgress(2, 7, "conv2d 64", 40, 60, 123.4, 1.25, 61.4, finished=3))
    assert (target.now, target.finished, target.trials) == ("conv2d 64", 3, 40)
    assert (target.gain, target.seconds_left) == (1.25, 61.4)


def test_a_target_that_is_done(status: FleetStatus, target: TargetStatus) -> None:
    report = {"ended": "done", "gain": 1.5, "tasks": [{"trials": 8}, {"trials": 5}]}
    line = status.update(target, Finished(report))
    assert line == "aarch64-cortex-a76 (pi5): done, 1.500 times as fast as with default knobs"
    assert (target.ended, target.finished, target.trials, target.now) == ("done", 2, 13, "")


def test_one_that_was_stopped_is_not_finished(status: FleetStatus, target: TargetStatus) -> None:
    status.update(target, Finished({"ended": "time limit", "gain": 1.0, "tasks": [{"trials": 8}]}))
    assert (target.ended, target.finished) == ("time limit", 0)


def test_one_that_failed(status: FleetStatus, target: TargetStatus) -> None:
    line = status.update(target, Failed("no machine is left"))
    assert line == "aarch64-cortex-a76 (pi5): failed: no machine is left"
    assert (target.ended, target.reason, target.internal) == ("failed", "no machine is left", False)


def test_what_is_told_names_the_target(status: FleetStatus, target: TargetStatus) -> None:
    assert status.update(target, LogLine("lost the machine")) == "aarch64-cortex-a76 (pi5): lost the machine"


def test_a_board_at_work(status: FleetStatus, target: TargetStatus) -> None:
    target.now = "conv2d 64"
    status.update(target, BoardEvent(PLACE, "busy"))
    board = status.boards[PLACE]
    assert (board.key, board.state, board.now) == ("pi5", "busy", "conv2d 64")
    status.update(target, BoardEvent(PLACE, "ran"))
    status.update(target, BoardEvent(PLACE, "failed"))
    assert (board.state, board.now, board.measured, board.failed) == ("idle", "", 2, 1)


@pytest.mark.parametrize(("what", "count"), [("lost", 1), ("unreachable", 0)])
def test_a_board_that_is_lost_until_it_works_again(
    status: FleetStatus, target: TargetStatus, what: str, count: int
) -> None:
    status.update_boards({PLACE: "pi5"})
    status.update(target, BoardEvent(PLACE, "busy"))
    status.update(target, BoardEvent(PLACE, what))  # type: ignore[arg-type]
    status.update_boards({PLACE: "pi5"})  # A board that hangs is still in the tracker's list.
    board = status.boards[PLACE]
    assert (board.state, board.lost) == ("lost", count)
    status.update(target, BoardEvent(PLACE, "busy"))
    assert board.state == "busy"


def test_boards_come_and_go_in_the_list_of_the_tracker(status: FleetStatus) -> None:
    assert status.update_boards({PLACE: "pi5", "10.0.0.3:9090": "phone"}) == []
    assert list(status.boards) == [PLACE]
    assert status.update_boards({}) == [f"the tracker has lost a board: {PLACE} (pi5)"]
    assert status.boards[PLACE].state == "lost"
    assert status.update_boards({}) == []
    assert status.update_boards({PLACE: "pi5"}) == [f"a board is back: {PLACE} (pi5)"]
    assert status.boards[PLACE].state == "idle"
    assert status.update_boards({PLACE: "pi5", "10.0.0.4:9090": "pi5"}) == [
        "a board came: 10.0.0.4:9090 (pi5)"
    ]
