"""What a benchmark's numbers depend on: the machine they were taken on."""

import platform
from typing import TypedDict

from relay_layout.environment.host import cpu_count, cpu_model


class Machine(TypedDict):
    """A machine as a result describes it."""

    cpu: str
    cores: int
    system: str
    python: str


def describe_machine() -> Machine:
    """This machine; ``cores`` counts the logical processors that this process may use."""
    return Machine(
        cpu=cpu_model(),
        cores=cpu_count(),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=platform.python_version(),
    )
