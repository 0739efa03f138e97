"""Other work on the machine while something is measured."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

NICENESS = 15
"""The priority of a neighbour: what ``nice`` gives work that must not disturb."""

_WORK = f"import os\nos.nice({NICENESS})\nwhile True: pass"


@contextmanager
def neighbours(count: int) -> Iterator[None]:
    """``count`` processes of low priority that compute for as long as the block lasts."""
    running = [subprocess.Popen([sys.executable, "-c", _WORK]) for _ in range(count)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
        for process in running:
            process.wait()
