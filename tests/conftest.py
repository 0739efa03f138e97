"""Settings and fixtures for all tests."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from topi_ext.errors import RelayLayoutError
from topi_ext.tune.models.machine_code import analyser

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


LONG = ("tests/board/", "tests/test_docs.py", "tests/test_package.py")
"""Boards, whole commands and packages take minutes: last, or first where others run beside them."""

BOARD = LONG[0]
"""Its tests share two boards, so one process runs them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        return next((place for place, name in enumerate(LONG) if item.nodeid.startswith(name)), len(LONG))

    beside_others = "PYTEST_XDIST_WORKER" in os.environ
    items.sort(key=place if beside_others else lambda item: -place(item))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Each file is run by one process, for what its tests share."""
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return BOARD if nodeid.startswith(BOARD) else str(super()._split_scope(nodeid))

    return ByFile(config, log)
