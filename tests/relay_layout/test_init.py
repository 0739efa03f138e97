"""The names of the package, which are loaded when they are first used."""

import subprocess
import sys

import relay_layout


def test_all_names_are_listed_before_they_are_loaded() -> None:
    """As shells and editors complete them."""
    script = "import relay_layout; print(*dir(relay_layout))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(relay_layout.__all__) <= set(done.stdout.split())


def test_all_names_are_there() -> None:
    assert all(hasattr(relay_layout, name) for name in relay_layout.__all__)
