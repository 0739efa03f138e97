"""Emulated boards for tests; without root on Debian, or without the network, tests skip and say why."""

from collections.abc import Iterator

import pytest

from tests.board.root import BoardRoot, BoardUnavailable, board_root
from tests.board.servers import Boards


@pytest.fixture(scope="session")
def root() -> BoardRoot:
    pytest.importorskip("tornado", reason="an RPC tracker needs the package tornado")
    try:
        return board_root()
    except BoardUnavailable as error:
        pytest.skip(f"no emulated ARM board: {error}")


@pytest.fixture(scope="session")
def boards(root: BoardRoot, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Boards]:
    """A tracker with two boards. Tests that kill one start another."""
    with Boards(root, 2, tmp_path_factory.mktemp("boards")) as running:
        yield running
    assert running.groups() == []


@pytest.fixture(scope="session")
def newest(root: BoardRoot, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Boards]:
    """A board with every instruction that can be emulated."""
    with Boards(root, 1, tmp_path_factory.mktemp("newest"), key="newest", cpu="max") as running:
        yield running
