"""What a benchmark's numbers depend on: the machine they were taken on."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import TypedDict

from relay_layout.host import CPU_INFO, cpu_model


class Machine(TypedDict):
    """A machine as a result describes it."""

    cpu: str
    cores: int
    system: str
    python: str


def describe_machine(cpu_info: Path = CPU_INFO) -> Machine:
    """This machine; `cores` counts the logical processors that this process may use."""
    return Machine(
        cpu=cpu_model(cpu_info),
        cores=_usable_processors(),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=platform.python_version(),
    )


def _usable_processors() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # only Linux has it
        return os.cpu_count() or 1
