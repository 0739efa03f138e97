"""A compiled network for tests of sessions."""

from pathlib import Path

import pytest

import relay_layout


@pytest.fixture(scope="session")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runtime") / "network.rla"
    relay_layout.compile("squeezenet1_1", input_shapes={"input": (1, 3, 64, 64)}).save(path)
    return path
