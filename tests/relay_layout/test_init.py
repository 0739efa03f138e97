"""The names of the package, which are loaded when they are first used."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import relay_layout


def test_all_names_are_listed_before_they_are_loaded() -> None:
    """As shells and editors complete them."""
    script = "import relay_layout; print(*dir(relay_layout))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(relay_layout.__all__) <= set(done.stdout.split())


def test_all_names_are_there() -> None:
    assert all(hasattr(relay_layout, name) for name in relay_layout.__all__)


def test_importing_the_package_imports_nothing_else() -> None:
    """What the command handles interrupts in comes right after, so that none ends in a traceback."""
    code = "import sys; before = set(sys.modules); import relay_layout; print(*set(sys.modules) - before)"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout.split() == ["relay_layout"]


def test_errors_are_found() -> None:
    with pytest.raises(AttributeError) as raised:
        _ = relay_layout.InputError
    assert str(raised.value) == (
        "module 'relay_layout' has no attribute 'InputError'; it is relay_layout.errors.InputError"
    )
    with pytest.raises(AttributeError, match=r"^module 'relay_layout' has no attribute 'nothing'$"):
        _ = relay_layout.nothing
