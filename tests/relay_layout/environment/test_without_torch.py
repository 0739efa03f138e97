"""TVM does not import PyTorch for itself, and everyone else may."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

TOLD = "print(*(name in sys.modules for name in ('tvm', 'torch')))"
"""Of a program: whether it has TVM, and whether it has PyTorch."""


@pytest.fixture
def told(tmp_path: Path) -> Callable[[str], list[str]]:
    """What a program prints where something that calls itself PyTorch is installed."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("__version__ = '0'\n")
    paths = [str(tmp_path), str(Path(__file__).resolve().parents[3])]

    def run(program: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", f"import sys\n{program}\n{TOLD}"],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    return run


def test_names_of_the_package(told: Callable[[str], list[str]]) -> None:
    assert told("import relay_layout\nrelay_layout.convert") == ["True", "False"]


def test_verbs(told: Callable[[str], list[str]]) -> None:
    program = "from relay_layout.cli.main import main\nmain(['convert', 'squeezenet1_1', '--json'])"
    assert told(program)[-2:] == ["True", "False"]


def test_others_may(told: Callable[[str], list[str]]) -> None:
    imported = "from relay_layout.environment.without_torch import without_torch"
    program = f"{imported}\nwith without_torch():\n    import torch"
    assert told(program) == ["False", "True"]


def test_nothing_is_left_behind(told: Callable[[str], list[str]]) -> None:
    program = (
        "import relay_layout\nrelay_layout.Layout\nassert not any('Finder' in type(one).__name__"
        " and type(one).__module__.startswith('relay_layout') for one in sys.meta_path)"
    )
    assert told(program)[1] == "False"
