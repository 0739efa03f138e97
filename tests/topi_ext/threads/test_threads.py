"""The threads of parallel loops: every task once, whoever runs it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from topi_ext.threads import SOURCE

STRESS = Path(__file__).with_name("stress.c")
COMPILER = shutil.which("cc")


@pytest.mark.skipif(COMPILER is None, reason="no C compiler called cc")
@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("option", ["-DFORKS", "-fsanitize=thread", "-fsanitize=address,undefined"])
def test_every_task_runs_once(tmp_path: Path, threads: int, option: str) -> None:
    program = tmp_path / "stress"
    options = ["-g", "-O2", "-std=gnu11", "-pthread", option]
    words = [str(COMPILER), *options, "-o", str(program), str(SOURCE), str(STRESS)]
    built = subprocess.run(words, capture_output=True, text=True)
    if built.returncode and "cannot find" in built.stderr:
        pytest.skip(f"no library for {option}")
    assert built.returncode == 0, built.stderr
    environment = {**os.environ, "TVM_NUM_THREADS": str(threads)}
    ran = subprocess.run([str(program)], capture_output=True, text=True, env=environment, timeout=300)
    assert (ran.returncode, ran.stdout) == (0, "all right\n"), ran.stderr
