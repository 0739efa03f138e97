"""``relay.rpc``: sessions of ``tvm.rpc`` that also load what ``export_library`` wrote.

Everything else of ``tvm.rpc`` is here as well.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from tvm import rpc

from relay_layout.relay.building.board import Board


def __getattr__(name: str) -> Any:
    found = getattr(rpc, name, None)
    if found is None or isinstance(found, ModuleType):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'", name=name)
    return found


def LocalSession(*arguments: Any, **options: Any) -> Board:
    """A session with this process. Arguments are those of ``tvm.rpc.LocalSession``."""
    return Board(rpc.LocalSession(*arguments, **options))


def connect(url: str, port: int, *arguments: Any, **options: Any) -> Board:
    """A session with the RPC server at an address. Arguments and errors are those of ``tvm.rpc.connect``."""
    return Board(rpc.connect(url, int(port), *arguments, **options))


def connect_tracker(url: str, port: int) -> TrackerSession:
    """The tracker at an address. Errors are those of ``tvm.rpc.connect_tracker``."""
    return TrackerSession(rpc.connect_tracker(url, int(port)))


class TrackerSession:
    """A tracker, ``tracker`` (``tvm.rpc.TrackerSession``), which is asked for all else."""

    def __init__(self, tracker: Any) -> None:
        self.tracker = tracker

    def request(self, key: str, *arguments: Any, **options: Any) -> Board:
        """A session with a machine of that key. Arguments and errors are those of TVM's tracker."""
        return Board(self.tracker.request(key, *arguments, **options))

    def __getattr__(self, name: str) -> Any:
        if name == "tracker":
            raise AttributeError(name)
        return getattr(self.tracker, name)
