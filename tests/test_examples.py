"""Every example runs as it is; each asserts its own numbers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, path], capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=300
    )
    assert done.returncode == 0, f"python examples/{path.name}\n{done.stderr}"
    assert done.stdout
    assert not list(tmp_path.iterdir())
