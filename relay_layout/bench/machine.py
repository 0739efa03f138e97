"""What a benchmark's numbers depend on: the machine they were taken on."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import TypedDict


class Machine(TypedDict):
    """A machine as a result describes it."""

    cpu: str
    cores: int
    system: str
    python: str


def describe_machine(cpu_info: Path = Path("/proc/cpuinfo")) -> Machine:
    """This machine; `cores` counts the logical processors that this process may use."""
    return Machine(
        cpu=_cpu_model(cpu_info),
        cores=_usable_processors(),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=platform.python_version(),
    )


def _cpu_model(cpu_info: Path) -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", cpu_info.read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor() or platform.machine()


def _usable_processors() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # only Linux has it
        return os.cpu_count() or 1
