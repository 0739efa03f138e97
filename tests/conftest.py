"""Settings and fixtures for all tests."""

import signal
from pathlib import Path

import pytest
from hypothesis import settings

from topi_ext.errors import RelayLayoutError
from topi_ext.tune.machine_code import analyser

# A busy machine is no fault of the code under test.
settings.register_profile("sweep", deadline=None, print_blob=True)
# The same examples each time: a change is refused for what it broke. The sweep looks for new ones.
settings.register_profile("relay_layout", settings.get_profile("sweep"), derandomize=True)
settings.load_profile("relay_layout")
# A shell starts its background jobs with interrupts ignored, which tests and their processes would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def llvm_mca() -> str:
    """LLVM's machine-code analyser; where it is missing, the test is skipped with the line that users get."""
    try:
        return analyser()
    except RelayLayoutError as error:
        pytest.skip(str(error))


LAST = ("tests/test_docs.py", "tests/test_package.py", "tests/board/")
"""Tests of whole commands, packages and emulated boards take minutes: they wait for the others."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        return next((place for place, name in enumerate(LAST, 1) if item.nodeid.startswith(name)), 0)

    items.sort(key=place)
