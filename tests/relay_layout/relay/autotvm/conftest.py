"""A network of three kernels, measured by times that are made up."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import tvm

from relay_layout.relay.autotvm.measure import LocalBuilder, LocalRunner, MeasureOption
from relay_layout.relay.autotvm.task import Task, extract_from_program
from relay_layout.targets import BuildTarget

sys.path.insert(0, str(Path(__file__).parent))
from tuning_harness import MadeUp, network


class MadeUpOption(MeasureOption):
    def __init__(self, measurer: MadeUp) -> None:
        super().__init__(LocalBuilder(), LocalRunner())
        self.made_up = measurer

    @contextmanager
    def measurer(self, target: BuildTarget) -> Iterator[Any]:
        yield self.made_up


@pytest.fixture
def made_up() -> MadeUp:
    return MadeUp()


@pytest.fixture
def option(made_up: MadeUp) -> MadeUpOption:
    return MadeUpOption(made_up)


@pytest.fixture(scope="session")
def module() -> tvm.IRModule:
    return network()


@pytest.fixture(scope="session")
def tasks(module: tvm.IRModule) -> list[Task]:
    return extract_from_program(module["main"], target="llvm -mcpu=x86-64-v3")
