"""Tasks: those that ``relay.build`` compiles, and what scripts ask of them."""

from typing import Any

import numpy as np
import pytest
import tvm

from relay_layout import relay
from relay_layout.errors import InputError, TargetError
from relay_layout.relay.autotvm.task import (
    ConfigEntity,
    Task,
    extract_from_multiple_program,
    extract_from_program,
)

TARGET = "llvm -mcpu=x86-64-v3"
PARAMS = {"last": np.zeros((10, 32), "float32")}


def names(tasks: list[Task]) -> list[str]:
    return [task.name for task in tasks]


def test_tasks_are_the_kernels_most_work_first(module: tvm.IRModule) -> None:
    tasks = extract_from_program(module["main"], PARAMS, TARGET)
    assert names(tasks) == [
        "conv2d 16x18x18 -> 32 3x3 NCHW8c",
        "conv2d 3x20x20 -> 16 3x3 NCHW -> NCHW8c",
        "dense 32 -> 10",
    ]
    assert tasks[0].flop == 2 * 16 * 32 * 9 * 16 * 16
    assert "x86-64-v3" in str(tasks[0].target)


@pytest.mark.parametrize(
    ("ops", "kept"),
    [
        (["nn.dense"], ["dense 32 -> 10"]),
        ((relay.op.get("nn.conv2d"),), ["conv2d 16x18x18", "conv2d 3x20x20"]),
        ([], []),
    ],
)
def test_operators_that_are_asked_for(module: tvm.IRModule, ops: Any, kept: list[str]) -> None:
    tasks = extract_from_program(module, PARAMS, TARGET, ops=ops)
    assert [name.startswith(wanted) for name, wanted in zip(names(tasks), kept, strict=True)] == [True] * len(
        kept
    )


def test_networks_share_their_kernels(module: tvm.IRModule) -> None:
    tasks = extract_from_multiple_program([module["main"], module], [PARAMS, None], TARGET)
    assert [task.weight for task in tasks] == [2, 2, 1]


def test_layouts_stay_where_altering_them_is_switched_off(module: tvm.IRModule) -> None:
    with tvm.transform.PassContext(opt_level=3, disabled_pass=["AlterOpLayout"]):
        tasks = extract_from_program(module, None, TARGET, ops=["nn.conv2d"])
    assert [name.split()[-1] for name in names(tasks)] == ["NCHW", "NCHW"]


def test_the_space_of_a_task(tasks: list[Task]) -> None:
    assert str(tasks[0].config_space) == f"ConfigSpace({len(tasks[0].config_space)} kernels)"
    space = tasks[0].config_space
    assert len(space) == len(list(space)) > 100
    first = space.get(0)
    assert first.index == 0
    assert first.to_json_dict() == {"index": 0, "entity": dict(first.knobs)}
    assert str(first).endswith(" #0")
    with pytest.raises(IndexError):
        space.get(len(space))


def test_what_tasks_do_not_tell(tasks: list[Task]) -> None:
    with pytest.raises(AttributeError) as error:
        _ = tasks[0].args
    assert str(error.value) == (
        "'Task' object has no attribute 'args': tasks are told by name, workload, flop and config_space; "
        "leave it out"
    )


def test_a_configuration_of_no_known_place() -> None:
    assert str(ConfigEntity({"tile": 4, "rows": 2})) == "tile=4, rows=2"


def test_a_task_from_a_log_cannot_be_tuned(tasks: list[Task]) -> None:
    read = Task(tasks[0].workload)
    assert read.target is None
    with pytest.raises(InputError) as caught:
        _ = read.config_space
    assert str(caught.value) == (
        "task conv2d 16x18x18 -> 32 3x3 NCHW8c: it was read from a log, which has no target; take it from "
        "autotvm.task.extract_from_program to tune it"
    )


def test_threads_are_those_of_the_environment(module: tvm.IRModule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_NUM_THREADS", "1")
    assert extract_from_program(module, None, "llvm")[0].resolved().threads == 1
    monkeypatch.setenv("TVM_NUM_THREADS", "many")
    with pytest.raises(TargetError) as caught:
        extract_from_program(module, None, "llvm")
    assert str(caught.value) == ("TVM_NUM_THREADS is 'many'; set it to a whole number from 1 on, or unset it")


def test_templates_of_ones_own_are_refused() -> None:
    with pytest.raises(AttributeError, match=r"take tasks from autotvm\.task\.extract_from_program$"):
        _ = relay.autotvm.task.create
