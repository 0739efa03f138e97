"""What ends a process that waits for a machine in vain."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]

LOCKED = """
import ctypes
from topi_ext.tune.measuring.workers import ended_after

with ended_after(0.5):
    print("in time", flush=True)
with ended_after(0.5):
    ctypes.PyDLL(None).sleep(120)
print("late", flush=True)
"""
"""Functions of a ``PyDLL`` are called with the interpreter locked."""


def test_a_process_ends_while_its_interpreter_is_locked() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LOCKED], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout) == (1, "in time\n")
    assert ended.stderr.startswith("Timeout (0:00:00.500000)!")
